/*
 * event_id.h - the id of a round's event, by which a client that comes back says what it has: pure.
 *
 * "STDOUT-STDERR": where both streams go on, in decimal; "-end" behind that: the end was told as well. Values, no
 * ownership.
 */
#ifndef MUXD_DOORS_HTTPS_EVENT_ID_H
#define MUXD_DOORS_HTTPS_EVENT_ID_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct buf;

#define EVENT_ID_MAX 48 /* with its NUL */

struct event_id {
	uint64_t out, err;
	bool end;
};

int event_id_parse(const char *text, struct event_id *out, struct err *e); /* ERR_INVAL */
int event_id_put(const struct event_id *id, struct buf *out);

#endif
