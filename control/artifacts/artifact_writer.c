/*
 * A put: bytes into a file without a name that counts, then its digest, its name, its row.
 *
 * OPEN (takes bytes; the pool writes one piece while the next one is filled) -> CLOSING (the last piece, sync, name)
 * -> STORING (the transaction) -> OVER. FAILED: from OPEN or CLOSING; the file goes. Whoever waits may leave at any
 * time (ops NULL).
 */
#define LOG_SUBSYS "artifact"
#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "control/artifacts/artifact_state.h"
#include "control/store/store.h"
#include "policy/grant_narrow.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define COUNT_RETRY_S 60 /* one is deleted, or artifacts.keep is over */

enum writer_state { WRITER_OPEN, WRITER_CLOSING, WRITER_STORING, WRITER_FAILED, WRITER_OVER };

struct artifact_writer {
	LIST_ENTRY(artifact_writer) entry;
	struct artifacts *a; /* NULL: it has ended; the pool may still work on the file */
	enum writer_state state;
	const struct artifact_writer_ops *ops; /* NULL: nobody waits */
	void *arg;
	struct artifact_row row;
	struct artifact_conf conf;
	char id[ID_STR_LEN]; /* of its file; the row has another's where that content is there already */
	char expected[ARTIFACT_SHA256_SZ];
	json_t *call;
	uint64_t announced, taken, task_left;
	bool only_new, any_owner;
	struct buf filling, piece; /* the loop's, and the pool's while it is busy */
	uv_work_t work;
	bool busy, waits; /* in the pool; artifact_writer_take() said 0 */
	struct err e;     /* why it FAILED */
	/* the pool's */
	int dir_fd, fd;
	EVP_MD_CTX *sha;
	bool last, named;
	struct err pool_e;
	/* of the transaction */
	bool blob_is_new, replaced;
	struct blob_names gone;
	struct artifacts_numbers stored;
};

static void writer_set_state(struct artifact_writer *w, enum writer_state s)
{
	static const char *const names[] = {"open", "closing", "storing", "failed", "over"};

	log_debug(NULL, "%s of %s: %s -> %s", w->row.name, w->row.task, names[w->state], names[s]);
	w->state = s;
}

static void file_name(const struct artifact_writer *w, char out[BLOB_NAME_SZ])
{
	if (w->named)
		blob_name(w->row.sha256, w->id, out);
	else
		snprintf(out, BLOB_NAME_SZ, "%s.part", w->id);
}

/* ---- in the pool */

static int write_piece(struct artifact_writer *w, struct err *e)
{
	const uint8_t *p = buf_ptr(&w->piece);
	size_t left = buf_len(&w->piece);
	struct statvfs v;

	if (left && fstatvfs(w->fd, &v) == 0 && (uint64_t)v.f_bavail * v.f_frsize < w->conf.free_min + left)
		return err_set(e, ERR_DISK_FULL,
			       "less than twice record.min_free would be left on the disk of artifacts");
	if (EVP_DigestUpdate(w->sha, p, left) != 1)
		return err_set(e, ERR_INTERNAL, "no digest of the content");
	while (left) {
		ssize_t n = write(w->fd, p, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "write an artifact");
		p += n;
		left -= (size_t)n;
	}
	return 0;
}

static int check_content(const struct artifact_writer *w, struct err *e)
{
	if (w->announced != UINT64_MAX && w->taken != w->announced)
		return err_set(e, ERR_INVAL, "%llu bytes were announced and %llu came",
			       (unsigned long long)w->announced, (unsigned long long)w->taken);
	if (w->expected[0] && strcmp(w->expected, w->row.sha256) != 0)
		return err_set(e, ERR_INVAL, "the content has SHA-256 %s, not %s as was said: send it again",
			       w->row.sha256, w->expected);
	return 0;
}

