/*
 * settings.h - the settings of an agent (control/servers/settings_def.h) where its programs begin. Kept with the agent,
 * read again when the store has changed.
 */
#ifndef MUXD_HUB_AGENT_SETTINGS_H
#define MUXD_HUB_AGENT_SETTINGS_H

#include "base/json.h"

struct agent;
struct err;
struct hub;
struct launch;

/*
 * Where the call named no directory it is the agent's; variables that the call did not set are added; and where it said
 * for how long neither (timed), the agent's timeout counts, of a round or of a transfer, or the longest that is
 * configured, whichever is less. What the store cannot tell is an error: nothing runs without what it was to have.
 * ERR_NOMEM, and the store's.
 */
int settings_apply(struct agent *a, bool timed, struct launch *io, struct err *e);
/* The same of a round, for who has to know it ahead: *io_ns stays as it is where the agent has none. The store's
 * errors. */
int settings_exec_timeout(struct hub *h, const char *agent, uint64_t *io_ns, struct err *e);
/* workdir, env_names, labels and timeouts of an agent, into what is told of it; timeouts_clipped names those that are
 * more than is configured. */
void settings_show(struct hub *h, const char *agent, json_t *o);

#endif
