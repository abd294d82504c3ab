#define LOG_SUBSYS "grant"
#include "muxd/monitor/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/monitor.h"
#include "muxd/monitor/request.h"
#include "muxd/monitor/tally.h"
#include "policy/outside.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN_NS     (5 * NS_PER_SEC) /* for the checker itself, beside what it fetches */
#define EXCHANGES_MAX 64               /* of one issuer: a slow one holds up its own alone */
#define BY_PREFIX     "issuer "
#define ISSUER_MAX    40 /* conf_check_witness_name() */

struct exchange {
	struct exchange *next;
	struct monitor *m;
	uv_timer_t timer;
	int64_t tag;
	json_t *msg;             /* as net sent it */
	char issuer[ISSUER_MAX]; /* whose checker's answer is waited for */
	bool shown;              /* as it is, at /mcp: nobody says whose it is, and why */
	struct err best;         /* shown: the best word of those that were asked before */
	issue_done *done;
	void *arg;
};

static void exchange_on_closed(uv_handle_t *h)
{
	struct exchange *x = h->data;

	json_decref(x->msg);
	free(x);
}

static void exchange_unlink(struct exchange *x)
{
	struct exchange **at = &x->m->exchanges;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	uv_close((uv_handle_t *)&x->timer, exchange_on_closed); /* x lives until the loop goes on */
}

static void exchange_refuse(struct exchange *x, int rc, const struct err *e)
{
	exchange_unlink(x);
	x->done(x->arg, rc, e, NULL, NULL);
}

/* ---- silence */

/* Discovery and keys may each take the issuer's timeout; a checker that is well has answered by then. */
static uint64_t bound_of(const struct conf_issuer *x)
{
	return 2 * x->timeout_ns + MARGIN_NS;
}

static uint64_t longest_bound(const struct conf *c)
{
	uint64_t longest = MARGIN_NS;

	for (size_t i = 0; i < c->nissuers; i++)
		if (bound_of(&c->issuers[i]) > longest)
			longest = bound_of(&c->issuers[i]);
	return longest;
}

/* One that answers nobody is started again, and what waits is answered when it has ended. */
static void checker_look(struct monitor *m)
{
	if (!m->checker_silent_ns || clock_boot_ns() - m->checker_silent_ns < longest_bound(m->conf))
		return;
	log_error(NULL, "the checker of issuers' tokens answers nobody and is started again");
	proc_kill(&m->checker);
}

/* Its own exchange alone: the others' issuers may be well. */
static void exchange_on_silent(uv_timer_t *t)
{
	struct exchange *x = t->data;
	struct monitor *m = x->m;
	struct err e = {0};

	err_set(&e, ERR_ISSUER, "issuer %s: nobody could say in time whether its token is good", x->issuer);
	exchange_refuse(x, ERR_ISSUER, &e);
	checker_look(m);
}

void exchange_heard(struct monitor *m)
{
	m->checker_silent_ns = m->exchanges ? clock_boot_ns() : 0;
}

/* ---- the question */

static json_t *check_of(const struct exchange *x)
{
	return json_pack("{s:s,s:I,s:s,s:s,s:I}", "op", "check", "tag", (json_int_t)x->tag, "issuer", x->issuer,
			 "token", json_get_text(x->msg, "token"), "now",
			 (json_int_t)(floor_now(&x->m->floor) / (int64_t)NS_PER_SEC));
}

static size_t exchanges_count(const struct monitor *m, const char *issuer)
{
	size_t n = 0;

	for (const struct exchange *x = m->exchanges; x; x = x->next)
		n += strcmp(x->issuer, issuer) == 0;
	return n;
}

static int exchange_check(const struct monitor *m, const char *name, const struct conf_issuer **out, struct err *e)
{
	const struct conf_issuer *issuer = conf_issuer_find(m->conf, name);

	if (m->edge.on)
		return err_set(e, ERR_UNSUPPORTED, "an edge makes no grants: its centre mints leases");
	if (!issuer)
		return err_set(e, ERR_ISSUER_UNKNOWN, "the configuration has no issuer \"%.40s\"", name);
	if (m->checker.state != PROC_READY)
		return err_set(e, ERR_UNAVAILABLE, "the checker of issuers' tokens is being started");
	if (exchanges_count(m, name) >= EXCHANGES_MAX)
		return err_set(e, ERR_AGAIN, "%d tokens of this issuer are being checked already", EXCHANGES_MAX);
	*out = issuer;
	return 0;
}

