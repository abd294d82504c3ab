/*
 * events.h - a stream of server-sent events (the HTML standard, 9.2.6), from a stranger: bytes go in, messages come
 * out. No I/O.
 *
 * A message is the data of an event without a type, or of type message; others are skipped. A line has `max` bytes at
 * the most, and so has a message. The end of the stream in the middle of an event is no message. Owned by whoever
 * initialised it.
 */
#ifndef BASE_EVENTS_H
#define BASE_EVENTS_H

#include "base/buf.h"

#include <stdbool.h>

#define EVENTS_ID_MAX 256

struct events {
	struct buf line, data;
	bool cr;           /* the last byte was a CR: a LF behind it belongs to it */
	bool begun;        /* behind the first line, before which a mark of byte order may stand */
	bool other, named; /* of the event so far: its type is another; it has an id */
	char next_id[EVENTS_ID_MAX];
	char id[EVENTS_ID_MAX]; /* of the last whole event that had one: printable ASCII; "": none */
	int64_t retry_ms;       /* when to come back; -1: it was not said */
};

void events_init(struct events *v, size_t max);
void events_finish(struct events *v);
/* data: with LF between its lines, valid for the call alone, and may be changed. Not 0: it goes no further. */
typedef int events_fn(void *arg, char *data, size_t n);
/* ERR_TOO_LARGE, ERR_NOMEM, and what fn says. */
int events_feed(struct events *v, const void *p, size_t n, events_fn *fn, void *arg);

#endif
