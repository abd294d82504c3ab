#define LOG_SUBSYS "issuer"
#include "muxd/issuer/checker.h"

#include "base/clock.h"
#include "base/confine.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"
#include "base/sock.h"
#include "base/text.h"
#include "muxd/issuer/fetch.h"
#include "muxd/issuer/jwt.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SPEC_MAX    (8 * 1024 * 1024)
#define TICK_MS     1000
#define FETCHES     8
#define FETCH_EVERY (15 * NS_PER_SEC)
#define WAITING_MAX 64 /* of one issuer */
#define URL_MAX     600
#define KIDS_SHOWN  16 /* in the status and the record */

enum keys_state { KEYS_NONE, KEYS_HELD, KEYS_LOST };
enum fetch_state { FETCH_IDLE, FETCH_DISCOVERY, FETCH_KEYS };

struct issuer {
	struct checker *c;
	const json_t *spec; /* as the monitor gave it */
	const char *name, *issuer, *audience, *typ, *ca, *jwks_url;
	bool plain;
	int64_t skew, lifetime; /* seconds */
	int64_t refresh_ns, keep_ns, timeout_ns;
	enum keys_state state;
	enum fetch_state fetch;
	size_t nwaiting; /* questions */
	struct jwk_set keys;
	uint64_t held_ns; /* when they were had, by the clock that does not turn */
	unsigned allowance;
	uint64_t allowed_ns;         /* since when the next one is due */
	char error[ERR_MESSAGE_MAX]; /* of the last fetch; "": it went well */
	char found_url[URL_MAX];     /* by discovery */
};

/* A question that waits for a fetch of its issuer. */
struct question {
	struct question *next;
	struct issuer *issuer;
	int64_t tag, now;
	size_t len;
	char token[];
};

struct checker {
	int ipc_fd;
	bool ends;
	json_t *spec;
	struct issuer *issuers;
	size_t n;
	struct fetcher *fetcher;
	struct question *waiting;
};

static const char *const state_names[] = {"none", "held", "lost"};

static void keys_set_state(struct issuer *x, enum keys_state to)
{
	if (x->state != to)
		log_debug(NULL, "%s: keys %s -> %s", x->name, state_names[x->state], state_names[to]);
	x->state = to;
}

/* ---- what the monitor hears */

static void checker_say(struct checker *c, json_t *o)
{
	struct err e = {0};
	int rc;

	do {
		struct pollfd pfd = {.fd = c->ipc_fd, .events = POLLOUT};

		rc = o ? sock_send_packet(c->ipc_fd, o, NULL, 0, &e) : ERR_NOMEM;
		if (rc == ERR_AGAIN)
			(void)poll(&pfd, 1, TICK_MS);
	} while (rc == ERR_AGAIN);
	c->ends |= rc != 0; /* the monitor has gone, or would wait for ever */
	json_decref(o);
}

static void say_refused(struct checker *c, int64_t tag, int rc, const struct err *e)
{
	checker_say(c, json_pack("{s:I,s:i,s:{s:s,s:s}}", "tag", (json_int_t)tag, "rc", rc, "error", "code",
				 err_name(rc), "message", e->message));
}

static void say_keys(struct issuer *x)
{
	json_t *kids = json_array();
	size_t i;

	for (i = 0; i < x->keys.n && json_array_size(kids) < KIDS_SHOWN; i++)
		if (x->keys.keys[i].key)
			json_array_append_new(kids, json_string(x->keys.keys[i].kid));
	checker_say(x->c,
		    json_pack("{s:s,s:s,s:s,s:o,s:I,s:I,s:s?}", "op", "keys", "issuer", x->name, "state",
			      state_names[x->state], "keys", kids, "left_out", (json_int_t)(x->keys.n - x->keys.usable),
			      "age_ns", (json_int_t)(x->state == KEYS_NONE ? 0 : clock_boot_ns() - x->held_ns), "error",
			      x->error[0] ? x->error : NULL));
}

/* ---- checking a token by the keys that there are */

static bool is_old(const struct issuer *x, int64_t limit_ns)
{
	return clock_boot_ns() - x->held_ns >= (uint64_t)limit_ns;
}

static const char *why_none(const struct issuer *x)
{
	return x->error[0] ? x->error : "they have been asked for too often: wait some seconds";
}

