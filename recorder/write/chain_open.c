/* The log of heads at a start: its last file is read, a torn end is kept aside, and an entry that needs a signed
 * head has one.
 */
#define LOG_SUBSYS "chain"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/chain_state.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/succession.h"
#include "recorder/verify/verify_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	return chain_begin_file(c, 1, e);
}

/* A place between two entries, and what the log was there. */
struct mark {
	uint64_t pos, seq, audit_seq, foreign; /* pos 0: none */
	uint8_t hash[CHAIN_HASH];
};

/* What reading the last file showed. */
struct scan {
	uint64_t good; /* end of the last whole entry before the first damage */
	bool damaged;
	unsigned heads_after; /* heads behind the damage */
	struct err first;
	uint64_t vouched;       /* entries up to this one are vouched for, whatever the file says */
	struct mark doubt;      /* behind the last such head, before the first entry that needs one */
	struct buf innocent;    /* the entries behind the doubt that need none: header, payload */
	struct succession line; /* of keys in this file, which begins with the one in force */
};

/*
 * A tombstone excuses a missing recording, a key vouches for heads: with neither does
 * the recorder go on before they are signed. One that is not is not repeated here, or
 * the next head would make true what anybody wrote behind the last one.
 */
static bool needs_head(const struct chain *c, const struct chain_entry *en)
{
	struct grant_public_key key;

	if (en->type == CHAIN_KEY)
		return chain_entry_key(en, &key) != 0 ||
		       memcmp(key.key, signer_public(c->signer)->key, sizeof key.key) != 0;
	return chain_type_needs_head(en->type);
}

static bool own_head(struct chain *c, const struct chain_reader *r, const struct chain_entry *en)
{
	struct grant_public_key key = *signer_public(c->signer);
	struct grant_keyset keys = {&key, 1};
	struct chain_head head;

	if (en->type != CHAIN_HEAD || chain_entry_head(r, en, &head) || chain_head_verify(&head, &keys))
		return false;
	c->head = head;
	c->head_entry = en->seq;
	return true;
}

static int scan_signatures(struct chain *c, const struct chain_reader *r, const struct chain_entry *en, struct scan *s)
{
	if (own_head(c, r, en)) {
		s->doubt.pos = 0;
		buf_clear(&s->innocent);
		return 0;
	}
	if (!s->doubt.pos && en->seq > s->vouched && needs_head(c, en)) {
		s->doubt =
		    (struct mark){.pos = s->good, .seq = c->seq, .audit_seq = c->audit_seq, .foreign = c->foreign};
		memcpy(s->doubt.hash, c->hash, CHAIN_HASH);
	}
	if (!s->doubt.pos || !chain_type_known(en->type) || chain_type_needs_head(en->type))
		return 0;
	struct chain_entry_header h = {.type = en->type,
				       .len = (uint32_t)en->len,
				       .seq = en->seq,
				       .journal_seq = en->journal_seq,
				       .wall_ns = en->wall_ns,
				       .session = en->session};
	chain_entry_encode(&h, c->scratch);
	int rc = buf_append(&s->innocent, c->scratch, CHAIN_ENTRY_HEADER);
	if (!rc)
		rc = buf_append(&s->innocent, en->payload, en->len);
	return rc ? err_set(&s->first, rc, "%s: no memory for what stands behind its last head", c->path) : 0;
}

/* Which key is in force, and whether one took over that nobody had named. */
static int scan_keys(struct chain *c, const struct chain_reader *r, const struct chain_entry *en, struct scan *s)
{
	struct grant_public_key key;
	enum succession_step step;
	struct chain_head head;
	int rc = 0;

	if (en->type == CHAIN_KEY && chain_entry_key(en, &key) == 0) {
		rc = succession_announce(&s->line, &key, en->seq);
		if (s->good == CHAIN_FILE_HEADER)
			c->foreign = chain_entry_foreign(en);
		c->announced = memcmp(key.kid, signer_public(c->signer)->kid, 16) == 0;
	} else if (en->type == CHAIN_HEAD && chain_entry_head(r, en, &head) == 0 &&
		   (rc = succession_head(&s->line, &head, &step)) == 0) {
		if (step == SUCCESSION_FOREIGN)
			c->foreign = succession_run(&s->line)->from;
		else if (step == SUCCESSION_TURN)
			c->foreign = 0;
	}
	return rc == ERR_NOMEM ? err_set(&s->first, rc, "no memory for the keys of %s", c->path) : 0;
}

