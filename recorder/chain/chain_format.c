#include "recorder/chain/chain_format.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/sign.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAGIC  "MUXDCHN\n"
#define ENTRY_MAGIC UINT32_C(0x544e454d) /* "MENT" */
#define FILE_CRC    80
#define ENTRY_CRC   60
#define GENESIS     "muxd chain 1"

void chain_file_encode(const struct chain_file_header *h, uint8_t out[CHAIN_FILE_HEADER])
{
	memcpy(out, FILE_MAGIC, 8);
	put_u16(out + 8, CHAIN_MAJOR);
	put_u16(out + 10, CHAIN_MINOR);
	put_u32(out + 12, h->number);
	memcpy(out + 16, h->log_id.b, 16);
	put_u64(out + 32, h->first_seq);
	put_u64(out + 40, h->audit_seq);
	memcpy(out + 48, h->prev, CHAIN_HASH);
	put_u32(out + FILE_CRC, crc32_add(0, out, FILE_CRC));
	put_u32(out + FILE_CRC + 4, 0);
}

int chain_file_decode(const uint8_t p[CHAIN_FILE_HEADER], struct chain_file_header *out)
{
	if (memcmp(p, FILE_MAGIC, 8) != 0 || get_u32(p + FILE_CRC) != crc32_add(0, p, FILE_CRC) ||
	    get_u32(p + FILE_CRC + 4) != 0)
		return ERR_CORRUPT;
	if (get_u16(p + 8) != CHAIN_MAJOR)
		return ERR_VERSION;
	out->number = get_u32(p + 12);
	memcpy(out->log_id.b, p + 16, 16);
	out->first_seq = get_u64(p + 32);
	out->audit_seq = get_u64(p + 40);
	memcpy(out->prev, p + 48, CHAIN_HASH);
	return 0;
}

void chain_entry_encode(const struct chain_entry_header *h, uint8_t out[CHAIN_ENTRY_HEADER])
{
	put_u32(out, ENTRY_MAGIC);
	put_u16(out + 4, (uint16_t)(h->type | (h->critical ? CHAIN_CRITICAL : 0)));
	put_u16(out + 6, 0);
	put_u32(out + 8, h->len);
	put_u32(out + 12, 0);
	put_u64(out + 16, h->seq);
	put_u64(out + 24, h->journal_seq);
	put_u64(out + 32, (uint64_t)h->wall_ns);
	memcpy(out + 40, h->session.b, 16);
	put_u32(out + 56, 0);
	put_u32(out + ENTRY_CRC, crc32_add(0, out, ENTRY_CRC));
}

int chain_entry_decode(const uint8_t p[CHAIN_ENTRY_HEADER], struct chain_entry_header *out)
{
	if (get_u32(p) != ENTRY_MAGIC || get_u32(p + ENTRY_CRC) != crc32_add(0, p, ENTRY_CRC) ||
	    get_u32(p + 8) > CHAIN_PAYLOAD_MAX)
		return ERR_CORRUPT;
	out->type = get_u16(p + 4) & ~CHAIN_CRITICAL;
	out->critical = get_u16(p + 4) & CHAIN_CRITICAL;
	out->len = get_u32(p + 8);
	out->seq = get_u64(p + 16);
	out->journal_seq = get_u64(p + 24);
	out->wall_ns = (int64_t)get_u64(p + 32);
	memcpy(out->session.b, p + 40, 16);
	return 0;
}

static const struct {
	bool known, critical, needs_head;
} types[] = {
    [CHAIN_AUDIT] = {true, true, false},  [CHAIN_SEAL] = {true, true, false}, [CHAIN_TOMBSTONE] = {true, true, true},
    [CHAIN_HEAD] = {true, true, true},    [CHAIN_KEY] = {true, true, true},   [CHAIN_DIGEST] = {true, false, true},
    [CHAIN_ANCHOR] = {true, false, true}, [CHAIN_HOLD] = {true, true, true},  [CHAIN_PART] = {true, false, true},
    [CHAIN_HOLE] = {true, false, true},
};
#define TYPES (sizeof types / sizeof types[0])

bool chain_type_known(unsigned type)
{
	return type < TYPES && types[type].known;
}

bool chain_type_critical(unsigned type)
{
	return type < TYPES && types[type].critical;
}

bool chain_type_needs_head(unsigned type)
{
	return type < TYPES && types[type].needs_head;
}

bool chain_type_news(unsigned type)
{
	return type != CHAIN_HEAD && type != CHAIN_ANCHOR;
}

void chain_genesis(const struct id *log_id, uint8_t out[CHAIN_HASH])
{
	static const uint8_t zero[CHAIN_HASH];

	digest_link(zero, GENESIS, sizeof GENESIS, log_id->b, sizeof log_id->b, out);
}

void chain_head_message(const struct chain_head *h, uint8_t out[CHAIN_SIGNED])
{
	memcpy(out, h->log_id.b, 16);
	put_u64(out + 16, h->seq);
	memcpy(out + 24, h->hash, CHAIN_HASH);
	put_u64(out + 56, (uint64_t)h->wall_ns);
}

void chain_head_encode(const struct chain_head *h, uint8_t out[CHAIN_HEAD_PAYLOAD])
{
	put_u64(out, (uint64_t)h->wall_ns);
	memcpy(out + 8, h->kid, 16);
	memcpy(out + 24, h->signature, 64);
}

int chain_head_verify(const struct chain_head *h, const struct grant_keyset *keys)
{
	const struct grant_public_key *key = keyset_find(keys, h->kid);
	uint8_t message[CHAIN_SIGNED];

	if (!key)
		return ERR_NOT_FOUND;
	chain_head_message(h, message);
	return sign_verify(key->key, CHAIN_PURPOSE, message, sizeof message, h->signature);
}

int chain_file_name(const char *dir, unsigned number, const char *ending, char *out, size_t size)
{
	int n = snprintf(out, size, "%s/chain/%08u.%s", dir, number, ending);

	return n < 0 || (size_t)n >= size ? ERR_TOO_LARGE : 0;
}

static bool parse_name(const char *name, unsigned *out)
{
	unsigned long n;
	char *end;

	if (strspn(name, "0123456789") != 8)
		return false;
	n = strtoul(name, &end, 10);
	*out = (unsigned)n;
	return n > 0 && strcmp(end, ".mchain") == 0;
}

static int compare_numbers(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return x < y ? -1 : x > y;
}

int chain_file_list(const char *dir, unsigned **out, size_t *out_n, struct err *e)
{
	char path[4096];
	unsigned *list = NULL, number;
	size_t n = 0;
	struct dirent *de;
	DIR *d;

	if ((size_t)snprintf(path, sizeof path, "%s/chain", dir) >= sizeof path)
		return err_set(e, ERR_TOO_LARGE, "the path %s is too long", dir);
	d = opendir(path);
	if (!d && errno != ENOENT)
		return err_sys(e, errno, "cannot read the folder %s", path);
	while (d && (de = readdir(d))) {
		if (!parse_name(de->d_name, &number))
			continue;
		if (list_append(&list, &n, &number, sizeof number)) {
			free(list);
			closedir(d);
			return err_set(e, ERR_NOMEM, "no memory to list %s", path);
		}
	}
	if (d)
		closedir(d);
	if (n)
		qsort(list, n, sizeof *list, compare_numbers);
	*out = list;
	*out_n = n;
	return 0;
}
