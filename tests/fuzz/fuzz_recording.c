// tier: check
/*
 * A recording file from anybody: read, searched, exported and verified. Once as it
 * is, and once with its checksums put right, so that what stands behind them is
 * reached too.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "recorder/chain/sign.h"
#include "recorder/export/export.h"
#include "recorder/format/block.h"
#include "recorder/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENTS_MAX 20000

static void mend(uint8_t *p, size_t n)
{
	size_t at = n >= 16 ? get_u32(p + 12) : n;

	while (at < n && n - at >= BLOCK_HEADER + BLOCK_HASH) {
		uint8_t *b = p + at;
		size_t room = n - at - BLOCK_HEADER - BLOCK_HASH, len;

		block_header_magic(b);
		len = get_u32(b + 20);
		if (len > room) {
			len = room;
			put_u32(b + 20, (uint32_t)len);
		}
		put_u32(b + 96, crc32_add(0, b + BLOCK_HEADER, len));
		put_u32(b + 100, crc32_add(0, b, 100));
		at += BLOCK_HEADER + len + BLOCK_HASH;
		if (b[4] == BLOCK_INDEX)
			break;
	}
}

static int drop(void *arg, const void *p, size_t n, struct err *e)
{
	size_t *left = arg;

	(void)p;
	if (n > *left)
		return err_set(e, ERR_TOO_LARGE, "enough");
	*left -= n;
	return 0;
}

static void read_all(struct recording *r)
{
	struct ring_record rec;
	uint64_t ns = 0;

	for (int i = 0; i < EVENTS_MAX && recording_next(r, &rec, NULL) == 1; i++) {
		ns = rec.boot_ns;
	}
	(void)recording_wall_ns(r, ns);
	(void)recording_seek_time(r, ns / 2, NULL);
	(void)recording_next(r, &rec, NULL);
	for (unsigned s = 0; s < STREAM_COUNT; s++)
		if (recording_seek_offset(r, s, 5, NULL) == 0)
			(void)recording_next(r, &rec, NULL);
}

static int next_of_recording(void *arg, struct ring_record *out, struct err *e)
{
	return recording_next(arg, out, e);
}

static void export_all(struct recording *r)
{
	for (int f = 0; f < EXPORT_FORMATS; f++) {
		struct export_options o = {(enum export_format)f, EXPORT_DEFAULT};
		struct export_result result;
		struct export_source src;
		size_t left = 4 << 20;

		(void)recording_rewind(r, NULL);
		src = (struct export_source){.next = next_of_recording, .arg = r};
		(void)export_run(&src, &o, drop, &left, &result, NULL);
	}
}

static void count(void *arg, const struct verify_finding *f)
{
	(void)arg;
	if (!f->message[0] || !f->code[0])
		abort();
}

static void one_file(const uint8_t *data, size_t size)
{
	static const struct grant_keyset none = {NULL, 0};
	struct recording *r = NULL;
	struct verify_result v;
	struct chain_seal seal;
	char path[64];
	int fd = memfd_create("recording", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (recording_open(path, &r, NULL) == 0) {
		read_all(r);
		export_all(r);
		recording_close(r);
	}
	(void)recording_sealed(path, &seal, NULL);
	/* Nobody gave a key, so nothing sealed may be called intact. */
	if (verify_recording(path, &none, true, count, NULL, &v, NULL) == 0 && v.intact)
		abort();
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	if (size > 1 << 20)
		return 0;
	one_file(data, size);
	copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	mend(copy, size);
	one_file(copy, size);
	free(copy);
	return 0;
}