/* Nothing refers to the name before the directory is synced, too. */
static int give_name(struct artifact_writer *w, struct err *e)
{
	char from[BLOB_NAME_SZ], to[BLOB_NAME_SZ];
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	int rc;

	if (EVP_DigestFinal_ex(w->sha, md, &len) != 1 || len != 32)
		return err_set(e, ERR_INTERNAL, "no digest of the content");
	for (unsigned i = 0; i < len; i++)
		snprintf(w->row.sha256 + (size_t)2 * i, 3, "%02x", md[i]);
	rc = check_content(w, e);
	if (rc)
		return rc;
	file_name(w, from);
	blob_name(w->row.sha256, w->id, to);
	if (fsync(w->fd))
		return err_sys(e, errno, "sync an artifact");
	if (renameat(w->dir_fd, from, w->dir_fd, to))
		return err_sys(e, errno, "name an artifact");
	w->named = true;
	return fsync(w->dir_fd) ? err_sys(e, errno, "sync the directory of artifacts") : 0;
}

static int open_file(struct artifact_writer *w, struct err *e)
{
	char name[BLOB_NAME_SZ];

	file_name(w, name);
	w->fd = openat(w->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return w->fd < 0 ? err_sys(e, errno, "make an artifact's file") : 0;
}

static void writer_on_work(uv_work_t *t)
{
	struct artifact_writer *w = t->data;
	int rc = w->fd < 0 ? open_file(w, &w->pool_e) : 0;

	if (!rc)
		rc = write_piece(w, &w->pool_e);
	if (!rc && w->last)
		(void)give_name(w, &w->pool_e);
}

static void writer_on_discard(uv_work_t *t)
{
	struct artifact_writer *w = t->data;
	char name[BLOB_NAME_SZ];

	file_name(w, name);
	if (w->fd >= 0 && unlinkat(w->dir_fd, name, 0) && errno != ENOENT)
		log_warn(NULL, "the file of an artifact that was not made stays until the next start: %s", name);
}

/* ---- the end */

static void writer_free(struct artifact_writer *w)
{
	buf_finish(&w->filling);
	buf_finish(&w->piece);
	EVP_MD_CTX_free(w->sha);
	if (w->fd >= 0)
		close(w->fd);
	if (w->dir_fd >= 0)
		close(w->dir_fd);
	free(w->gone.names);
	json_decref(w->call);
	free(w);
}

static void writer_on_discarded(uv_work_t *t, int status)
{
	(void)status;
	writer_free(t->data);
}

/* Out of the books; what it holds of the disk goes in the pool, or by the sweep of the next start. */
static void writer_end(struct artifact_writer *w, bool keep)
{
	struct uv_loop_s *loop = w->a->loop;

	LIST_REMOVE(w, entry);
	w->a->in_flight -= w->taken;
	w->a = NULL;
	w->ops = NULL;
	writer_set_state(w, WRITER_OVER);
	if (keep) {
		writer_free(w);
		return;
	}
	w->work.data = w;
	if (uv_queue_work(loop, &w->work, writer_on_discard, writer_on_discarded))
		writer_free(w);
}

/* Nobody waits for it: now, or when the pool is through. */
static void writer_let_go(struct artifact_writer *w)
{
	if (w->busy)
		return;
	if (w->a)
		writer_end(w, false);
	else
		writer_free(w);
}

static void writer_answer(struct artifact_writer *w, int rc, const struct err *e, const json_t *row)
{
	const struct artifact_writer_ops *ops = w->ops;

	w->ops = NULL;
	if (ops)
		ops->done(w->arg, rc, e, row);
}

/* A caller that finished it hears the reason at once, another at its next artifact_writer_take(). */
static void writer_fail(struct artifact_writer *w, const struct err *e)
{
	bool finished = w->state != WRITER_OPEN;
	struct err why = *e;

	w->e = why;
	writer_set_state(w, WRITER_FAILED);
	if (finished) {
		writer_answer(w, why.code, &why, NULL);
		writer_let_go(w);
	} else if (w->ops && w->waits) {
		w->waits = false;
		w->ops->ready(w->arg);
	}
}

/* ---- the row */

static int refuse_owner(const struct artifact_writer *w, const struct artifact_row *old, struct err *e)
{
	if (w->only_new)
		return err_set(e, ERR_CONFLICT, "task %.64s has an artifact \"%s\" already", w->row.task, w->row.name);
	if (!w->any_owner && strcmp(old->principal, w->row.principal) != 0)
		return err_set(e, ERR_CONFLICT, "the name \"%s\" is taken in task %.64s by another principal's",
			       w->row.name, w->row.task);
	return 0;
}

static int artifact_check_name(struct sqlite3 *db, const struct artifact_writer *w, struct err *e)
{
	struct artifact_row old = {0};
	bool found = false;
	int rc = row_find(db, w->row.task, w->row.name, w->row.created_ns, &old, &found, e);

	return rc || !found ? rc : refuse_owner(w, &old, e);
}

/* Anybody may put into a task: each principal has a task's room for itself, and takes none of another's. */
static int check_task(struct sqlite3 *db, const struct artifact_writer *w, uint64_t size, uint64_t *out_left,
		      struct err *e)
{
	const struct artifact_conf *c = &w->conf;
	char root[GRANT_NAME_MAX + 1];
	struct artifacts_numbers n = {0};
	int rc;

	grant_root(w->row.principal, root);
	rc = row_task(db, root, &w->row, &n, e);
	if (rc)
		return rc;
	if (n.count >= c->task_max)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"artifacts.task_max", "task", c->task_max, n.count, COUNT_RETRY_S},
				 "%.100s has %llu artifacts in task %.64s, %u are allowed (artifacts.task_max)", root,
				 (unsigned long long)n.count, w->row.task, c->task_max);
	if (n.bytes > c->task_size || size > c->task_size - n.bytes)
		return err_limit(e, ERR_ARTIFACTS_FULL,
				 &(struct err_share){"artifacts.task_size", "task", c->task_size, n.bytes, 0},
				 "%.100s has %llu bytes of artifacts in task %.64s: %llu more are over %llu "
				 "(artifacts.task_size)",
				 root, (unsigned long long)n.bytes, w->row.task, (unsigned long long)size,
				 (unsigned long long)c->task_size);
	*out_left = c->task_size - n.bytes;
	return 0;
}

