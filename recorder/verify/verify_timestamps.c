/*
 * Timestamps that stand in the log: each must be of an entry that the log has, as it is, and signed by an authority
 * that whoever asks trusts. The log is read once more, where there are receipts in it at all.
 */
#include "base/err.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/receipt.h"
#include "recorder/verify/verify_whole.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A receipt comes at most a witness's timeout behind its head: so many heads are remembered. */
#define HEADS 16384

struct covered {
	uint64_t seq;
	uint8_t hash[CHAIN_HASH];
};

struct stamps {
	struct verify_whole *w;
	struct covered *heads; /* HEADS of them, a ring */
	size_t at;
};

static void timestamps_remember(struct stamps *s, const struct chain_entry *en)
{
	struct covered *c = &s->heads[s->at++ % HEADS];

	c->seq = en->seq - 1;
	memcpy(c->hash, en->prev, CHAIN_HASH);
}

static bool timestamps_have(const struct stamps *s, const struct chain_head *h)
{
	for (size_t i = 0; i < HEADS && i < s->at; i++) {
		const struct covered *c = &s->heads[(s->at - 1 - i) % HEADS];
		if (c->seq == h->seq)
			return memcmp(c->hash, h->hash, CHAIN_HASH) == 0;
	}
	return false;
}

static int verify_timestamps_judge(const struct stamps *s, const json_t *o, struct chain_head *h, struct timestamp *out,
				   struct err *e)
{
	const char *hash = NULL;
	int64_t seq = 0;
	int rc = json_need_int(o, "seq", 1, INT64_MAX, &seq, e);

	if (rc == 0)
		rc = json_need_str(o, "hash", &hash, e);
	if (rc == 0 && chain_unhex(hash, h->hash, CHAIN_HASH))
		rc = err_set(e, ERR_INVAL, "its hash is malformed");
	h->seq = (uint64_t)seq;
	if (rc == 0 && !timestamps_have(s, h))
		rc = err_set(e, ERR_CONFLICT, "it is of an entry %" PRIu64 " that the log does not have so", h->seq);
	return rc ? rc : receipt_stamp(json_object_get(o, "receipt"), h, s->w->ask->tsa_ca, 0, out, e);
}

static void verify_timestamps_take(struct stamps *s, const struct chain_entry *en)
{
	struct verify_summary *sum = s->w->sum;
	const char *kind = "";
	struct chain_head h = {0};
	struct timestamp t;
	struct err e = {0};
	json_t *o = NULL;
	int rc;

	if (chain_entry_json(en, &o))
		return;
	(void)json_opt_str(o, "kind", &kind, NULL);
	if (strcmp(kind, "timestamp") != 0) {
		/* another witness's */
	} else if ((rc = verify_timestamps_judge(s, o, &h, &t, &e)) == ERR_FORBIDDEN) {
		verify_whole_found(s->w, VERIFY_NOTE, "timestamp_untrusted", "", NULL,
				   "entry %" PRIu64 " of the log: %s", en->seq, e.message);
	} else if (rc) {
		verify_whole_found(s->w, VERIFY_INTEGRITY, "timestamp_wrong", "", NULL,
				   "entry %" PRIu64 " of the log is no timestamp: %s", en->seq, e.message);
	} else {
		sum->timestamps++;
		sum->timestamps_checked += s->w->ask->tsa_ca != NULL;
		sum->timestamp_seq = h.seq;
		sum->timestamp = t;
	}
	json_decref(o);
}

static int verify_timestamps_take_entry(void *arg, const struct chain_entry *en, struct err *e)
{
	struct stamps *s = arg;

	(void)e;
	if (en->type == CHAIN_HEAD && en->seq)
		timestamps_remember(s, en);
	else if (en->type == CHAIN_ANCHOR)
		verify_timestamps_take(s, en);
	return 0;
}

int verify_timestamps(struct verify_whole *w, struct err *e)
{
	struct stamps s = {.w = w};
	int rc;

	if (!w->log.anchors)
		return 0;
	s.heads = calloc(HEADS, sizeof *s.heads);
	rc = s.heads ? verify_whole_entries(w, verify_timestamps_take_entry, &s, e)
		     : err_set(e, ERR_NOMEM, "no memory for heads");
	free(s.heads);
	return rc;
}
