#define LOG_SUBSYS "recorder"
#include "recorder/serve/witnesses.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "recorder/chain/chain_format.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/receipt.h"
#include "recorder/chain/sign.h"
#include "recorder/chain/succession.h"
#include "recorder/index/hole.h"
#include "recorder/serve/alarms.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CA_MAX   (256 * 1024)
#define GRACE_NS (20 * NS_PER_SEC) /* after a start: no witness counts as behind before the carrier could ask it */
#define READ_NS  (60 * NS_PER_SEC) /* a witness that lies has the whole log read no more often */

enum witness_state { WITNESS_NEW, WITNESS_CURRENT, WITNESS_BEHIND, WITNESS_DISPUTED };
static const char *const state_names[] = {"new", "current", "behind", "disputed"};

struct witness {
	char name[40], kind[16];
	char tsa_ca[PATH_MAX]; /* "": its receipts are no timestamps */
	bool keyed;
	uint8_t key[GRANT_KEY_LEN];
	uint64_t interval_ns, timeout_ns, refuse_after_ns;
	enum witness_state state;
	uint64_t seq;         /* entry that the newest head with a receipt covers; 0: none */
	int64_t head_wall_ns; /* of that head */
	int64_t behind_ns; /* boot: since when there is news that it lacks; negative: before this boot; 0: it has all */
	uint64_t receipts, failures;
	struct timestamp stamp; /* the newest; wall_ns 0: none */
	char message[200];      /* what went wrong last; "": nothing since the last receipt */
};

struct witnesses {
	struct witnesses_params p;
	char *dir;
	pthread_mutex_t lock;
	struct witness *list;
	size_t n;
	uint64_t started_ns;
	uint64_t first_seq;    /* the oldest entry that was read for anchors; 0: none could be read */
	int64_t first_wall_ns; /* of that entry: of what has no receipt since, the lag is that at least */
	uint64_t read_ns;      /* boot: when the whole log was last read for its keys; 0: never */
};

static struct witness *witnesses_find(struct witnesses *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->list[i].name, name) == 0)
			return &w->list[i];
	return NULL;
}

static uint64_t lag_ns(const struct witness *x, uint64_t now)
{
	return x->behind_ns && (int64_t)now > x->behind_ns ? (uint64_t)((int64_t)now - x->behind_ns) : 0;
}

/* CLOCK_BOOTTIME of a wall time that was, negative before this boot; never 0. A clock that was set back makes it now at
 * the latest. */
static int64_t boot_of(int64_t wall_ns, uint64_t now)
{
	int64_t ago = clock_wall_ns() - wall_ns;
	int64_t then = (int64_t)now - (ago > 0 ? ago : 0);

	return then ? then : -1;
}

static void witnesses_audit(struct witnesses *w, const struct witness *x)
{
	const char *event = x->state == WITNESS_CURRENT  ? "witness.current"
			    : x->state == WITNESS_BEHIND ? "witness.behind"
							 : "witness.disputed";
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "event", event, "principal", "recorder", "outcome",
			      x->state == WITNESS_CURRENT ? "ok" : "error", "witness", x->name, "detail", x->message,
			      "seq", (json_int_t)x->seq);

	if (drain_audit(w->p.drain, NULL, o))
		log_error(NULL, "%s of %s is not in the audit log", event, x->name);
}

static void witnesses_set_state(struct witnesses *w, struct witness *x, enum witness_state to)
{
	if (x->state == to)
		return;
	log_info(NULL, "witness %s: %s -> %s%s%s", x->name, state_names[x->state], state_names[to],
		 *x->message ? ": " : "", x->message);
	x->state = to;
	witnesses_audit(w, x);
}

static void alarm_hole(struct witnesses *w, const char *who)
{
	alarms_set(
	    w->p.alarms, "record_hole",
	    "Keep a copy of record/, and run muxctl verify --all with the heads of a witness. After a restore that "
	    "was meant, have the witness take the log anew.",
	    "the log is not what %s knows of it: a part of the record is gone, or there are two of it", who);
}

void witnesses_use_key(struct witnesses *w, const struct signer *s)
{
	pthread_mutex_lock(&w->lock);
	w->p.signer = s;
	pthread_mutex_unlock(&w->lock);
}

/* ---- configuration */

