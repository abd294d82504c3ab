#include "muxd/muxlet/manifest.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x3154534546494e4d) /* "MNIFEST1" */
#define HEAD  4096

struct look {
	uint64_t number, bytes; /* number 0: there is none */
};

struct manifest_head {
	uint64_t magic;
	int64_t began_ns;
	struct look look[2];
};

/* Before the rest of a path. */
struct record {
	struct manifest_entry entry;
	uint16_t shared, rest;
	uint32_t unused;
};

static int write_at(int fd, const void *p, size_t n, uint64_t at)
{
	while (n) {
		ssize_t done = pwrite(fd, p, n, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? errno : EIO;
		p = (const uint8_t *)p + done;
		n -= (size_t)done;
		at += (size_t)done;
	}
	return 0;
}

static int read_head(int fd, struct manifest_head *out)
{
	return pread(fd, out, sizeof(*out), 0) == sizeof(*out) && out->magic == MAGIC ? 0 : EBADMSG;
}

static uint64_t place(unsigned slot)
{
	return HEAD + (uint64_t)slot * MANIFEST_MAX;
}

int manifest_make(int64_t began_ns)
{
	struct manifest_head h = {.magic = MAGIC, .began_ns = began_ns};
	int fd = memfd_create("manifest", MFD_CLOEXEC), err;

	if (fd < 0)
		return -1;
	err = write_at(fd, &h, sizeof(h), 0);
	if (!err)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

int manifest_began(int fd, int64_t *out_ns)
{
	struct manifest_head h;
	int err = read_head(fd, &h);

	if (!err)
		*out_ns = h.began_ns;
	return err;
}

/* Which of the two is compared with; 2: none. */
static unsigned choose(const struct manifest_head *h, uint64_t have)
{
	uint64_t a = h->look[0].number, b = h->look[1].number;

	if (have && (a == have || b == have))
		return a == have ? 0 : 1;
	if (!a || !b)
		return a ? 0 : b ? 1 : 2;
	return a < b ? 0 : 1;
}

static int write_look(int fd, unsigned slot, const struct look *l)
{
	return write_at(fd, l, sizeof(*l), offsetof(struct manifest_head, look) + slot * sizeof(*l));
}

int manifest_open(int fd, uint64_t have, struct manifest *out_old, bool *out_found, struct manifest *out_new)
{
	struct manifest_head h;
	int err = read_head(fd, &h);
	unsigned slot;

	if (err)
		return err;
	slot = choose(&h, have);
	*out_found = slot < 2;
	if (*out_found) {
		*out_old = (struct manifest){.fd = fd, .slot = slot, .end = h.look[slot].bytes};
		if (out_old->end > MANIFEST_MAX)
			return EBADMSG;
	}
	*out_new = (struct manifest){.fd = fd, .slot = slot == 0};
	return write_look(fd, out_new->slot, &(struct look){0});
}

/* n bytes of it to p. */
static int manifest_take(struct manifest *m, void *p, size_t n)
{
	while (n) {
		size_t here = m->filled - m->taken < n ? m->filled - m->taken : n;

		if (!here) {
			size_t want = m->end - m->at < sizeof(m->buf) ? m->end - m->at : sizeof(m->buf);
			ssize_t got = want ? pread(m->fd, m->buf, want, (off_t)(place(m->slot) + m->at)) : 0;

			if (got <= 0)
				return -1;
			m->at += (size_t)got;
			m->filled = (size_t)got;
			m->taken = 0;
			continue;
		}
		memcpy(p, m->buf + m->taken, here);
		m->taken += here;
		p = (uint8_t *)p + here;
		n -= here;
	}
	return 0;
}

int manifest_next(struct manifest *m)
{
	struct record r;

	if (m->at == m->end && m->taken == m->filled)
		return 0;
	if (manifest_take(m, &r, sizeof(r)) || !r.rest || r.shared > strlen(m->path) || r.shared + r.rest >= PATH_MAX ||
	    manifest_take(m, m->path + r.shared, r.rest))
		return -1;
	m->path[r.shared + r.rest] = '\0';
	if (strlen(m->path) != (size_t)r.shared + r.rest) /* no name has a NUL in it */
		return -1;
	m->entry = r.entry;
	return 1;
}

static int flush(struct manifest *m)
{
	int err = write_at(m->fd, m->buf, m->filled, place(m->slot) + m->bytes - m->filled);

	m->filled = 0;
	return err;
}

static int manifest_put(struct manifest *m, const void *p, size_t n)
{
	int err = n > sizeof(m->buf) - m->filled ? flush(m) : 0;

	if (err)
		return err;
	memcpy(m->buf + m->filled, p, n);
	m->filled += n;
	m->bytes += n;
	return 0;
}

int manifest_add(struct manifest *m, const char *path, const struct manifest_entry *e)
{
	struct record r = {.entry = *e};
	size_t n = strlen(path), shared = 0;
	int err;

	while (shared < n && m->path[shared] == path[shared])
		shared++;
	if (shared == n) /* no path is the beginning of the one before */
		shared = n - 1;
	r.shared = (uint16_t)shared;
	r.rest = (uint16_t)(n - shared);
	if (m->bytes + sizeof(r) + r.rest > MANIFEST_MAX)
		return EFBIG;
	err = manifest_put(m, &r, sizeof(r));
	if (!err)
		err = manifest_put(m, path + shared, r.rest);
	memcpy(m->path, path, n + 1);
	return err;
}

int manifest_close(struct manifest *m, uint64_t look)
{
	int err = flush(m);

	return err ? err : write_look(m->fd, m->slot, &(struct look){.number = look, .bytes = m->bytes});
}

static int rank(char c)
{
	return c == '/' ? 1 : c ? 2 + (unsigned char)c : 0;
}

int manifest_order(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return rank(*a) - rank(*b);
}
