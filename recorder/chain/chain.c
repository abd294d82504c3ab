#include "recorder/chain/chain.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/chain_state.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/chain/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int chain_put(struct chain *c, const struct chain_entry_header *in, const void *payload, struct err *e)
{
	struct chain_entry_header h = *in;
	size_t total = CHAIN_ENTRY_HEADER + h.len + CHAIN_HASH;
	uint8_t hash[CHAIN_HASH];
	int rc;

	if (c->failed)
		return err_set(e, ERR_RECORD_UNAVAILABLE, "the log %s failed to sync and must be opened again",
			       c->path);
	if (h.len > CHAIN_PAYLOAD_MAX)
		return err_set(e, ERR_TOO_LARGE, "an entry of %u bytes is too large for the log", h.len);
	h.seq = c->seq + 1;
	h.critical = chain_type_critical(h.type);
	chain_entry_encode(&h, c->scratch);
	if (h.len)
		memcpy(c->scratch + CHAIN_ENTRY_HEADER, payload, h.len);
	digest_link(c->hash, c->scratch, CHAIN_ENTRY_HEADER, payload, h.len, hash);
	memcpy(c->scratch + CHAIN_ENTRY_HEADER + h.len, hash, CHAIN_HASH);
	rc = file_write_at(c->fd, c->scratch, total, c->pos, c->path, e);
	if (rc) {
		/* Half an entry must not stay: a shorter one over it would leave rubbish in the middle of the log. */
		if (ftruncate(c->fd, (off_t)c->pos) != 0)
			c->failed = true;
		return rc;
	}
	c->pos += total;
	c->seq = h.seq;
	if (chain_type_news(h.type))
		c->news = h.seq;
	memcpy(c->hash, hash, CHAIN_HASH);
	return 0;
}

static int sync_name(struct chain *c, struct err *e)
{
	char folder[FILE_PATH_MAX];
	int rc = file_path(folder, e, "%s/chain", c->dir);

	if (!rc)
		rc = file_sync_folder(folder, e);
	c->nameless = rc != 0;
	return rc;
}

int chain_sync_file(struct chain *c, struct err *e)
{
	int rc = file_sync(c->fd, c->path, e);

	if (!rc && c->nameless)
		rc = sync_name(c, e);
	if (rc)
		c->failed = true;
	else
		c->synced = c->pos;
	return rc;
}

int chain_put_head(struct chain *c, int64_t wall_ns, struct err *e)
{
	struct chain_head h = {.log_id = c->log_id, .seq = c->seq, .wall_ns = wall_ns};
	struct chain_entry_header en = {.type = CHAIN_HEAD, .len = CHAIN_HEAD_PAYLOAD, .wall_ns = wall_ns};
	uint8_t message[CHAIN_SIGNED], payload[CHAIN_HEAD_PAYLOAD];
	int rc;

	memcpy(h.hash, c->hash, CHAIN_HASH);
	memcpy(h.kid, signer_public(c->signer)->kid, sizeof h.kid);
	chain_head_message(&h, message);
	rc = signer_sign(c->signer, CHAIN_PURPOSE, message, sizeof message, h.signature, e);
	if (rc)
		return rc;
	chain_head_encode(&h, payload);
	rc = chain_put(c, &en, payload, e);
	if (!rc)
		rc = chain_sync_file(c, e);
	if (rc)
		return rc;
	c->head = h;
	c->head_entry = c->seq;
	return 0;
}

static int append_json(struct chain *c, struct chain_entry_header *h, json_t *o, struct err *e)
{
	char *text = o ? json_text(o) : NULL;
	int rc;

	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for an entry of the log");
	h->len = (uint32_t)strlen(text);
	rc = chain_put(c, h, text, e);
	free(text);
	return rc;
}