/* The checker is asked whether it is one of this issuer's. */
static int exchange_ask(struct exchange *x, const struct conf_issuer *issuer, struct err *e)
{
	struct monitor *m = x->m;
	json_t *check;
	int rc;

	x->tag = ++m->exchange_tag;
	text_put(x->issuer, sizeof(x->issuer), issuer->name);
	check = check_of(x);
	rc = check ? proc_send(&m->checker, check, NULL, 0) : ERR_NOMEM;
	json_decref(check);
	if (rc) /* it has just ended, whatever the pipe says: another one is begun */
		return err_set(e, ERR_UNAVAILABLE, "the checker of issuers' tokens cannot be asked now: try again");
	if (!m->checker_silent_ns)
		m->checker_silent_ns = clock_boot_ns();
	uv_timer_start(&x->timer, exchange_on_silent, bound_of(issuer) / NS_PER_MS, 0);
	return 0;
}

/*
 * Of a token that is shown: the issuers behind that name (NULL: all) whose tokens open that door, until one can be
 * asked. One that cannot might have known, so its word is the best there is. True: one was asked.
 */
static bool exchange_ask_next(struct exchange *x, const char *name)
{
	const struct conf_issuer *issuer = NULL;

	while ((issuer = conf_issuer_shown(x->m->conf, name))) {
		struct err own = {0};

		name = issuer->name;
		if (exchange_check(x->m, name, &issuer, &own) == 0 && exchange_ask(x, issuer, &own) == 0)
			return true;
		x->best = own;
	}
	return false;
}

/* The issuer that the caller names, or of a token that is shown the first that can be asked. */
static int exchange_ask_first(struct exchange *x, struct err *e)
{
	const struct conf_issuer *issuer = NULL;
	const char *name = NULL;
	int rc;

	if (!x->shown) {
		rc = json_need_str(x->msg, "issuer", &name, e);
		rc = rc ? rc : exchange_check(x->m, name, &issuer, e);
		return rc ? rc : exchange_ask(x, issuer, e);
	}
	if (exchange_ask_next(x, NULL))
		return 0;
	if (!x->best.code)
		return err_set(e, ERR_ISSUER_UNKNOWN,
			       "no issuer's tokens open this door: none of issuers has a reason");
	*e = x->best;
	return e->code;
}

int exchange_begin(struct monitor *m, const json_t *msg, issue_done *done, void *arg, struct err *e)
{
	const char *token = NULL;
	struct exchange *x;
	int rc = json_need_str(msg, "token", &token, e);

	if (rc)
		return rc;
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(e, ERR_NOMEM, "no memory for an exchange");
	x->m = m;
	x->msg = json_incref((json_t *)(uintptr_t)msg);
	x->shown = json_is_true(json_object_get(msg, "shown"));
	x->done = done;
	x->arg = arg;
	x->timer.data = x;
	uv_timer_init(&m->loop, &x->timer);
	x->next = m->exchanges;
	m->exchanges = x;
	rc = exchange_ask_first(x, e);
	if (rc)
		exchange_unlink(x);
	return rc;
}

/* ---- the answer */

/* An answer of the checker's, looked at as if a stranger had said it. */
struct found {
	const char *kid, *alg, *subject, *jti;
	struct id seen;
	int64_t expires;
	const json_t *claims;
};

static int found_take(const json_t *msg, int64_t now_ns, struct found *out, struct err *e)
{
	const char *seen = NULL;
	int rc;

	if ((rc = json_need_str(msg, "kid", &out->kid, e)) || (rc = json_need_str(msg, "alg", &out->alg, e)) ||
	    (rc = json_need_str(msg, "subject", &out->subject, e)) || (rc = json_need_str(msg, "jti", &out->jti, e)) ||
	    (rc = json_need_str(msg, "seen", &seen, e)) ||
	    (rc = json_need_int(msg, "expires", 1, INT64_MAX / (int64_t)NS_PER_SEC, &out->expires, e)))
		return rc;
	out->claims = json_object_get(msg, "claims");
	if (id_parse(seen, &out->seen) || id_is_nil(&out->seen) || !json_is_object(out->claims))
		return err_set(e, ERR_INTERNAL, "the checker's answer is none");
	/* The question took its time. */
	return out->expires * (int64_t)NS_PER_SEC > now_ns
		   ? 0
		   : err_set(e, ERR_TOKEN_EXPIRED, "the issuer's token has expired meanwhile");
}

