/*
 * agent_link.h - the link into an agent's sandbox: asked for when somebody needs it, kept, lost, looked for again.
 *
 * What the sandbox says goes to the sessions by it, and what ends all of them begins here.
 */
#ifndef MUXD_HUB_LINK_AGENT_LINK_H
#define MUXD_HUB_LINK_AGENT_LINK_H

#include "muxd/hub/agent/agent.h"
#include "muxd/hub/link/clear.h"

void agent_need(struct agent *a, agent_ready_fn *fn, void *arg);
/* Started with those options, where it is not there, and then needed. */
void agent_need_with(struct agent *a, const struct life_options *o, agent_ready_fn *fn, void *arg);
void agent_reconnect(struct agent *a);
/* The agent's sessions end with that cause and words, its link is closed. */
void agent_leave(struct agent *a, enum exit_cause cause, const char *why);
void agent_set_cold(struct agent *a, const char *why);
void agent_stopping(struct agent *a, bool on);
/* The one that went ahead (agent_ahead) is through: others begin; rc: it failed, who waits hears it, nothing begins. */
void agent_ahead_over(struct agent *a, int rc, const struct err *e);
void agent_gone(void *hub, const char *name, const struct id *sandbox, const char *why); /* a sandbox_gone */
void agent_tick(struct agent *a, uint64_t now);
bool agent_rests(const struct agent *a); /* it has nothing that agent_tick() waits for */
void agent_cancel(struct agent *a);      /* who waits for it hears ERR_CANCELLED: the hub goes */
void agent_destroy(struct agent *a);
/*
 * Everything inside ends (clear.h), with all that belongs to it. Who does not answer for as long as timeout_ns is ended
 * from outside where that costs no workspace (ERR_TIMEOUT, elsewhere).
 */
void agent_clear(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg);
/* The whole name of a target (ns/pod becomes ns/pod/container): at once, or when the provider has said. */
void hub_resolve(struct hub *h, const char *name, sandbox_done *done, void *arg);

#endif
