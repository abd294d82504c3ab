#include "recorder/draw/keyframes.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC     "MUXDKEY\n"
#define MAGIC_END "MKEYEND\n"
#define MAJOR     2
#define HEAD      60 /* magic, u16 major, u16 minor, session, leaf */
#define ENTRY                                                                                                          \
	40 /* u64 ns, u64 seq, u64 offset, u16 cols, u16 rows, u32 len, u32 crc of the data, u32 crc of these 36 */
#define ROW            80 /* of the table: u64 place of the entry, the entry's 40 bytes, digest of the screen */
#define END            56 /* magic, u32 screens, u32 zero, u64 place of the table, root */
#define TABLE_MAX      ((size_t)64 * 1024 * 1024)
#define PURPOSE_SCREEN "muxd keyframe 1"
#define PURPOSE_ROOT   "muxd keyframes 1"

_Static_assert(KEYFRAMES_HEAD == HEAD, "a writer and a reader keep the file's first bytes");

int keyframes_path(const char *recording, char out[FILE_PATH_MAX], struct err *e)
{
	size_t n = strlen(recording);

	if (n < 5 || strcmp(recording + n - 5, ".mrec") != 0)
		return err_set(e, ERR_INVAL, "not the path of a recording: %.200s", recording);
	return file_path(out, e, "%.*s.mkey", (int)(n - 5), recording);
}

static void head_encode(uint8_t out[HEAD], const struct id *session, const uint8_t leaf[DIGEST_LEN])
{
	memcpy(out, MAGIC, 8);
	put_u16(out + 8, MAJOR);
	put_u16(out + 10, 0);
	memcpy(out + 12, session->b, sizeof(session->b));
	memcpy(out + 28, leaf, DIGEST_LEN);
}

/* Bound to the recording by its leaf: the same screen of another one has another digest. */
static void screen_digest(const uint8_t head[HEAD], const uint8_t entry[ENTRY], const uint8_t *data, size_t n,
			  uint8_t out[DIGEST_LEN])
{
	struct digest d;

	digest_init(&d);
	digest_update(&d, PURPOSE_SCREEN, sizeof(PURPOSE_SCREEN));
	digest_update(&d, head, HEAD);
	digest_update(&d, entry, ENTRY);
	digest_update(&d, data, n);
	digest_peek(&d, out);
}

static void root_digest(const uint8_t head[HEAD], const uint8_t *table, size_t n, uint8_t out[DIGEST_LEN])
{
	struct digest d;

	digest_init(&d);
	digest_update(&d, PURPOSE_ROOT, sizeof(PURPOSE_ROOT));
	digest_update(&d, head, HEAD);
	digest_update(&d, table, n);
	digest_peek(&d, out);
}

static int keyframes_put(struct keyframes_writer *w, const void *p, size_t n, struct err *e)
{
	int rc = file_write_at(w->fd, p, n, w->pos, w->part, e);

	if (rc)
		return rc;
	digest_update(&w->whole, p, n);
	w->pos += n;
	return 0;
}

int keyframes_begin(struct keyframes_writer *w, const char *recording, const struct id *session,
		    const uint8_t leaf[DIGEST_LEN], struct err *e)
{
	int rc = keyframes_path(recording, w->path, e);

	w->fd = -1;
	w->n = 0;
	w->pos = 0;
	digest_init(&w->whole);
	buf_init(&w->table, TABLE_MAX);
	if (rc == 0)
		rc = file_path(w->recording, e, "%s", recording);
	if (rc == 0)
		rc = file_path(w->part, e, "%s.part", w->path);
	if (rc)
		return rc;
	w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (w->fd < 0)
		return err_sys(e, errno, "cannot make %s", w->part);
	head_encode(w->head, session, leaf);
	rc = keyframes_put(w, w->head, HEAD, e);
	if (rc)
		keyframes_abandon(w);
	return rc;
}

static void entry_encode(uint8_t out[ENTRY], const struct keyframe *k, const uint8_t *data)
{
	put_u64(out, k->ns);
	put_u64(out + 8, k->seq);
	put_u64(out + 16, k->offset);
	put_u16(out + 24, k->cols);
	put_u16(out + 26, k->rows);
	put_u32(out + 28, k->len);
	put_u32(out + 32, crc32_add(0, data, k->len));
	put_u32(out + 36, crc32_add(0, out, 36));
}