/* The shortest of what is asked for, what the issuer's tokens may, and what grants may. */
static uint64_t ttl_of(const struct conf *c, const struct conf_issuer *x, bool shown, uint64_t wanted_ns)
{
	uint64_t ttl = wanted_ns ? wanted_ns : shown ? x->ttl_ns : c->grant_ttl_ns;

	ttl = ttl < x->ttl_ns ? ttl : x->ttl_ns;
	return ttl < c->grant_ttl_max_ns ? ttl : c->grant_ttl_max_ns;
}

static json_t *detail_of(const struct conf_issuer *x, const struct found *f)
{
	char ends[32];

	clock_format_utc(f->expires * (int64_t)NS_PER_SEC, ends, sizeof(ends));
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "issuer", x->name, "iss", x->issuer, "subject", f->subject,
			 "jti", f->jti, "kid", f->kid, "alg", f->alg, "token_expires_at", ends);
}

/* Of the tokens that are counted: an issuer that gives out very many leaves room for those of the others. */
static size_t share_of(const struct conf *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->nissuers; i++)
		n += c->issuers[i].exchanges > 0;
	return TALLY_MAX / (n ? n : 1);
}

/* Net's wish; of a token that is shown nothing is asked for, and the operator's words say why. */
static int wish_take(const struct exchange *x, const struct conf_issuer *issuer, const struct found *f,
		     struct outside_words *words, struct wish *w, struct err *e)
{
	int rc;

	if (!x->shown)
		return request_child(json_object_get(x->msg, "grant"), w, e);
	rc = outside_words(issuer, f->claims, words, e);
	w->reason = words->reason;
	w->task = words->task[0] ? words->task : NULL;
	return rc;
}

/* A reload may have come since the question: the configuration of now counts. */
static int exchange_create(struct exchange *x, const json_t *msg, struct err *e)
{
	const struct conf_issuer *issuer = conf_issuer_find(x->m->conf, x->issuer);
	struct wish w = {.how = WISH_NEW, .via = "issuer"};
	struct outside_words words;
	struct outside_grant g;
	struct found f;
	int rc;

	if (!issuer)
		return err_set(e, ERR_ISSUER_UNKNOWN, "the configuration has no issuer \"%.40s\" any more", x->issuer);
	if ((rc = found_take(msg, floor_now(&x->m->floor), &f, e)) || (rc = wish_take(x, issuer, &f, &words, &w, e)) ||
	    (rc = outside_map(issuer, f.claims, w.agent, w.scopes, &g, e)))
		return rc;
	w.principal = g.principal;
	w.agent = g.agent;
	w.kind = g.kind;
	w.scopes = g.scopes;
	w.ttl_ns = ttl_of(x->m->conf, issuer, x->shown, w.ttl_ns);
	w.ends_ns = f.expires * (int64_t)NS_PER_SEC;
	w.used = f.seen;
	w.shown = x->shown;
	w.uses_max = (int64_t)issuer->exchanges;
	w.uses_share = share_of(x->m->conf);
	w.detail = detail_of(issuer, &f);
	text_format(w.by, sizeof(w.by), BY_PREFIX "%s", issuer->name);
	exchange_unlink(x);
	issue_create(x->m, &w, x->done, x->arg);
	json_decref(w.detail);
	return 0;
}

/*
 * A token that is shown is none of this issuer's, by what it says itself and before anything is fetched for it: the
 * next one is asked. An issuer whose tokens have another typ says that the header is wrong; who could read it and says
 * that it is foreign knows better, and who could not be asked might have known. True: one was asked.
 */
static bool exchange_goes_on(struct exchange *x, const struct err *e)
{
	if (!x->best.code && e->code == ERR_TOKEN_FOREIGN)
		x->best = *e;
	uv_timer_stop(&x->timer);
	return exchange_ask_next(x, x->issuer);
}

