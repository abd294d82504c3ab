/*
 * plain.h - the plain backend: sessions straight on remotecommand, for containers where muxlet cannot run.
 *
 * It stands where a muxlet would: a peer of the link protocol (docs/protocol.md) at the other end of a socket pair, in
 * the hub's own process and loop. The hub speaks to it as to any muxlet; behind it every channel is an exec of its own.
 * What that cannot do is said by name in the answer, and listed in docs/sandboxes.md.
 *
 * A `struct plain` owns its peers; a peer goes when its descriptor is closed. Execs of a peer that goes are let go:
 * closing an exec ends no program. The next peer of the same secret and agent ends what was left in that way.
 */
#ifndef MUXD_PLAIN_PLAIN_H
#define MUXD_PLAIN_PLAIN_H

#include "control/kube/pods/plain.h"

#include <stdint.h>

struct plain;
struct uv_loop_s;

/*
 * programs: of one container at a time, besides the exec that kills and looks; the others wait, wait_ns at most.
 * ERR_NOMEM. Must be destroyed before the creds and the rc_client of its targets.
 */
int plain_create(struct uv_loop_s *loop, unsigned programs, uint64_t wait_ns, struct plain **out);
/* NULL-safe. Memory goes when the loop has turned. */
void plain_destroy(struct plain *p);
/* A kube_plain_open; arg is the struct plain. */
int plain_open(void *arg, const struct kube_plain_target *t, int *out_fd, struct err *e);

#endif
