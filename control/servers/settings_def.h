/*
 * settings_def.h - what an agent's programs begin with where a call says nothing else: a directory, variables, and how
 * long a round or a transfer may take; and labels, which mean nothing to muxd. Pure.
 *
 * {workdir, env: {NAME: value}, labels: {name: value}, exec_timeout_ms, transfer_timeout_ms}. A variable that is a
 * secret, or looks like one, is refused by name (program_def.h).
 */
#ifndef CONTROL_SERVERS_SETTINGS_DEF_H
#define CONTROL_SERVERS_SETTINGS_DEF_H

#include "base/json.h"

struct err;

#define SETTINGS_LABELS_MAX       32
#define SETTINGS_EXEC_TIMEOUT     "exec_timeout_ms"
#define SETTINGS_TRANSFER_TIMEOUT "transfer_timeout_ms"
#define SETTINGS_TIMEOUT_MAX_MS   86400000 /* more than is configured counts as that */

/* A change as a client sends it: a member that is null goes, as does a variable or label that is; others are set.
 * ERR_INVAL, ERR_TOO_LARGE, ERR_SECRET_REFUSED; the message has the place. */
int settings_check(const json_t *change, struct err *e);
/* Settings that hold from then on: variables and labels one by one. NULL: no memory. */
json_t *settings_merge(const json_t *now, const json_t *change);

#endif
