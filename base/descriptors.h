/*
 * descriptors.h - whether the limit of open files is enough for what is configured, and what fits where it is not.
 *
 * The monitor looks at its start: below DESCRIPTORS_LEAST nothing could work, and it refuses by name; else it raises
 * the soft limit to the hard one. Net makes its configuration fit what it was given: fewer connections, fewer sessions
 * in a sandbox; what was cut is in its log and in /healthz. The recorder keeps within its limit by itself
 * (recorder/format/open_files.h).
 *
 * descriptors_fit() is pure.
 */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

struct conf;
struct err;

#define DESCRIPTORS_LEAST   128
#define DESCRIPTORS_SANDBOX 4096 /* what a sandbox on this machine is given, where the limit allows that */

/* Soft to hard. *out: how many. ERR_LIMIT below DESCRIPTORS_LEAST, with what to do. */
int descriptors_raise(uint64_t *out, struct err *e);
/*
 * Cuts api.max_connections, ssh.max_connections and sessions.max_per_agent to what `have` descriptors carry, and says
 * so in c->descriptors ("": nothing was cut). Never below one.
 */
void descriptors_fit(struct conf *c, uint64_t have);

#endif
