/*
 * transfer.h - one file on its way into or out of a sandbox: what its session keeps of it besides bytes.
 *
 * The program of such a session is muxlet itself (muxd/muxlet/file.h). A put is
 * fed the content and, by the hub, a trailer of size and SHA-256, so that the
 * file takes its name only when it is whole; a get begins with a line about the
 * file, which the hub takes off before a client sees a byte. Size and digest are
 * counted here, outside the sandbox; mode and time of a get are reported.
 *
 * Owned by its session's launch.
 */
#ifndef MUXD_HUB_TRANSFER_H
#define MUXD_HUB_TRANSFER_H

#include "muxd/hub/broker.h"
#include "muxd/hub/keep.h"

#define TRANSFER_HEAD_MAX    96
#define TRANSFER_TRAILER_LEN 40

struct err;

struct transfer {
	enum file_op op;
	char *path;      /* any bytes but NUL */
	int64_t mode;    /* put: -1 as it is there; get: -1 until told */
	int64_t mtime_s; /* get */
	uint64_t size;   /* put: as announced, or UINT64_MAX; get: as told */
	bool parents;
	struct keep content; /* count and digest */
	char head[TRANSFER_HEAD_MAX + 1];
	size_t head_len;
	bool head_known; /* get: content may be shown */
	uint8_t trailer[TRANSFER_TRAILER_LEN];
	size_t trailer_sent;
	bool trailer_due; /* put: the content is complete */
};

/* ERR_INVAL names the field. */
int transfer_create(const struct file_spec *spec, struct transfer **out, struct err *e);
void transfer_destroy(struct transfer *t); /* NULL-safe */
/* NULL-ended, to be freed with its strings. NULL: no memory. */
char **transfer_argv(const struct transfer *t);

/*
 * Output of a get. The bytes of the head are taken off: *out_content of the n are content, the last ones. ERR_PROTOCOL
 * when the head is none.
 */
int transfer_output(struct transfer *t, const uint8_t *p, size_t n, size_t *out_content);
/* Content of a put. ERR_TOO_LARGE past the announced size. */
int transfer_input(struct transfer *t, const uint8_t *p, size_t n);
/* The content of a put is complete: makes the trailer. ERR_EOF when more was announced. */
int transfer_complete(struct transfer *t);
/* How it ended, given how muxlet did: 0, or ERR_* with the sentence for the client. */
int transfer_result(const struct transfer *t, const char *agent, const struct session_result *r, struct err *e);
/* {op, path, size, mode ...} for record, audit and answers; path that is not UTF-8 stands as {"base64": ...}. */
json_t *transfer_json(const struct transfer *t);
const char *file_op_name(enum file_op op); /* "put", "get" */

#endif
