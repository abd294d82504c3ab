/* Entries of another log: bytes in a file of their own, and what this log says of them. */
#include "recorder/chain/merged.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/text.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void merged_begin(const struct id *log_id, struct merged_place *out)
{
	*out = (struct merged_place){.log_id = *log_id};
	chain_genesis(log_id, out->hash);
}

int merged_path(const char *dir, const struct id *log_id, char out[FILE_PATH_MAX], struct err *e)
{
	char id[ID_STR_LEN];

	id_format(log_id, id);
	return file_path(out, e, "%s/merged/%s.entries", dir, id);
}

void merged_message(const struct id *log_id, uint64_t after, const uint8_t *p, size_t n, uint8_t out[MERGED_SIGNED])
{
	struct digest d;

	memcpy(out, log_id->b, 16);
	put_u64(out + 16, after);
	digest_init(&d);
	digest_update(&d, p, n);
	digest_peek(&d, out + 24);
}

/* ---- entries */

/* A head among them says what the chain is up to it. */
static int check_head(const struct merged_place *at, const struct chain_entry *en, const struct grant_keyset *keys,
		      struct err *e)
{
	struct chain_head h = {.log_id = at->log_id, .seq = at->seq};

	if (en->len != CHAIN_HEAD_PAYLOAD)
		return err_set(e, ERR_INVAL, "entry %" PRIu64 " is no head", en->seq);
	memcpy(h.hash, at->hash, CHAIN_HASH);
	h.wall_ns = (int64_t)get_u64(en->payload);
	memcpy(h.kid, en->payload + 8, 16);
	memcpy(h.signature, en->payload + 24, sizeof h.signature);
	if (chain_head_verify(&h, keys))
		return err_set(e, ERR_TOKEN_FORGED,
			       "the head in entry %" PRIu64
			       " is not signed by a known key of that log over these entries",
			       en->seq);
	return 0;
}

static int merged_take_entry(struct merged_place *at, const uint8_t *p, size_t n, const struct grant_keyset *keys,
			     merged_each *each, void *arg, size_t *out_taken, struct err *e)
{
	struct chain_entry_header h;
	struct chain_entry en;
	int rc = 0;

	if (n < CHAIN_ENTRY_HEADER || chain_entry_decode(p, &h) || h.len > CHAIN_PAYLOAD_MAX ||
	    n - CHAIN_ENTRY_HEADER < h.len || h.seq != at->seq + 1)
		return err_set(e, ERR_INVAL, "the entries are malformed, or do not begin behind entry %" PRIu64,
			       at->seq);
	en = (struct chain_entry){.seq = h.seq,
				  .journal_seq = h.journal_seq,
				  .wall_ns = h.wall_ns,
				  .type = h.type,
				  .session = h.session,
				  .payload = p + CHAIN_ENTRY_HEADER,
				  .len = h.len};
	if (keys && h.type == CHAIN_HEAD)
		rc = check_head(at, &en, keys, e);
	if (rc)
		return rc;
	memcpy(en.prev, at->hash, CHAIN_HASH);
	digest_link(at->hash, p, CHAIN_ENTRY_HEADER, en.payload, en.len, en.hash);
	rc = each ? each(arg, &en) : 0;
	if (rc)
		return rc;
	memcpy(at->hash, en.hash, CHAIN_HASH);
	at->seq = h.seq;
	at->size += CHAIN_ENTRY_HEADER + h.len;
	*out_taken = CHAIN_ENTRY_HEADER + h.len;
	return 0;
}

int merged_walk(struct merged_place *at, const uint8_t *p, size_t n, const struct grant_keyset *keys, merged_each *each,
		void *arg, struct err *e)
{
	struct merged_place to = *at;
	size_t taken = 0;
	int rc = 0;

	while (rc == 0 && n) {
		rc = merged_take_entry(&to, p, n, keys, each, arg, &taken, e);
		p += rc ? 0 : taken;
		n -= rc ? 0 : taken;
	}
	if (rc == 0)
		*at = to;
	return rc;
}

/* ---- what this log says of them */