static int witnesses_take_key(struct witness *x, const char *text, struct err *e)
{
	uint8_t *p = NULL;
	size_t n = 0;
	int rc = 0;

	if (!text)
		return 0;
	if (base64_decode(text, strlen(text), true, &p, &n) || n != sizeof x->key)
		rc = err_set(e, ERR_CONFIG, "the key of witness %s is malformed", x->name);
	else
		memcpy(x->key, p, n), x->keyed = true;
	free(p);
	return rc;
}

static int witnesses_take(struct witness *x, const struct conf_witness *c, struct err *e)
{
	text_put(x->name, sizeof x->name, c->name);
	text_put(x->kind, sizeof x->kind, c->kind);
	text_put(x->tsa_ca, sizeof x->tsa_ca, c->tsa_ca ? c->tsa_ca : "");
	x->interval_ns = c->interval_ns;
	x->timeout_ns = c->timeout_ns;
	x->refuse_after_ns = c->refuse_after_ns;
	x->keyed = false;
	return witnesses_take_key(x, c->key, e);
}

int witnesses_configure(struct witnesses *w, const struct conf *conf, struct err *e)
{
	struct witness *list = calloc(conf->nwitnesses ? conf->nwitnesses : 1, sizeof *list);
	int rc = list ? 0 : err_set(e, ERR_NOMEM, "no memory for witnesses");

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; rc == 0 && i < conf->nwitnesses; i++) {
		const struct witness *old = witnesses_find(w, conf->witnesses[i].name);
		if (old)
			list[i] = *old;
		rc = witnesses_take(&list[i], &conf->witnesses[i], e);
	}
	struct witness *gone = rc ? list : w->list;
	if (rc == 0) {
		w->list = list;
		w->n = conf->nwitnesses;
	}
	pthread_mutex_unlock(&w->lock);
	free(gone);
	return rc;
}

/* ---- what the log says */

static void take_anchor(struct witnesses *w, const struct chain_entry *en)
{
	const char *name = "", *by = "";
	int64_t seq = 0, wall = 0;
	struct witness *x;
	json_t *o = NULL;

	if (chain_entry_json(en, &o))
		return;
	if (json_need_str(o, "witness", &name, NULL) == 0 && json_need_int(o, "seq", 0, INT64_MAX, &seq, NULL) == 0 &&
	    json_need_int(o, "wall_ns", INT64_MIN, INT64_MAX, &wall, NULL) == 0 &&
	    (x = witnesses_find(w, name)) != NULL && (uint64_t)seq > x->seq) {
		x->seq = (uint64_t)seq;
		x->head_wall_ns = wall;
		x->state = WITNESS_CURRENT;
		(void)json_opt_int(o, "stamped_ns", 0, INT64_MAX, &x->stamp.wall_ns, NULL);
		(void)json_opt_str(o, "stamped_by", &by, NULL);
		text_put(x->stamp.by, sizeof x->stamp.by, by);
	}
	json_decref(o);
}

/* Damage is verify's to tell; the reader goes on behind it. */
static int next_entry(struct chain_reader *r, struct chain_entry *out, struct err *e)
{
	int rc;

	do
		rc = chain_reader_next(r, out, e);
	while (rc == ERR_CORRUPT);
	return rc;
}

/* Anchors of the file that is the nth from the end; later files were read before. */
static int restore_file(struct witnesses *w, unsigned nth, struct err *e)
{
	uint64_t until = w->first_seq ? w->first_seq : UINT64_MAX;
	struct chain_reader *r = NULL;
	struct chain_entry en;
	int rc = chain_reader_create_last(w->dir, nth, &r, e);

	while (rc == 0 && (rc = next_entry(r, &en, e)) == 1 && en.seq < until) {
		rc = 0;
		if (!w->first_seq || en.seq < w->first_seq) {
			w->first_seq = en.seq;
			w->first_wall_ns = en.wall_ns;
		}
		if (en.type == CHAIN_ANCHOR)
			take_anchor(w, &en);
	}
	chain_reader_destroy(r);
	return rc < 0 ? rc : 0;
}

/* Whether some witness lags for longer than its refuse_after depends on a receipt that is older than what was read. */
static bool restore_needs_older(const struct witnesses *w)
{
	int64_t ago = clock_wall_ns() - w->first_wall_ns;

	for (size_t i = 0; i < w->n; i++) {
		const struct witness *x = &w->list[i];
		if (!x->seq && x->refuse_after_ns && ago <= (int64_t)x->refuse_after_ns)
			return true;
	}
	return false;
}

