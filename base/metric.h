/*
 * metric.h - numbers for /metrics, gathered as JSON by whoever counts them and written by the door.
 *
 * A list of families: [{"name", "help", "type": "counter|gauge|histogram", "samples": [{"labels": {...}, "value"} |
 * {"labels", "buckets": [[upper end, how many up to it], ...], "sum", "count"}]}], in the order of the page.
 *
 * Names follow Prometheus' rules: muxd_ first, base units (seconds, bytes), counters end in _total. A label's
 * values are a set that the program bounds (states, reasons), never agents, ids or people.
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

struct buf;

/* From a millisecond to ten minutes; the last bucket is what took longer. */
#define METRIC_TIMES 16
struct metric_times {
	uint64_t bucket[METRIC_TIMES + 1]; /* not cumulative */
	double sum;                        /* seconds */
};
void metric_times_add(struct metric_times *t, uint64_t duration_ns);

/* The family of that name, made when missing; borrowed. NULL: no memory (the functions below bear it). */
json_t *metric_family(json_t *list, const char *type, const char *name, const char *help);
/* key NULL: without a label. */
void metric_value(json_t *family, const char *key, const char *label, double value);
void metric_times_value(json_t *family, const char *key, const char *label, const struct metric_times *t);

/* Text format 0.0.4. ERR_NOMEM, ERR_TOO_LARGE; what is no family is passed over. */
int metric_render(const json_t *list, struct buf *out);

#endif
