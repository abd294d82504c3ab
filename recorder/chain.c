#include "recorder/chain.h"

#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"
#include "recorder/chain_format.h"
#include "recorder/chain_text.h"
#include "recorder/digest.h"
#include "recorder/file.h"
#include "recorder/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chain {
	pthread_mutex_t lock;
	char *dir;
	const struct signer *signer;
	struct id log_id;
	int fd;
	char path[FILE_PATH_MAX];
	unsigned number;
	uint64_t pos; /* end of the last entry in the file */
	uint64_t seq; /* of the last entry */
	uint8_t hash[CHAIN_HASH];
	uint64_t audit_seq;
	struct chain_head head; /* the last one that is signed and synced */
	uint64_t head_entry;    /* its own sequence */
	bool announced;         /* the signer's key stands in the log */
	bool failed;            /* a sync failed: what the disk holds is not known any more */
	uint8_t *scratch;
};

#define ENTRY_MAX (CHAIN_ENTRY_HEADER + CHAIN_PAYLOAD_MAX + CHAIN_HASH)

static int append(struct chain *c, const struct chain_entry_header *in, const void *payload, struct err *e)
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
	h.critical = true;
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
	memcpy(c->hash, hash, CHAIN_HASH);
	return 0;
}

static int sync_file(struct chain *c, struct err *e)
{
	int rc = file_sync(c->fd, c->path, e);

	if (rc)
		c->failed = true;
	return rc;
}

static int sign_head(struct chain *c, int64_t wall_ns, struct err *e)
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
	rc = append(c, &en, payload, e);
	if (!rc)
		rc = sync_file(c, e);
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
	rc = append(c, h, text, e);
	free(text);
	return rc;
}

static int announce(struct chain *c, const struct signer *s, int64_t wall_ns, struct err *e)
{
	struct chain_entry_header h = {.type = CHAIN_KEY, .wall_ns = wall_ns};
	const struct grant_public_key *key = signer_public(s);
	char *text = base64_encode(key->key, GRANT_KEY_LEN, true);
	json_t *o = text ? json_pack("{s:s, s:s}", "kid", key->kid, "public_key", text) : NULL;
	int rc = append_json(c, &h, o, e);

	json_decref(o);
	free(text);
	return rc;
}