static int entry_decode(const uint8_t p[ENTRY], struct keyframe *out, uint32_t *out_crc)
{
	if (crc32_add(0, p, 36) != get_u32(p + 36))
		return ERR_CORRUPT;
	*out = (struct keyframe){.ns = get_u64(p),
				 .seq = get_u64(p + 8),
				 .offset = get_u64(p + 16),
				 .cols = get_u16(p + 24),
				 .rows = get_u16(p + 26),
				 .len = get_u32(p + 28)};
	*out_crc = get_u32(p + 32);
	return out->len <= KEYFRAME_DATA_MAX ? 0 : ERR_CORRUPT;
}

int keyframes_add(struct keyframes_writer *w, const struct keyframe *k, const uint8_t *data, struct err *e)
{
	uint8_t row[ROW];
	int rc;

	put_u64(row, w->pos);
	entry_encode(row + 8, k, data);
	screen_digest(w->head, row + 8, data, k->len, row + 8 + ENTRY);
	rc = keyframes_put(w, row + 8, ENTRY, e);
	if (rc == 0)
		rc = keyframes_put(w, data, k->len, e);
	if (rc)
		return rc;
	if (buf_append(&w->table, row, ROW))
		return err_set(e, ERR_TOO_LARGE, "%s has too many screens", w->part);
	w->n++;
	return 0;
}

static int put_end(struct keyframes_writer *w, struct keyframes_digest *out, struct err *e)
{
	uint8_t end[END] = MAGIC_END;
	uint64_t table = w->pos;
	int rc = keyframes_put(w, buf_ptr(&w->table), buf_len(&w->table), e);

	put_u32(end + 8, w->n);
	put_u64(end + 16, table);
	root_digest(w->head, buf_ptr(&w->table), buf_len(&w->table), end + 24);
	if (rc == 0)
		rc = keyframes_put(w, end, END, e);
	if (rc)
		return rc;
	*out = (struct keyframes_digest){.size = w->pos, .n = w->n};
	memcpy(out->leaf, w->head + 28, DIGEST_LEN);
	memcpy(out->root, end + 24, DIGEST_LEN);
	digest_peek(&w->whole, out->sha256);
	return 0;
}

int keyframes_end(struct keyframes_writer *w, struct keyframes_digest *out, struct err *e)
{
	int rc = put_end(w, out, e);

	if (rc == 0)
		rc = file_sync(w->fd, w->part, e);
	if (rc == 0 && rename(w->part, w->path) < 0)
		rc = err_sys(e, errno, "cannot rename %s", w->part);
	/* Looked at after: retention removes the recording first and what is beside it then. */
	if (rc == 0 && access(w->recording, F_OK) != 0) {
		(void)unlink(w->path);
		rc = err_set(e, ERR_NOT_FOUND, "%s was removed meanwhile", w->recording);
	}
	if (rc) {
		keyframes_abandon(w);
		return rc;
	}
	close(w->fd);
	w->fd = -1;
	buf_finish(&w->table);
	return 0;
}

void keyframes_abandon(struct keyframes_writer *w)
{
	if (w->fd < 0)
		return;
	close(w->fd);
	w->fd = -1;
	buf_finish(&w->table);
	(void)unlink(w->part);
}

/* ---- reading */

static int damaged(const struct keyframes_reader *f, const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: %s", f->path, what);
}

