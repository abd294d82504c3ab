/*
 * wire.h - the bodies of the store's interface (docs/filespace.md, "The interface"), read and written. Pure.
 *
 * A store's answers are outside bytes: each entry is checked whole before anything comes of it. An entry whose path the
 * product does not take is left out and counted; one that is no entry makes the answer none (ERR_FILESPACE).
 */
#ifndef CONTROL_FILESPACE_WIRE_H
#define CONTROL_FILESPACE_WIRE_H

#include "base/json.h"
#include "control/filespace/filelist.h"

struct filespace_bounds {
	size_t files_max;  /* in the list, without deletions */
	uint64_t size_max; /* of one file */
	size_t bytes_max;  /* of the list, as a workspace's would have; 0: any */
	/* Is there anything that a deletion of this path would be compared with? Others are dropped. NULL: always. */
	bool (*wanted)(void *arg, const char *path);
	size_t wanted_max; /* paths of which it may say so: a store that tells more deletions tells one twice */
	void *arg;
};

struct filespace_page {
	struct filespace_list *list; /* entries are added */
	size_t files;                /* of them, that are no deletions: for the next page, too */
	size_t deletions, bytes;     /* the others of them; of all: for the next page, too */
	size_t refused;              /* paths that are not taken */
	char refused_first[160];     /* one of them, and why */
	char *next;                  /* malloc'd; NULL: this was the last page */
	int64_t now_ms;              /* the store's clock */
};
/* GET files. ERR_FILESPACE, ERR_TOO_LARGE, ERR_NOMEM. */
int filespace_wire_page(const json_t *body, const struct filespace_bounds *b, struct filespace_page *io, struct err *e);
/* "now" of an answer. ERR_FILESPACE: it is no time. */
int filespace_wire_now(const json_t *body, int64_t *out_ms, struct err *e);
/* POST get: its body; paths is stolen. */
json_t *filespace_wire_paths(json_t *paths);

struct filespace_content {
	struct filespace_file file; /* path: the content's own, to be freed with it */
	uint8_t *data;
	size_t n;
};
/* One of the files of an answer to get: decoded, its SHA-256 compared. */
int filespace_wire_content(const json_t *entry, const struct filespace_bounds *b, struct filespace_content *out,
			   struct err *e);
void filespace_content_finish(struct filespace_content *c);

/* POST put: one file, or (content NULL) a deletion. if_ms below 0: none is there. NULL: no memory. */
json_t *filespace_wire_put(const char *path, const char *key, const void *content, size_t n, int64_t if_ms);

/* The answer: done with its time; or a conflict, with what is there (side) instead. */
struct filespace_put {
	bool done;
	struct filespace_side side; /* done: at_ms alone */
};
typedef int filespace_put_each(void *arg, const char *path, const struct filespace_put *p);
int filespace_wire_puts(const json_t *body, const struct filespace_bounds *b, filespace_put_each *each, void *arg,
			int64_t *out_now_ms, struct err *e);

/* A path in JSON: text, or {"base64": ...}. NULL: no memory. */
json_t *filespace_wire_path(const char *path);
/* SHA-256 in hexadecimal and the bit of it; sha256: 32 bytes. */
void filespace_key_put(const uint8_t *sha256, bool executable, char out[FILESPACE_KEY_LEN + 1]);
bool filespace_key_runs(const char *key);

#endif