/* A witness that has not all lags since the first news behind its newest head, and not only since this start. */
static int restore_lags(struct witnesses *w, struct err *e)
{
	uint64_t now = clock_boot_ns(), news = chain_news(cutter_chain(w->p.cutter)), least = news, most = 0;
	struct chain_reader *r = NULL;
	struct chain_entry en = {0};
	int rc;

	for (size_t i = 0; i < w->n; i++) {
		uint64_t seq = w->list[i].seq;
		if (!seq || seq >= news)
			continue;
		least = seq < least ? seq : least;
		most = seq > most ? seq : most;
	}
	if (!most)
		return 0;
	rc = chain_reader_create(w->dir, least + 1, &r, e);
	for (uint64_t seq = 0; rc == 0 && seq <= most && (rc = next_entry(r, &en, e)) == 1;) {
		rc = 0;
		if (!chain_type_news(en.type))
			continue;
		seq = en.seq;
		for (size_t i = 0; i < w->n; i++)
			if (w->list[i].seq && w->list[i].seq < seq && !w->list[i].behind_ns)
				w->list[i].behind_ns = boot_of(en.wall_ns, now);
	}
	chain_reader_destroy(r);
	return rc < 0 ? rc : 0;
}

/* The last file: a log in use gets an anchor each minute. Older ones only where refuse_after depends on them. */
static int restore(struct witnesses *w, struct err *e)
{
	uint64_t before = 0;
	unsigned nth = 1;
	int rc = restore_file(w, nth, e);

	while (rc == 0 && w->first_seq > 1 && w->first_seq != before && restore_needs_older(w)) {
		before = w->first_seq;
		rc = restore_file(w, ++nth, e);
	}
	return rc ? rc : restore_lags(w, e);
}

int witnesses_create(const struct witnesses_params *p, struct witnesses **out, struct err *e)
{
	struct witnesses *w = calloc(1, sizeof *w);
	int rc;

	if (!w)
		return err_set(e, ERR_NOMEM, "no memory for witnesses");
	pthread_mutex_init(&w->lock, NULL);
	w->p = *p;
	w->started_ns = clock_boot_ns();
	if (cutter_hole(p->cutter))
		alarm_hole(w, "audit.db, a segment or a recording");
	w->dir = strdup(p->dir);
	rc = w->dir ? witnesses_configure(w, p->conf, e) : err_set(e, ERR_NOMEM, "no memory for witnesses");
	if (rc == 0 && w->n)
		rc = restore(w, e);
	if (rc) {
		witnesses_destroy(w);
		return rc;
	}
	witnesses_tick(w);
	*out = w;
	return 0;
}

void witnesses_destroy(struct witnesses *w)
{
	if (!w)
		return;
	pthread_mutex_destroy(&w->lock);
	free(w->list);
	free(w->dir);
	free(w);
}

/* ---- time */

static bool is_grace(const struct witnesses *w, uint64_t now)
{
	return now <= w->started_ns + GRACE_NS;
}

static void tick_one(struct witnesses *w, struct witness *x, uint64_t news, uint64_t now)
{
	if (x->seq >= news)
		x->behind_ns = 0;
	else if (!x->behind_ns)
		x->behind_ns = x->seq || !w->first_seq ? (int64_t)now : boot_of(w->first_wall_ns, now);
	if (x->state != WITNESS_DISPUTED && lag_ns(x, now) > 2 * x->interval_ns + x->timeout_ns && !is_grace(w, now)) {
		if (!*x->message)
			text_put(x->message, sizeof x->message, "no receipt came");
		witnesses_set_state(w, x, WITNESS_BEHIND);
	}
}

void witnesses_tick(struct witnesses *w)
{
	uint64_t now = clock_boot_ns(), news = chain_news(cutter_chain(w->p.cutter));
	uint32_t flags = 0;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->n; i++) {
		struct witness *x = &w->list[i];
		tick_one(w, x, news, now);
		if (x->refuse_after_ns && lag_ns(x, now) > x->refuse_after_ns && !is_grace(w, now))
			flags |= RING_CURSOR_REFUSE;
	}
	pthread_mutex_unlock(&w->lock);
	drain_set_flags(w->p.drain, flags);
}

