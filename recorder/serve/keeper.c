#define LOG_SUBSYS "witness"
#include "recorder/serve/keeper.h"

#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/chain/merged.h"
#include "recorder/chain/receipt.h"
#include "recorder/serve/client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES (8 * 1024)
#define READ_MAX       (UINT64_C(16) << 20) /* of a log's file, for a list */
#define BATCH_BYTES    (KEEPER_BATCH_MAX + CHAIN_ENTRY_HEADER + CHAIN_PAYLOAD_MAX)
/* A keeper gets a batch in one question to its recorder: as text, beside a head. */
_Static_assert(BATCH_BYTES / 3 * 4 + LINE_MAX_BYTES < RECORDER_QUESTION_MAX, "a batch is a question");

/* A log of somebody's. */
struct kept {
	char name[40];
	struct id log_id;
	struct grant_public_key *keys;
	size_t nkeys;
	bool loaded;
	struct chain_head last; /* seq 0: none yet */
	unsigned refused;       /* lines of that sort in the file */
	bool merge;             /* its entries are taken in */
	struct merged_place
	    at; /* computed up to here: from the last head on; of one that is merged, from its first entry */
};

struct keeper {
	char *dir;
	const struct signer *signer;
	struct chain *chain; /* NULL: nothing is merged */
	pthread_mutex_t lock;
	struct kept *logs;
	size_t n;
};

/* ---- configuration */

static void logs_free(struct kept *logs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(logs[i].keys);
	free(logs);
}

static void keeper_key_of(const uint8_t bytes[GRANT_KEY_LEN], struct grant_public_key *out)
{
	uint8_t sum[DIGEST_LEN];
	struct digest d;

	digest_init(&d);
	digest_update(&d, bytes, GRANT_KEY_LEN);
	digest_peek(&d, sum);
	memcpy(out->key, bytes, GRANT_KEY_LEN);
	chain_hex(sum, 8, out->kid);
}

static int keeper_take_key(struct kept *l, const char *text, struct err *e)
{
	struct grant_public_key *key = &l->keys[l->nkeys];
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = base64_decode(text, strlen(text), true, &p, &n);

	if (rc || n != GRANT_KEY_LEN)
		rc = err_set(e, ERR_CONFIG, "a key of witness.pushers is malformed");
	else
		keeper_key_of(p, key), l->nkeys++;
	free(p);
	return rc;
}

static int take_pusher(struct kept *l, const struct conf_pusher *p, struct err *e)
{
	int rc = 0;

	text_put(l->name, sizeof l->name, p->name);
	l->merge = p->merge;
	l->keys = calloc(p->nkeys, sizeof *l->keys);
	if (!l->keys || id_parse(p->log_id, &l->log_id))
		return err_set(e, ERR_NOMEM, "no memory for a pusher");
	for (size_t i = 0; rc == 0 && i < p->nkeys; i++)
		rc = keeper_take_key(l, p->keys[i], e);
	return rc;
}

int keeper_configure(struct keeper *k, const struct conf *conf, struct err *e)
{
	struct kept *logs = calloc(conf->npushers ? conf->npushers : 1, sizeof *logs), *gone;
	size_t n = 0;
	int rc = logs ? 0 : err_set(e, ERR_NOMEM, "no memory for pushers");

	for (; rc == 0 && n < conf->npushers; n++)
		rc = take_pusher(&logs[n], &conf->pushers[n], e);
	pthread_mutex_lock(&k->lock);
	gone = rc ? logs : k->logs;
	if (rc == 0) { /* what is known of each is read from its file again */
		size_t old = k->n;
		k->logs = logs;
		k->n = n;
		n = old;
	}
	pthread_mutex_unlock(&k->lock);
	if (gone)
		logs_free(gone, n);
	return rc;
}

int keeper_create(const char *dir, const struct signer *s, struct chain *c, const struct conf *conf,
		  struct keeper **out, struct err *e)
{
	struct keeper *k = calloc(1, sizeof *k);
	int rc;

