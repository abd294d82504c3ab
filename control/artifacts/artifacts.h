/*
 * artifacts.h - files that outlive their sandbox: of a task, by name, whole or absent.
 *
 * The bytes stand outside every sandbox, one file for each content (<sha256>.<id>, docs/decisions/0023-artifacts.md);
 * the rows are in control.db. A file is whole, synced and named before the transaction that makes its row, and goes
 * after the transaction that took the last row of it has been committed: a crash at any instant leaves no row without
 * its file, and a file without a row until the next start, which sweeps.
 *
 * Nothing here asks who may: the hub does (muxd/hub/broker/broker_artifact.h). Files are touched in the loop's pool
 * alone, but for the sweep at the start and the opening of one to be read. Callbacks come from the loop.
 *
 * Owned by net_main(); one loop. Made before the hub; artifacts_stop() after the doors, before the hub;
 * artifacts_destroy() after the store.
 */
#ifndef CONTROL_ARTIFACTS_ARTIFACTS_H
#define CONTROL_ARTIFACTS_ARTIFACTS_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct artifact_reader;
struct artifact_writer;
struct artifacts;
struct buf;
struct conf;
struct err;
struct store;
struct uv_loop_s;

#define ARTIFACT_NAME_MAX  128
#define ARTIFACT_TYPE_MAX  127
#define ARTIFACT_TEXT_MAX  192 /* of a task, an agent, a run, a principal, with its end */
#define ARTIFACT_PAGE_MAX  1000
#define ARTIFACT_PIECE     (256 * 1024)
#define ARTIFACT_SHA256_SZ 65
#define ARTIFACT_BASE_MAX  64 /* a snapshot's id, or a commit in hexadecimal */

struct artifacts_params {
	struct uv_loop_s *loop;
	struct store *store;
	const char *dir;         /* made where it is missing; its parent exists */
	const struct conf *conf; /* artifacts.*, record.min_free; copied */
};

/* Sweeps: files that no row names go. ERR_SYS, ERR_NOMEM, what the store says. */
int artifacts_create(const struct artifacts_params *p, struct artifacts **out, struct err *e);
void artifacts_set_conf(struct artifacts *a, const struct conf *c); /* NULL-safe */
/*
 * Expiry begins. now: the wall clock as it is, and not the floor that never goes back: one that was ahead for an hour
 * would be ahead for good. waits: that clock is not believed, nothing expires; NULL: it always is.
 */
struct artifacts_clock {
	int64_t (*now)(void *ctx);
	bool (*waits)(void *ctx);
	void *ctx;
};
void artifacts_begin(struct artifacts *a, const struct artifacts_clock *clock);
void artifacts_stop(struct artifacts *a);    /* writers and readers are told ERR_CANCELLED. NULL-safe */
void artifacts_destroy(struct artifacts *a); /* NULL-safe */

/*
 * 1 to 128 bytes of UTF-8 that can be seen, without / and \, not . or .., no blank at either end. ERR_INVAL says what
 * is wrong.
 */
int artifact_name_check(const char *name, struct err *e);
/* 64 digits of hexadecimal, lower case. */
bool artifact_sha256_check(const char *text);

/* An artifact to be. Texts are copied; NULL: none, but for task, name and principal. */
struct artifact_spec {
	const char *task, *name, *principal;
	const char *agent, *round, *run, *base, *media_type;
	const json_t *call; /* who asks, from where: members of the audit event (audit_request_json()); NULL: nobody */
	const char *sha256; /* what the content has to have; NULL: any */
	uint64_t size;      /* as announced; UINT64_MAX: not known */
	bool only_new;      /* ERR_CONFLICT where the name is taken */
	bool any_owner;     /* may replace another principal's; else that is ERR_CONFLICT too */
	bool apart;         /* neither held nor counted by shares.* */
};