/* Before they decide about a token, and behind a fetch. */
static void keys_age(struct issuer *x)
{
	if (x->state != KEYS_HELD || !is_old(x, x->keep_ns))
		return;
	jwk_set_finish(&x->keys);
	keys_set_state(x, KEYS_LOST);
	log_error(NULL, "issuer %s: its keys are too old to count, and it shows none: %s", x->name, why_none(x));
	say_keys(x);
}

/* Keys that no token asked for are no fault, however old: the next one has them fetched ahead of its check. */
static void keys_tick(struct issuer *x)
{
	if (x->error[0])
		keys_age(x);
}

static int no_keys(const struct issuer *x, struct err *e)
{
	return err_set(e, ERR_ISSUER, "issuer %s: %s: %.300s", x->name,
		       x->state == KEYS_LOST ? "its keys are too old to count" : "it has shown no keys", why_none(x));
}

static int find_key(const struct issuer *x, const struct jwt *j, const struct jwk **out, struct err *e)
{
	const struct jwk *k = jwk_find(&x->keys, j->kid);

	if (k && k->key) {
		*out = k;
		return 0;
	}
	return k ? err_set(e, ERR_TOKEN_KEY, "issuer %s: its key \"%.60s\" does not count: %s", x->name, k->kid, k->why)
		 : err_set(e, ERR_TOKEN_KEY, "issuer %s: it shows no key \"%.60s\"%s%.200s", x->name, j->kid,
			   x->error[0] ? "; the last try to get its keys failed: " : "", x->error);
}

static struct jwt_wanted wanted_of(const struct issuer *x, int64_t now)
{
	return (struct jwt_wanted){.issuer = x->issuer,
				   .audience = x->audience,
				   .typ = x->typ,
				   .now = now,
				   .skew = x->skew,
				   .lifetime = x->lifetime};
}

/* Whatever the keys are now decides. */
static void question_settle(struct issuer *x, const struct jwt *j, int64_t tag, int64_t now)
{
	const struct jwt_wanted wanted = wanted_of(x, now);
	const struct jwk *key = NULL;
	struct err e = {0};
	json_t *o;
	int rc;

	keys_age(x);
	rc = x->state == KEYS_HELD ? find_key(x, j, &key, &e) : no_keys(x, &e);
	if (rc == 0)
		rc = jwt_verify(j, key, &e);
	if (rc == 0)
		rc = jwt_claims(j, &wanted, &e);
	if (rc) {
		say_refused(x->c, tag, rc, &e);
		return;
	}
	o = jwt_answer(j, x->name, json_object_get(x->spec, "claims"));
	if (o && (json_object_set_new(o, "tag", json_integer(tag)) || json_object_set_new(o, "rc", json_integer(0)))) {
		json_decref(o);
		o = NULL;
	}
	checker_say(x->c, o);
}

static void settle_waiting(struct issuer *x)
{
	struct question **at = &x->c->waiting, *q;

	while ((q = *at)) {
		struct err e = {0};
		struct jwt j;
		int rc;

		if (q->issuer != x) {
			at = &q->next;
			continue;
		}
		*at = q->next;
		x->nwaiting--;
		rc = jwt_parse(q->token, q->len, x->typ, &j, &e);
		if (rc) {
			say_refused(x->c, q->tag, rc, &e);
		} else {
			question_settle(x, &j, q->tag, q->now);
			jwt_finish(&j);
		}
		explicit_bzero(q->token, q->len);
		free(q);
	}
}

/* ---- fetching */

static void fetch_settle(struct issuer *x, int rc, const struct err *e)
{
	bool was_well = !x->error[0];

	x->fetch = FETCH_IDLE;
	text_put(x->error, sizeof(x->error), rc ? e->message : "");
	if (rc && was_well)
		log_warn(NULL, "issuer %s: %s", x->name, x->error);
	else if (!rc && !was_well)
		log_info(NULL, "issuer %s: its keys are to be had again", x->name);
	keys_age(x);
	say_keys(x);
	settle_waiting(x);
}