	if (!k)
		return err_set(e, ERR_NOMEM, "no memory");
	pthread_mutex_init(&k->lock, NULL);
	k->signer = s;
	k->chain = c;
	k->dir = strdup(dir);
	rc = k->dir ? keeper_configure(k, conf, e) : err_set(e, ERR_NOMEM, "no memory");
	if (rc) {
		keeper_destroy(k);
		return rc;
	}
	*out = k;
	return 0;
}

void keeper_destroy(struct keeper *k)
{
	if (!k)
		return;
	logs_free(k->logs, k->n);
	pthread_mutex_destroy(&k->lock);
	free(k->dir);
	free(k);
}

/* ---- the file */

static int file_of(const struct keeper *k, const struct id *log_id, char out[FILE_PATH_MAX], struct err *e)
{
	char id[ID_STR_LEN];

	id_format(log_id, id);
	return file_path(out, e, "%s/witnessed/%s.heads", k->dir, id);
}

static int head_of(const json_t *line, const char *key, struct chain_head *out)
{
	char *text = json_text(json_object_get(line, key));
	int rc = text ? chain_head_import(text, strlen(text), out, NULL) : ERR_INVAL;

	free(text);
	return rc;
}

typedef int line_fn(void *arg, const json_t *line);

/* Each whole line, from `from` on. What is no JSON (a line that a crash tore) is passed over. */
static int each_line(const char *path, uint64_t most, line_fn *fn, void *arg, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), rc = 0;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[LINE_MAX_BYTES];
	uint64_t size = 0;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT ? 0 : err_sys(e, errno, "cannot open %s", path);
	}
	rc = file_size(fd, path, &size, e);
	if (rc == 0 && size > most)
		(void)!fseeko(f, (off_t)(size - most), SEEK_SET);
	while (rc == 0 && fgets(line, sizeof line, f)) {
		json_t *o = NULL;
		if (json_parse(line, strcspn(line, "\n"), sizeof line, &o, NULL) == 0)
			rc = fn(arg, o);
		json_decref(o);
	}
	if (rc == 0 && ferror(f))
		rc = err_sys(e, errno, "cannot read %s", path);
	fclose(f);
	return rc;
}

static int load_line(void *arg, const json_t *o)
{
	struct kept *l = arg;
	const char *state = "";
	struct chain_head h;

	(void)json_opt_str(o, "state", &state, NULL);
	if (strcmp(state, "kept") == 0 && head_of(o, "head", &h) == 0 && h.seq > l->last.seq)
		l->last = h;
	l->refused += strcmp(state, "refused") == 0;
	return 0;
}

/* Merged entries stay: this log has them. */
static void keeper_go_back(struct kept *l)
{
	if (l->merge)
		return;
	l->at = (struct merged_place){.log_id = l->log_id, .seq = l->last.seq};
	memcpy(l->at.hash, l->last.hash, CHAIN_HASH);
}

static int keeper_load(struct keeper *k, struct kept *l, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = l->loaded ? 0 : file_of(k, &l->log_id, path, e);

	if (l->loaded || rc)
		return rc;
	memset(&l->last, 0, sizeof l->last);
	l->refused = 0;
	rc = each_line(path, UINT64_MAX, load_line, l, e);
	if (rc == 0 && l->merge)
		rc = merged_find(k->dir, &l->log_id, &l->at, e);
	l->loaded = rc == 0;
	keeper_go_back(l);
	return rc;
}