json_t *merged_json(const struct merged_batch *b)
{
	char id[ID_STR_LEN], hash[2 * CHAIN_HASH + 1], sha256[2 * CHAIN_HASH + 1];
	char *key = base64_encode(b->key, sizeof b->key, true);
	char *signature = base64_encode(b->signature, sizeof b->signature, true);
	json_t *o = NULL;

	id_format(&b->from.log_id, id);
	chain_hex(b->to.hash, CHAIN_HASH, hash);
	chain_hex(b->sha256, CHAIN_HASH, sha256);
	if (key && signature)
		o = json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:s,s:s,s:s,s:s}", "name", b->name, "log_id", id, "after",
			      (json_int_t)b->from.seq, "until", (json_int_t)b->to.seq, "at", (json_int_t)b->from.size,
			      "size", (json_int_t)(b->to.size - b->from.size), "hash", hash, "sha256", sha256, "key",
			      key, "signature", signature);
	free(key);
	free(signature);
	return o;
}

static int take_base64(const json_t *o, const char *key, uint8_t *out, size_t size)
{
	const char *text = json_get_text(o, key);
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = base64_decode(text, strlen(text), true, &p, &n);

	if (rc == 0 && n == size)
		memcpy(out, p, n);
	else
		rc = ERR_CORRUPT;
	free(p);
	return rc;
}

static int take_batch(const json_t *o, struct merged_batch *b)
{
	int64_t after = 0, until = 0, at = 0, size = 0;
	int rc;

	if (json_need_int(o, "after", 0, INT64_MAX - 1, &after, NULL) ||
	    json_need_int(o, "until", after + 1, INT64_MAX, &until, NULL) ||
	    json_need_int(o, "at", 0, INT64_MAX / 2, &at, NULL) ||
	    json_need_int(o, "size", 1, MERGED_BATCH_MAX, &size, NULL) ||
	    id_parse(json_get_text(o, "log_id"), &b->from.log_id) ||
	    chain_unhex(json_get_text(o, "hash"), b->to.hash, CHAIN_HASH) ||
	    chain_unhex(json_get_text(o, "sha256"), b->sha256, CHAIN_HASH))
		return ERR_CORRUPT;
	rc = take_base64(o, "key", b->key, sizeof b->key);
	rc = rc ? rc : take_base64(o, "signature", b->signature, sizeof b->signature);
	b->from.seq = (uint64_t)after;
	b->from.size = (uint64_t)at;
	b->to.log_id = b->from.log_id;
	b->to.seq = (uint64_t)until;
	b->to.size = (uint64_t)(at + size);
	text_put(b->name, sizeof b->name, json_get_text(o, "name"));
	return rc;
}

int merged_of(const struct chain_entry *en, struct merged_batch *out)
{
	struct merged_batch b = {0};
	json_t *o = NULL;
	int rc = chain_entry_json(en, &o);

	rc = rc ? rc : take_batch(o, &b);
	json_decref(o);
	if (rc)
		return rc == ERR_NOMEM ? rc : ERR_CORRUPT;
	*out = b;
	return 0;
}

/* ---- is it so */

