/*
 * route_provider.h - which provider a name belongs to: this machine's or the cluster's.
 *
 * Names with a slash are pods; agents are where sandbox.backend says. A leg that
 * is not configured is answered for here, with the key that would configure it.
 *
 * Owns both legs and destroys them with itself, the cluster's first. Owned by
 * net_main(); must outlive the hub.
 */
#ifndef MUXD_NET_ROUTE_PROVIDER_H
#define MUXD_NET_ROUTE_PROVIDER_H

#include "control/sandbox.h"

#include <stdbool.h>

struct route_legs {
	struct sandbox_provider *local;
	struct sandbox_provider *cluster; /* NULL: no cluster is configured */
	bool agents_in_cluster;           /* sandbox.backend: kubernetes */
};

/* On failure the legs stay the caller's. ERR_NOMEM. */
int route_provider_create(const struct route_legs *legs, struct sandbox_provider **out);

#endif
