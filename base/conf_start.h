/*
 * conf_start.h - keys that wait for the daemon's next start, and what a reload does with them.
 *
 * What is built when the daemon starts goes on by the values it was built with: a configuration that is read later
 * keeps those values, in the monitor and in net alike, and so does a net that is started again while the daemon runs.
 * Each part that has the configuration sees one value of each key, whichever of the two kinds it is of.
 */
#ifndef BASE_CONF_START_H
#define BASE_CONF_START_H

#include "base/conf.h"

struct conf_key;

/* Does the key wait, or does a reload put it into force? */
bool conf_key_waits(const struct conf_key *k);
/* Of the keys that wait, c gets the values of in_force. ERR_NOMEM: some of them only, and c is to be destroyed. */
int conf_keep_started(struct conf *c, const struct conf *in_force, struct err *e);
/* The keys that wait and differ, "a, b"; "": none. */
void conf_waiting(const struct conf *c, const struct conf *in_force, char *out, size_t size);

#endif