static int read_bytes(const char *dir, const struct merged_batch *b, uint8_t **out, struct err *e)
{
	size_t n = (size_t)(b->to.size - b->from.size);
	char path[FILE_PATH_MAX];
	uint64_t size;
	int fd = -1, rc = merged_path(dir, &b->from.log_id, path, e);

	*out = rc ? NULL : malloc(n);
	if (rc == 0 && !*out)
		rc = err_set(e, ERR_NOMEM, "no memory for entries");
	if (rc == 0)
		rc = file_open_found(path, &fd, &size, e);
	if (rc == 0)
		rc = file_read_at(fd, *out, n, b->from.size, path, e);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int check_bytes(const struct merged_place *before, const struct merged_batch *b, const uint8_t *p, size_t n,
		       struct err *e)
{
	struct merged_place at = *before;
	uint8_t message[MERGED_SIGNED];
	int rc;

	merged_message(&b->from.log_id, b->from.seq, p, n, message);
	if (memcmp(message + MERGED_SIGNED - CHAIN_HASH, b->sha256, CHAIN_HASH) != 0)
		return err_set(e, ERR_CORRUPT, "their digest differs");
	if (sign_verify(b->key, MERGED_PURPOSE, message, sizeof message, b->signature))
		return err_set(e, ERR_CORRUPT, "their signature is not that key's");
	rc = merged_walk(&at, p, n, NULL, NULL, NULL, e);
	if (rc == 0 && (at.seq != b->to.seq || memcmp(at.hash, b->to.hash, CHAIN_HASH) != 0))
		rc = err_set(e, ERR_CORRUPT, "they end elsewhere");
	return rc;
}

int merged_check(const char *dir, const struct merged_place *before, const struct merged_batch *b, struct err *e)
{
	uint8_t *p = NULL;
	struct err why = {0};
	int rc;

	if (before->seq != b->from.seq || before->size != b->from.size)
		return err_set(e, ERR_CORRUPT, "they do not follow entry %" PRIu64, before->seq);
	rc = read_bytes(dir, b, &p, &why);
	if (rc == 0)
		rc = check_bytes(before, b, p, (size_t)(b->to.size - b->from.size), &why);
	free(p);
	return rc == 0 ? 0 : err_set(e, rc == ERR_NOMEM ? rc : ERR_CORRUPT, "%s", why.message);
}

int merged_each_of(const char *dir, const struct merged_batch *b, merged_each *each, void *arg, struct err *e)
{
	struct merged_place at = b->from;
	uint8_t *p = NULL;
	int rc = read_bytes(dir, b, &p, e);

	if (rc == 0)
		rc = merged_walk(&at, p, (size_t)(b->to.size - b->from.size), NULL, each, arg, e);
	free(p);
	return rc;
}

int merged_find(const char *dir, const struct id *log_id, struct merged_place *out, struct err *e)
{
	struct chain_reader *r = NULL;
	struct merged_place at;
	struct merged_batch b;
	struct chain_entry en;
	int rc = chain_reader_create(dir, 0, &r, e);

	merged_begin(log_id, &at);
	while (rc == 0 && (rc = chain_reader_next(r, &en, e)) == 1) {
		rc = en.type == CHAIN_MERGED ? merged_of(&en, &b) : ERR_CORRUPT;
		if (rc == 0 && id_equal(&b.from.log_id, log_id))
			at = b.to;
		/* A place too early would take entries in twice: only what says nothing is passed over. */
		rc = rc == ERR_NOMEM ? err_set(e, rc, "no memory for an entry of the log") : 0;
	}
	chain_reader_destroy(r);
	if (rc == 0)
		*out = at;
	return rc;
}

/* ---- taken in */

static int merged_write(const char *path, const struct merged_batch *b, const uint8_t *p, size_t n, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc = 0;
	uint64_t size = 0;

	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", path);
	rc = file_size(fd, path, &size, e);
	if (rc == 0 && size < b->from.size)
		rc = err_set(e, ERR_CORRUPT, "%s is shorter than the log says", path);
	/* The rest was never taken in. */
	if (rc == 0 && size > b->from.size && ftruncate(fd, (off_t)b->from.size))
		rc = err_sys(e, errno, "cannot cut %s", path);
	if (rc == 0)
		rc = file_write_at(fd, p, n, b->from.size, path, e);
	if (rc == 0)
		rc = file_sync(fd, path, e);
	close(fd);
	return rc;
}

int merged_append(struct chain *c, const char *dir, const struct merged_batch *b, const uint8_t *p, size_t n,
		  struct err *e)
{
	char path[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	json_t *o = NULL;
	int rc = file_path(folder, e, "%s/merged", dir);

	if (rc == 0)
		rc = merged_path(dir, &b->from.log_id, path, e);
	if (rc == 0)
		rc = file_make_folder(folder, e);
	if (rc == 0)
		rc = merged_write(path, b, p, n, e);
	if (rc == 0 && !b->from.size)
		rc = file_sync_folder(folder, e);
	if (rc == 0 && !(o = merged_json(b)))
		rc = err_set(e, ERR_NOMEM, "no memory for an entry of the log");
	if (rc == 0)
		rc = chain_append_json(c, CHAIN_MERGED, NULL, o, e);
	if (rc == 0)
		rc = chain_sync(c, e);
	json_decref(o);
	return rc;
}
