/*
 * fstore.h - the owner's file store, asked over HTTP: one question, one try, one answer in JSON within a deadline.
 *
 * Token and certificate authority are files that the monitor keeps fresh (muxd/monitor/filespace_keys.h); they are read
 * again each minute and on a 401, as those of a cluster are (control/kube/client/kube_creds.h, which does it). A token
 * is sent over TLS alone.
 *
 * Owned by net_main(), made before the hub, destroyed behind it. The loop's thread only.
 */
#ifndef CONTROL_FILESPACE_FSTORE_H
#define CONTROL_FILESPACE_FSTORE_H

#include "base/json.h"

struct err;
struct uv_loop_s;
struct filespace_store;
struct filespace_ask;

struct filespace_store_params {
	const char *url;        /* "https://files.example/v1" */
	const char *token, *ca; /* paths of files; NULL: none */
};
/* ERR_CONFIG, and those of a file that cannot be read. */
int filespace_store_create(struct uv_loop_s *loop, const struct filespace_store_params *p, struct filespace_store **out,
			   struct err *e);
/* Questions that are out end without an answer. The loop has to run once more. NULL-safe. */
void filespace_store_destroy(struct filespace_store *s);

/* rc 0: 2xx, with its object, borrowed. Else ERR_FILESPACE, with the store's own words where it has any. */
typedef void filespace_ask_done(void *arg, int rc, const struct err *e, const json_t *body);
struct filespace_question {
	const char *space;  /* the agent's name */
	const char *call;   /* "files?limit=1000", "get", "put" */
	const json_t *body; /* NULL: GET */
	uint64_t timeout_ns;
	size_t answer_max;
};
/* Answered once, later, unless cancelled. ERR_NOMEM, ERR_TOO_LARGE: then done is not called. */
int filespace_store_ask(struct filespace_store *s, const struct filespace_question *q, filespace_ask_done *done,
			void *arg, struct filespace_ask **out, struct err *e);
void filespace_ask_cancel(struct filespace_ask *a); /* NULL-safe */

#endif
