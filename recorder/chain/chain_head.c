/* What heads and seals look like outside of the log: JSON, hex, base64url. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void chain_hex(const uint8_t *p, size_t n, char *out)
{
	for (size_t i = 0; i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", p[i]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int chain_unhex(const char *s, uint8_t *out, size_t n)
{
	if (strlen(s) != 2 * n)
		return ERR_INVAL;
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(s[2 * i]), low = hex_digit(s[2 * i + 1]);
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

int chain_entry_head(const struct chain_reader *r, const struct chain_entry *en, struct chain_head *out)
{
	struct chain_head h;

	if (en->type != CHAIN_HEAD || en->len != CHAIN_HEAD_PAYLOAD || en->seq == 0)
		return ERR_CORRUPT;
	memset(&h, 0, sizeof h);
	h.log_id = *chain_reader_log_id(r);
	h.seq = en->seq - 1;
	memcpy(h.hash, en->prev, CHAIN_HASH);
	h.wall_ns = (int64_t)get_u64(en->payload);
	memcpy(h.kid, en->payload + 8, 16);
	memcpy(h.signature, en->payload + 24, 64);
	*out = h;
	return 0;
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