/* A number of them is a share as others are, of what comes and goes; bytes are a disk's, and waiting gives none. */
static int refuse_share(struct err *e, int code, enum conf_share_of of, const char *name, const char *limit,
			uint64_t value, uint64_t in_use)
{
	static const char *const words[CONF_SHARE_OFS] = {"principal", "task", "agent"};

	struct err_share told = {.value = value, .in_use = in_use, .retry_s = code == ERR_LIMIT ? COUNT_RETRY_S : 0};

	text_put(told.limit, sizeof(told.limit), limit);
	text_put(told.of, sizeof(told.of), words[of]);
	return err_limit(e, code, &told, "artifacts of %s %.100s: %llu are there, %llu are allowed (%s)", words[of],
			 name, (unsigned long long)in_use, (unsigned long long)value, limit);
}

static int check_share(struct sqlite3 *db, const struct artifact_writer *w, enum conf_share_of of, uint64_t size,
		       struct err *e)
{
	static const char *const counts[CONF_SHARE_OFS] = {"shares.artifacts_per_principal", "",
							   "shares.artifacts_per_agent"};
	static const char *const sizes[CONF_SHARE_OFS] = {"shares.artifact_size_per_principal", "",
							  "shares.artifact_size_per_agent"};
	const struct artifact_conf *c = &w->conf;
	char root[GRANT_NAME_MAX + 1];
	const char *name = of == CONF_SHARE_AGENT ? w->row.agent : root;
	struct artifacts_numbers n = {0};
	int rc;