static int scan_entry(struct chain *c, const struct chain_reader *r, const struct chain_entry *en, struct scan *s)
{
	unsigned file;
	int rc;

	if (s->damaged) {
		s->heads_after += en->type == CHAIN_HEAD;
		return 0;
	}
	rc = scan_signatures(c, r, en, s);
	if (!rc)
		rc = scan_keys(c, r, en, s);
	s->good = chain_reader_pos(r, &file);
	c->seq = en->seq;
	if (chain_type_news(en->type))
		c->news = en->seq;
	memcpy(c->hash, en->hash, CHAIN_HASH);
	if (en->type == CHAIN_AUDIT && en->journal_seq > c->audit_seq)
		c->audit_seq = en->journal_seq;
	return rc;
}

static int scan_last(struct chain *c, struct scan *s, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	unsigned file;
	int rc = chain_reader_create_last(c->dir, 1, &r, e);

	if (rc)
		return rc;
	s->good = CHAIN_FILE_HEADER;
	while ((rc = chain_reader_next(r, &en, &s->first)) != 0) {
		if (rc == 1)
			rc = scan_entry(c, r, &en, s);
		else if (rc == ERR_CORRUPT && chain_reader_pos(r, &file) > CHAIN_FILE_HEADER)
			s->damaged = true, rc = 0;
		if (rc)
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
	rc = file_open_at(AT_FDCWD, path, O_RDWR | O_CREAT, path, &fd, &end, e);
	if (rc)
		return rc;
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

/* Up to which entry the signer vouches, also by way of keys that it vouched for; 0: the log does not know it. */
static int vouched_by_all(const struct chain *c, uint64_t *out, struct err *e)
{
	struct grant_public_key key = *signer_public(c->signer);
	struct grant_keyset keys = {&key, 1};
	struct verify_log log;
	int rc = verify_log_read(&log, &(struct verify_ask){.dir = c->dir, .keys = &keys}, e);

	if (!rc)
		*out = log.head.seq ? log.head.seq + 1 : 0; /* with the head itself */
	/* A key that is named and has not signed yet: as far as the one that named it. */
	for (size_t i = 0; !rc && !*out && i < log.line.n; i++)
		if (log.line.keys[i].promised && memcmp(&log.line.keys[i].key, &key, sizeof key) == 0)
			*out = succession_run(&log.line)->to;
	verify_log_finish(&log);
	return rc;
}

static int read_last(struct chain *c, const struct chain_file_header *h, struct scan *s, struct err *e)
{
	uint64_t vouched = s->vouched;

	buf_finish(&s->innocent);
	succession_finish(&s->line);
	*s = (struct scan){.vouched = vouched};
	succession_begin(&s->line, NULL);
	c->foreign = 0;
	buf_init(&s->innocent, (size_t)2 * CHAIN_FILE_TARGET);
	c->seq = c->news = h->first_seq - 1;
	c->audit_seq = h->audit_seq;
	memcpy(c->hash, h->prev, CHAIN_HASH);
	return scan_last(c, s, e);
}

/* The whole log says whether another key was as good there, or the signer is new: then it takes over what there is. */
static int settle_doubt(struct chain *c, const struct chain_file_header *h, struct scan *s, struct err *e)
{
	int rc;

	if (!s->doubt.pos)
		return 0;
	rc = vouched_by_all(c, &s->vouched, e);
	if (!rc && s->vouched)
		return read_last(c, h, s, e);
	s->doubt.pos = 0;
	return rc;
}

/* Back to before what needed a head. */
static void chain_open_go_back(struct chain *c, const struct scan *s)
{
	log_warn(NULL, "%s: what entries behind %" PRIu64 " say was never signed, they are set aside", c->path,
		 s->doubt.seq);
	c->seq = s->doubt.seq;
	c->news = c->news < c->seq ? c->news : c->seq;
	c->audit_seq = s->doubt.audit_seq;
	c->foreign = s->doubt.foreign;
	memcpy(c->hash, s->doubt.hash, CHAIN_HASH);
	c->announced = false; /* to be sure; and so a head follows */
}

/* Events and seals that stood behind it are appended again: they may be in no segment any more. */
static int put_back(struct chain *c, const struct scan *s, struct err *e)
{
	const uint8_t *at = buf_ptr(&s->innocent), *end = at + buf_len(&s->innocent);
	int rc = 0;

	while (!rc && at < end) {
		struct chain_entry_header h;
		rc = chain_entry_decode(at, &h);
		if (!rc)
			rc = chain_put(c, &h, at + CHAIN_ENTRY_HEADER, e);
		if (!rc && h.type == CHAIN_AUDIT && h.journal_seq > c->audit_seq)
			c->audit_seq = h.journal_seq;
		at += CHAIN_ENTRY_HEADER + h.len;
	}
	return rc;
}

/*
 * A head is appended only after the one before it was synced. So damage with two
 * heads behind it lay on the disk whole once: that is no torn tail.
 */
static int cut_tail(struct chain *c, const struct scan *s, uint64_t *out_cut, struct err *e)
{
	uint64_t keep = s->doubt.pos ? s->doubt.pos : s->good;
	uint64_t size = 0;
	int rc = file_size(c->fd, c->path, &size, e);

	if (rc)
		return rc;
	if (s->damaged && s->heads_after >= 2)
		return err_set(e, ERR_CORRUPT, "%s", s->first.message);
	*out_cut = size > keep ? size - keep : 0;
	if (*out_cut) {
		rc = keep_torn(c, keep, size, e);
		if (!rc && ftruncate(c->fd, (off_t)keep) != 0)
			rc = err_sys(e, errno, "cannot cut the torn tail off %s", c->path);
	}
	if (!rc)
		rc = file_sync(c->fd, c->path, e);
	c->pos = c->synced = keep;
	if (rc || !s->doubt.pos)
		return rc;
	chain_open_go_back(c, s);
	return put_back(c, s, e);
}

/* The key in force, and whether the signer may take over from it. */
static void note_before(struct chain *c, const struct scan *s)
{
	const struct succession_key *k = succession_in_force(&s->line);
	const struct grant_public_key *own = signer_public(c->signer);

	c->stranger = false;
	if (!k || s->doubt.pos) /* in doubt: what stands behind the signer's own word was set aside */
		return;
	memcpy(c->before, k->key.kid, sizeof c->before);
	c->stranger = memcmp(k->key.key, own->key, sizeof own->key) != 0;
	for (size_t i = 0; c->stranger && i < s->line.n; i++)
		c->stranger =
		    !s->line.keys[i].promised || memcmp(s->line.keys[i].key.key, own->key, sizeof own->key) != 0;
}

static int open_last(struct chain *c, unsigned number, uint64_t *out_cut, struct err *e)
{
	struct chain_file_header h;
	uint8_t bytes[CHAIN_FILE_HEADER];
	struct scan s = {0};
	uint64_t size;
	int rc;

	c->number = number;
	if (chain_file_name(c->dir, number, "mchain", c->path, sizeof c->path))
		return err_set(e, ERR_TOO_LARGE, "the path of the log is too long");
	rc = file_open_at(AT_FDCWD, c->path, O_RDWR, c->path, &c->fd, &size, e);
	if (rc)
		return rc;
	rc = file_read_at(c->fd, bytes, sizeof bytes, 0, c->path, e);
	if (rc)
		return rc;
	rc = chain_file_decode(bytes, &h);
	if (rc)
		return err_set(e, rc, "%s: bytes 0 to %d: the file's header was changed", c->path, CHAIN_FILE_HEADER);
	c->log_id = h.log_id;
	rc = read_last(c, &h, &s, e);
	if (!rc)
		rc = settle_doubt(c, &h, &s, e);
	if (!rc)
		rc = cut_tail(c, &s, out_cut, e);
	note_before(c, &s);
	buf_finish(&s.innocent);
	succession_finish(&s.line);
	return rc;
}

/* The log exists; see to it that it names the key and has a head. */
static int chain_open_settle(struct chain *c, struct err *e)
{
	int64_t wall = clock_wall_ns();
	int rc = 0;

	if (c->stranger) {
		c->foreign = c->seq + 1;
		log_error(NULL,
			  "%s: signed by key %s until now; key %s, which it never named, takes over at entry %" PRIu64,
			  c->path, c->before, signer_public(c->signer)->kid, c->foreign);
	}
	if (!c->announced || c->stranger)
		rc = chain_put_key(c, signer_public(c->signer), wall, e);
	if (!rc && (!c->announced || !c->head_entry || c->stranger))
		rc = chain_put_head(c, wall, e);
	if (!rc)
		c->announced = true;
	c->stranger = false;
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
		rc = chain_open_settle(c, e);
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

/* Behind the last sync nobody knows what the disk holds: that goes, and is derived again. */
static int open_again(struct chain *c, struct err *e)
{
	uint64_t cut = 0;
	int rc;

	if (c->fd >= 0 && ftruncate(c->fd, (off_t)c->synced) != 0)
		return err_sys(e, errno, "cannot cut %s to what was synced", c->path);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->announced = c->failed = false;
	c->head_entry = 0;
	rc = open_last(c, c->number, &cut, e);
	return rc ? rc : chain_open_settle(c, e);
}

int chain_reopen(struct chain *c, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&c->lock);
	if (c->failed) {
		rc = open_again(c, e);
		c->failed = rc != 0;
	}
	pthread_mutex_unlock(&c->lock);
	return rc;
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