static void exchange_refused(struct exchange *x, const struct err *e)
{
	bool anothers = x->shown && (e->code == ERR_TOKEN_FOREIGN || e->code == ERR_TOKEN_ALGORITHM);
	struct err said = *e;

	if (anothers && exchange_goes_on(x, e))
		return;
	if (anothers && x->best.code)
		said = x->best;
	exchange_refuse(x, said.code, &said);
}

void exchange_answer(struct monitor *m, const json_t *msg)
{
	const json_t *error = json_object_get(msg, "error");
	struct exchange *x = m->exchanges;
	struct err e = {0};
	int64_t tag = 0, rc = 0;
	int code;

	if (json_opt_int(msg, "tag", INT64_MIN, INT64_MAX, &tag, NULL) ||
	    json_opt_int(msg, "rc", INT32_MIN, 0, &rc, NULL))
		return;
	while (x && x->tag != tag)
		x = x->next;
	if (!x)
		return;
	code = rc ? err_by_name(json_get_text(error, "code")) : 0;
	if (rc)
		code = err_set(&e, code ? code : ERR_INTERNAL, "%s", json_get_text(error, "message"));
	else
		code = exchange_create(x, msg, &e);
	if (code)
		exchange_refused(x, &e);
}

void exchange_ended(struct monitor *m)
{
	struct err e = {0};

	m->checker_silent_ns = 0;
	err_set(&e, ERR_UNAVAILABLE, "the checker of issuers' tokens has ended and is started again");
	while (m->exchanges)
		exchange_refuse(m->exchanges, ERR_UNAVAILABLE, &e);
}

/* ---- issuers, and staff, that are named no more */

#define SHUT_OUT_AT_ONCE 100
#define SHUT_OUT_MS      20

enum { SHUT_OUT_FAILED = 1, SHUT_OUT_MORE };

struct shut_out {
	struct monitor *m;
	unsigned left; /* of this turn */
};

static void exchange_on_shut_out(void *arg, int rc, const struct err *e, const struct grant *g)
{
	struct monitor *m = arg;

	(void)g;
	if (!rc)
		return;
	m->shut_out_owed = true;
	log_error(NULL, "a grant of somebody who is named no more could not be revoked, again in a minute: %s",
		  e->message);
}

/* Does the configuration have no more whoever let the grant in? An administrator's needs nobody there. */
static bool named_no_more(const struct conf *c, const struct grant *g, const char *via, const char *by)
{
	size_t n = strlen(BY_PREFIX);

	if (strcmp(via, "issuer") == 0)
		return strncmp(by, BY_PREFIX, n) == 0 && !conf_issuer_find(c, by + n);
	if (strcmp(via, "cluster") == 0)
		return !c->kubernetes_staff;
	return strcmp(via, "ssh-key") == 0 && !conf_staff_find(c, g->principal);
}

/* The first refusal ends it: a log that does not take one line takes none. */
static int shut_out_one(void *arg, const struct grant *g, const char *via, const char *by)
{
	struct shut_out *s = arg;

	if (!named_no_more(s->m->conf, g, via, by))
		return 0;
	if (!s->left)
		return SHUT_OUT_MORE;
	s->left--;
	issue_revoke(s->m, &g->id, "configuration", "the configuration", exchange_on_shut_out, s->m);
	return s->m->shut_out_owed ? SHUT_OUT_FAILED : 0;
}

static void exchange_on_turn(uv_timer_t *t);

/* Very many take their time: the loop goes on between. */
void exchange_shut_out(struct monitor *m)
{
	struct shut_out s = {m, SHUT_OUT_AT_ONCE};
	struct err e = {0};

	m->shut_out_owed = false;
	grants_together_begin(m->grants);
	if (grants_each_alive(m->grants, shut_out_one, &s) == SHUT_OUT_MORE)
		uv_timer_start(&m->shut_out, exchange_on_turn, SHUT_OUT_MS, 0);
	if (grants_together_end(m->grants, &e))
		log_error(NULL, "revocations are in force, and may not be on the disk: %s", e.message);
}

static void exchange_on_turn(uv_timer_t *t)
{
	exchange_shut_out(t->data);
}

void exchange_tick(struct monitor *m)
{
	if (m->shut_out_owed)
		exchange_shut_out(m);
}
