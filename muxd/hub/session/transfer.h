/*
 * transfer.h - one file on its way into or out of a sandbox, or one operation on files there: what its session keeps of
 * it besides bytes.
 *
 * The program of such a session is muxlet itself (muxd/muxlet/file.h, fs.h). A put is
 * fed the content and, by the hub, a trailer of size and SHA-256, so that the
 * file takes its name only when it is whole; a get begins with a line about the
 * file, which the hub takes off before a client sees a byte. Size and digest are
 * counted here, outside the sandbox; mode and time of a get are reported. An
 * operation that takes content is fed it like a put; its output is one JSON
 * object, which is kept here and shown to nobody before the end.
 *
 * Owned by its session's launch.
 */
#ifndef MUXD_HUB_SESSION_TRANSFER_H
#define MUXD_HUB_SESSION_TRANSFER_H

#include "base/buf.h"
#include "base/err.h"
#include "muxd/hub/session/exec_spec.h"
#include "muxd/hub/session/file_limits.h"
#include "muxd/hub/session/file_op.h"
#include "muxd/hub/session/keep.h"

#define TRANSFER_HEAD_MAX    96
#define TRANSFER_TRAILER_LEN 40
#define TRANSFER_REQUEST_MAX (32 * 1024)           /* of an operation, as JSON */
#define TRANSFER_ANSWER_MAX  (3 * 1024 * 1024 + 1) /* FS_OUT_MAX, and a line end */
#define TRANSFER_CHANGES_MAX (64 * 1024)           /* of an answer, what the record takes over */

struct err;

struct transfer {
	enum file_op op;
	const struct file_op_row *row;
	char *path;        /* any bytes but NUL */
	char *to;          /* likewise; NULL */
	char *request;     /* of an operation, as JSON; NULL */
	struct buf answer; /* what came of its answer */
	size_t
	    answer_len; /* not 0: it was looked over, and is an object of that length, kept as it came (json_scan.h) */
	json_t *reply;  /* else the answer, once it has ended; an object, or NULL */
	size_t reply_bytes; /* as text: what it holds of memory, about */
	json_t *changes;    /* of it, for the record; a list, or NULL */
	int64_t changes_left_out;
	struct file_touch *touches; /* of its paths, for the policy */
	unsigned ntouches;
	int64_t mode;    /* put: -1 as it is there; get: -1 until told */
	int64_t mtime_s; /* get */
	uint64_t size;   /* put: as announced, or UINT64_MAX; get: as told */
	bool parents;
	bool limited;      /* put and get: below the workspace alone, without links */
	uint64_t size_max; /* of the content; 0: no limit */
	uint64_t file_max; /* of each file: the same, of trees, too */
	struct err_policy
	    by_policy;       /* a profile has set file_max: what a denial by it says; version "": the grant has */
	bool over;           /* more than file_max came, or is there */
	struct keep content; /* count and digest */
	char head[TRANSFER_HEAD_MAX + 1];
	size_t head_len;
	bool head_known; /* get: content may be shown */
	uint8_t trailer[TRANSFER_TRAILER_LEN];
	size_t trailer_sent;
	bool trailer_due; /* content that is taken is complete */
};

/* ERR_INVAL names the field. */
/* limits: of the grant (file_limits.h), already asked; NULL: none. */
int transfer_create(const struct file_spec *spec, const struct grant_files *limits, struct transfer **out,
		    struct err *e);
/* Others than it was created with, ahead of its start. */
int transfer_limit(struct transfer *t, const struct grant_files *limits, struct err *e);
void transfer_destroy(struct transfer *t); /* NULL-safe */
/* Over file_max, found late: ERR_TOO_LARGE of the grant, or ERR_POLICY_DENIED with the verdict. */
int transfer_over(const struct transfer *t, struct err *e);
/* NULL-ended, to be freed with its strings. NULL: no memory. */
char **transfer_argv(const struct transfer *t);

/*
 * Output of a get. The bytes of the head are taken off: *out_content of the n are content, the last ones. ERR_PROTOCOL
 * when the head is none. Of an operation nothing is content; ERR_TOO_LARGE past TRANSFER_ANSWER_MAX.
 */
int transfer_output(struct transfer *t, const uint8_t *p, size_t n, size_t *out_content);
/* Content that is taken. ERR_TOO_LARGE past the announced size. */
int transfer_input(struct transfer *t, const uint8_t *p, size_t n);
/* Content is complete: makes the trailer. ERR_EOF when more was announced. */
int transfer_complete(struct transfer *t);
/* How it ended, given how muxlet did: 0, or ERR_* with the sentence for the client. */
int transfer_result(struct transfer *t, const char *agent, const struct session_result *r, struct err *e);
/* The answer of an operation, or NULL; the caller's then. */
json_t *transfer_take_reply(struct transfer *t);
/*
 * The same as text, where it is at hand so: the object without its last brace, behind which members of the names in
 * transfer_own may be written. out: empty, and its limit stays. *out_more: it has members. False: it is not, or was
 * taken.
 */
bool transfer_take_text(struct transfer *t, struct buf *out, bool *out_more);
/* Names of the members that stand beside muxlet's answer. NULL behind the last. */
extern const char *const transfer_own[];
/*
 * {op, path, to, size, mode, changes ...} for record, audit and answers; a path that is not UTF-8 stands as
 * {"base64": ...}. changes: what muxlet says of an operation that changed something, a list of {path, before, after}.
 */
json_t *transfer_json(const struct transfer *t);

#endif