int chain_put_key(struct chain *c, const struct grant_public_key *key, int64_t wall_ns, struct err *e)
{
	struct chain_entry_header h = {.type = CHAIN_KEY, .wall_ns = wall_ns};
	char *text = base64_encode(key->key, GRANT_KEY_LEN, true);
	json_t *o = text ? json_pack("{s:s, s:s}", "kid", key->kid, "public_key", text) : NULL;
	/* Said again in each file, until a rotation: who opens the log reads the last one alone. */
	if (o && c->foreign && json_object_set_new(o, "foreign", json_integer((json_int_t)c->foreign))) {
		json_decref(o);
		o = NULL;
	}
	int rc = append_json(c, &h, o, e);

	json_decref(o);
	free(text);
	return rc;
}

int chain_begin_file(struct chain *c, unsigned number, struct err *e)
{
	struct chain_file_header h = {
	    .number = number, .log_id = c->log_id, .first_seq = c->seq + 1, .audit_seq = c->audit_seq};
	char path[FILE_PATH_MAX], temporary[FILE_PATH_MAX];
	uint8_t bytes[CHAIN_FILE_HEADER];
	int fd = -1, rc;

	memcpy(h.prev, c->hash, CHAIN_HASH);
	chain_file_encode(&h, bytes);
	if (chain_file_name(c->dir, number, "mchain", path, sizeof path) ||
	    chain_file_name(c->dir, number, "new", temporary, sizeof temporary))
		return err_set(e, ERR_TOO_LARGE, "the path of the log is too long");
	fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", temporary);
	rc = file_write_at(fd, bytes, sizeof bytes, 0, temporary, e);
	if (!rc && fsync(fd) != 0)
		rc = err_sys(e, errno, "cannot sync %s", temporary);
	if (!rc && rename(temporary, path) != 0)
		rc = err_sys(e, errno, "cannot rename %s", temporary);
	if (rc) {
		close(fd);
		return rc;
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = fd;
	c->number = number;
	c->pos = c->synced = sizeof bytes;
	c->nameless = true;
	memcpy(c->path, path, sizeof path);
	return 0;
}

/* Each file begins with the key, so that the last one alone says which key is in force. */
static int roll(struct chain *c, int64_t wall_ns, struct err *e)
{
	int rc;

	if (c->pos < CHAIN_FILE_TARGET)
		return 0;
	rc = chain_put_head(c, wall_ns, e);
	if (!rc)
		rc = chain_begin_file(c, c->number + 1, e);
	return rc ? rc : chain_put_key(c, signer_public(c->signer), wall_ns, e);
}

uint64_t chain_audit_seq(struct chain *c)
{
	uint64_t seq;

	pthread_mutex_lock(&c->lock);
	seq = c->audit_seq;
	pthread_mutex_unlock(&c->lock);
	return seq;
}

int chain_append_audit(struct chain *c, const struct ring_record *rec, int64_t wall_ns, struct err *e)
{
	struct chain_entry_header h = {
	    .type = CHAIN_AUDIT, .len = rec->len, .journal_seq = rec->seq, .wall_ns = wall_ns, .session = rec->session};
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (rec->seq > c->audit_seq) {
		rc = roll(c, wall_ns, e);
		if (!rc)
			rc = chain_put(c, &h, rec->payload, e);
		if (!rc)
			c->audit_seq = rec->seq;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* 1 when the seal of this session stands in the log. */
static int find_seal(struct chain *c, const struct id *session, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	int rc = chain_reader_create(c->dir, 0, &r, e);

	if (rc)
		return rc;
	do {
		rc = chain_reader_next(r, &en, e);
		if (rc == 1 && en.type == CHAIN_SEAL && id_equal(&en.session, session))
			break;
	} while (rc == 1 || rc == ERR_CORRUPT);
	chain_reader_destroy(r);
	return rc;
}

int chain_append_seal(struct chain *c, const struct chain_seal *seal, bool recovering, struct err *e)
{
	struct chain_entry_header h = {
	    .type = CHAIN_SEAL, .journal_seq = seal->journal_seq, .wall_ns = clock_wall_ns(), .session = seal->session};
	json_t *o = NULL;
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (recovering)
		rc = find_seal(c, &seal->session, e);
	if (rc == 0) {
		o = chain_seal_json(seal);
		rc = roll(c, h.wall_ns, e);
		if (!rc)
			rc = append_json(c, &h, o, e);
	}
	pthread_mutex_unlock(&c->lock);
	json_decref(o);
	return rc < 0 ? rc : 0;
}

int chain_append_tombstone(struct chain *c, const struct chain_seal *seal, const json_t *why, struct err *e)
{
	struct chain_entry_header h = {.type = CHAIN_TOMBSTONE,
				       .journal_seq = seal->journal_seq,
				       .wall_ns = clock_wall_ns(),
				       .session = seal->session};
	json_t *o = chain_seal_json(seal);
	int rc;

	/* What the seal says goes before what the reason may say. */
	if (o && json_object_update_missing(o, (json_t *)why)) {
		json_decref(o);
		return err_set(e, ERR_NOMEM, "no memory for a tombstone");
	}
	pthread_mutex_lock(&c->lock);
	rc = roll(c, h.wall_ns, e);
	if (!rc)
		rc = append_json(c, &h, o, e);
	pthread_mutex_unlock(&c->lock);
	json_decref(o);
	return rc;
}

int chain_append_json(struct chain *c, enum chain_type type, const struct id *session, json_t *o, struct err *e)
{
	struct chain_entry_header h = {.type = type, .wall_ns = clock_wall_ns()};
	int rc;

	if (type < CHAIN_DIGEST || !chain_type_known(type))
		return err_set(e, ERR_INTERNAL, "entries of type %u have another way into the log", (unsigned)type);
	if (session)
		h.session = *session;
	pthread_mutex_lock(&c->lock);
	rc = roll(c, h.wall_ns, e);
	if (!rc)
		rc = append_json(c, &h, o, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int chain_sync(struct chain *c, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = c->failed ? err_set(e, ERR_RECORD_UNAVAILABLE, "the log %s failed to sync before", c->path)
		       : chain_sync_file(c, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int chain_sign_head(struct chain *c, int64_t wall_ns, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (c->seq != c->head_entry)
		rc = chain_put_head(c, wall_ns, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

void chain_head(struct chain *c, struct chain_head *out, uint64_t *out_unsigned)
{
	pthread_mutex_lock(&c->lock);
	*out = c->head;
	if (out_unsigned)
		*out_unsigned = c->seq - c->head_entry;
	pthread_mutex_unlock(&c->lock);
}

uint64_t chain_news(struct chain *c)
{
	uint64_t news;

	pthread_mutex_lock(&c->lock);
	news = c->news;
	pthread_mutex_unlock(&c->lock);
	return news;
}

uint64_t chain_seq(struct chain *c)
{
	uint64_t seq;

	pthread_mutex_lock(&c->lock);
	seq = c->seq;
	pthread_mutex_unlock(&c->lock);
	return seq;
}

void chain_log_id(const struct chain *c, struct id *out)
{
	*out = c->log_id;
}

int chain_name_key(struct chain *c, const struct grant_public_key *next, int64_t wall_ns, struct err *e)
{
	uint64_t foreign;
	int rc;

	pthread_mutex_lock(&c->lock);
	foreign = c->foreign;
	c->foreign = 0; /* of this key there is nothing to be said */
	rc = chain_put_key(c, next, wall_ns, e);
	c->foreign = foreign;
	if (!rc)
		rc = chain_put_head(c, wall_ns, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int chain_use_key(struct chain *c, const struct signer *s, int64_t wall_ns, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	c->signer = s;
	rc = chain_put_head(c, wall_ns, e);
	if (!rc)
		c->foreign = 0;
	pthread_mutex_unlock(&c->lock);
	return rc;
}

uint64_t chain_foreign(struct chain *c, char out_before[17])
{
	uint64_t entry;

	pthread_mutex_lock(&c->lock);
	entry = c->foreign;
	memcpy(out_before, c->before, sizeof c->before);
	pthread_mutex_unlock(&c->lock);
	return entry;
}