static void fetch_on_keys(void *arg, int rc, const struct err *e, const void *p, size_t n)
{
	struct issuer *x = arg;
	struct jwk_set set;
	struct err own = {0};

	if (rc == 0 && (rc = jwk_set_parse(p, n, &set, &own)))
		e = &own;
	if (rc == 0) {
		jwk_set_finish(&x->keys);
		x->keys = set;
		x->held_ns = clock_boot_ns();
		keys_set_state(x, KEYS_HELD);
	}
	fetch_settle(x, rc, e);
}

static int fetch_from(struct issuer *x, const char *url, fetch_done *done, struct err *e)
{
	const struct fetch_ask ask = {.url = url,
				      .ca = x->ca,
				      .plain = x->plain,
				      .timeout_ns = (uint64_t)x->timeout_ns,
				      .max = JWK_SET_MAX,
				      .done = done,
				      .arg = x};

	return fetch_start(x->c->fetcher, &ask, e);
}

/* http:// goes with loopback: true, and with a loopback address alone, wherever the URL comes from. */
static bool may_fetch(const struct issuer *x, const char *url)
{
	size_t n = strlen(url);

	if (n >= URL_MAX || strpbrk(url, " \t\r\n@\\"))
		return false;
	return strncmp(url, "https://", 8) == 0 ||
	       (x->plain && (strncmp(url, "http://127.0.0.1:", 17) == 0 || strncmp(url, "http://127.0.0.1/", 17) == 0 ||
			     strncmp(url, "http://[::1]:", 13) == 0 || strncmp(url, "http://[::1]/", 13) == 0));
}

/* OpenID Connect Discovery 1.0, 4.3: the document is of the issuer that was asked for, or of nobody. */
static int discovered(struct issuer *x, const void *p, size_t n, struct err *e)
{
	const char *url = "";
	json_t *o = NULL;
	int rc = json_parse(p, n, JWK_SET_MAX, &o, NULL);

	if (rc || strcmp(json_get_text(o, "issuer"), x->issuer) != 0)
		rc = err_set(e, ERR_ISSUER, "its discovery document is none, or is of another issuer");
	url = json_get_text(o, "jwks_uri");
	if (rc == 0 && !may_fetch(x, url))
		rc = err_set(e, ERR_ISSUER, "its discovery document has a jwks_uri that is no https URL: \"%.200s\"",
			     url);
	if (rc == 0)
		text_put(x->found_url, sizeof(x->found_url), url);
	json_decref(o);
	return rc;
}

static void fetch_on_discovery(void *arg, int rc, const struct err *e, const void *p, size_t n)
{
	struct issuer *x = arg;
	struct err own = {0};

	if (rc == 0 && (rc = discovered(x, p, n, &own)))
		e = &own;
	if (rc == 0) {
		x->fetch = FETCH_KEYS;
		rc = fetch_from(x, x->found_url, fetch_on_keys, &own);
		e = &own;
	}
	if (rc)
		fetch_settle(x, rc, e);
}

static int fetch_keys(struct issuer *x, struct err *e)
{
	const char *ca_gone = json_string_value(json_object_get(x->spec, "ca_gone"));
	char url[URL_MAX];

	if (ca_gone)
		return err_set(e, ERR_ISSUER, "%.300s", ca_gone);
	if (x->jwks_url) {
		x->fetch = FETCH_KEYS;
		return fetch_from(x, x->jwks_url, fetch_on_keys, e);
	}
	text_format(url, sizeof(url), "%s%s.well-known/openid-configuration", x->issuer,
		    x->issuer[strlen(x->issuer) - 1] == '/' ? "" : "/");
	x->fetch = FETCH_DISCOVERY;
	return fetch_from(x, url, fetch_on_discovery, e);
}

/* false: they were asked for so often that they are not now. */
static bool fetch_allowed(struct issuer *x)
{
	uint64_t now = clock_boot_ns();

	if (x->fetch != FETCH_IDLE)
		return true;
	while (x->allowance < FETCHES && now - x->allowed_ns >= FETCH_EVERY) {
		x->allowance++;
		x->allowed_ns += FETCH_EVERY;
	}
	if (x->allowance == FETCHES)
		x->allowed_ns = now;
	if (!x->allowance)
		return false;
	x->allowance--;
	return true;
}