/* ---- the carrier */

/* Of the newest head with a receipt. */
static int64_t age_ns(const struct witness *x)
{
	int64_t now = clock_wall_ns();

	return x->head_wall_ns && now > x->head_wall_ns ? now - x->head_wall_ns : 0;
}

json_t *witnesses_news(struct witnesses *w)
{
	json_t *list = json_array();
	uint64_t news = chain_news(cutter_chain(w->p.cutter));

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; list && i < w->n; i++)
		if (json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", w->list[i].name, "seq",
							  (json_int_t)w->list[i].seq, "age_ns",
							  (json_int_t)age_ns(&w->list[i])))) {
			json_decref(list);
			list = NULL;
		}
	pthread_mutex_unlock(&w->lock);
	return list ? json_pack("{s:I, s:I, s:o}", "news", (json_int_t)news, "staff_seal",
				(json_int_t)cutter_staff_seal(w->p.cutter), "witnesses", list)
		    : NULL;
}

bool witnesses_take_entries(struct witnesses *w)
{
	bool some = false;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->n; i++)
		some = some || conf_witness_takes_entries(w->list[i].kind);
	pthread_mutex_unlock(&w->lock);
	return some;
}

static int parse_head(const json_t *o, struct chain_head *out, struct err *e)
{
	char *text = json_text(o);
	int rc = text ? chain_head_import(text, strlen(text), out, e) : err_set(e, ERR_NOMEM, "no memory for a head");

	free(text);
	return rc;
}

static int witnesses_check_key(struct witnesses *w, const struct chain_head *h, struct err *e)
{
	struct grant_public_key key;
	struct grant_keyset keys = {&key, 1};

	pthread_mutex_lock(&w->lock);
	key = *signer_public(w->p.signer);
	pthread_mutex_unlock(&w->lock);
	if (chain_head_verify(h, &keys))
		return err_set(e, ERR_TOKEN_FORGED, "the head of entry %" PRIu64 " is not signed by this recorder",
			       h->seq);
	return 0;
}

/* A head that this key signed for this log. */
static int own_head(struct witnesses *w, const json_t *o, struct chain_head *out, struct err *e)
{
	int rc = parse_head(o, out, e);

	return rc ? rc : witnesses_check_key(w, out, e);
}

static bool is_checked(const struct witness *x)
{
	return x->keyed || x->tsa_ca[0];
}

static int append_anchor(struct witnesses *w, const struct witness *x, const struct chain_head *h,
			 const json_t *receipt, const struct timestamp *stamp, struct err *e)
{
	char hash[2 * CHAIN_HASH + 1];

	chain_hex(h->hash, CHAIN_HASH, hash);
	json_t *o = json_pack("{s:s, s:s, s:b, s:I, s:s, s:I, s:O}", "witness", x->name, "kind", x->kind, "checked",
			      (int)is_checked(x), "seq", (json_int_t)h->seq, "hash", hash, "wall_ns",
			      (json_int_t)h->wall_ns, "receipt", receipt);
	if (o && stamp) {
		json_object_set_new(o, "stamped_ns", json_integer(stamp->wall_ns));
		json_object_set_new(o, "stamped_by", json_string(stamp->by));
	}
	int rc = o ? chain_append_json(cutter_chain(w->p.cutter), CHAIN_ANCHOR, NULL, o, e)
		   : err_set(e, ERR_NOMEM, "no memory for an entry of the log");

	json_decref(o);
	return rc;
}

static int take_receipt(struct witnesses *w, struct witness *x, const struct chain_head *h, const json_t *receipt,
			const struct timestamp *stamp, struct err *e)
{
	uint64_t now = clock_boot_ns();
	int rc = x->keyed ? receipt_check(receipt, h, x->key, e) : 0;

	if (rc == 0 && h->seq > x->seq)
		rc = append_anchor(w, x, h, receipt, stamp, e);
	if (rc)
		return rc;
	if (h->seq > x->seq) {
		x->seq = h->seq;
		x->head_wall_ns = h->wall_ns;
		x->receipts++;
		if (stamp)
			x->stamp = *stamp;
	}
	x->behind_ns = x->seq >= chain_news(cutter_chain(w->p.cutter)) ? 0 : boot_of(x->head_wall_ns, now);
	if (x->state != WITNESS_DISPUTED) {
		x->message[0] = '\0';
		witnesses_set_state(w, x, WITNESS_CURRENT);
	}
	return 0;
}