	grant_root(w->row.principal, root);
	if ((!c->share_max[of] && !c->share_size[of]) || !*name || w->row.apart)
		return 0;
	rc = row_share(db, of, name, &w->row, &n, e);
	if (!rc && c->share_max[of] && n.count >= c->share_max[of])
		return refuse_share(e, ERR_LIMIT, of, name, counts[of], c->share_max[of], n.count);
	if (!rc && c->share_size[of] && (n.bytes > c->share_size[of] || size > c->share_size[of] - n.bytes))
		return refuse_share(e, ERR_ARTIFACTS_FULL, of, name, sizes[of], c->share_size[of], n.bytes);
	return rc;
}

static int check_room_of_all(struct sqlite3 *db, const struct artifact_writer *w, uint64_t size, uint64_t *out_left,
			     struct err *e)
{
	int rc = check_task(db, w, size, out_left, e);

	if (!rc)
		rc = check_share(db, w, CONF_SHARE_PRINCIPAL, size, e);
	return rc ? rc : check_share(db, w, CONF_SHARE_AGENT, size, e);
}

static int artifact_writer_put_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct artifact_writer *w = arg;
	char blob[ID_STR_LEN];
	uint64_t left;
	int rc = artifact_check_name(db, w, e);

	if (!rc)
		rc = check_room_of_all(db, w, w->row.size, &left, e);
	if (!rc)
		rc = row_blob(db, w->row.sha256, blob, e);
	w->blob_is_new = !rc && !*blob;
	if (!rc)
		memcpy(w->row.blob, w->blob_is_new ? w->id : blob, sizeof(blob));
	if (!rc)
		rc = row_put(db, &w->row, w->blob_is_new, &w->gone, &w->replaced, e);
	if (!rc)
		rc = row_tell(db, "artifact.put", &w->row, w->call, e);
	return rc ? rc : row_all(db, &w->stored, e);
}

static void writer_on_stored(void *arg, int rc, const struct err *e)
{
	struct artifact_writer *w = arg;
	struct artifacts *a = w->a;
	json_t *row;

	if (rc) {
		writer_fail(w, e);
		return;
	}
	a->stored = w->stored;
	blobs_remove(a, &w->gone);
	row = row_json(&w->row);
	json_object_del(row, "blob");
	json_object_set_new(row, "replaced", json_boolean(w->replaced));
	writer_answer(w, 0, NULL, row);
	json_decref(row);
	writer_end(w, w->blob_is_new);
}

/* ---- pieces */

static void writer_next(struct artifact_writer *w);

static void writer_store(struct artifact_writer *w)
{
	const struct artifacts *a = w->a;

	writer_set_state(w, WRITER_STORING);
	w->row.size = w->taken;
	w->row.created_ns = artifacts_now(a);
	w->row.expires_ns = w->conf.keep_ns ? w->row.created_ns + (int64_t)w->conf.keep_ns : 0;
	store_write(a->store, artifact_writer_put_in_db, writer_on_stored, w);
}

static void writer_on_worked(uv_work_t *t, int status)
{
	struct artifact_writer *w = t->data;

	(void)status;
	w->busy = false;
	buf_clear(&w->piece);
	if (w->state == WRITER_FAILED) { /* its owner lets go of it, or has */
		if (!w->ops)
			writer_let_go(w);
	} else if (w->pool_e.code) {
		writer_fail(w, &w->pool_e);
	} else if (w->last) {
		writer_store(w);
	} else {
		writer_next(w);
		if (w->waits && w->ops && buf_room(&w->filling)) {
			w->waits = false;
			w->ops->ready(w->arg);
		}
	}
}

