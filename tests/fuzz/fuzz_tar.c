// tier: check
/* Archives of trees: read in pieces of any size it is the same, what may be unpacked stays below, and comes back as
 * written. */
#include "files/tar.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void below(const char *path)
{
	must(*path != '/');
	while (*path) {
		size_t n = strcspn(path, "/");

		must(n && n <= 255 && !(n == 1 && *path == '.') && !(n == 2 && path[0] == '.' && path[1] == '.'));
		path += n;
		path += *path == '/';
	}
}

/* An entry that was written is read as it was. */
static void again(const struct tar_entry *e)
{
	static struct tar_reader r;
	static uint8_t head[TAR_HEAD_MAX];
	enum tar_event event = TAR_MORE;
	size_t used, n = tar_write(e, head);

	must(n <= TAR_HEAD_MAX && n % TAR_BLOCK == 0);
	memset(&r, 0, sizeof(r));
	must(tar_read(&r, head, n, &used, &event) == 0 && event == TAR_ENTRY && used == n);
	must(r.entry.type == e->type && r.entry.size == e->size && r.entry.mode == e->mode);
	must(strcmp(r.entry.path, e->path) == 0 && strcmp(r.entry.target, e->target) == 0);
}

static uint64_t mix(uint64_t sum, uint64_t v)
{
	return (sum ^ v) * UINT64_C(0x100000001b3);
}

/* In pieces of `step` bytes; what came of it as one number. */
static uint64_t read_all(const uint8_t *data, size_t size, size_t step, bool check)
{
	static struct tar_reader r;
	static struct tar_entry e;
	uint64_t sum = 7, bytes = 0;
	size_t at = 0;

	memset(&r, 0, sizeof(r));
	while (at < size) {
		size_t used, n = size - at < step ? size - at : step;
		enum tar_event event;

		if (tar_read(&r, data + at, n, &used, &event)) {
			must(r.why && r.state == TAR_BROKEN);
			return mix(sum, 99);
		}
		must(used <= n && (used || event != TAR_MORE));
		at += used;
		if (event == TAR_DATA) {
			must(r.data_n && r.data >= data && r.data + r.data_n <= data + size);
			bytes += r.data_n;
			for (size_t i = 0; i < r.data_n; i++)
				sum = mix(sum, r.data[i]);
		} else if (event != TAR_MORE) {
			sum = mix(sum, event);
		}
		if (event == TAR_ENTRY_END)
			must(bytes == r.entry.size);
		if (event != TAR_ENTRY)
			continue;
		bytes = 0;
		e = r.entry;
		if (!check || tar_check(&e))
			continue;
		below(e.path);
		if (e.type == TAR_HARDLINK)
			below(e.target);
		must(e.type != TAR_SYMLINK || *e.target != '/');
		must(e.type != TAR_FILE || !(e.mode & 06000));
		if (e.type == TAR_FILE || e.type == TAR_SYMLINK)
			again(&e);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole;

	if (size > 256 * 1024)
		return 0;
	whole = read_all(data, size, size ? size : 1, true);
	must(read_all(data, size, 1, false) == whole);
	must(read_all(data, size, 511, false) == whole);
	return 0;
}