/* At the start: whoever looks at the status sees what is wrong before a token comes. */
static void fetch_first(struct issuer *x)
{
	struct err e = {0};
	int rc = fetch_allowed(x) ? fetch_keys(x, &e) : 0;

	if (rc)
		fetch_settle(x, rc, &e);
}

/* Is there reason to ask for them, before this token is looked at? */
static bool wants_fetch(const struct issuer *x, const struct jwt *j)
{
	return x->state != KEYS_HELD || is_old(x, x->refresh_ns) || !jwk_find(&x->keys, j->kid);
}

/* ---- questions */

static struct issuer *issuer_find(struct checker *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->issuers[i].name, name) == 0)
			return &c->issuers[i];
	return NULL;
}

static int question_wait(struct issuer *x, const char *token, int64_t tag, int64_t now, struct err *e)
{
	size_t len = strlen(token);
	struct question *q;

	if (x->nwaiting >= WAITING_MAX)
		return err_set(e, ERR_AGAIN, "%d tokens wait for keys of this issuer already", WAITING_MAX);
	q = malloc(sizeof(*q) + len + 1);
	if (!q)
		return err_set(e, ERR_NOMEM, "no memory for a token");
	*q = (struct question){.next = x->c->waiting, .issuer = x, .tag = tag, .now = now, .len = len};
	memcpy(q->token, token, len + 1);
	x->c->waiting = q;
	x->nwaiting++;
	return 0;
}

static void question_check(struct issuer *x, const struct jwt *j, const char *token, int64_t tag, int64_t now)
{
	struct err e = {0};
	int rc;

	if (!wants_fetch(x, j) || !fetch_allowed(x)) {
		question_settle(x, j, tag, now);
		return;
	}
	rc = question_wait(x, token, tag, now, &e);
	if (rc) {
		say_refused(x->c, tag, rc, &e);
		return;
	}
	if (x->fetch == FETCH_IDLE && (rc = fetch_keys(x, &e)))
		fetch_settle(x, rc, &e);
}

static void question_take(struct checker *c, const json_t *msg)
{
	const char *name = NULL, *token = NULL;
	int64_t tag = 0, now = 0;
	struct jwt_wanted wanted;
	struct issuer *x = NULL;
	struct err e = {0};
	struct jwt j;
	int rc;

	if (json_need_int(msg, "tag", INT64_MIN, INT64_MAX, &tag, NULL))
		return;
	if ((rc = json_need_str(msg, "issuer", &name, &e)) || (rc = json_need_str(msg, "token", &token, &e)) ||
	    (rc = json_need_int(msg, "now", 1, INT64_MAX, &now, &e)))
		goto out;
	x = issuer_find(c, name);
	rc = x ? jwt_parse(token, strlen(token), x->typ, &j, &e)
	       : err_set(&e, ERR_ISSUER_UNKNOWN, "the checker knows no issuer %.40s", name);
	if (rc)
		goto out;
	wanted = wanted_of(x, now);
	rc = jwt_of(&j, &wanted, &e);
	if (rc == 0)
		question_check(x, &j, token, tag, now);
	jwt_finish(&j);
out:
	if (rc)
		say_refused(c, tag, rc, &e);
}

static void listen_monitor(struct checker *c)
{
	int fds[SOCK_FDS_MAX];
	size_t n = SOCK_FDS_MAX;
	json_t *msg = NULL;
	struct err e = {0};
	int rc = sock_recv_packet(c->ipc_fd, &msg, fds, &n, &e);

	if (rc == ERR_AGAIN)
		return;
	for (size_t i = 0; rc == 0 && i < n; i++)
		close(fds[i]);
	if (rc == 0 && strcmp(json_get_text(msg, "op"), "check") == 0)
		question_take(c, msg);
	else
		c->ends = true; /* stop, or the monitor has gone */
	json_decref(msg);
}

/* ---- the start */

