/*
 * export.h - a recording in somebody else's format: asciicast v2 and v3, text, JSON lines, raw bytes.
 *
 * Works on any source of events, the first being OPEN: a recording on disk or a
 * live session's events off recorder.sock. Exports are copies for reading; the
 * record itself is the bytes.
 *
 * asciicast is text: characters split over records are joined; bytes that are not
 * UTF-8 become U+FFFD, are counted in the result and named in a last marker. Gaps
 * become markers. text: the output with control sequences taken out, see
 * docs/recording-format.md.
 */
#ifndef RECORDER_EXPORT_EXPORT_H
#define RECORDER_EXPORT_EXPORT_H

#include "base/ring.h"

struct err;

enum export_format { EXPORT_ASCIICAST_V2, EXPORT_ASCIICAST_V3, EXPORT_TEXT, EXPORT_JSON, EXPORT_RAW, EXPORT_FORMATS };
enum export_stream { EXPORT_DEFAULT, EXPORT_OUTPUT, EXPORT_INPUT, EXPORT_STDOUT, EXPORT_STDERR };

/* 1 and an event, 0 at the end, ERR_*. */
struct export_source {
	int (*next)(void *arg, struct ring_record *out, struct err *e);
	void *arg;
};
typedef int export_write(void *arg, const void *p, size_t n, struct err *e);

struct export_options {
	enum export_format format;
	/*
	 * DEFAULT: asciicast and JSON take every stream, text and raw the output. OUTPUT: stdout (or the terminal) and
	 * stderr in the order they came. STDOUT, STDERR, INPUT: that one alone.
	 */
	enum export_stream stream;
};

struct export_result {
	uint64_t events;        /* taken from the source */
	uint64_t written;       /* bytes handed to write */
	uint64_t invalid_bytes; /* not UTF-8: shown as U+FFFD (asciicast, text) */
	uint64_t gaps, gap_bytes;
	uint64_t missing_bytes; /* lost by the journal, not by a rule */
	bool ended;             /* an EXIT was seen */
};

int export_run(const struct export_source *src, const struct export_options *o, export_write *write, void *arg,
	       struct export_result *out, struct err *e);
int export_format_parse(const char *s, enum export_format *out, struct err *e); /* "asciicast-v2" ... */
int export_stream_parse(const char *s, enum export_stream *out, struct err *e); /* "output" ... */

#endif
