// tier: check
/*
 * What the last look left, as a survey reads it: a program of the same user might have written there. The first byte
 * says how much of the rest is the head, which is made right when that is 0; entries come behind it. Reading ends,
 * paths are bounded and whole, and what was read is read again as the same when it is written anew.
 */
#include "muxd/muxlet/manifest.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_write(int fd, const void *p, size_t n, uint64_t at)
{
	if (write_at(fd, p, n, at))
		abort();
}

/* The entries of m, which go into `to`, or are those of it. How many. */
static size_t fuzz_read(struct manifest *m, struct manifest *to, bool writes, size_t most)
{
	size_t n = 0;
	int rc;

	while ((rc = manifest_next(m)) == 1) {
		size_t len = strnlen(m->path, PATH_MAX);

		if (!len || len == PATH_MAX || ++n > most)
			abort();
		if (writes && manifest_add(to, m->path, &m->entry))
			abort();
		if (!writes && (manifest_next(to) != 1 || strcmp(m->path, to->path) != 0 ||
				memcmp(&m->entry, &to->entry, sizeof(m->entry)) != 0))
			abort();
	}
	if (!writes && rc == 0 && manifest_next(to) != 0)
		abort();
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct manifest old, new, again;
	size_t head = size ? data[0] : 0, most = size / sizeof(struct record) + 1, n;
	bool found;
	int fd;

	if (size <= 1 + head)
		return 0;
	fd = manifest_make(0);
	if (fd < 0)
		abort();
	if (head)
		fuzz_write(fd, data + 1, head, 0);
	else
		fuzz_write(fd, &(struct look){1, size - 1}, sizeof(struct look), offsetof(struct manifest_head, look));
	for (unsigned slot = 0; slot < 2; slot++)
		fuzz_write(fd, data + 1 + head, size - 1 - head, place(slot));
	if (manifest_open(fd, 1, &old, &found, &new) == 0 && found && old.end <= 4 * size) { /* holes have no end */
		again = old;
		n = fuzz_read(&old, &new, true, most);
		if (manifest_close(&new, 2) || manifest_open(fd, 2, &new, &found, &old) || !found)
			abort();
		if (fuzz_read(&again, &new, false, most) != n)
			abort();
	}
	close(fd);
	return 0;
}