static int issuer_read(struct checker *c, const json_t *o, struct issuer *x, struct err *e)
{
	int rc;

	*x = (struct issuer){.c = c, .spec = o, .allowance = FETCHES, .allowed_ns = clock_boot_ns()};
	if ((rc = json_need_str(o, "name", &x->name, e)) || (rc = json_need_str(o, "issuer", &x->issuer, e)) ||
	    (rc = json_need_str(o, "audience", &x->audience, e)) || (rc = json_opt_str(o, "typ", &x->typ, e)) ||
	    (rc = json_opt_str(o, "jwks_url", &x->jwks_url, e)) || (rc = json_opt_str(o, "ca", &x->ca, e)) ||
	    (rc = json_opt_bool(o, "loopback", &x->plain, e)) ||
	    (rc = json_need_int(o, "skew", 0, 3600, &x->skew, e)) ||
	    (rc = json_need_int(o, "lifetime", 1, INT64_MAX, &x->lifetime, e)) ||
	    (rc = json_need_int(o, "refresh_ns", 1, INT64_MAX, &x->refresh_ns, e)) ||
	    (rc = json_need_int(o, "keep_ns", 1, INT64_MAX, &x->keep_ns, e)))
		return rc;
	return json_need_int(o, "timeout_ns", 1, INT64_MAX, &x->timeout_ns, e);
}

static int take_spec(struct checker *c, int fd, struct err *e)
{
	char *text = NULL;
	size_t len = 0, i;
	const json_t *list, *o;
	int rc = slurp_fd(fd, "the issuers", SPEC_MAX, &text, &len, e);

	if (rc == 0)
		rc = json_parse(text, len, SPEC_MAX, &c->spec, e);
	free(text);
	if (rc)
		return rc;
	list = json_object_get(c->spec, "issuers");
	c->issuers = calloc(json_array_size(list) + 1, sizeof(*c->issuers));
	if (!c->issuers)
		return err_set(e, ERR_NOMEM, "no memory for issuers");
	json_array_foreach(list, i, o)
	{
		if (rc == 0)
			rc = issuer_read(c, o, &c->issuers[c->n++], e);
	}
	return rc;
}

static int checker_receive(struct checker *c, struct err *e)
{
	int fds[SOCK_FDS_MAX], rc;
	json_t *msg = NULL;
	size_t n;

	do {
		struct pollfd pfd = {.fd = c->ipc_fd, .events = POLLIN};
		(void)poll(&pfd, 1, -1);
		n = SOCK_FDS_MAX;
		rc = sock_recv_packet(c->ipc_fd, &msg, fds, &n, e);
	} while (rc == ERR_AGAIN);
	if (rc)
		return rc;
	rc = n == 1 ? take_spec(c, fds[0], e) : err_set(e, ERR_PROTOCOL, "the start packet has %zu descriptors", n);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	json_decref(msg);
	return rc;
}

static int checker_confine(struct err *e)
{
	struct err why = {0};
	int rc = confine_programs(&why);

	if (rc == ERR_UNSUPPORTED) {
		log_warn(NULL, "runs without a seccomp filter: %s", why.message);
		return 0;
	}
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

static int checker_start(struct checker *c, struct err *e)
{
	int rc = checker_receive(c, e);

	if (rc == 0)
		rc = log_setup("issuer", json_get_text(c->spec, "log_level"),
			       strcmp(json_get_text(c->spec, "log_format"), "json") == 0 ? LOG_JSON : LOG_TEXT, 2, e);
	if (rc == 0)
		rc = fetcher_create(&c->fetcher, e);
	if (rc == 0)
		rc = checker_confine(e);
	if (rc == 0)
		checker_say(c, json_pack("{s:s}", "op", "ready"));
	for (size_t i = 0; rc == 0 && i < c->n; i++)
		fetch_first(&c->issuers[i]);
	return rc;
}

int checker_run(int ipc_fd)
{
	struct checker c = {.ipc_fd = ipc_fd};
	struct err e = {0};
	bool readable;
	int rc;

	(void)log_setup("issuer", "info", LOG_TEXT, 2, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	/* Tokens pass through its memory. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	rc = checker_start(&c, &e);
	while (rc == 0 && !c.ends) {
		rc = fetcher_wait(c.fetcher, c.ipc_fd, TICK_MS, &readable, &e);
		if (rc == 0 && readable)
			listen_monitor(&c);
		for (size_t i = 0; i < c.n; i++)
			keys_tick(&c.issuers[i]);
	}
	if (rc)
		log_error(NULL, "cannot go on: %s", e.message);
	_exit(rc ? err_exit_code(rc) : 0); /* a fetch may be under way: nothing waits for it */
}
