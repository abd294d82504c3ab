#include "recorder/verify/verify_log.h"

#include "base/err.h"
#include "base/list.h"
#include "base/text.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"
#include "recorder/index/hole.h"
#include "recorder/index/index_derive.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A head from outside, and whether the log holds the entry that it covers. */
struct expected {
	const struct verify_outside *o;
	bool found;
};

struct reading {
	struct verify_log *log;
	const struct verify_ask *ask;
	struct chain_reader *reader;
	struct expected *expected; /* in the order of their entries */
	size_t expected_at;
	struct id log_id;
	bool known; /* log_id is set */
};

static void found(struct reading *r, enum verify_class class, const char *code, const struct id *session,
		  const char *fmt, ...) __attribute__((format(printf, 5, 6)));

static void found(struct reading *r, enum verify_class class, const char *code, const struct id *session,
		  const char *fmt, ...)
{
	char message[ERR_MESSAGE_MAX];
	struct verify_finding f = {.class = class, .code = code, .path = "", .block = -1, .message = message};
	va_list ap;

	va_start(ap, fmt);
	text_vformat(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (session)
		f.session = *session;
	if (r->ask->sink)
		r->ask->sink(r->ask->arg, &f);
}

static int keyset_add(struct grant_keyset *set, const struct grant_public_key *key)
{
	if (keyset_find(set, key->kid))
		return 0;
	return set->n < RECORD_KEYS_MAX ? list_append(&set->keys, &set->n, key, sizeof *key) : ERR_LIMIT;
}

/* The key in force is replaced by one that it never named: what stands in front of that is nobody's word but its own.
 */
static void foreign(struct reading *r, const struct chain_head *h, const char *before)
{
	const struct succession_run *run = succession_run(&r->log->line);

	found(r, VERIFY_INTEGRITY, "key_foreign", NULL,
	      "entry %" PRIu64
	      " of the log is signed by the key %.16s, which the key before it, %.16s, never named: it "
	      "vouches for nothing before entry %" PRIu64,
	      h->seq + 1, h->kid, before, run->from);
}

static int verify_log_take_head(struct reading *r, const struct chain_entry *en)
{
	const struct succession_key *before = succession_in_force(&r->log->line);
	char kid[17] = "";
	enum succession_step step;
	struct chain_head h;
	int rc = chain_entry_head(r->reader, en, &h);

	if (rc) {
		found(r, VERIFY_INTEGRITY, "head_malformed", NULL, "entry %" PRIu64 " of the log is no head", en->seq);
		return 0;
	}
	r->log->heads++;
	if (before)
		memcpy(kid, before->key.kid, sizeof kid);
	rc = succession_head(&r->log->line, &h, &step);
	if (rc == ERR_NOT_FOUND || rc == ERR_TOKEN_FORGED || rc == ERR_LIMIT) {
		found(r, VERIFY_INTEGRITY, "head_signature", NULL, "entry %" PRIu64 ": %s", en->seq,
		      rc == ERR_TOKEN_FORGED ? "a head of the log does not have the signature that it bears"
					     : "a head of the log is signed by a key that nobody announced");
		return 0;
	}
	if (rc)
		return rc;
	if (step == SUCCESSION_FOREIGN)
		foreign(r, &h, kid);
	if (succession_run(&r->log->line)->trusted)
		r->log->head = h;
	return 0;
}

static int take_seal(struct reading *r, const struct chain_entry *en)
{
	struct chain_seal s;

	if (chain_entry_seal(en, &s)) {
		found(r, VERIFY_INTEGRITY, "entry_malformed", &en->session,
		      "entry %" PRIu64 " of the log cannot be read", en->seq);
		return 0;
	}
	struct verify_log_seal x = {.session = s.session, .seq = en->seq, .tombstone = en->type == CHAIN_TOMBSTONE};
	memcpy(x.leaf, s.leaf, CHAIN_HASH);
	memcpy(x.day, s.day, sizeof s.day);
	return list_append(&r->log->seals, &r->log->n, &x, sizeof x);
}

static int verify_log_take_key(struct reading *r, const struct chain_entry *en)
{
	struct grant_public_key key;

	if (chain_entry_key(en, &key)) {
		found(r, VERIFY_INTEGRITY, "entry_malformed", NULL, "entry %" PRIu64 " of the log announces no key",
		      en->seq);
		return 0;
	}
	int rc = succession_announce(&r->log->line, &key, en->seq);
	if (rc != ERR_LIMIT)
		return rc;
	found(r, VERIFY_INTEGRITY, "entry_malformed", NULL, "entry %" PRIu64 " of the log announces one key too many",
	      en->seq);
	return 0;
}

static void take_outside(struct reading *r, const struct chain_entry *en)
{
	for (; r->expected_at < r->ask->outside_n; r->expected_at++) {
		struct expected *x = &r->expected[r->expected_at];
		const struct chain_head *h = &x->o->head;

		if (h->seq > en->seq)
			return;
		x->found =
		    h->seq == en->seq && memcmp(en->hash, h->hash, CHAIN_HASH) == 0 && id_equal(&r->log_id, &h->log_id);
		if (!x->found)
			continue;
		r->log->outside_found++;
		r->log->outside = *h;
	}
}

/* Of a derived file; what the log says of others (snapshots) is in its audit events. */
static int take_digest(struct reading *r, const struct chain_entry *en)
{
	struct verify_log_keyframes k = {.session = en->session, .seq = en->seq};
	const char *sha256 = NULL, *drawing = "";
	int64_t size = 0;
	json_t *o = NULL;

	index_digest_root(en, k.root);
	if (!k.root[0])
		return 0;
	if (chain_entry_json(en, &o) || json_need_str(o, "sha256", &sha256, NULL) ||
	    json_need_int(o, "size", 0, INT64_MAX, &size, NULL) || chain_unhex(sha256, k.sha256, CHAIN_HASH)) {
		found(r, VERIFY_INTEGRITY, "entry_malformed", &en->session,
		      "entry %" PRIu64 " of the log cannot be read", en->seq);
		json_decref(o);
		return 0;
	}
	k.size = (uint64_t)size;
	(void)json_opt_str(o, "drawing", &drawing, NULL);
	text_put(k.drawing, sizeof k.drawing, drawing);
	json_decref(o);
	return list_append(&r->log->keyframes, &r->log->nkeyframes, &k, sizeof k);
}

static int compare_keyframes(const void *a, const void *b)
{
	const struct verify_log_keyframes *x = a, *y = b;
	int d = memcmp(x->session.b, y->session.b, 16);

	return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The last of each session counts, where a head stands behind it. */
static void merge_keyframes(struct verify_log *l)
{
	size_t n = 0;

	if (l->nkeyframes)
		qsort(l->keyframes, l->nkeyframes, sizeof *l->keyframes, compare_keyframes);
	for (size_t i = 0; i < l->nkeyframes; i++) {
		if (l->keyframes[i].seq > l->head.seq)
			continue;
		n -= n && id_equal(&l->keyframes[n - 1].session, &l->keyframes[i].session);
		l->keyframes[n++] = l->keyframes[i];
	}
	l->nkeyframes = n;
}

static int by_session(const void *key, const void *entry)
{
	return memcmp(((const struct id *)key)->b, ((const struct verify_log_keyframes *)entry)->session.b, 16);
}

const struct verify_log_keyframes *verify_log_keyframes(const struct verify_log *l, const struct id *session)
{
	return l->nkeyframes ? bsearch(session, l->keyframes, l->nkeyframes, sizeof *l->keyframes, by_session) : NULL;
}

static int take_hole(struct reading *r, const struct chain_entry *en)
{
	char what[HOLE_TEXT];

	hole_describe(en, what);
	found(r, VERIFY_COMPLETENESS, "log_hole", NULL, "entry %" PRIu64 " of the log: %s", en->seq, what);
	return 0;
}

static int take_merged(struct reading *r, const struct chain_entry *en)
{
	struct err why = {0};
	int rc = verify_merged_take(&r->log->merged, r->ask->dir, en, &why);

	if (rc == ERR_CORRUPT)
		found(r, VERIFY_INTEGRITY, "merged_changed", NULL, "%s", why.message);
	return rc == ERR_CORRUPT ? 0 : rc;
}

static int verify_log_take(struct reading *r, const struct chain_entry *en)
{
	r->log->entries++;
	r->log->last_seq = en->seq;
	r->log_id = *chain_reader_log_id(r->reader);
	r->known = true;
	take_outside(r, en);
	switch (en->type) {
	case CHAIN_HEAD:
		return verify_log_take_head(r, en);
	case CHAIN_SEAL:
	case CHAIN_TOMBSTONE:
		return take_seal(r, en);
	case CHAIN_KEY:
		return verify_log_take_key(r, en);
	case CHAIN_DIGEST:
		return take_digest(r, en);
	case CHAIN_HOLE:
		return take_hole(r, en);
	case CHAIN_MERGED:
		return take_merged(r, en);
	case CHAIN_ANCHOR:
		r->log->anchors++;
		return 0;
	default:
		return 0;
	}
}

static int read_entries(struct reading *r, struct err *e)
{
	struct chain_entry en;
	struct err why;
	int rc;

	while ((rc = chain_reader_next(r->reader, &en, &why)) != 0) {
		if (rc == 1)
			rc = verify_log_take(r, &en);
		else if (rc == ERR_CORRUPT && chain_reader_torn(r->reader))
			found(r, VERIFY_COMPLETENESS, "log_torn", NULL, "%s", why.message);
		else if (rc == ERR_CORRUPT)
			found(r, VERIFY_INTEGRITY, "log_changed", NULL, "%s", why.message);
		else
			return err_set(e, rc, "%s", why.message);
		if (rc == ERR_NOMEM || rc == ERR_LIMIT)
			return err_set(e, rc, "no memory for what the log holds");
	}
	return 0;
}

static int compare_seals(const void *a, const void *b)
{
	const struct verify_log_seal *x = a, *y = b;
	int d = memcmp(x->session.b, y->session.b, 16);

	return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* One line for each session; a tombstone marks the seal that it ends. */
static void merge_seals(struct reading *r)
{
	struct verify_log *l = r->log;
	size_t n = 0;

	if (l->n)
		qsort(l->seals, l->n, sizeof *l->seals, compare_seals);
	for (size_t i = 0; i < l->n; i++) {
		struct verify_log_seal *s = &l->seals[i], *last = n ? &l->seals[n - 1] : NULL;
		bool erases = s->tombstone;

		/* Anybody can append a tombstone; only a signed one excuses what is missing. */
		s->tombstone = erases && succession_vouches(&l->line, s->seq);
		if (!last || !id_equal(&last->session, &s->session)) {
			if (erases)
				found(r, VERIFY_INTEGRITY, "tombstone_alone", &s->session,
				      "the log erases a recording that it never had");
			l->seals[n++] = *s;
			continue;
		}
		if (memcmp(last->leaf, s->leaf, CHAIN_HASH) != 0)
			found(r, VERIFY_INTEGRITY, "seal_repeated", &s->session,
			      "the log holds two different seals for one session");
		last->tombstone = last->tombstone || s->tombstone;
	}
	l->n = n;
	for (size_t i = 0; i < n; i++)
		l->tombstones += l->seals[i].tombstone;
}

/* A head from outside that the log does not hold. */
static void not_found(struct reading *r, const struct verify_outside *o)
{
	const struct chain_head *x = &o->head;

	if (r->known && !id_equal(&x->log_id, &r->log_id))
		found(r, VERIFY_INTEGRITY, "expected_log", NULL, "the head of %s belongs to another log", o->from);
	else if (x->seq == 0 || r->log->last_seq < x->seq)
		found(r, VERIFY_COMPLETENESS, "rolled_back", NULL,
		      "the log ends at entry %" PRIu64 ", the head of %s covers entry %" PRIu64
		      ": the newest part of the record is gone",
		      r->log->last_seq, o->from, x->seq);
	else
		found(r, VERIFY_INTEGRITY, "expected_differs", NULL,
		      "entry %" PRIu64 " of the log is not the one that the head of %s covers", x->seq, o->from);
}
static void check_outside(struct reading *r)
{
	for (size_t i = 0; i < r->ask->outside_n; i++) {
		const struct verify_outside *o = r->expected[i].o;

		if (chain_head_verify(&o->head, &r->log->keys))
			found(r, VERIFY_INTEGRITY, "expected_signature", NULL,
			      "the head of %s is not signed by a key of this record", o->from);
		if (!r->expected[i].found)
			not_found(r, o);
	}
	if (r->log->outside_found && r->log->last_seq > r->log->outside.seq + 1)
		found(r, VERIFY_NOTE, "behind_outside", NULL,
		      "%" PRIu64 " entries came after entry %" PRIu64
		      ", up to which a head was kept outside: whoever owns the host could have rewritten those",
		      r->log->last_seq - r->log->outside.seq, r->log->outside.seq);
}

static void check_signed(struct reading *r)
{
	const struct verify_log *l = r->log;

	if (!l->head.seq && l->entries)
		found(r, VERIFY_INTEGRITY, "log_unsigned", NULL,
		      "no head of the log is signed by a key that was given");
	else if (l->unsigned_entries)
		found(r, VERIFY_NOTE, "log_tail", NULL, "%" PRIu64 " entries came after the last signed head",
		      l->unsigned_entries);
}

static int compare_expected(const void *a, const void *b)
{
	uint64_t x = ((const struct expected *)a)->o->head.seq, y = ((const struct expected *)b)->o->head.seq;

	return x < y ? -1 : x > y;
}

static int sort_outside(struct reading *r)
{
	r->expected = calloc(r->ask->outside_n + 1, sizeof *r->expected);
	if (!r->expected)
		return ERR_NOMEM;
	for (size_t i = 0; i < r->ask->outside_n; i++)
		r->expected[i].o = &r->ask->outside[i];
	qsort(r->expected, r->ask->outside_n, sizeof *r->expected, compare_expected);
	return 0;
}

/* Given, and in force under what was given. */
static int collect_keys(struct verify_log *l, const struct grant_keyset *given)
{
	int rc = 0;

	for (size_t i = 0; !rc && given && i < given->n; i++)
		rc = keyset_add(&l->keys, &given->keys[i]);
	for (size_t i = 0; !rc && i < l->line.n; i++)
		if (succession_trusts(&l->line, &l->line.keys[i]))
			rc = keyset_add(&l->keys, &l->line.keys[i].key);
	return rc;
}

static int verify_log_judge(struct reading *r, struct err *e)
{
	struct verify_log *l = r->log;
	int rc = collect_keys(l, r->ask->keys);

	if (rc)
		return err_set(e, rc, "too many public keys, or no memory for them");
	l->unsigned_entries = l->last_seq - (l->head.seq ? l->head.seq + 1 : 0);
	merge_seals(r);
	merge_keyframes(r->log);
	check_signed(r);
	check_outside(r);
	return 0;
}

int verify_log_read(struct verify_log *l, const struct verify_ask *ask, struct err *e)
{
	struct reading r = {.log = l, .ask = ask};
	int rc;

	memset(l, 0, sizeof *l);
	succession_begin(&l->line, ask->keys);
	rc = sort_outside(&r);
	if (rc)
		return err_set(e, rc, "no memory for heads");
	rc = chain_reader_create(ask->dir, 0, &r.reader, e);
	if (rc == ERR_NOT_FOUND) {
		found(&r, VERIFY_COMPLETENESS, "log_missing", NULL, "there is no log in %s/chain", ask->dir);
		rc = 0;
	} else if (!rc) {
		rc = read_entries(&r, e);
	}
	if (!rc)
		rc = verify_log_judge(&r, e);
	chain_reader_destroy(r.reader);
	free(r.expected);
	return rc;
}

static void tell_key(const struct verify_log *l, const struct succession_key *k, verify_key_each *each, void *arg)
{
	struct verify_key out = {.origin = k->given                         ? VERIFY_KEY_GIVEN
					   : succession_trusts(&l->line, k) ? VERIFY_KEY_VOUCHED
									    : VERIFY_KEY_STRANGER,
				 .entry = k->first,
				 .head = k->head,
				 .head_wall_ns = k->head_wall_ns};

	memcpy(out.kid, k->key.kid, sizeof out.kid);
	memcpy(out.head_kid, k->head_kid, sizeof out.head_kid);
	each(arg, &out);
}

void verify_log_keys(const struct verify_log *l, verify_key_each *each, void *arg)
{
	for (size_t i = 0; i < l->line.n; i++)
		tell_key(l, &l->line.keys[i], each, arg);
	for (size_t i = 0; l->line.given && i < l->line.given->n; i++) {
		const struct grant_public_key *key = &l->line.given->keys[i];
		struct succession_key alone = {.key = *key, .given = true, .run = -1};
		bool told = false;

		for (size_t k = 0; k < l->line.n; k++)
			told = told || memcmp(&l->line.keys[k].key, key, sizeof *key) == 0;
		if (!told)
			tell_key(l, &alone, each, arg);
	}
}

void verify_log_finish(struct verify_log *l)
{
	verify_merged_finish(&l->merged);
	free(l->seals);
	free(l->keyframes);
	free(l->keys.keys);
	succession_finish(&l->line);
	memset(l, 0, sizeof *l);
}

struct verify_log_seal *verify_log_find(struct verify_log *l, const struct id *session)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int d = memcmp(session->b, l->seals[mid].session.b, 16);
		if (d == 0)
			return &l->seals[mid];
		if (d < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}
