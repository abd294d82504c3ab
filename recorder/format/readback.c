#include "recorder/format/readback.h"

#include "base/err.h"
#include "recorder/chain/file.h"
#include "recorder/format/format.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reading {
	struct readback *r;
	const char *path;
	int fd;
	uint64_t end;
	uint8_t *bytes; /* of one block, hash included */
	size_t cap;
};

/* Of a file that is there under its name. */
static int same_file(const struct reading *g, int writer, struct err *e)
{
	struct stat mine, its;

	if (fstat(g->fd, &mine) != 0 || (writer >= 0 && fstat(writer, &its) != 0))
		return err_sys(e, errno, "cannot look at %s", g->path);
	if (!S_ISREG(mine.st_mode))
		return err_set(e, ERR_CORRUPT, "%s is no regular file any more", g->path);
	if (writer >= 0 && (mine.st_dev != its.st_dev || mine.st_ino != its.st_ino))
		return err_set(e, ERR_CORRUPT, "%s was replaced by another file", g->path);
	if ((uint64_t)mine.st_size < g->end)
		return err_set(e, ERR_CORRUPT, "%s ends at byte %llu, written were %" PRIu64, g->path,
			       (unsigned long long)mine.st_size, g->end);
	return 0;
}

static int reserve(struct reading *g, size_t n, struct err *e)
{
	uint8_t *grown;

	if (n <= g->cap)
		return 0;
	grown = realloc(g->bytes, n);
	if (!grown)
		return err_set(e, ERR_NOMEM, "no memory to read a recording back");
	g->bytes = grown;
	g->cap = n;
	return 0;
}

static int changed(const struct reading *g, uint64_t from, uint64_t to, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: bytes %" PRIu64 " to %" PRIu64 " are not what was written", g->path, from,
		       to);
}

static int read_header(struct reading *g, struct err *e)
{
	uint8_t front[FORMAT_HEADER_MIN];
	size_t n = 0;
	int rc = file_read_at(g->fd, front, sizeof front, 0, g->path, e);

	if (!rc && (format_header_size(front, &n, NULL) || n > g->end))
		rc = changed(g, 0, sizeof front, e);
	if (!rc)
		rc = reserve(g, n, e);
	if (!rc)
		rc = file_read_at(g->fd, g->bytes, n, 0, g->path, e);
	if (rc || !g->bytes)
		return rc;
	format_header_hash(g->bytes, n - DIGEST_LEN, g->r->hash);
	if (memcmp(g->r->hash, g->bytes + n - DIGEST_LEN, DIGEST_LEN) != 0)
		return changed(g, 0, n, e);
	g->r->pos = n;
	return 0;
}

static int read_block(struct reading *g, struct err *e)
{
	uint64_t pos = g->r->pos, left = g->end - pos, size;
	uint8_t head[BLOCK_HEADER], hash[DIGEST_LEN];
	struct block_header h;
	int rc;

	if (left < BLOCK_HEADER + BLOCK_HASH)
		return changed(g, pos, g->end, e);
	rc = file_read_at(g->fd, head, sizeof head, pos, g->path, e);
	if (rc)
		return rc;
	if (block_header_decode(head, &h) || (size = block_size(&h)) > left || h.type == BLOCK_INDEX)
		return changed(g, pos, pos + BLOCK_HEADER, e);
	rc = reserve(g, (size_t)size, e);
	if (!rc)
		rc = file_read_at(g->fd, g->bytes, (size_t)size, pos, g->path, e);
	if (rc)
		return rc;
	digest_link(g->r->hash, g->bytes, BLOCK_HEADER, g->bytes + BLOCK_HEADER, h.stored_len, hash);
	if (memcmp(hash, g->bytes + size - DIGEST_LEN, DIGEST_LEN) != 0)
		return changed(g, pos, pos + size, e);
	memcpy(g->r->hash, hash, DIGEST_LEN);
	g->r->pos = pos + size;
	return 0;
}

static int readback_read_all(struct reading *g, const uint8_t hash[DIGEST_LEN], struct err *e)
{
	int rc = 0;

	/* What is synced is read from the disk, not from what the kernel remembers of it; a hint, and no more. */
	(void)posix_fadvise(g->fd, (off_t)g->r->pos, (off_t)(g->end - g->r->pos), POSIX_FADV_DONTNEED);
	if (g->r->pos == 0)
		rc = read_header(g, e);
	while (!rc && g->r->pos < g->end)
		rc = read_block(g, e);
	if (!rc && memcmp(g->r->hash, hash, DIGEST_LEN) != 0)
		rc = err_set(e, ERR_CORRUPT, "%s is whole in itself, and not what was written", g->path);
	/* What the disk does not give back is not there, whatever the reason. */
	return rc == ERR_EOF || rc == ERR_SYS ? ERR_CORRUPT : rc;
}

static int open_it(const char *path, int *out, struct err *e)
{
	*out = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (*out >= 0)
		return 0;
	if (errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "%s is gone", path);
	return errno == ELOOP ? err_set(e, ERR_CORRUPT, "%s is a link", path)
			      : err_sys(e, errno, "cannot open %s", path);
}

int readback_to(struct readback *r, const char *path, int fd, uint64_t end, const uint8_t hash[DIGEST_LEN],
		struct err *e)
{
	struct reading g = {.r = r, .path = path, .end = end};
	int rc = open_it(path, &g.fd, e);

	if (!rc)
		rc = same_file(&g, fd, e);
	if (!rc)
		rc = readback_read_all(&g, hash, e);
	if (g.fd >= 0)
		close(g.fd);
	free(g.bytes);
	if (rc)
		*r = (struct readback){.pos = 0};
	return rc;
}

int readback_farthest(const char *path, const struct readback *places, size_t n, size_t *out, struct err *e)
{
	struct readback r = {.pos = 0};
	struct reading g = {.r = &r, .path = path};
	int rc = open_it(path, &g.fd, e), found = ERR_NOT_FOUND;

	if (!rc)
		rc = same_file(&g, -1, e);
	if (!rc)
		rc = file_size(g.fd, path, &g.end, e);
	for (rc = rc ? rc : read_header(&g, e); !rc; rc = read_block(&g, e)) {
		for (size_t i = 0; i < n; i++) {
			if (places[i].pos != r.pos || memcmp(places[i].hash, r.hash, DIGEST_LEN) != 0)
				continue;
			*out = i;
			found = 0;
		}
	}
	if (g.fd >= 0)
		close(g.fd);
	free(g.bytes);
	return rc == ERR_NOMEM ? rc : found;
}
