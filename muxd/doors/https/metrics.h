/*
 * metrics.h - what the door counts, and the page of /metrics.
 *
 * One per door, written by the connections, read by /metrics. Text format
 * 0.0.4 of Prometheus. Labels are route patterns and numbers, never names.
 */
#ifndef MUXD_DOORS_HTTPS_METRICS_H
#define MUXD_DOORS_HTTPS_METRICS_H

#include "muxd/doors/https/route.h"

#include <stdint.h>

enum { METRIC_STATUSES = 35, METRIC_BUCKETS = 11 };

struct rest_metrics {
	const struct route *routes; /* the table, route_table(), which requests are counted by; never NULL */
	size_t nroutes;
	/* row nroutes: requests that matched none; last status: any that is not in the list */
	uint64_t requests[ROUTES_MAX][METRIC_STATUSES];
	uint64_t buckets[ROUTES_MAX][METRIC_BUCKETS + 1]; /* not cumulative; last: above all */
	uint64_t duration_ns[ROUTES_MAX];
	uint64_t connections; /* now */
	uint64_t accepted, refused_total, refused_address, made_room, delayed;
	uint64_t routed[6]; /* by the first digit of the status */
	uint64_t routed_bytes_in, routed_bytes_out;
	uint64_t timeouts, clients_gone, malformed;
	uint64_t bytes_received, bytes_sent;
};

/* r: a row of m->routes; NULL: none matched, or it is of another table. */
void rest_metrics_count(struct rest_metrics *m, const struct route *r, int status, uint64_t duration_ns);
void rest_metrics_routed(struct rest_metrics *m, int status);

#endif