/* A line that a crash tore stays alone. */
static int append_line(struct keeper *k, const struct kept *l, json_t *o, struct err *e)
{
	char path[FILE_PATH_MAX], folder[FILE_PATH_MAX], last = '\n';
	char *text = o ? json_text(o) : NULL;
	struct buf b;
	uint64_t size = 0;
	int fd = -1, rc = text ? file_path(folder, e, "%s/witnessed", k->dir) : err_set(e, ERR_NOMEM, "no memory");

	buf_init(&b, LINE_MAX_BYTES);
	if (rc == 0 && (rc = file_make_folder(folder, e)) == 0)
		rc = file_of(k, &l->log_id, path, e);
	if (rc == 0 && (fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		rc = err_sys(e, errno, "cannot open %s", path);
	if (rc == 0)
		rc = file_size(fd, path, &size, e);
	if (rc == 0 && size)
		rc = file_read_at(fd, &last, 1, size - 1, path, e);
	if (rc == 0 &&
	    ((last != '\n' && buf_append(&b, "\n", 1)) || buf_append_str(&b, text) || buf_append(&b, "\n", 1)))
		rc = err_set(e, ERR_TOO_LARGE, "a head's line is too long");
	if (rc == 0)
		rc = file_write_at(fd, buf_ptr(&b), buf_len(&b), size, path, e);
	if (rc == 0)
		rc = file_sync(fd, path, e);
	if (rc && fd >= 0 && ftruncate(fd, (off_t)size))
		log_warn(NULL, "%s: half a line may stay: %s", path, strerror(errno));
	if (rc == 0 && !size)
		rc = file_sync_folder(folder, e);
	if (fd >= 0)
		close(fd);
	buf_finish(&b);
	free(text);
	return rc;
}

static json_t *head_json(const struct chain_head *h)
{
	char *text = chain_head_export(h);
	json_t *o = NULL;

	if (text)
		(void)json_parse(text, strlen(text), LINE_MAX_BYTES, &o, NULL);
	free(text);
	return o;
}

/* ---- heads */

static struct kept *keeper_find(struct keeper *k, const struct id *log_id)
{
	for (size_t i = 0; i < k->n; i++)
		if (id_equal(&k->logs[i].log_id, log_id))
			return &k->logs[i];
	return NULL;
}

static int keeper_keep(struct keeper *k, struct kept *l, const struct chain_head *h, bool again, json_t **out,
		       struct err *e)
{
	json_t *receipt = NULL;
	int rc = receipt_make(k->signer, h, clock_wall_ns(), &receipt, e);

	if (rc == 0 && !again) {
		json_t *line = json_pack("{s:s, s:o, s:O}", "state", "kept", "head", head_json(h), "receipt", receipt);
		rc = append_line(k, l, line, e);
		json_decref(line);
	}
	if (rc == 0 && !again) {
		l->last = *h;
		keeper_go_back(l);
		if (l->merge) /* under a head of this log, too; else with its next one */
			(void)chain_sign_head(k->chain, clock_wall_ns(), NULL);
	}
	if (rc == 0 && !(*out = json_pack("{s:s, s:O}", "state", "kept", "receipt", receipt)))
		rc = err_set(e, ERR_NOMEM, "no memory for an answer");
	json_decref(receipt);
	return rc;
}

static int keeper_refuse(struct keeper *k, struct kept *l, const struct chain_head *h, const char *why, json_t **out,
			 struct err *e)
{
	char at[40];
	int rc = 0;

	clock_format_utc(clock_wall_ns(), at, sizeof at);
	keeper_go_back(l);
	if (l->refused < KEEPER_REFUSED_MAX) {
		json_t *line = json_pack("{s:s, s:s, s:s, s:o, s:o}", "state", "refused", "why", why, "at", at, "head",
					 head_json(h), "against", head_json(&l->last));
		rc = append_line(k, l, line, e);
		json_decref(line);
		l->refused++;
		log_error(NULL, "%s: its head of entry %" PRIu64 " was refused (%s)", l->name, h->seq, why);
	}
	if (rc == 0 && !(*out = json_pack("{s:s, s:o}", "state", why, "newest", head_json(&l->last))))
		rc = err_set(e, ERR_NOMEM, "no memory for an answer");
	return rc;
}

struct seen_before {
	const struct chain_head *h;
	bool found, same;
};

static int look_line(void *arg, const json_t *o)
{
	struct seen_before *s = arg;
	const char *state = "";
	struct chain_head h;

	(void)json_opt_str(o, "state", &state, NULL);
	if (strcmp(state, "kept") != 0 || head_of(o, "head", &h) || h.seq != s->h->seq)
		return 0;
	s->found = true;
	s->same = memcmp(h.hash, s->h->hash, CHAIN_HASH) == 0;
	return 0;
}

/* Behind what is kept: one that was kept once is only late; one of another history is a fork. */
static int take_older(struct keeper *k, struct kept *l, const struct chain_head *h, json_t **out, struct err *e)
{
	struct seen_before s = {.h = h};
	char path[FILE_PATH_MAX];
	int rc = file_of(k, &l->log_id, path, e);

	if (rc == 0)
		rc = each_line(path, READ_MAX, look_line, &s, e);
	if (rc)
		return rc;
	if (s.found && !s.same)
		return keeper_refuse(k, l, h, "fork", out, e);
	if (!s.found)
		return keeper_refuse(k, l, h, "older", out, e);
	*out = json_pack("{s:s, s:o}", "state", "older", "newest", head_json(&l->last));
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for an answer");
}

/* ---- the proof */

/* By which of its keys; NULL: by none. */
static const struct grant_public_key *batch_signer(const struct kept *l, uint64_t after, const uint8_t *p, size_t n,
						   const uint8_t *sig, size_t len)
{
	uint8_t bytes[MERGED_SIGNED];

	if (len != SIGN_LEN)
		return NULL;
	merged_message(&l->log_id, after, p, n, bytes);
	for (size_t i = 0; i < l->nkeys; i++)
		if (sign_verify(l->keys[i].key, MERGED_PURPOSE, bytes, sizeof bytes, sig) == 0)
			return &l->keys[i];
	return NULL;
}

/* A head that was kept holds for what is taken in later: before `merge` was set, or where this log was put back. */
static int check_kept(void *arg, const struct chain_entry *en)
{
	const struct kept *l = arg;

	return en->seq == l->last.seq && memcmp(en->hash, l->last.hash, CHAIN_HASH) != 0 ? ERR_CONFLICT : 0;
}

/* A batch that is taken in: looked through whole, then its bytes, then what this log says of it. */
static int keeper_merge(struct keeper *k, struct kept *l, const struct grant_public_key *key, const uint8_t *sig,
			const uint8_t *p, size_t n, struct err *e)
{
	const struct grant_keyset keys = {l->keys, l->nkeys};
	struct merged_batch b = {.from = l->at, .to = l->at};
	uint8_t message[MERGED_SIGNED];
	int rc;

	if (!k->chain || n > MERGED_BATCH_MAX)
		return err_set(e, ERR_TOO_LARGE, "entries are taken in at most %d bytes at once", MERGED_BATCH_MAX);
	rc = merged_walk(&b.to, p, n, &keys, check_kept, l, e);
	if (rc == ERR_CONFLICT)
		return err_set(e, rc, "entry %" PRIu64 " is not the one that a kept head of this log is of",
			       l->last.seq);
	if (rc)
		return rc;
	merged_message(&l->log_id, b.from.seq, p, n, message);
	memcpy(b.sha256, message + MERGED_SIGNED - CHAIN_HASH, CHAIN_HASH);
	memcpy(b.key, key->key, sizeof b.key);
	memcpy(b.signature, sig, sizeof b.signature);
	text_put(b.name, sizeof b.name, l->name);
	rc = merged_append(k->chain, k->dir, &b, p, n, e);
	if (rc == 0)
		l->at = b.to;
	else
		l->loaded = false; /* where it is now this log says */
	return rc;
}

static int take_entries(struct keeper *k, struct kept *l, const json_t *q, struct err *e)
{
	const char *entries = NULL, *signature = NULL;
	const struct grant_public_key *key = NULL;
	int64_t after = 0;
	uint8_t *p = NULL, *sig = NULL;
	size_t n = 0, nsig = 0;
	int rc;

	if (!json_object_get(q, "entries"))
		return 0;
	rc = json_need_int(q, "after", 0, INT64_MAX, &after, e);
	if (rc == 0)
		rc = json_need_str(q, "entries", &entries, e);
	if (rc == 0)
		rc = json_need_str(q, "signature", &signature, e);
	if (rc == 0 && base64_decode(entries, strlen(entries), true, &p, &n))
		rc = err_set(e, ERR_INVAL, "entries is no base64url");
	if (rc == 0 && base64_decode(signature, strlen(signature), true, &sig, &nsig) == 0)
		key = batch_signer(l, (uint64_t)after, p, n, sig, nsig);
	if (rc == 0 && !key)
		rc = err_set(e, ERR_FORBIDDEN, "the entries are not signed by a key of this log");
	/* One that came twice, or after a restart: the answer says where to go on. */
	if (rc == 0 && (uint64_t)after == l->at.seq && n) {
		rc = l->merge ? keeper_merge(k, l, key, sig, p, n, e) : merged_walk(&l->at, p, n, NULL, NULL, NULL, e);
		if (rc)
			keeper_go_back(l);
	}
	free(p);
	free(sig);
	return rc;
}

static int take_newer(struct keeper *k, struct kept *l, const struct chain_head *h, const json_t *q, json_t **out,
		      struct err *e)
{
	int rc = take_entries(k, l, q, e);

	if (rc == ERR_CONFLICT)
		return keeper_refuse(k, l, h, "fork", out, e);
	if (rc)
		return rc;
	if (l->at.seq > h->seq)
		keeper_go_back(l);
	if (l->at.seq > h->seq) /* what is merged goes further: a head that came late */
		return take_older(k, l, h, out, e);
	if (l->at.seq == h->seq)
		return memcmp(l->at.hash, h->hash, CHAIN_HASH) == 0 ? keeper_keep(k, l, h, false, out, e)
								    : keeper_refuse(k, l, h, "fork", out, e);
	*out = json_pack("{s:s, s:I, s:o}", "state", "more", "after", (json_int_t)l->at.seq, "newest",
			 head_json(&l->last));
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for an answer");
}

static int serve_keeper_take(struct keeper *k, const struct chain_head *h, const json_t *q, json_t **out, struct err *e)
{
	struct kept *l = keeper_find(k, &h->log_id);
	struct grant_keyset keys;
	int rc;

	if (!l)
		return err_set(e, ERR_FORBIDDEN, "this is no witness for that log");
	keys = (struct grant_keyset){l->keys, l->nkeys};
	if (chain_head_verify(h, &keys))
		return err_set(e, ERR_FORBIDDEN, "the head is not signed by a key that is configured for its log");
	if ((rc = keeper_load(k, l, e)) != 0)
		return rc;
	if (!l->last.seq && !l->merge)
		return keeper_keep(k, l, h, false, out, e);
	if (h->seq > l->last.seq || (l->merge && h->seq > l->at.seq))
		return take_newer(k, l, h, q, out, e);
	if (h->seq < l->last.seq)
		return take_older(k, l, h, out, e);
	return memcmp(h->hash, l->last.hash, CHAIN_HASH) == 0 ? keeper_keep(k, l, h, true, out, e)
							      : keeper_refuse(k, l, h, "fork", out, e);
}

int keeper_take(struct keeper *k, const json_t *question, json_t **out, struct err *e)
{
	struct chain_head h;
	char *text = json_text(json_object_get(question, "head"));
	int rc = text ? chain_head_import(text, strlen(text), &h, e) : err_set(e, ERR_INVAL, "head is missing");

	free(text);
	if (rc == 0 && h.seq == 0)
		rc = err_set(e, ERR_INVAL, "a head without an entry is none");
	if (rc)
		return rc;
	pthread_mutex_lock(&k->lock);
	rc = serve_keeper_take(k, &h, question, out, e);
	pthread_mutex_unlock(&k->lock);
	return rc;
}

struct listing {
	json_t *heads;
	size_t limit;
};

static int list_line(void *arg, const json_t *o)
{
	struct listing *l = arg;

	if (json_array_size(l->heads) == l->limit)
		json_array_remove(l->heads, 0);
	return json_array_append(l->heads, (json_t *)(uintptr_t)o) ? ERR_NOMEM : 0;
}

int keeper_heads(struct keeper *k, const char *log_id, size_t limit, json_t **out, struct err *e)
{
	struct listing l = {.heads = json_array(), .limit = limit};
	char path[FILE_PATH_MAX];
	struct id id;
	int rc = l.heads ? 0 : err_set(e, ERR_NOMEM, "no memory for a list");

	if (rc == 0 && id_parse(log_id, &id))
		rc = err_set(e, ERR_INVAL, "log_id: this is no id");
	pthread_mutex_lock(&k->lock);
	if (rc == 0 && !keeper_find(k, &id))
		rc = err_set(e, ERR_NOT_FOUND, "this is no witness for that log");
	if (rc == 0 && (rc = file_of(k, &id, path, e)) == 0)
		rc = each_line(path, READ_MAX, list_line, &l, e);
	pthread_mutex_unlock(&k->lock);
	if (rc == 0 && !(*out = json_pack("{s:O}", "heads", l.heads)))
		rc = err_set(e, ERR_NOMEM, "no memory for a list");
	json_decref(l.heads);
	return rc;
}

void keeper_use_key(struct keeper *k, const struct signer *s)
{
	pthread_mutex_lock(&k->lock);
	k->signer = s;
	pthread_mutex_unlock(&k->lock);
}

/* ---- the other side */

static int add_entry(struct buf *b, const struct chain_entry *en)
{
	struct chain_entry_header h = {.type = en->type,
				       .critical = chain_type_critical(en->type),
				       .len = (uint32_t)en->len,
				       .seq = en->seq,
				       .journal_seq = en->journal_seq,
				       .wall_ns = en->wall_ns,
				       .session = en->session};
	uint8_t bytes[CHAIN_ENTRY_HEADER];
	int rc;

	chain_entry_encode(&h, bytes);
	rc = buf_append(b, bytes, sizeof bytes);
	return rc ? rc : buf_append(b, en->payload, en->len);
}

static int read_batch(const char *dir, uint64_t after, uint64_t until, struct buf *b, struct id *out_log_id,
		      struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	int rc = chain_reader_create(dir, after + 1, &r, e);

	while (rc == 0 && (rc = chain_reader_next(r, &en, e)) == 1) {
		rc = 0;
		if (en.seq > until || (buf_len(b) && buf_len(b) + en.len + CHAIN_ENTRY_HEADER > KEEPER_BATCH_MAX))
			break;
		if (en.seq > after && add_entry(b, &en))
			rc = err_set(e, ERR_NOMEM, "no memory for entries");
	}
	if (rc == 0)
		*out_log_id = *chain_reader_log_id(r);
	chain_reader_destroy(r);
	return rc;
}

int keeper_batch(struct keeper *k, uint64_t after, uint64_t until, json_t **out, struct err *e)
{
	uint8_t bytes[MERGED_SIGNED], sig[SIGN_LEN];
	char *entries = NULL, *signature = NULL;
	struct id log_id;
	struct buf b;
	int rc;

	buf_init(&b, BATCH_BYTES);
	rc = read_batch(k->dir, after, until, &b, &log_id, e);
	if (rc == 0) {
		merged_message(&log_id, after, buf_ptr(&b), buf_len(&b), bytes);
		pthread_mutex_lock(&k->lock);
		rc = signer_sign(k->signer, MERGED_PURPOSE, bytes, sizeof bytes, sig, e);
		pthread_mutex_unlock(&k->lock);
	}
	if (rc == 0) {
		entries = base64_encode(buf_ptr(&b), buf_len(&b), true);
		signature = base64_encode(sig, sizeof sig, true);
		*out = entries && signature ? json_pack("{s:I, s:s, s:s}", "after", (json_int_t)after, "entries",
							entries, "signature", signature)
					    : NULL;
		rc = *out ? 0 : err_set(e, ERR_NOMEM, "no memory for entries");
	}
	free(entries);
	free(signature);
	buf_finish(&b);
	return rc;
}
