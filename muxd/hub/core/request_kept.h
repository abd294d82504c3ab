/*
 * request_kept.h - a request that its door comes back to: a log-in, under which one channel after another is opened.
 *
 * It lies there for as long as a connection does, so it is small: the grant is the hub's one copy of it
 * (policy/grant_shared.h), and the token has as many bytes as were presented. Endpoint, the policy's mark and the lease
 * are a call's and are not kept. Its door's, until request_let_go(), which is before the hub goes.
 */
#ifndef MUXD_HUB_CORE_REQUEST_KEPT_H
#define MUXD_HUB_CORE_REQUEST_KEPT_H

#include "muxd/hub/core/request.h"

struct hub;
struct request_kept;

/* rq is copied. NULL: no memory. */
struct request_kept *request_keep(struct hub *h, const struct request *rq);
/* As it was, for another endpoint; request_finish() wipes it. */
void request_again(const struct request_kept *k, const char *endpoint, struct request *out);
const struct grant *request_kept_grant(const struct request_kept *k); /* borrowed */
/* Wipes and frees. NULL-safe. */
void request_let_go(struct request_kept *k);

#endif
