#include "recorder/keyframes.h"

#include "muxd/base/bytes.h"
#include "muxd/base/crc.h"
#include "muxd/base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC "MUXDKEY\n"
#define MAJOR 1
#define HEAD  28 /* magic, u16 major, u16 minor, session */
#define ENTRY                                                                                                          \
	40 /* u64 ns, u64 seq, u64 offset, u16 cols, u16 rows, u32 len, u32 crc of the data, u32 crc of these 36 */

int keyframes_path(const char *recording, char out[FILE_PATH_MAX], struct err *e)
{
	size_t n = strlen(recording);

	if (n < 5 || strcmp(recording + n - 5, ".mrec") != 0)
		return err_set(e, ERR_INVAL, "not the path of a recording: %.200s", recording);
	return file_path(out, e, "%.*s.mkey", (int)(n - 5), recording);
}

static void head_encode(uint8_t out[HEAD], const struct id *session)
{
	memcpy(out, MAGIC, 8);
	put_u16(out + 8, MAJOR);
	put_u16(out + 10, 0);
	memcpy(out + 12, session->b, sizeof(session->b));
}

int keyframes_begin(struct keyframes_writer *w, const char *recording, const struct id *session, struct err *e)
{
	uint8_t head[HEAD];
	int rc = keyframes_path(recording, w->path, e);

	w->fd = -1;
	w->n = 0;
	w->pos = HEAD;
	if (rc == 0)
		rc = file_path(w->recording, e, "%s", recording);
	if (rc == 0)
		rc = file_path(w->part, e, "%s.part", w->path);
	if (rc)
		return rc;
	w->fd = open(w->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (w->fd < 0)
		return err_sys(e, errno, "cannot make %s", w->part);
	head_encode(head, session);
	rc = file_write_at(w->fd, head, sizeof(head), 0, w->part, e);
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
	uint8_t entry[ENTRY];
	int rc;

	entry_encode(entry, k, data);
	rc = file_write_at(w->fd, entry, sizeof(entry), w->pos, w->part, e);
	if (rc == 0)
		rc = file_write_at(w->fd, data, k->len, w->pos + ENTRY, w->part, e);
	if (rc)
		return rc;
	w->pos += ENTRY + k->len;
	w->n++;
	return 0;
}

int keyframes_end(struct keyframes_writer *w, struct err *e)
{
	int rc = file_sync(w->fd, w->part, e);

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
	return 0;
}

void keyframes_abandon(struct keyframes_writer *w)
{
	if (w->fd < 0)
		return;
	close(w->fd);
	w->fd = -1;
	(void)unlink(w->part);
}

/* Walks the entries; *out_at: where the data of the best one stands, 0: none. */
static int walk(int fd, const char *path, uint64_t size, uint64_t ns, struct keyframe *out, uint32_t *out_crc,
		uint64_t *out_at, struct err *e)
{
	uint8_t entry[ENTRY];
	struct keyframe k;
	uint32_t crc;

	*out_at = 0;
	for (uint64_t pos = HEAD; pos < size; pos += ENTRY + k.len) {
		if (file_read_at(fd, entry, sizeof(entry), pos, path, e) || entry_decode(entry, &k, &crc))
			return err_set(e, ERR_CORRUPT, "%s is damaged at byte %llu", path, (unsigned long long)pos);
		if (k.ns > ns)
			break;
		*out = k;
		*out_crc = crc;
		*out_at = pos + ENTRY;
	}
	return 0;
}

static int check_head(int fd, const char *path, const struct id *session, struct err *e)
{
	uint8_t head[HEAD], want[HEAD];
	int rc = file_read_at(fd, head, sizeof(head), 0, path, e);

	if (rc)
		return err_set(e, ERR_CORRUPT, "%s is no file of keyframes", path);
	head_encode(want, session);
	put_u16(head + 10, 0); /* any minor */
	return memcmp(head, want, sizeof(head)) == 0
		   ? 0
		   : err_set(e, ERR_CORRUPT, "%s is no file of keyframes of its recording", path);
}

static int read_data(int fd, const char *path, uint64_t at, const struct keyframe *k, uint32_t crc, struct buf *data,
		     struct err *e)
{
	uint8_t *p;
	int rc = buf_reserve(data, k->len, &p);

	if (rc)
		return err_set(e, rc, "no room for a keyframe");
	rc = file_read_at(fd, p, k->len, at, path, e);
	if (rc || crc32_add(0, p, k->len) != crc)
		return err_set(e, ERR_CORRUPT, "%s is damaged at byte %llu", path, (unsigned long long)at);
	buf_commit(data, k->len);
	return 1;
}

int keyframes_find(const char *recording, const struct id *session, uint64_t ns, struct keyframe *out, struct buf *data,
		   struct err *e)
{
	char path[FILE_PATH_MAX];
	struct keyframe k;
	uint64_t size, at = 0;
	uint32_t crc = 0;
	int fd, rc = keyframes_path(recording, path, e);

	if (rc)
		return rc;
	rc = file_open_found(path, &fd, &size, e);
	if (rc)
		return rc == ERR_NOT_FOUND ? err_set(e, rc, "the recording has no keyframes") : rc;
	rc = check_head(fd, path, session, e);
	if (rc == 0)
		rc = walk(fd, path, size, ns, &k, &crc, &at, e);
	if (rc == 0 && at)
		rc = read_data(fd, path, at, &k, crc, data, e);
	if (rc == 1)
		*out = k;
	close(fd);
	return rc;
}
