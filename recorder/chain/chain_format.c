#include "recorder/chain/chain_format.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/list.h"
#include "recorder/chain/chain_text.h"
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
    [CHAIN_AUDIT] = {true, true, false},  [CHAIN_SEAL] = {true, true, false},   [CHAIN_TOMBSTONE] = {true, true, true},
    [CHAIN_HEAD] = {true, true, true},    [CHAIN_KEY] = {true, true, true},     [CHAIN_DIGEST] = {true, false, true},
    [CHAIN_ANCHOR] = {true, false, true}, [CHAIN_HOLD] = {true, true, true},    [CHAIN_PART] = {true, false, true},
    [CHAIN_HOLE] = {true, false, true},   [CHAIN_MERGED] = {true, false, true},
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

/* Heads and seals outside of the log: JSON, hex, base64url. */

void chain_hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", p[i]);
}

int chain_unhex(const char *s, uint8_t *out, size_t n)
{
	if (strlen(s) != 2 * n)
		return ERR_INVAL;
	for (size_t i = 0; i < n; i++) {
		int high = hex_value_small(s[2 * i]), low = hex_value_small(s[2 * i + 1]);
		if (high < 0 || low < 0)
			return ERR_INVAL;
		out[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

char *chain_head_export(const struct chain_head *h)
{
	char id[ID_STR_LEN], hash[2 * CHAIN_HASH + 1], wall[40];
	char *signature = base64_encode(h->signature, sizeof h->signature, true), *text = NULL;
	json_t *o = NULL;

	id_format(&h->log_id, id);
	chain_hex(h->hash, CHAIN_HASH, hash);
	clock_format_utc(h->wall_ns, wall, sizeof wall);
	/* wall is for people; the signature covers wall_ns. */
	if (signature)
		o = json_pack("{s:s, s:I, s:s, s:s, s:I, s:s, s:s}", "log_id", id, "seq", (json_int_t)h->seq, "hash",
			      hash, "wall", wall, "wall_ns", (json_int_t)h->wall_ns, "kid", h->kid, "signature",
			      signature);
	if (o)
		text = json_text(o);
	json_decref(o);
	free(signature);
	return text;
}

static int take_signature(const char *text, struct chain_head *h)
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = base64_decode(text, strlen(text), true, &p, &n);

	if (!rc && n != sizeof h->signature)
		rc = ERR_INVAL;
	if (!rc)
		memcpy(h->signature, p, n);
	free(p);
	return rc;
}

int chain_head_import(const char *text, size_t len, struct chain_head *out, struct err *e)
{
	const char *id = NULL, *hash = NULL, *kid = NULL, *signature = NULL;
	struct chain_head h;
	int64_t seq = 0, wall = 0;
	json_t *o = NULL;
	int rc = json_parse(text, len, 4096, &o, e);

	memset(&h, 0, sizeof h);
	if (!rc)
		rc = json_need_str(o, "log_id", &id, e);
	if (!rc)
		rc = json_need_int(o, "seq", 0, INT64_MAX, &seq, e);
	if (!rc)
		rc = json_need_str(o, "hash", &hash, e);
	if (!rc)
		rc = json_need_int(o, "wall_ns", INT64_MIN, INT64_MAX, &wall, e);
	if (!rc)
		rc = json_need_str(o, "kid", &kid, e);
	if (!rc)
		rc = json_need_str(o, "signature", &signature, e);
	if (!rc && (id_parse(id, &h.log_id) || chain_unhex(hash, h.hash, CHAIN_HASH) || strlen(kid) != 16 ||
		    take_signature(signature, &h)))
		rc = err_set(e, ERR_INVAL, "this is not an exported head: log_id, hash, kid or signature is malformed");
	if (!rc) {
		h.seq = (uint64_t)seq;
		h.wall_ns = wall;
		memcpy(h.kid, kid, 17);
		*out = h;
	}
	json_decref(o);
	return rc;
}

json_t *chain_seal_json(const struct chain_seal *s)
{
	char leaf[2 * CHAIN_HASH + 1];

	chain_hex(s->leaf, CHAIN_HASH, leaf);
	return json_pack("{s:s, s:s, s:I}", "leaf", leaf, "day", s->day, "size", (json_int_t)s->size);
}

static bool day_valid(const char *day)
{
	if (strlen(day) != 10 || day[4] != '-' || day[7] != '-')
		return false;
	for (int i = 0; i < 10; i++)
		if (i != 4 && i != 7 && (day[i] < '0' || day[i] > '9'))
			return false;
	return true;
}

int chain_entry_seal(const struct chain_entry *en, struct chain_seal *out)
{
	const char *leaf = NULL, *day = NULL;
	struct chain_seal s;
	int64_t size = 0;
	json_t *o = NULL;
	int rc;

	if (en->type != CHAIN_SEAL && en->type != CHAIN_TOMBSTONE)
		return ERR_CORRUPT;
	memset(&s, 0, sizeof s);
	rc = json_parse(en->payload, en->len, CHAIN_PAYLOAD_MAX, &o, NULL);
	if (!rc)
		rc = json_need_str(o, "leaf", &leaf, NULL);
	if (!rc)
		rc = json_need_str(o, "day", &day, NULL);
	if (!rc)
		rc = json_need_int(o, "size", 0, INT64_MAX, &size, NULL);
	if (!rc && (chain_unhex(leaf, s.leaf, CHAIN_HASH) || !day_valid(day)))
		rc = ERR_CORRUPT;
	if (!rc) {
		s.session = en->session;
		s.journal_seq = en->journal_seq;
		s.size = (uint64_t)size;
		memcpy(s.day, day, sizeof s.day);
		*out = s;
	}
	json_decref(o);
	return rc ? ERR_CORRUPT : 0;
}

int chain_entry_json(const struct chain_entry *en, json_t **out)
{
	json_t *o = NULL;

	if (json_parse(en->payload, en->len, CHAIN_PAYLOAD_MAX, &o, NULL) || !json_is_object(o)) {
		json_decref(o);
		return ERR_CORRUPT;
	}
	*out = o;
	return 0;
}

int chain_entry_key(const struct chain_entry *en, struct grant_public_key *out)
{
	const char *kid = NULL, *key = NULL;
	char own[17];
	uint8_t *p = NULL;
	size_t n = 0;
	json_t *o = NULL;
	int rc = en->type == CHAIN_KEY ? json_parse(en->payload, en->len, CHAIN_PAYLOAD_MAX, &o, NULL) : ERR_CORRUPT;

	if (!rc)
		rc = json_need_str(o, "kid", &kid, NULL);
	if (!rc)
		rc = json_need_str(o, "public_key", &key, NULL);
	if (!rc)
		rc = base64_decode(key, strlen(key), true, &p, &n);
	if (!rc && (n != GRANT_KEY_LEN || grant_key_id(p, own) || strcmp(kid, own) != 0))
		rc = ERR_CORRUPT;
	if (!rc) {
		memcpy(out->kid, kid, 17);
		memcpy(out->key, p, GRANT_KEY_LEN);
	}
	free(p);
	json_decref(o);
	return rc ? ERR_CORRUPT : 0;
}

uint64_t chain_entry_foreign(const struct chain_entry *en)
{
	int64_t entry = 0;
	json_t *o = NULL;

	if (chain_entry_json(en, &o) == 0)
		(void)json_opt_int(o, "foreign", 0, INT64_MAX, &entry, NULL); /* malformed: as absent */
	json_decref(o);
	return (uint64_t)entry;
}