/* A new file, complete before it has its name. */
static int begin_file(struct chain *c, unsigned number, struct err *e)
{
	struct chain_file_header h = {
	    .number = number, .log_id = c->log_id, .first_seq = c->seq + 1, .audit_seq = c->audit_seq};
	char path[FILE_PATH_MAX], temporary[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	uint8_t bytes[CHAIN_FILE_HEADER];
	int fd = -1, rc;

	memcpy(h.prev, c->hash, CHAIN_HASH);
	chain_file_encode(&h, bytes);
	rc = file_path(folder, e, "%s/chain", c->dir);
	if (!rc && (chain_file_name(c->dir, number, "mchain", path, sizeof path) ||
		    chain_file_name(c->dir, number, "new", temporary, sizeof temporary)))
		rc = err_set(e, ERR_TOO_LARGE, "the path of the log is too long");
	if (rc)
		return rc;
	fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", temporary);
	rc = file_write_at(fd, bytes, sizeof bytes, 0, temporary, e);
	if (!rc && fsync(fd) != 0)
		rc = err_sys(e, errno, "cannot sync %s", temporary);
	if (!rc && rename(temporary, path) != 0)
		rc = err_sys(e, errno, "cannot rename %s", temporary);
	if (!rc)
		rc = file_sync_folder(folder, e);
	if (rc) {
		close(fd);
		return rc;
	}
	if (c->fd >= 0)
		close(c->fd);
	c->fd = fd;
	c->number = number;
	c->pos = sizeof bytes;
	memcpy(c->path, path, sizeof path);
	return 0;
}

/* Each file begins with the key, so that the last one alone says which key is in force. */
static int roll(struct chain *c, int64_t wall_ns, struct err *e)
{
	int rc;

	if (c->pos < CHAIN_FILE_TARGET)
		return 0;
	rc = sign_head(c, wall_ns, e);
	if (!rc)
		rc = begin_file(c, c->number + 1, e);
	return rc ? rc : announce(c, c->signer, wall_ns, e);
}

static int genesis(struct chain *c, struct err *e)
{
	char folder[FILE_PATH_MAX];
	int rc = file_path(folder, e, "%s/chain", c->dir);

	if (!rc)
		rc = file_make_folder(folder, e);
	if (!rc && id_new(&c->log_id))
		rc = err_set(e, ERR_SYS, "no randomness for the id of the log");
	if (rc)
		return rc;
	chain_genesis(&c->log_id, c->hash);
	return begin_file(c, 1, e);
}

/* What reading the last file showed. */
struct scan {
	uint64_t good; /* end of the last whole entry before the first damage */
	bool damaged;
	unsigned heads_after; /* heads behind the damage */
	struct err first;
};

static void scan_entry(struct chain *c, const struct chain_reader *r, const struct chain_entry *en, struct scan *s)
{
	struct grant_public_key key;
	unsigned file;

	if (s->damaged) {
		s->heads_after += en->type == CHAIN_HEAD;
		return;
	}
	s->good = chain_reader_pos(r, &file);
	c->seq = en->seq;
	memcpy(c->hash, en->hash, CHAIN_HASH);
	if (en->type == CHAIN_AUDIT && en->journal_seq > c->audit_seq)
		c->audit_seq = en->journal_seq;
	if (en->type == CHAIN_HEAD && chain_entry_head(r, en, &c->head) == 0)
		c->head_entry = en->seq;
	if (en->type == CHAIN_KEY && chain_entry_key(en, &key) == 0)
		c->announced = memcmp(key.kid, signer_public(c->signer)->kid, 16) == 0;
}

static int scan_last(struct chain *c, struct scan *s, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	unsigned file;
	int rc = chain_reader_create_last(c->dir, &r, e);

	if (rc)
		return rc;
	s->good = CHAIN_FILE_HEADER;
	while ((rc = chain_reader_next(r, &en, &s->first)) != 0) {
		if (rc == 1)
			scan_entry(c, r, &en, s);
		else if (rc == ERR_CORRUPT && chain_reader_pos(r, &file) > CHAIN_FILE_HEADER)
			s->damaged = true;
		else
			break; /* the file's header was synced before the file had its name: nothing tears it */
	}
	if (rc)
		err_set(e, rc, "%s", s->first.message);
	chain_reader_destroy(r);
	return rc;
}

/* What is cut off is kept beside the log: it may be all that shows what a failing disk did. */
static int keep_torn(struct chain *c, uint64_t from, uint64_t size, struct err *e)
{
	char path[FILE_PATH_MAX];
	uint64_t at = from;
	uint64_t end = 0;
	int fd, rc;

	if (chain_file_name(c->dir, c->number, "torn", path, sizeof path))
		return err_set(e, ERR_TOO_LARGE, "the path of the log is too long");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", path);
	rc = file_size(fd, path, &end, e);
	while (!rc && at < size) {
		size_t n = size - at < ENTRY_MAX ? (size_t)(size - at) : ENTRY_MAX;
		rc = file_read_at(c->fd, c->scratch, n, at, c->path, e);
		if (!rc)
			rc = file_write_at(fd, c->scratch, n, end + (at - from), path, e);
		at += n;
	}
	if (!rc)
		rc = file_sync(fd, path, e);
	close(fd);
	return rc;
}

/*
 * A head is appended only after the one before it was synced. So damage with two
 * heads behind it lay on the disk whole once: that is no torn tail.
 */
static int cut_tail(struct chain *c, const struct scan *s, uint64_t *out_cut, struct err *e)
{
	uint64_t size = 0;
	int rc = file_size(c->fd, c->path, &size, e);

	if (rc)
		return rc;
	if (s->damaged && s->heads_after >= 2)
		return err_set(e, ERR_CORRUPT, "%s", s->first.message);
	*out_cut = size > s->good ? size - s->good : 0;
	if (*out_cut) {
		rc = keep_torn(c, s->good, size, e);
		if (!rc && ftruncate(c->fd, (off_t)s->good) != 0)
			rc = err_sys(e, errno, "cannot cut the torn tail off %s", c->path);
		if (!rc)
			rc = file_sync(c->fd, c->path, e);
	}
	c->pos = s->good;
	return rc;
}

static int open_last(struct chain *c, unsigned number, uint64_t *out_cut, struct err *e)
{
	struct chain_file_header h;
	uint8_t bytes[CHAIN_FILE_HEADER];
	struct scan s = {0};
	int rc;

	c->number = number;
	if (chain_file_name(c->dir, number, "mchain", c->path, sizeof c->path))
		return err_set(e, ERR_TOO_LARGE, "the path of the log is too long");
	c->fd = open(c->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (c->fd < 0)
		return err_sys(e, errno, "cannot open %s", c->path);
	rc = file_read_at(c->fd, bytes, sizeof bytes, 0, c->path, e);
	if (rc)
		return rc;
	rc = chain_file_decode(bytes, &h);
	if (rc)
		return err_set(e, rc, "%s: bytes 0 to %d: the file's header was changed", c->path, CHAIN_FILE_HEADER);
	c->log_id = h.log_id;
	c->seq = h.first_seq - 1;
	c->audit_seq = h.audit_seq;
	memcpy(c->hash, h.prev, CHAIN_HASH);
	rc = scan_last(c, &s, e);
	return rc ? rc : cut_tail(c, &s, out_cut, e);
}

/* The log exists; see to it that it names the key and has a head. */
static int settle(struct chain *c, struct err *e)
{
	int64_t wall = clock_wall_ns();
	int rc = 0;

	if (!c->announced)
		rc = announce(c, c->signer, wall, e);
	if (!rc && (!c->announced || !c->head_entry))
		rc = sign_head(c, wall, e);
	if (!rc)
		c->announced = true;
	return rc;
}

int chain_open(const char *dir, const struct signer *s, struct chain **out, uint64_t *out_cut_bytes, struct err *e)
{
	struct chain *c = calloc(1, sizeof *c);
	unsigned *files = NULL;
	uint64_t cut = 0;
	size_t n = 0;
	int rc;

	if (!c)
		return err_set(e, ERR_NOMEM, "no memory for the log");
	pthread_mutex_init(&c->lock, NULL);
	c->fd = -1;
	c->signer = s;
	c->dir = strdup(dir);
	c->scratch = malloc(ENTRY_MAX);
	rc =
	    c->dir && c->scratch ? chain_file_list(dir, &files, &n, e) : err_set(e, ERR_NOMEM, "no memory for the log");
	if (!rc)
		rc = n ? open_last(c, files[n - 1], &cut, e) : genesis(c, e);
	if (!rc)
		rc = settle(c, e);
	free(files);
	if (rc) {
		chain_close(c);
		return rc;
	}
	if (out_cut_bytes)
		*out_cut_bytes = cut;
	*out = c;
	return 0;
}

void chain_close(struct chain *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c->scratch);
	free(c->dir);
	free(c);
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
			rc = append(c, &h, rec->payload, e);
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

int chain_append_tombstone(struct chain *c, const struct chain_seal *seal, const char *reason, const char *by,
			   struct err *e)
{
	struct chain_entry_header h = {.type = CHAIN_TOMBSTONE,
				       .journal_seq = seal->journal_seq,
				       .wall_ns = clock_wall_ns(),
				       .session = seal->session};
	json_t *o = chain_seal_json(seal);
	int rc;

	if (o &&
	    (json_object_set_new(o, "reason", json_string(reason)) || json_object_set_new(o, "by", json_string(by)))) {
		json_decref(o);
		return err_set(e, ERR_INVAL, "the reason of a tombstone is not text");
	}
	pthread_mutex_lock(&c->lock);
	rc = roll(c, h.wall_ns, e);
	if (!rc)
		rc = append_json(c, &h, o, e);
	pthread_mutex_unlock(&c->lock);
	json_decref(o);
	return rc;
}

int chain_sync(struct chain *c, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = c->failed ? err_set(e, ERR_RECORD_UNAVAILABLE, "the log %s failed to sync before", c->path)
		       : sync_file(c, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int chain_sign_head(struct chain *c, int64_t wall_ns, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (c->seq != c->head_entry)
		rc = sign_head(c, wall_ns, e);
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

int chain_change_key(struct chain *c, const struct signer *s, int64_t wall_ns, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = announce(c, s, wall_ns, e);
	if (!rc)
		rc = sign_head(c, wall_ns, e);
	if (!rc) {
		c->signer = s;
		rc = sign_head(c, wall_ns, e);
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
}