static int check_stamp(const struct chain_head *h, const json_t *receipt, const char *ca_file, struct timestamp *out,
		       struct err *e)
{
	char *ca = NULL;
	size_t n = 0;
	int rc = slurp_file(ca_file, 0, CA_MAX, &ca, &n, e);

	if (rc == 0)
		rc = receipt_stamp(receipt, h, ca, clock_wall_ns(), out, e);
	slurp_free(ca, n);
	return rc;
}

/* "": that of this witness are none. Whoever is not there has none either. */
static void stamp_authority(struct witnesses *w, const char *name, char out[PATH_MAX])
{
	const struct witness *x;

	pthread_mutex_lock(&w->lock);
	x = witnesses_find(w, name);
	text_put(out, PATH_MAX, x ? x->tsa_ca : "");
	pthread_mutex_unlock(&w->lock);
}

int witnesses_receipt(struct witnesses *w, const char *name, const json_t *head, const json_t *receipt, struct err *e)
{
	char ca_file[PATH_MAX];
	struct chain_head h;
	struct timestamp stamp = {0};
	struct id log_id;
	struct witness *x;
	int rc = own_head(w, head, &h, e);

	stamp_authority(w, name, ca_file);
	size_t most = *ca_file ? RECEIPT_STAMP_MAX : RECEIPT_MAX;

	chain_log_id(cutter_chain(w->p.cutter), &log_id);
	if (rc == 0 && !id_equal(&log_id, &h.log_id))
		rc = err_set(e, ERR_INVAL, "the head is of another log");
	if (rc == 0 && (!json_is_object(receipt) || json_dumpb(receipt, NULL, 0, JSON_COMPACT) > most))
		rc = err_set(e, ERR_INVAL, "the receipt is no object of at most %zu bytes", most);
	if (rc == 0 && *ca_file)
		rc = check_stamp(&h, receipt, ca_file, &stamp, e);
	pthread_mutex_lock(&w->lock);
	x = witnesses_find(w, name);
	if (rc == 0)
		rc = x ? take_receipt(w, x, &h, receipt, *ca_file ? &stamp : NULL, e)
		       : err_set(e, ERR_NOT_FOUND, "there is no such witness");
	if (rc && x) {
		x->failures++;
		text_put(x->message, sizeof x->message, e->message);
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

void witnesses_failed(struct witnesses *w, const char *name, const char *why)
{
	struct witness *x;

	pthread_mutex_lock(&w->lock);
	x = witnesses_find(w, name);
	if (x) {
		x->failures++;
		text_put(x->message, sizeof x->message, why);
	}
	pthread_mutex_unlock(&w->lock);
}

/* ---- rolled back, or forked */

/* Does entry h->seq of the log have that hash? */
static int witnesses_compare(struct witnesses *w, const struct chain_head *h, bool *out_same, struct err *e)
{
	struct chain_reader *r = NULL;
	struct chain_entry en = {0};
	int rc = chain_reader_create(w->dir, h->seq, &r, e);

	if (rc == 0)
		rc = chain_reader_next(r, &en, e);
	*out_same = rc == 1 && en.seq == h->seq && memcmp(en.hash, h->hash, CHAIN_HASH) == 0;
	chain_reader_destroy(r);
	return rc < 0 && rc != ERR_CORRUPT ? rc : 0;
}

static int dispute(struct witnesses *w, struct witness *x, const struct chain_head *h, bool differs, bool other_log,
		   struct err *e)
{
	struct hole hole = {.source = "witness", .name = x->name, .seq = h->seq, .differs = differs};
	struct err why = {0};

	if (other_log)
		hole.log_id = &h->log_id;
	text_format(x->message, sizeof x->message, "it has a head of entry %" PRIu64 " that this log does not have%s",
		    h->seq,
		    other_log ? " (another log under the same key)"
		    : differs ? " (a fork)"
			      : " (it was set back)");
	if (x->state != WITNESS_DISPUTED && hole_append(cutter_chain(w->p.cutter), &hole, &why))
		log_error(NULL, "the hole is not in the log: %s", why.message);
	alarm_hole(w, x->name);
	witnesses_set_state(w, x, WITNESS_DISPUTED);
	return err_set(e, ERR_CONFLICT, "%s", x->message);
}

static int read_line(struct witnesses *w, struct succession *line)
{
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct err ignored;
	int rc = chain_reader_create(w->dir, 0, &r, &ignored);

	while (rc == 0 && (rc = chain_reader_next(r, &en, &ignored)) != 0) {
		enum succession_step step;
		struct grant_public_key key;
		struct chain_head h;

		rc = rc == ERR_CORRUPT ? 0 : rc; /* verify's to tell */
		if (rc != 1)
			continue;
		rc = 0;
		if (en.type == CHAIN_KEY && chain_entry_key(&en, &key) == 0)
			rc = succession_announce(line, &key, en.seq);
		else if (en.type == CHAIN_HEAD && chain_entry_head(r, &en, &h) == 0)
			(void)succession_head(line, &h, &step);
	}
	chain_reader_destroy(r);
	return rc;
}

/* The record's key may have been rotated since: what an earlier one of the same line signed is the recorder's, too. */
static int check_line(struct witnesses *w, const struct chain_head *h, struct err *e)
{
	struct grant_public_key key;
	struct succession line;
	uint64_t now = clock_boot_ns();
	bool found = false;

	if (witnesses_check_key(w, h, e) == 0)
		return 0;
	pthread_mutex_lock(&w->lock);
	bool soon = w->read_ns && now < w->read_ns + READ_NS;
	if (!soon)
		w->read_ns = now;
	key = *signer_public(w->p.signer);
	pthread_mutex_unlock(&w->lock);
	if (soon)
		return e->code;
	succession_begin(&line, &(struct grant_keyset){&key, 1});
	int rc = read_line(w, &line);
	for (size_t i = 0; rc == 0 && !found && i < line.n; i++)
		found = succession_trusts(&line, &line.keys[i]) &&
			chain_head_verify(h, &(struct grant_keyset){&line.keys[i].key, 1}) == 0;
	succession_finish(&line);
	return found ? 0 : e->code;
}

int witnesses_known(struct witnesses *w, const char *name, const json_t *head, struct err *e)
{
	struct chain *c = cutter_chain(w->p.cutter);
	struct chain_head h;
	struct id log_id;
	bool same = false, other;
	int rc = parse_head(head, &h, e);

	chain_log_id(c, &log_id);
	other = rc == 0 && !id_equal(&log_id, &h.log_id);
	if (rc == 0 && !other && h.seq <= chain_seq(c))
		rc = witnesses_compare(w, &h, &same, e);
	/* What this log has needs no signature; a claim that it has not does. */
	if (rc == 0 && !same)
		rc = check_line(w, &h, e);
	pthread_mutex_lock(&w->lock);
	struct witness *x = witnesses_find(w, name);
	if (rc == 0 && !x)
		rc = err_set(e, ERR_NOT_FOUND, "there is no such witness");
	if (rc && x)
		text_put(x->message, sizeof x->message, e->message);
	if (rc == 0 && !same)
		rc = dispute(w, x, &h, h.seq <= chain_seq(c), other, e);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

json_t *witnesses_status(struct witnesses *w)
{
	char when[40];
	json_t *list = json_array();
	uint64_t now = clock_boot_ns();

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; list && i < w->n; i++) {
		const struct witness *x = &w->list[i];
		json_t *o =
		    json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:s}", "name", x->name, "kind",
			      x->kind, "state", state_names[x->state], "proof",
			      x->keyed ? "countersigned" : conf_witness_proof(x->kind), "checked", (int)is_checked(x),
			      "seq", (json_int_t)x->seq, "lag_seconds", (json_int_t)(lag_ns(x, now) / NS_PER_SEC),
			      "refuse_after_seconds", (json_int_t)(x->refuse_after_ns / NS_PER_SEC), "receipts",
			      (json_int_t)x->receipts, "failures", (json_int_t)x->failures, "message", x->message);
		if (o && x->stamp.wall_ns) {
			clock_format_utc(x->stamp.wall_ns, when, sizeof when);
			json_object_set_new(o, "timestamped", json_pack("{s:s, s:s}", "at", when, "by", x->stamp.by));
		}
		if (json_array_append_new(list, o)) {
			json_decref(list);
			list = NULL;
		}
	}
	pthread_mutex_unlock(&w->lock);
	return list;
}
