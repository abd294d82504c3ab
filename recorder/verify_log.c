#include "recorder/verify_log.h"

#include "muxd/base/err.h"
#include "recorder/chain_format.h"
#include "recorder/chain_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 1024

struct reading {
	struct verify_log *log;
	struct chain_reader *reader;
	const struct chain_head *expect;
	verify_sink *sink;
	void *arg;
	struct grant_keyset announced; /* in the log, not vouched for yet */
	uint64_t vouched_seq;
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
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	if (session)
		f.session = *session;
	r->sink(r->arg, &f);
}

static int keyset_add(struct grant_keyset *set, const struct grant_public_key *key)
{
	struct grant_public_key *grown;

	if (keyset_find(set, key->kid))
		return 0;
	if (set->n >= KEYS_MAX)
		return ERR_LIMIT;
	grown = realloc(set->keys, (set->n + 1) * sizeof *grown);
	if (!grown)
		return ERR_NOMEM;
	set->keys = grown;
	set->keys[set->n++] = *key;
	return 0;
}

static int vouch(struct reading *r, const struct chain_head *h)
{
	int rc = 0;

	r->vouched_seq = h->seq;
	r->log->head = *h;
	for (size_t i = 0; !rc && i < r->announced.n; i++)
		rc = keyset_add(&r->log->keys, &r->announced.keys[i]);
	r->announced.n = 0;
	return rc;
}

static int take_head(struct reading *r, const struct chain_entry *en)
{
	struct chain_head h;
	int rc = chain_entry_head(r->reader, en, &h);

	if (rc) {
		found(r, VERIFY_INTEGRITY, "head_malformed", NULL, "entry %" PRIu64 " of the log is no head", en->seq);
		return 0;
	}
	r->log->heads++;
	rc = chain_head_verify(&h, &r->log->keys);
	if (rc == 0)
		return vouch(r, &h);
	if (rc == ERR_NOT_FOUND && chain_head_verify(&h, &r->announced) == 0)
		return 0; /* sound, and as good as its key: a later head may vouch for that */
	if (rc == ERR_NOMEM)
		return rc;
	found(r, VERIFY_INTEGRITY, "head_signature", NULL, "%s",
	      rc == ERR_NOT_FOUND ? "a head of the log is signed by a key that nobody announced"
				  : "a head of the log does not have the signature that it bears");
	return 0;
}

static int take_seal(struct reading *r, const struct chain_entry *en)
{
	struct verify_log *l = r->log;
	struct chain_seal s;

	if (chain_entry_seal(en, &s)) {
		found(r, VERIFY_INTEGRITY, "entry_malformed", &en->session,
		      "entry %" PRIu64 " of the log cannot be read", en->seq);
		return 0;
	}
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		struct verify_log_seal *grown = realloc(l->seals, cap * sizeof *grown);
		if (!grown)
			return ERR_NOMEM;
		l->seals = grown;
		l->cap = cap;
	}
	memset(&l->seals[l->n], 0, sizeof *l->seals);
	l->seals[l->n].session = s.session;
	memcpy(l->seals[l->n].leaf, s.leaf, CHAIN_HASH);
	memcpy(l->seals[l->n].day, s.day, sizeof s.day);
	l->seals[l->n].seq = en->seq;
	l->seals[l->n].tombstone = en->type == CHAIN_TOMBSTONE;
	l->n++;
	return 0;
}

static int take_key(struct reading *r, const struct chain_entry *en)
{
	struct grant_public_key key;

	if (chain_entry_key(en, &key)) {
		found(r, VERIFY_INTEGRITY, "entry_malformed", NULL, "entry %" PRIu64 " of the log announces no key",
		      en->seq);
		return 0;
	}
	return keyset_add(&r->announced, &key);
}

static int take(struct reading *r, const struct chain_entry *en)
{
	r->log->entries++;
	r->log->last_seq = en->seq;
	r->log_id = *chain_reader_log_id(r->reader);
	r->known = true;
	if (r->expect && en->seq == r->expect->seq && memcmp(en->hash, r->expect->hash, CHAIN_HASH) == 0 &&
	    id_equal(&r->log_id, &r->expect->log_id))
		r->log->expected_found = true;
	switch (en->type) {
	case CHAIN_HEAD:
		return take_head(r, en);
	case CHAIN_SEAL:
	case CHAIN_TOMBSTONE:
		return take_seal(r, en);
	case CHAIN_KEY:
		return take_key(r, en);
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
			rc = take(r, &en);
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
		s->tombstone = erases && s->seq <= r->vouched_seq;
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

static void check_expected(struct reading *r)
{
	const struct chain_head *x = r->expect;
	int rc;

	if (!x)
		return;
	rc = chain_head_verify(x, &r->log->keys);
	if (rc)
		found(r, VERIFY_INTEGRITY, "expected_signature", NULL,
		      "the expected head is not signed by a key of this record");
	if (r->known && !id_equal(&x->log_id, &r->log_id))
		found(r, VERIFY_INTEGRITY, "expected_log", NULL, "the expected head belongs to another log");
	else if (x->seq == 0 || r->log->last_seq < x->seq)
		found(r, VERIFY_COMPLETENESS, "rolled_back", NULL,
		      "the log ends at entry %" PRIu64 ", the expected head covers entry %" PRIu64
		      ": the newest part of the record is gone",
		      r->log->last_seq, x->seq);
	else if (!r->log->expected_found)
		found(r, VERIFY_INTEGRITY, "expected_differs", NULL,
		      "entry %" PRIu64 " of the log is not the one that the expected head covers", x->seq);
}

static void check_signed(struct reading *r)
{
	r->log->unsigned_entries = r->log->last_seq - (r->vouched_seq ? r->vouched_seq + 1 : 0);
	if (!r->vouched_seq && r->log->entries)
		found(r, VERIFY_INTEGRITY, "log_unsigned", NULL,
		      "no head of the log is signed by a key that was given");
	else if (r->log->unsigned_entries)
		found(r, VERIFY_NOTE, "log_tail", NULL, "%" PRIu64 " entries came after the last signed head",
		      r->log->unsigned_entries);
}

int verify_log_read(struct verify_log *l, const char *dir, const struct grant_keyset *keys,
		    const struct chain_head *expect, verify_sink *sink, void *arg, struct err *e)
{
	struct reading r = {.log = l, .expect = expect, .sink = sink, .arg = arg};
	int rc = 0;

	memset(l, 0, sizeof *l);
	for (size_t i = 0; !rc && i < keys->n; i++)
		rc = keyset_add(&l->keys, &keys->keys[i]);
	if (rc)
		return err_set(e, rc, "too many public keys, or no memory for them");
	rc = chain_reader_create(dir, 0, &r.reader, e);
	if (rc == ERR_NOT_FOUND) {
		found(&r, VERIFY_COMPLETENESS, "log_missing", NULL, "there is no log in %s/chain", dir);
		check_expected(&r);
		return 0;
	}
	if (!rc)
		rc = read_entries(&r, e);
	if (!rc) {
		merge_seals(&r);
		check_signed(&r);
		check_expected(&r);
	}
	chain_reader_destroy(r.reader);
	free(r.announced.keys);
	return rc;
}

void verify_log_finish(struct verify_log *l)
{
	free(l->seals);
	free(l->keys.keys);
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
