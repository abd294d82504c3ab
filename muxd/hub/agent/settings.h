/*
 * settings.h - the settings of an agent (control/servers/settings_def.h) where its programs begin. Kept with the agent,
 * read again when the store has changed.
 */
#ifndef MUXD_HUB_AGENT_SETTINGS_H
#define MUXD_HUB_AGENT_SETTINGS_H

#include "base/json.h"

struct agent;
struct hub;
struct launch;

/*
 * Where the call named no directory it is the agent's; variables that the call did not set are added. What the store
 * cannot tell is an error: nothing runs without what it was to have. ERR_NOMEM, and the store's.
 */
int settings_apply(struct agent *a, struct launch *io, struct err *e);
/* workdir, env_names and labels of an agent, into what is told of it. */
void settings_show(struct hub *h, const char *agent, json_t *o);

#endif
