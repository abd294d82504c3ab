/*
 * survey.h - what programs changed in a workspace: muxlet is asked behind their end, and the audit log hears it as
 * events `workspace.changes`.
 *
 * One at a time for each agent, at the first tick (core/pulse.h) 200 ms or more behind the end of a round, a program or
 * a terminal, so nobody's answer waits for one, and later where the last one took long; all that ended or ran since the
 * last one stand in one event. The first follows a new link: it is what later ones are compared with. muxlet keeps that
 * (muxd/muxlet/manifest.h); the number of the last one that is in the record goes along, so that what is lost on the
 * way is told by the next one.
 *
 * Owner: the agent; made at its first use. States: IDLE -> DUE -> LOOKING (a channel of its own) -> TELLING (its events
 * wait for room in the ring) -> IDLE or DUE.
 */
#ifndef MUXD_HUB_AGENT_SURVEY_H
#define MUXD_HUB_AGENT_SURVEY_H

#include "muxd/link/link.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct session;

void survey_link_up(struct agent *a);   /* behind those who waited for the link */
void survey_link_down(struct agent *a); /* a look that was under way is due again */
/* The session's end is in the ring. */
void survey_session_ended(const struct session *s);
/* Its sandbox goes: what is due now begins at once. True while it looks, for 3 s at most. */
bool survey_hurry(struct agent *a, uint64_t now);
/* Its sandbox is gone: what was not looked at is told so. */
void survey_gone(struct agent *a, const char *why);
/* True: the channel was its own. */
bool survey_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n);
bool survey_exited(struct agent *a, uint32_t channel, const struct link_exit *x);
void survey_tick(struct agent *a, uint64_t now);
bool survey_rests(const struct agent *a); /* survey_tick() has nothing to wait for */
void survey_destroy(struct agent *a);

#endif
