/*
 * export_out.h - an export in the making: options, where it goes, what was counted. Private to export*.c.
 */
#ifndef RECORDER_EXPORT_EXPORT_OUT_H
#define RECORDER_EXPORT_EXPORT_OUT_H

#include "base/buf.h"
#include "base/json.h"
#include "recorder/export/export.h"

#include <stdbool.h>

/* UTF-8 that comes in pieces: at most three bytes of an unfinished character wait. */
struct export_utf8 {
	uint8_t held[4];
	size_t n;
};

struct export
{
	const struct export_options *options;
	export_write *write;
	void *arg;
	struct export_result result;
	struct buf out; /* handed on when it is large enough */
	struct export_utf8 utf8[STREAM_COUNT];
	/* times */
	bool begun; /* the OPEN was seen */
	uint64_t open_ns, anchor_ns;
	int64_t anchor_wall;
	uint64_t last_us; /* of the last event written (asciicast) */
	/* the exit, which is written last (asciicast) */
	uint64_t exit_ns;
	char exit_code; /* 'x' or 'm'; 0: none */
	char exit_text[64];
	json_t *open; /* NULL: it is no JSON */
};

#define EXPORT_OUT_MAX (8 * 1024 * 1024)

/* Hands on what has gathered: all of it, or only when it is much. */
int export_flush(struct export *x, bool all, struct err *e);
bool export_wants(const struct export *x, unsigned stream);
/* Takes an event into the result and the times; OPEN and CLOCK say the wall clock. */
void export_count(struct export *x, const struct ring_record *rec);
/* Nanoseconds of the wall clock at boot_ns, by the last OPEN or CLOCK. */
int64_t export_wall(const struct export *x, uint64_t boot_ns);

/*
 * cb gets each code point; bytes that are no UTF-8 come as U+FFFD, one for each longest beginning of a character,
 * and are counted in *invalid. last: nothing follows, what waits is invalid.
 */
typedef int export_char(void *arg, uint32_t cp, const uint8_t *p, size_t n);
int export_utf8_feed(struct export_utf8 *u, const uint8_t *p, size_t n, bool last, export_char *cb, void *arg,
		     uint64_t *invalid);

/* One event into each format. */
int export_cast_event(struct export *x, const struct ring_record *rec, struct err *e);
int export_cast_end(struct export *x, struct err *e);

struct export_text;
int export_text_create(struct export *x, struct export_text **out);
void export_text_destroy(struct export_text *t);
int export_text_event(struct export_text *t, const struct ring_record *rec, struct err *e);
int export_text_end(struct export_text *t, struct err *e);

#endif
