/*
 * setup.h - making and ending the hub, for net_main() alone.
 *
 * Order: hub_create, hub_recover (asks the recorder what is open, takes up the
 * links), then the doors; at the end the doors close first, then hub_stop
 * journals the stop, then hub_destroy. Sandboxes and their programs stay.
 */
#ifndef MUXD_HUB_SETUP_H
#define MUXD_HUB_SETUP_H

#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_params.h"

int hub_create(const struct hub_params *p, struct hub **out, struct err *e);
void hub_destroy(struct hub *h);
int hub_set_grant_keys(struct hub *h, const struct grant_public_key *keys, size_t n);
/* Of an edge: when its centre last said which leases it took back; 0: never. From then on edge.state_max counts. */
void hub_set_edge_state(struct hub *h, int64_t at_ns);
/* Taken back: what it is, what renews it and what was made from it, as far as grant_line_has() says. */
int hub_revoke(struct hub *h, const struct id *grant, int64_t expires_ns);
int hub_renew(struct hub *h, const struct hub_renewal *r);
/* Asynchronous: done once, when every open session of the record is known again and doors may open. */
typedef void hub_recovered(void *arg, int rc, const struct err *e);
void hub_recover(struct hub *h, struct recorder_client *rc, hub_recovered *done, void *arg);
void hub_set_recorder(struct hub *h, struct recorder_client *rc); /* after the recorder came again */
/* Cut every attachment (CUT_SHUTDOWN) and journal the stop. */
void hub_stop(struct hub *h);

#endif
