/*
 * A get: one piece is being given out while the pool reads the next. Of a whole file the last piece is given out once
 * its digest is what the row says.
 *
 * The file is opened in the loop, in the turn that read its row: the name of one that is replaced, deleted or expired
 * goes by a later turn, so between the two nothing can take it away, and who has it open reads it to its end.
 */
#define LOG_SUBSYS "artifact"
#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "control/artifacts/artifact_state.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct artifact_reader {
	LIST_ENTRY(artifact_reader) entry;
	struct artifacts *a; /* NULL: it has ended; the pool may still read */
	const struct artifact_reader_ops *ops;
	void *arg;
	char name[BLOB_NAME_SZ], sha256[ARTIFACT_SHA256_SZ];
	struct buf front, back; /* looked at; read */
	uv_work_t work;
	bool busy, failed;
	/* the pool's while it is busy */
	int fd;
	uint64_t at, until;
	EVP_MD_CTX *sha; /* NULL: a part is read */
	struct err e;
};

static void reader_free(struct artifact_reader *r)
{
	buf_finish(&r->front);
	buf_finish(&r->back);
	EVP_MD_CTX_free(r->sha);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

/* ---- in the pool */

static int check_digest(struct artifact_reader *r)
{
	char hex[ARTIFACT_SHA256_SZ] = "";
	uint8_t md[EVP_MAX_MD_SIZE];
	unsigned len = 0;

	if (EVP_DigestFinal_ex(r->sha, md, &len) != 1 || len != 32)
		return err_set(&r->e, ERR_INTERNAL, "no digest of the content");
	for (unsigned i = 0; i < len; i++)
		snprintf(hex + (size_t)2 * i, 3, "%02x", md[i]);
	if (strcmp(hex, r->sha256) == 0)
		return 0;
	return err_set(&r->e, ERR_CORRUPT, "the file of the artifact has SHA-256 %s, and had %s when it was put", hex,
		       r->sha256);
}

static int read_piece(struct artifact_reader *r)
{
	uint64_t left = r->until - r->at;
	size_t n = left < ARTIFACT_PIECE ? (size_t)left : ARTIFACT_PIECE;
	uint8_t *p;

	if (buf_reserve(&r->back, n, &p))
		return err_set(&r->e, ERR_NOMEM, "no memory for a piece of an artifact");
	for (size_t got = 0; got < n;) {
		ssize_t k = pread(r->fd, p + got, n - got, (off_t)(r->at + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(&r->e, errno, "read an artifact");
		if (k == 0)
			return err_set(&r->e, ERR_CORRUPT, "the file of the artifact is shorter than when it was put");
		got += (size_t)k;
	}
	if (r->sha && EVP_DigestUpdate(r->sha, p, n) != 1)
		return err_set(&r->e, ERR_INTERNAL, "no digest of the content");
	buf_commit(&r->back, n);
	r->at += n;
	return 0;
}

static void reader_on_work(uv_work_t *w)
{
	struct artifact_reader *r = w->data;

	if (read_piece(r) == 0 && r->sha && r->at == r->until)
		(void)check_digest(r);
}

/* ---- in the loop */

static void reader_next(struct artifact_reader *r);

static void reader_fail(struct artifact_reader *r)
{
	struct err e = r->e;

	r->failed = true;
	log_error(NULL, "%s: %s", r->name, e.message);
	r->ops->failed(r->arg, e.code, &e);
}

static void reader_on_worked(uv_work_t *w, int status)
{
	struct artifact_reader *r = w->data;

	(void)status;
	r->busy = false;
	if (!r->a)
		reader_free(r);
	else if (r->e.code)
		reader_fail(r);
	else if (!buf_len(&r->front))
		r->ops->readable(r->arg);
}

static void reader_next(struct artifact_reader *r)
{
	if (r->busy || r->failed || r->at >= r->until || buf_len(&r->back))
		return;
	r->busy = true;
	r->work.data = r;
	if (uv_queue_work(r->a->loop, &r->work, reader_on_work, reader_on_worked)) {
		r->busy = false;
		err_set(&r->e, ERR_NOMEM, "the pool takes no more work");
	}
}

size_t artifact_reader_peek(struct artifact_reader *r, const uint8_t **out)
{
	if (!buf_len(&r->front) && !r->busy && !r->failed && buf_len(&r->back) && !r->e.code) {
		struct buf was = r->front;

		r->front = r->back;
		r->back = was;
		buf_clear(&r->back);
	}
	reader_next(r);
	*out = buf_ptr(&r->front);
	return buf_len(&r->front);
}

void artifact_reader_consume(struct artifact_reader *r, size_t n)
{
	buf_consume(&r->front, n);
}

void artifact_reader_end(struct artifact_reader *r)
{
	if (!r)
		return;
	if (r->a)
		LIST_REMOVE(r, entry);
	r->a = NULL;
	if (!r->busy)
		reader_free(r);
}

static int open_file(struct artifact_reader *r, int dir_fd, struct err *e)
{
	int rc;

	r->fd = openat(dir_fd, r->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r->fd >= 0)
		return 0;
	rc = errno == ENOENT ? err_set(e, ERR_CORRUPT, "the file of the artifact is gone: somebody removed it")
			     : err_sys(e, errno, "open an artifact's file");
	log_error(NULL, "%s: %s", r->name, e->message);
	return rc;
}

static int reader_create(uint64_t from, uint64_t until, uint64_t size, struct artifact_reader **out, struct err *e)
{
	struct artifact_reader *r = calloc(1, sizeof(*r));
	bool whole = from == 0 && until == size && size;

	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for an artifact");
	r->fd = -1;
	buf_init(&r->front, ARTIFACT_PIECE);
	buf_init(&r->back, ARTIFACT_PIECE);
	r->at = from;
	r->until = until;
	if (whole)
		r->sha = EVP_MD_CTX_new();
	if (whole && (!r->sha || EVP_DigestInit_ex(r->sha, EVP_sha256(), NULL) != 1)) {
		reader_free(r);
		return err_set(e, ERR_NOMEM, "no memory for an artifact");
	}
	*out = r;
	return 0;
}

int artifact_read(struct artifacts *a, const json_t *row, uint64_t from, uint64_t until,
		  const struct artifact_reader_ops *ops, void *arg, struct artifact_reader **out, struct err *e)
{
	const char *sha256 = json_string_value(json_object_get(row, "sha256"));
	const char *blob = json_string_value(json_object_get(row, "blob"));
	uint64_t size = (uint64_t)json_integer_value(json_object_get(row, "size"));
	struct artifact_reader *r = NULL;
	int rc = sha256 && blob ? 0 : err_set(e, ERR_INTERNAL, "the artifact's row is none");

	if (!rc && a->stopped)
		rc = err_set(e, ERR_CANCELLED, "the daemon is stopping");
	if (!rc)
		rc = reader_create(from, until, size, &r, e);
	if (rc)
		return rc;
	text_put(r->sha256, sizeof(r->sha256), sha256);
	blob_name(sha256, blob, r->name);
	if ((rc = open_file(r, a->dir_fd, e))) {
		reader_free(r);
		return rc;
	}
	r->a = a;
	r->ops = ops;
	r->arg = arg;
	LIST_INSERT_HEAD(&a->readers, r, entry);
	reader_next(r);
	*out = r;
	return 0;
}

void readers_stop(struct artifacts *a)
{
	struct artifact_reader *r, *next;
	struct err e = {0};

	err_set(&e, ERR_CANCELLED, "the daemon is stopping");
	for (r = LIST_FIRST(&a->readers); r; r = next) {
		next = LIST_NEXT(r, entry);
		r->failed = true;
		r->ops->failed(r->arg, e.code, &e); /* may end it */
	}
}