/* A filled piece goes to the pool; when the pool has had all of a finished one, its name follows. */
static void writer_next(struct artifact_writer *w)
{
	struct buf was = w->piece;
	struct err e = {0};
	bool closing = w->state == WRITER_CLOSING;

	if (w->busy || (w->state != WRITER_OPEN && !closing) || (!closing && !buf_len(&w->filling)))
		return;
	w->piece = w->filling;
	w->filling = was;
	w->last = closing;
	w->busy = true;
	w->work.data = w;
	if (uv_queue_work(w->a->loop, &w->work, writer_on_work, writer_on_worked) == 0)
		return;
	w->busy = false;
	err_set(&e, ERR_NOMEM, "the pool takes no more work");
	writer_fail(w, &e);
}

static int check_size(const struct artifact_writer *w, uint64_t n, struct err *e)
{
	uint64_t most = w->conf.size_max;

	if (n <= most && w->taken <= most - n)
		return 0;
	return err_set(e, ERR_TOO_LARGE, "an artifact may have %llu bytes (artifacts.size_max)",
		       (unsigned long long)most);
}

static int artifact_writer_check_room(const struct artifact_writer *w, uint64_t n, struct err *e)
{
	const struct artifacts *a = w->a;
	const struct artifact_conf *c = &w->conf;

	if (check_size(w, n, e))
		return ERR_TOO_LARGE;
	if (w->taken + n > w->task_left)
		return err_limit(
		    e, ERR_ARTIFACTS_FULL,
		    &(struct err_share){"artifacts.task_size", "task", c->task_size, c->task_size - w->task_left, 0},
		    "task %.64s has room for %llu bytes of artifacts more (artifacts.task_size)", w->row.task,
		    (unsigned long long)w->task_left);
	if (a->stored.bytes + a->in_flight + n > c->size)
		return err_limit(
		    e, ERR_ARTIFACTS_FULL,
		    &(struct err_share){"artifacts.size", "daemon", c->size, a->stored.bytes + a->in_flight, 0},
		    "all artifacts together have %llu bytes, and %llu are allowed (artifacts.size)",
		    (unsigned long long)(a->stored.bytes + a->in_flight), (unsigned long long)c->size);
	return 0;
}

ssize_t artifact_writer_take(struct artifact_writer *w, const uint8_t *p, size_t n, struct err *e)
{
	size_t room = buf_room(&w->filling), taken = n < room ? n : room;
	struct err why = {0};

	if (w->state == WRITER_OPEN && artifact_writer_check_room(w, taken, &why)) {
		w->e = why;
		writer_set_state(w, WRITER_FAILED);
	}
	if (w->state == WRITER_OPEN && taken && buf_append(&w->filling, p, taken)) {
		err_set(&w->e, ERR_NOMEM, "no memory for a piece of an artifact");
		writer_set_state(w, WRITER_FAILED);
	}
	if (w->state != WRITER_OPEN) {
		*e = w->e;
		return w->e.code ? w->e.code : ERR_BAD_STATE;
	}
	w->taken += taken;
	w->a->in_flight += taken;
	w->waits = !taken;
	if (!buf_room(&w->filling))
		writer_next(w);
	return (ssize_t)taken;
}

void artifact_writer_base(struct artifact_writer *w, const char *base)
{
	text_put(w->row.base, sizeof(w->row.base), base);
}

void artifact_writer_finish(struct artifact_writer *w)
{
	struct err e = w->e;

	if (w->state == WRITER_OPEN) {
		writer_set_state(w, WRITER_CLOSING);
		writer_next(w);
	} else if (w->state == WRITER_FAILED) {
		writer_answer(w, e.code, &e, NULL);
		writer_let_go(w);
	}
}

void artifact_writer_abort(struct artifact_writer *w)
{
	if (!w)
		return;
	w->ops = NULL;
	if (w->state == WRITER_STORING)
		return; /* it is stored, or fails, and ends by itself */
	if (w->state != WRITER_FAILED)
		writer_set_state(w, WRITER_FAILED);
	writer_let_go(w);
}

void artifact_writer_forget(struct artifact_writer *w)
{
	w->ops = NULL;
}