/* Nothing in it is believed before its root is the one that is expected. */
static int keyframes_load(struct keyframes_reader *f, uint64_t size, const struct id *session,
			  const uint8_t root[DIGEST_LEN], struct err *e)
{
	uint8_t end[END], want[HEAD], have[DIGEST_LEN], *p;
	uint64_t table;

	if (size < HEAD + END || file_read_at(f->fd, f->head, HEAD, 0, f->path, NULL) ||
	    file_read_at(f->fd, end, END, size - END, f->path, NULL) || memcmp(end, MAGIC_END, 8) != 0)
		return damaged(f, "no file of keyframes", e);
	head_encode(want, session, f->head + 28);
	put_u16(want + 10, get_u16(f->head + 10)); /* any minor */
	if (memcmp(f->head, want, HEAD) != 0)
		return damaged(f, "no file of keyframes of its recording", e);
	f->n = get_u32(end + 8);
	table = get_u64(end + 16);
	if ((uint64_t)f->n * ROW > TABLE_MAX || table > size - END || size - END - table != (uint64_t)f->n * ROW)
		return damaged(f, "its table does not fit", e);
	if (buf_reserve(&f->table, (size_t)f->n * ROW + 1, &p))
		return err_set(e, ERR_NOMEM, "no room for keyframes");
	if (file_read_at(f->fd, p, (size_t)f->n * ROW, table, f->path, NULL))
		return damaged(f, "its table cannot be read", e);
	buf_commit(&f->table, (size_t)f->n * ROW);
	root_digest(f->head, p, (size_t)f->n * ROW, have);
	return memcmp(have, root, DIGEST_LEN) == 0 ? 0 : damaged(f, "it is not what was drawn", e);
}

/* The row of the last screen at or before ns; NULL: none. Rows are in order of time. */
static const uint8_t *row_at(const struct keyframes_reader *f, uint64_t ns)
{
	const uint8_t *rows = buf_ptr(&f->table);
	size_t low = 0, high = f->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (get_u64(rows + mid * ROW + 8) <= ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? rows + (low - 1) * ROW : NULL;
}

static int read_screen(const struct keyframes_reader *f, const uint8_t *row, struct keyframe *out, struct buf *data,
		       struct err *e)
{
	uint8_t have[DIGEST_LEN], *p;
	struct keyframe k;
	uint32_t crc;

	if (entry_decode(row + 8, &k, &crc))
		return damaged(f, "its table holds no screen", e);
	if (buf_reserve(data, k.len, &p))
		return err_set(e, ERR_NOMEM, "no room for a keyframe");
	if (file_read_at(f->fd, p, k.len, get_u64(row) + ENTRY, f->path, NULL))
		return damaged(f, "a screen cannot be read", e);
	screen_digest(f->head, row + 8, p, k.len, have);
	if (crc32_add(0, p, k.len) != crc || memcmp(have, row + 8 + ENTRY, DIGEST_LEN) != 0)
		return damaged(f, "a screen is not what was drawn", e);
	buf_commit(data, k.len);
	*out = k;
	return 1;
}

int keyframes_open(struct keyframes_reader *f, const char *recording, const struct id *session,
		   const uint8_t root[DIGEST_LEN], struct err *e)
{
	uint64_t size = 0;

	*f = (struct keyframes_reader){.fd = -1};
	int rc = keyframes_path(recording, f->path, e);
	if (rc)
		return rc;
	rc = file_open_found(f->path, &f->fd, &size, e);
	if (rc == ERR_NOT_FOUND)
		return err_set(e, rc, "the recording has no keyframes");
	if (rc)
		return rc == ERR_NOT_A_FILE ? damaged(f, "no file", e) : rc;
	buf_init(&f->table, TABLE_MAX + 1);
	rc = keyframes_load(f, size, session, root, e);
	if (rc)
		keyframes_close(f);
	return rc;
}

int keyframes_get(const struct keyframes_reader *f, uint32_t i, struct keyframe *out, struct buf *data, struct err *e)
{
	return i < f->n ? read_screen(f, buf_ptr(&f->table) + (size_t)i * ROW, out, data, e) : 0;
}

void keyframes_close(struct keyframes_reader *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
	buf_finish(&f->table);
}

int keyframes_find(const char *recording, const struct id *session, const uint8_t root[DIGEST_LEN], uint64_t ns,
		   struct keyframe *out, struct buf *data, struct err *e)
{
	struct keyframes_reader f;
	const uint8_t *row;
	int rc = keyframes_open(&f, recording, session, root, e);

	if (rc == 0 && (row = row_at(&f, ns)) != NULL)
		rc = read_screen(&f, row, out, data, e);
	keyframes_close(&f);
	return rc;
}
