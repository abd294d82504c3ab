/*
 * body.h - the JSON body of POST /v1/agents/{agent}/rounds, and of START on its WebSocket, as an exec_spec.
 *
 * Pure: bytes in, exec_spec out, or ERR_INVAL / ERR_TOO_LARGE that names the
 * field. Everything the spec points to belongs to the round_body and lives
 * until round_body_finish(). The agent is the path's and set by the caller.
 */
#ifndef MUXD_DOORS_HTTPS_BODY_H
#define MUXD_DOORS_HTTPS_BODY_H

#include "base/json.h"
#include "muxd/hub/broker/broker.h"

struct err;
struct conf;

#define ROUND_KEEP_MAX (1024 * 1024) /* limits.head_bytes and limits.tail_bytes, each */

struct round_limits {
	size_t body_max;
	size_t argv_max; /* bytes of argv and env together */
	uint64_t timeout_max_ns;
	uint64_t wait_default_ns, wait_max_ns;
};

struct round_body {
	json_t *root;
	struct exec_spec spec;
	const char **argv;
	char **env;
	uint8_t *stdin_bytes; /* decoded base64 */
	struct file_spec file;
	char *file_path;  /* likewise */
	uint64_t wait_ns; /* never more than wait_max_ns */
};

void round_limits_from_conf(const struct conf *c, struct round_limits *out);
int round_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e);
/*
 * The same of START: input, output and signals follow, so it has no stdin, no wait_ms and no limits; with
 * pty {cols, rows, xpixel, ypixel, term} it is a terminal, which needs no program; with file {op, path, mode, size,
 * parents} a transfer, which has none.
 */
int start_body_parse(const void *p, size_t n, const struct round_limits *l, struct round_body *out, struct err *e);
void round_body_finish(struct round_body *b); /* NULL-safe */

/* For the tables of other bodies (base/schema.h); the limit of the last is a struct round_limits. */
struct schema;
struct schema_at;
int body_check_name(const struct schema *s, const struct schema_at *at, const json_t *v); /* of a task, an exec_id */
int body_check_env(const struct schema *s, const struct schema_at *at, const json_t *o);
int body_check_timeout(const struct schema *s, const struct schema_at *at, const json_t *v);
/* {name: value} as "name=value", NULL-ended; to be freed by the other. ERR_NOMEM. */
int body_env(const json_t *o, char ***out);
void body_env_free(char **env); /* NULL-safe */

/* A path: a text, or {"base64": ...} for one that is not UTF-8. *out: to be freed. ERR_INVAL, ERR_NOMEM. */
int body_path(const json_t *v, char **out);
/*
 * {data, encoding} as bytes: utf-8 points into the string (*out_owned NULL),
 * base64 is decoded (*out_owned to be freed). `what` is named in errors.
 */
int body_bytes(const char *what, const char *data, size_t len, const char *encoding, const uint8_t **out,
	       size_t *out_len, uint8_t **out_owned, struct err *e);

#endif
