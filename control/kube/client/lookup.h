/*
 * lookup.h - the addresses of a name, found by the loop's pool so that the loop never waits.
 */
#ifndef CONTROL_KUBE_CLIENT_LOOKUP_H
#define CONTROL_KUBE_CLIENT_LOOKUP_H

#include <stdbool.h>

struct err;
struct uv_loop_s;
struct kube_lookup;

/* addresses: "10.0.0.1,fd00::1" in the resolver's order, at most 8, borrowed for the call; NULL unless rc is 0. */
typedef void kube_lookup_done(void *arg, int rc, const struct err *e, const char *addresses);

/* done is called once, later; *out is good until then. ERR_K8S_UNREACHABLE for a name that has none. Numbers are their
 * own answer. */
int kube_lookup_start(struct uv_loop_s *loop, const char *host, kube_lookup_done *done, void *arg,
		      struct kube_lookup **out, struct err *e);
void kube_lookup_cancel(struct kube_lookup *l); /* done is not called. The loop has to run once more. NULL-safe */

/* An address already: nothing to look up. */
bool kube_lookup_numeric(const char *host);

#endif