/* The pool may have the file still, and the store the row: both let go of it later. */
void writers_stop(struct artifacts *a)
{
	struct artifact_writer *w, *next;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	for (w = LIST_FIRST(&a->writers); w; w = next) {
		next = LIST_NEXT(w, entry);
		if (w->state == WRITER_STORING || w->state == WRITER_CLOSING)
			writer_answer(w, e.code, &e, NULL);
		if (w->state == WRITER_STORING)
			continue;
		w->e = e; /* who has not finished hears it at the next artifact_writer_take() */
		writer_set_state(w, WRITER_FAILED);
		LIST_REMOVE(w, entry);
		w->a = NULL;
		if (!w->ops)
			writer_let_go(w);
	}
}

/* ---- the beginning */

static int begin_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct artifact_writer *w = arg;
	int rc = artifact_check_name(db, w, e);

	return rc ? rc : check_room_of_all(db, w, w->announced == UINT64_MAX ? 0 : w->announced, &w->task_left, e);
}

static void take_spec(struct artifact_writer *w, const struct artifact_spec *s)
{
	struct artifact_row *r = &w->row;
	struct id id;

	(void)id_new(&id);
	id_format(&id, w->id);
	text_put(r->task, sizeof(r->task), s->task);
	text_put(r->name, sizeof(r->name), s->name);
	text_put(r->principal, sizeof(r->principal), s->principal);
	text_put(r->agent, sizeof(r->agent), s->agent);
	text_put(r->round, sizeof(r->round), s->round);
	text_put(r->run, sizeof(r->run), s->run);
	text_put(r->base, sizeof(r->base), s->base);
	text_put(r->media_type, sizeof(r->media_type), s->media_type);
	w->call = json_incref((json_t *)(uintptr_t)s->call);
	text_put(w->expected, sizeof(w->expected), s->sha256);
	w->announced = s->size;
	w->only_new = s->only_new;
	w->any_owner = s->any_owner;
	r->apart = s->apart;
}

static int writer_create(struct artifacts *a, const struct artifact_spec *spec, struct artifact_writer **out,
			 struct err *e)
{
	struct artifact_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(e, ERR_NOMEM, "no memory for an artifact");
	w->fd = -1;
	w->dir_fd = fcntl(a->dir_fd, F_DUPFD_CLOEXEC, 0);
	w->sha = EVP_MD_CTX_new();
	buf_init(&w->filling, ARTIFACT_PIECE);
	buf_init(&w->piece, ARTIFACT_PIECE);
	take_spec(w, spec);
	w->a = a;
	w->conf = a->conf;
	if (w->dir_fd < 0 || !w->sha || EVP_DigestInit_ex(w->sha, EVP_sha256(), NULL) != 1) {
		writer_free(w);
		return err_set(e, ERR_NOMEM, "no memory for an artifact");
	}
	*out = w;
	return 0;
}

int artifact_write(struct artifacts *a, const struct artifact_spec *spec, const struct artifact_writer_ops *ops,
		   void *arg, struct artifact_writer **out, struct err *e)
{
	struct artifact_writer *w = NULL;
	int rc = artifact_name_check(spec->name, e);

	if (!rc && a->stopped)
		rc = err_set(e, ERR_CANCELLED, "the daemon is stopping");
	if (!rc)
		rc = writer_create(a, spec, &w, e);
	if (rc)
		return rc;
	w->row.created_ns = artifacts_now(a);
	rc = w->announced == UINT64_MAX ? 0 : check_size(w, w->announced, e);
	if (!rc)
		rc = store_read(a->store, begin_in_db, w, e);
	if (!rc && w->announced != UINT64_MAX)
		rc = artifact_writer_check_room(w, w->announced, e);
	if (rc) {
		writer_free(w);
		return rc;
	}
	w->ops = ops;
	w->arg = arg;
	LIST_INSERT_HEAD(&a->writers, w, entry);
	*out = w;
	return 0;
}
