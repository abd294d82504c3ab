/*
 * inside_line.h - output of an MCP server inside a sandbox, taken apart: lines of bytes, each of which should be one
 * message of JSON-RPC 2.0. Pure.
 *
 * All of it is a stranger's. A line has INSIDE_LINE_MAX bytes at the most and JSON of 32 levels and INSIDE_VALUES_MAX
 * values, as each value costs the parser up to 300 bytes of memory, however short it is; what is no message is
 * garbage, which is counted by whoever asked and means nothing. An id stands for a request of ours only where it is an
 * integer above 0: ours are.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_LINE_H
#define MUXD_HUB_INSIDE_INSIDE_LINE_H

#include "base/buf.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSIDE_LINE_MAX   (8u * 1024 * 1024)
#define INSIDE_VALUES_MAX ((unsigned)JSON_VALUES_MAX)

enum inside_kind { INSIDE_GARBAGE, INSIDE_RESULT, INSIDE_ERROR, INSIDE_REQUEST, INSIDE_NOTIFICATION };

struct inside_line {
	enum inside_kind kind;
	size_t values;      /* json_count_values(); above INSIDE_VALUES_MAX it is garbage */
	json_t *root;       /* owned; NULL of garbage */
	const json_t *id;   /* as it came; NULL: none */
	int64_t number;     /* of a result or an error: the id as one of ours; 0: it is none */
	const char *method; /* of a request, a notification */
	const json_t *params, *result, *error;
};

/* Never fails: the kind says what it is. The line is without its end; a CR before that is part of no message. */
void inside_line_read(const void *p, size_t n, struct inside_line *out);
void inside_line_finish(struct inside_line *l);

/* Bytes as they come, cut into lines. Owned by its server. */
struct inside_lines {
	struct buf buf;
	size_t looked; /* bytes of it that have no end of a line in them */
};
void inside_lines_init(struct inside_lines *l);
void inside_lines_finish(struct inside_lines *l);
/* ERR_TOO_LARGE: a line has become longer than it may be; ERR_NOMEM. */
int inside_lines_feed(struct inside_lines *l, const void *p, size_t n);
/* The next whole line that is not blank, valid until the next call of any of these. False: there is none yet. */
bool inside_lines_next(struct inside_lines *l, const uint8_t **out_p, size_t *out_n);

#endif