/* row: as artifacts_list() has it, a put's with `replaced`; borrowed. The writer is gone with it. */
typedef void artifact_done(void *arg, int rc, const struct err *e, const json_t *row);
struct artifact_writer_ops {
	void (*ready)(void *arg); /* take() has room again, or an error to tell */
	void (*done)(void *arg, int rc, const struct err *e,
		     const json_t *row); /* after artifact_writer_finish(), once */
};
/*
 * ERR_TOO_LARGE (artifacts.size_max), ERR_ARTIFACTS_FULL (the task's share, or all of it), ERR_INVAL, ERR_CONFLICT:
 * told before the first byte where they are known.
 */
int artifact_write(struct artifacts *a, const struct artifact_spec *spec, const struct artifact_writer_ops *ops,
		   void *arg, struct artifact_writer **out, struct err *e);
/* Bytes taken; 0: wait for ready(). ERR_* as above or ERR_DISK_FULL, ERR_CANCELLED ..., with *e: only an abort is left.
 */
ssize_t artifact_writer_take(struct artifact_writer *w, const uint8_t *p, size_t n, struct err *e);
/* The base of changes, where that is known later than it begins; before artifact_writer_finish(). Copied. */
void artifact_writer_base(struct artifact_writer *w, const char *base);
/* Its content is complete: done() follows, with ERR_INVAL where size or digest are others than was said. */
void artifact_writer_finish(struct artifact_writer *w);
/* Nothing is kept, nothing is told any more. NULL-safe; not after artifact_writer_finish(), but see below. */
void artifact_writer_abort(struct artifact_writer *w);
/* After artifact_writer_finish(): nobody waits for done() any more. What is being stored is stored. */
void artifact_writer_forget(struct artifact_writer *w);

/*
 * principal: of whose it has to be; NULL: of anybody's. *out: its row. ERR_NOT_FOUND also where its time is over.
 */
int artifact_show(struct artifacts *a, const char *task, const char *name, const char *principal, json_t **out,
		  struct err *e);

struct artifact_filter {
	const char *task, *principal; /* principal NULL: of anybody */
	const char *run, *round;      /* NULL: of any */
	const char *after;            /* the last name of the page before; NULL: from the first */
	size_t limit;                 /* up to ARTIFACT_PAGE_MAX */
};
/* *out {"artifacts": [...], "more": bool}, by name. */
int artifacts_list(struct artifacts *a, const struct artifact_filter *f, json_t **out, struct err *e);

/* done's row: what it was. ERR_NOT_FOUND. call: as of struct artifact_spec. */
void artifact_delete(struct artifacts *a, const char *task, const char *name, const char *principal, const json_t *call,
		     artifact_done *done, void *arg);

struct artifact_reader_ops {
	void (*readable)(void *arg);                            /* there are bytes to be looked at */
	void (*failed)(void *arg, int rc, const struct err *e); /* no more come */
};
/*
 * Bytes [from, until) of a row of artifact_show(), in the same turn of the loop: then its file is there, and what is
 * replaced, deleted or expired later is read to its end. ERR_CORRUPT: somebody removed the file. Read whole, the last
 * piece is given out once the digest is right (else ERR_CORRUPT).
 */
int artifact_read(struct artifacts *a, const json_t *row, uint64_t from, uint64_t until,
		  const struct artifact_reader_ops *ops, void *arg, struct artifact_reader **out, struct err *e);
size_t artifact_reader_peek(struct artifact_reader *r, const uint8_t **out);
void artifact_reader_consume(struct artifact_reader *r, size_t n);
void artifact_reader_end(struct artifact_reader *r); /* NULL-safe; nothing is told any more */

struct artifacts_numbers {
	uint64_t count, bytes; /* rows; bytes on the disk */
};
/* muxd_artifacts and muxd_artifacts_bytes for /metrics. a NULL: nothing. ERR_NOMEM, ERR_TOO_LARGE. */
int artifacts_metrics(const struct artifacts *a, struct buf *out);

#endif
