// tier: check
/*
 * A file of the chain log from anybody: read, verified, and opened for writing as
 * after a crash. Once as it is, once with its checksums put right. What the writer
 * accepts or cuts, it must be able to go on with.
 */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/sign.h"
#include "recorder/verify/verify.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *p, size_t n)
{
	size_t at = CHAIN_FILE_HEADER;

	if (n < CHAIN_FILE_HEADER)
		return;
	put_u32(p + 80, crc32_add(0, p, 80));
	while (n - at >= CHAIN_ENTRY_HEADER + CHAIN_HASH) {
		size_t room = n - at - CHAIN_ENTRY_HEADER - CHAIN_HASH;
		uint32_t len = get_u32(p + at + 8);

		if (len > room)
			put_u32(p + at + 8, len = (uint32_t)room);
		put_u32(p + at + 60, crc32_add(0, p + at, 60));
		at += CHAIN_ENTRY_HEADER + len + CHAIN_HASH;
	}
}

static void spill(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	close(fd);
}

static void count(void *arg, const struct verify_finding *f)
{
	(void)arg;
	if (!f->message[0] || !f->code[0])
		abort();
}

static void count_key(void *arg, const struct verify_key *k)
{
	(void)arg;
	if (strlen(k->kid) != 16 || (k->head && k->origin != VERIFY_KEY_STRANGER && !k->head_kid[0]))
		abort();
}

static void read_all(const char *dir)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct chain_seal seal;
	struct chain_head head;
	struct err e;
	int rc;

	if (chain_reader_create(dir, 0, &r, NULL))
		abort();
	while ((rc = chain_reader_next(r, &en, &e)) == 1 || rc == ERR_CORRUPT) {
		if (rc == 1) {
			(void)chain_entry_seal(&en, &seal);
			(void)chain_entry_head(r, &en, &head);
		}
	}
	chain_reader_destroy(r);
}

static void one_log(const char *dir, const char *file, const struct signer *s, const uint8_t *data, size_t size)
{
	struct grant_public_key key = *signer_public(s);
	struct grant_keyset keys = {&key, 1};
	struct verify_summary sum;
	struct chain *c = NULL;
	struct err e;

	spill(file, data, size);
	read_all(dir);
	(void)verify_all(&(struct verify_ask){.dir = dir, .keys = &keys, .sink = count, .key = count_key}, &sum, &e);
	if (chain_open(dir, s, &c, NULL, &e) == 0) {
		if (chain_sign_head(c, 1, &e))
			abort();
		chain_close(c);
		c = NULL;
		/* What it has settled itself it accepts again, and cuts nothing. */
		uint64_t cut = 1;
		if (chain_open(dir, s, &c, &cut, &e) || cut)
			abort();
		chain_close(c);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t seed[GRANT_KEY_LEN] = {7};
	char dir[] = "/tmp/muxd-fuzz-XXXXXX", path[64], file[96], torn[96];
	struct signer *s = NULL;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy || !mkdtemp(dir) || signer_create(seed, &s, NULL))
		abort();
	snprintf(path, sizeof path, "%s/chain", dir);
	snprintf(file, sizeof file, "%s/00000001.mchain", path);
	snprintf(torn, sizeof torn, "%s/00000001.torn", path);
	if (mkdir(path, 0700))
		abort();
	one_log(dir, file, s, data, size);
	if (size)
		memcpy(copy, data, size);
	mend(copy, size);
	one_log(dir, file, s, copy, size);
	unlink(file);
	unlink(torn);
	if (rmdir(path) || rmdir(dir))
		abort();
	signer_destroy(s);
	free(copy);
	return 0;
}
