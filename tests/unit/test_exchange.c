// tier: check
/*
 * Tokens of outside issuers in the monitor, when those that it hears are not what they were: a net that was taken over
 * asks for more than there is, a checker that was taken over says of a token whatever it likes. Neither gets a grant
 * that the configuration does not name, nor one that lasts longer than the token, nor more of them than a token gives.
 */
#include "base/clock.h"
#include "base/sock.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/monitor.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define NOW    INT64_C(1800000000)
#define OWN    "01890a5d-ac96-774b-bcce-b302099a8057"
#define SEEN   "11890a5d-ac96-774b-bcce-b302099a805"

static const char conf_text[] =
    "grants: {ttl: 5m, ttl_max: 1h}\n"
    "issuers:\n"
    "  - {name: gitlab, issuer: \"https://gitlab\", audience: muxd, principal: \"gitlab/{sub}\", agents: \"ci-*\",\n"
    "     scopes: \"rounds,files\", require: \"group=platform\", ttl: 10m, exchanges: 2}\n";
static const char two_text[] =
    "issuers:\n"
    "  - {name: slow, issuer: \"https://slow\", audience: muxd, agents: \"ci\", scopes: rounds, timeout: 10s}\n"
    "  - {name: quick, issuer: \"https://quick\", audience: muxd, agents: \"ci\", scopes: rounds, timeout: 1s}\n";
static const char shown_text[] =
    "grants: {ttl: 5m, ttl_max: 1h}\n"
    "issuers:\n"
    "  - {name: ci, issuer: \"https://ci\", audience: muxd, agents: \"ci\", scopes: rounds}\n"
    "  - {name: first, issuer: \"https://first\", audience: \"https://muxd/mcp\", agents: \"a\", scopes: rounds,\n"
    "     reason: \"MCP of {sub}\"}\n"
    "  - {name: second, issuer: \"https://second\", audience: \"https://muxd/mcp\", agents: \"b-*\", scopes: files,\n"
    "     reason: \"MCP of {sub} for {team}\", task: \"{team}\", ttl: 20m}\n";
static const char none_text[] = "grants: {ttl: 5m}\n";

struct fixture {
	struct monitor m;
	char dir[64];
	int checker, net;   /* the test's ends */
	struct grant grant; /* of the last answer */
	int rc, answers;
};

static void ignore_packet(void *arg, const json_t *msg)
{
	(void)arg, (void)msg;
}

static void ignore_closed(void *arg, const struct err *why)
{
	(void)arg, (void)why;
}

static const struct channel_ops channel = {.packet = ignore_packet, .closed = ignore_closed, .queue_max = 100};
static const struct proc_ops ops = {.name = "test"};

static int connect_proc(struct fixture *f, struct proc *p)
{
	struct err e = {0};
	int fds[2];

	assert_int_equal(proc_init(p, &f->m.loop, &ops, f), 0);
	assert_int_equal(sock_pair(SOCK_SEQPACKET, fds), 0);
	assert_int_equal(channel_create(&f->m.loop, fds[0], &channel, p, &p->channel, &e), 0);
	p->state = PROC_READY;
	return fds[1];
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct monitor *m = &f->m;
	struct grants_load loaded;
	char path[128];

	clock_test_set(1000 * (uint64_t)SECOND, NOW * SECOND);
	strcpy(f->dir, "/dev/shm/muxd-exchange.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(conf_parse(conf_text, strlen(conf_text), "test", &m->conf, NULL), 0);
	strcpy(m->layout.instance, OWN);
	time_floor_init(&m->floor, 0, clock_wall_ns(), clock_boot_ns());
	snprintf(path, sizeof path, "%s/grants.log", f->dir);
	assert_int_equal(grants_open(path, NOW * SECOND, &m->grants, &loaded, NULL), 0);
	m->keys.set.keys = calloc(1, sizeof *m->keys.set.keys);
	m->keys.set.n = 1;
	assert_int_equal(grant_key_create(m->keys.seed, m->keys.set.keys), 0);
	memcpy(m->keys.kid, m->keys.set.keys[0].kid, sizeof m->keys.kid);
	assert_int_equal(uv_loop_init(&m->loop), 0);
	uv_timer_init(&m->loop, &m->shut_out);
	m->shut_out.data = m;
	f->net = connect_proc(f, &m->net);
	f->checker = connect_proc(f, &m->checker);
	assert_int_equal(proc_init(&m->recorder, &m->loop, &ops, f), 0);
	assert_int_equal(audit_create(&m->loop, &m->net, &m->audit), 0);
	audit_net_ready(m->audit);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	exchange_ended(&f->m);
	uv_close((uv_handle_t *)&f->m.shut_out, NULL);
	audit_destroy(f->m.audit);
	grants_close(f->m.grants);
	proc_finish(&f->m.net);
	proc_finish(&f->m.checker);
	proc_finish(&f->m.recorder);
	uv_run(&f->m.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&f->m.loop);
	close(f->net);
	close(f->checker);
	free(f->m.keys.set.keys);
	conf_destroy(f->m.conf);
	snprintf(command, sizeof command, "rm -rf %s", f->dir);
	assert_int_equal(system(command), 0);
	clock_test_reset();
	free(f);
	return 0;
}

static json_t *hear(int fd)
{
	size_t n = 0;
	json_t *o = NULL;

	(void)sock_set_nonblock(fd, 1);
	return sock_recv_packet(fd, &o, NULL, &n, NULL) ? NULL : o;
}

static void on_done(void *arg, int rc, const struct err *e, const struct grant *g, const char *token)
{
	struct fixture *f = arg;

	(void)e;
	assert_int_equal(rc == 0, token != NULL);
	f->rc = rc;
	f->answers++;
	if (rc == 0)
		f->grant = *g;
}

/* Net journals what it is told, and says so: then the grant is given. */
static void journal_all(struct fixture *f)
{
	json_t *o;

	while ((o = hear(f->net))) {
		const json_t *tag = json_object_get(o, "tag");

		if (json_is_integer(tag))
			audit_answer(f->m.audit, json_integer_value(tag), 0);
		json_decref(o);
	}
}

static void on_revoked(void *arg, int rc, const struct err *e, const struct grant *g)
{
	(void)arg, (void)e, (void)g;
	assert_int_equal(rc, 0);
}

/* grant: what net asks for; answer: members of what the checker says. Returns the code of the end. */
static int exchange(struct fixture *f, const char *grant, const char *answer)
{
	json_t *msg =
	    json_pack("{s:s,s:s,s:o}", "issuer", "gitlab", "token", "t.t.t", "grant", json_loads(grant, 0, NULL));
	json_t *said = json_loads(answer, 0, NULL), *asked;
	struct err e = {0};
	int before = f->answers, rc = exchange_begin(&f->m, msg, on_done, f, &e);

	json_decref(msg);
	assert_non_null(said);
	asked = rc ? NULL : hear(f->checker);
	if (rc == 0) {
		assert_non_null(asked);
		json_object_set(said, "tag", json_object_get(asked, "tag"));
		exchange_answer(&f->m, said);
		journal_all(f);
		assert_int_equal(f->answers, before + 1);
		rc = f->rc;
	}
	json_decref(asked);
	json_decref(said);
	return rc;
}

#define CLAIMS "\"claims\":{\"sub\":\"a/b\",\"group\":\"platform\"}"
#define FOUND(n, expires)                                                                                              \
	"{\"rc\":0,\"kid\":\"k\",\"alg\":\"RS256\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN n                 \
	"\",\"expires\":" expires "," CLAIMS "}"
#define GOOD(n) FOUND(n, "1800003000")

static void net_gets_nothing_wider(void **state)
{
	struct fixture *f = *state;

	/* More than a token is worth: refused, or as the configuration says. */
	assert_int_equal(exchange(f, "{\"reason\":\"r\",\"scopes\":\"admin\"}", GOOD("1")), ERR_FORBIDDEN);
	assert_int_equal(exchange(f, "{\"reason\":\"r\",\"agent\":\"*\"}", GOOD("1")), ERR_FORBIDDEN);
	assert_int_equal(exchange(f, "{\"reason\":\"r\",\"agent\":\"prod/web\"}", GOOD("1")), ERR_FORBIDDEN);
	assert_int_equal(exchange(f, "{\"reason\":\" \"}", GOOD("1")), ERR_REASON_REQUIRED);
	assert_int_equal(
	    exchange(f, "{\"reason\":\"r\",\"principal\":\"root\",\"kind\":\"staff\",\"ttl_ns\":3600000000000}",
		     GOOD("1")),
	    0);
	assert_string_equal(f->grant.principal, "gitlab/a+2Fb");
	assert_string_equal(f->grant.agent, "ci-*");
	assert_int_equal(f->grant.kind, GRANT_AGENT);
	assert_int_equal(f->grant.scopes, SCOPE_ROUNDS | SCOPE_FILES);
	assert_int_equal(f->grant.expires_ns, (NOW + 600) * SECOND);
	assert_true(id_is_nil(&f->grant.kin.first) && f->grant.kin.depth == 0);
}

static void a_grant_ends_with_its_token(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", FOUND("1", "1800000007")), 0);
	assert_int_equal(f->grant.expires_ns, (NOW + 7) * SECOND);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", FOUND("2", "1800000000")), ERR_TOKEN_EXPIRED);
}

static void a_token_counts_as_often_as_is_said(void **state)
{
	struct fixture *f = *state;
	struct grants_load loaded;
	char path[128];

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_TOKEN_USED);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), 0);
	/* Another monitor reads the same log; the grants themselves may be over by then. */
	grants_close(f->m.grants);
	snprintf(path, sizeof path, "%s/grants.log", f->dir);
	assert_int_equal(grants_open(path, (NOW + 1000) * SECOND, &f->m.grants, &loaded, NULL), 0);
	assert_int_equal(loaded.alive, 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_TOKEN_USED);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), ERR_TOKEN_USED);
}

/* However often a token may be exchanged: once a grant of it was revoked it gives no more, until it is over. */
static void a_revocation_shuts_the_token_out(void **state)
{
	struct fixture *f = *state;
	struct grants_load loaded;
	struct grant before;
	char path[128];

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	before = f->grant;
	f->m.conf->issuers[0].exchanges = 0;
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("3")), 0);
	issue_revoke(&f->m, &f->grant.id, "admin", "test", on_revoked, f);
	issue_revoke(&f->m, &before.id, "admin", "test", on_revoked, f);
	issue_revoke(&f->m, &before.id, "admin", "test", on_revoked, f); /* again */
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("3")), ERR_TOKEN_REVOKED);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_TOKEN_REVOKED);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), 0);
	/* Another monitor reads the same log, twice: the grants are over by the second time, and the token is not. */
	snprintf(path, sizeof path, "%s/grants.log", f->dir);
	for (int i = 0; i < 3; i++) {
		grants_close(f->m.grants);
		assert_int_equal(grants_open(path, (NOW + 700 * i) * SECOND, &f->m.grants, &loaded, NULL), 0);
		assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("3")), ERR_TOKEN_REVOKED);
		f->m.conf->issuers[0].exchanges = 1 + (size_t)i;
		assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_TOKEN_REVOKED);
	}
	assert_int_equal(loaded.alive, 0);
	grants_close(f->m.grants);
	assert_int_equal(grants_open(path, (NOW + 3000) * SECOND, &f->m.grants, &loaded, NULL), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("3")), 0); /* it is forgotten with the token */
	issue_net_ended(&f->m);
}

/* Tokens that may be exchanged any number of times are kept once they are shut out: so many and no more. */
static void so_many_tokens_are_kept(void **state)
{
	struct fixture *f = *state;
	struct id used = {{0x11}};
	struct err e = {0};

	assert_int_equal(grants_token_check(f->m.grants, &used, "issuer gitlab", 2, &e), 0);
	f->m.conf->issuers[0].exchanges = 0;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(exchange(f, "{\"reason\":\"r\"}", i ? GOOD("2") : GOOD("1")), 0);
		issue_revoke(&f->m, &f->grant.id, "admin", "test", on_revoked, f);
	}
	assert_int_equal(grants_token_check(f->m.grants, &used, "issuer gitlab", 2, &e), ERR_LIMIT);
	assert_int_equal(grants_token_check(f->m.grants, &used, "issuer gitlab", 3, &e), 0);
	assert_int_equal(grants_token_check(f->m.grants, &used, "issuer other", 2, &e), 0);
	assert_int_equal(grants_token_check(f->m.grants, &(struct id){{0}}, "uid 0", 0, &e), 0);
	issue_net_ended(&f->m);
}

static void a_checker_that_lies_is_bounded(void **state)
{
	static const char *const answers[] = {
	    "{}",
	    "{\"rc\":0}",
	    "{\"rc\":0,\"kid\":7}",
	    "{\"rc\":0,\"kid\":\"k\",\"alg\":\"a\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"x\",\"expires\":"
	    "1800003000,\"claims\":{}}",
	    "{\"rc\":0,\"kid\":\"k\",\"alg\":\"a\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN
	    "1\",\"expires\":-1,\"claims\":{}}",
	    "{\"rc\":0,\"kid\":\"k\",\"alg\":\"a\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN
	    "1\",\"expires\":1800003000,\"claims\":{}}",
	    "{\"rc\":0,\"kid\":\"k\",\"alg\":\"a\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN
	    "1\",\"expires\":1800003000,\"claims\":{\"group\":\"platform\",\"sub\":\"\"}}",
	    "{\"rc\":0,\"kid\":\"k\",\"alg\":\"a\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN
	    "1\",\"expires\":1800003000,\"claims\":{\"group\":\"others\",\"sub\":\"a\"}}",
	    "{\"rc\":-1,\"error\":{\"code\":\"no such\",\"message\":\"m\"}}"};
	struct fixture *f = *state;
	json_t *nobody = json_pack("{s:i,s:i}", "tag", 77, "rc", 0);

	for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
		assert_true(exchange(f, "{\"reason\":\"r\"}", answers[i]) < 0);
	exchange_answer(&f->m, nobody); /* which nobody asked */
	json_decref(nobody);
	assert_int_equal(grants_count(f->m.grants), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", FOUND("1", "9000000000")), 0);
	assert_int_equal(f->grant.expires_ns, (NOW + 300) * SECOND); /* grants.ttl */
}

static void a_checker_that_ends_leaves_nobody_waiting(void **state)
{
	struct fixture *f = *state;
	json_t *msg = json_pack("{s:s,s:s,s:{s:s}}", "issuer", "gitlab", "token", "t", "grant", "reason", "r");
	struct err e = {0};

	assert_int_equal(exchange_begin(&f->m, msg, on_done, f, &e), 0);
	exchange_ended(&f->m);
	assert_int_equal(f->rc, ERR_UNAVAILABLE);
	f->m.checker.state = PROC_BACKOFF;
	assert_int_equal(exchange_begin(&f->m, msg, on_done, f, &e), ERR_UNAVAILABLE);
	f->m.checker.state = PROC_READY;
	json_object_set_new(msg, "issuer", json_string("other"));
	assert_int_equal(exchange_begin(&f->m, msg, on_done, f, &e), ERR_ISSUER_UNKNOWN);
	json_decref(msg);
}

/* kill() stands before that of libc: the test sees who is ended, and no process is. */
static pid_t ended;

int kill(pid_t pid, int sig)
{
	(void)sig;
	ended = pid;
	return 0;
}

struct due {
	uint64_t ms;
	uv_timer_t *timer;
};

static void find_due(uv_handle_t *h, void *arg)
{
	struct due *d = arg;
	uv_timer_t *t = (uv_timer_t *)h;

	if (h->type == UV_TIMER && uv_is_active(h) && !uv_is_closing(h) && uv_timer_get_due_in(t) < d->ms)
		*d = (struct due){uv_timer_get_due_in(t), t};
}

/* The timer that is due next goes off, and time with it; the loop's own stands still. Returns how long it took. */
static uint64_t wait_next(struct fixture *f, uint64_t *boot_ns, uint64_t before_ms)
{
	struct due d = {.ms = UINT64_MAX};

	uv_walk(&f->m.loop, find_due, &d);
	assert_non_null(d.timer);
	*boot_ns += (d.ms - before_ms) * 1000000;
	clock_test_set(*boot_ns, NOW * SECOND);
	uv_timer_stop(d.timer);
	d.timer->timer_cb(d.timer);
	return d.ms;
}

static int ask(struct fixture *f, const char *issuer)
{
	json_t *msg = json_pack("{s:s,s:s,s:{s:s}}", "issuer", issuer, "token", "t", "grant", "reason", "r");
	struct err e = {0};
	int rc = exchange_begin(&f->m, msg, on_done, f, &e);

	json_decref(msg);
	return rc;
}

static void use_two_issuers(struct fixture *f)
{
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(two_text, strlen(two_text), "test", &f->m.conf, NULL), 0);
	f->m.checker.pid = 4242;
	ended = 0;
}

static void a_slow_issuer_holds_up_its_own_alone(void **state)
{
	struct fixture *f = *state;
	uint64_t boot = 1000 * (uint64_t)SECOND;
	json_t *asked;

	use_two_issuers(f);
	assert_int_equal(ask(f, "slow"), 0);
	for (int i = 1; i < 64; i++)
		assert_int_equal(ask(f, "slow"), 0);
	assert_int_equal(ask(f, "slow"), ERR_AGAIN);
	assert_int_equal(ask(f, "quick"), 0);
	/* Its time is its own; the checker is not given up for it. */
	assert_int_equal(wait_next(f, &boot, 0), 7000);
	assert_int_equal(f->answers, 1);
	assert_int_equal(f->rc, ERR_ISSUER);
	assert_int_equal(ended, 0);
	/* The checker says something to somebody: it answers, and the slow one is refused by itself. */
	exchange_heard(&f->m);
	assert_int_equal(wait_next(f, &boot, 7000), 25000);
	assert_int_equal(f->answers, 2);
	assert_int_equal(f->rc, ERR_ISSUER);
	assert_int_equal(ended, 0);
	/* An answer that comes too late is nobody's. */
	while ((asked = hear(f->checker))) {
		json_t *late = json_pack("{s:O,s:i}", "tag", json_object_get(asked, "tag"), "rc", 0);

		exchange_answer(&f->m, late);
		json_decref(late);
		json_decref(asked);
	}
	assert_int_equal(f->answers, 65);
	f->m.checker.pid = 0;
}

static void a_checker_that_answers_nobody_is_ended(void **state)
{
	struct fixture *f = *state;
	uint64_t boot = 1000 * (uint64_t)SECOND;

	use_two_issuers(f);
	assert_int_equal(ask(f, "quick"), 0);
	assert_int_equal(wait_next(f, &boot, 0), 7000);
	assert_int_equal(ended, 0); /* it may be busy with another's: the longest bound is 25 s */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ask(f, "quick"), 0);
		(void)wait_next(f, &boot, 0);
		assert_int_equal(ended, 0);
	}
	assert_int_equal(ask(f, "quick"), 0);
	(void)wait_next(f, &boot, 0);
	assert_int_equal(ended, 4242);
	assert_int_equal(f->answers, 4);
	/* The next one owes nothing yet. */
	exchange_ended(&f->m);
	ended = 0;
	assert_int_equal(ask(f, "quick"), 0);
	(void)wait_next(f, &boot, 0);
	assert_int_equal(ended, 0);
	f->m.checker.pid = 0;
}

/* A token that is shown as it is: said[i] is what the checker says to the i-th question. Returns the code of the end.
 */
static int show(struct fixture *f, const char *const *said, const char *const *names)
{
	json_t *msg = json_pack("{s:b,s:s,s:s,s:{s:s,s:s,s:s}}", "shown", 1, "token", "t.t.t", "issuer", "ci", "grant",
				"reason", "another", "agent", "*", "task", "theirs");
	struct err e = {0};
	int before = f->answers, rc = exchange_begin(&f->m, msg, on_done, f, &e);

	json_decref(msg);
	for (size_t i = 0; rc == 0 && said[i]; i++) {
		json_t *answer = json_loads(said[i], 0, NULL), *asked = hear(f->checker);

		assert_non_null(answer);
		assert_non_null(asked);
		assert_string_equal(json_get_text(asked, "issuer"), names[i]);
		json_object_set(answer, "tag", json_object_get(asked, "tag"));
		exchange_answer(&f->m, answer);
		journal_all(f);
		json_decref(answer);
		json_decref(asked);
	}
	assert_null(hear(f->checker));
	assert_int_equal(f->answers, before + (rc == 0));
	return rc ? rc : f->rc;
}

#define REFUSED(code) "{\"rc\":-1,\"error\":{\"code\":\"" code "\",\"message\":\"m\"}}"
#define OF_TEAM(n, team)                                                                                               \
	"{\"rc\":0,\"kid\":\"k\",\"alg\":\"RS256\",\"subject\":\"s\",\"jti\":\"j\",\"seen\":\"" SEEN n                 \
	"\",\"expires\":1800003000,\"claims\":{\"sub\":\"a\",\"team\":\"" team "\"}}"

static void a_token_that_is_shown_gets_what_the_configuration_says(void **state)
{
	static const char *const names[] = {"first", "second"};
	struct fixture *f = *state;

	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(shown_text, strlen(shown_text), "test", &f->m.conf, NULL), 0);
	/* Whatever net says of its wish: it has none. */
	assert_int_equal(show(f, (const char *const[]){OF_TEAM("1", "x"), NULL}, names), 0);
	assert_string_equal(f->grant.reason, "MCP of a");
	assert_string_equal(f->grant.task, "");
	assert_string_equal(f->grant.agent, "a");
	assert_int_equal(f->grant.expires_ns, (NOW + 900) * SECOND);
	/* The next issuer is asked where it is none of the first's. */
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_foreign"), OF_TEAM("2", "core/x"), NULL}, names),
			 0);
	assert_string_equal(f->grant.principal, "second:a");
	assert_string_equal(f->grant.reason, "MCP of a for core/x");
	assert_string_equal(f->grant.task, "core+2Fx");
	assert_true(f->grant.kin.task_asked);
	assert_int_equal(f->grant.expires_ns, (NOW + 1200) * SECOND);
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_algorithm"), OF_TEAM("2", "x"), NULL}, names),
			 ERR_TOKEN_USED);
	/* The best word counts, and any other refusal ends it. */
	assert_int_equal(
	    show(f, (const char *const[]){REFUSED("token_foreign"), REFUSED("token_algorithm"), NULL}, names),
	    ERR_TOKEN_FOREIGN);
	assert_int_equal(
	    show(f, (const char *const[]){REFUSED("token_algorithm"), REFUSED("token_algorithm"), NULL}, names),
	    ERR_TOKEN_ALGORITHM);
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_expired"), NULL}, names), ERR_TOKEN_EXPIRED);
	/* A reason made of claims is looked at as any is. */
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_foreign"), OF_TEAM("3", "\\n"), NULL}, names),
			 ERR_INVAL);
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_foreign"), OF_TEAM("4", "\\u0007"), NULL}, names),
			 ERR_INVAL);
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_foreign"), OF_TEAM("5", ""), NULL}, names),
			 ERR_TOKEN_CLAIMS);
	/* Without an entry that opens the door nothing is asked of anybody. */
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(two_text, strlen(two_text), "test", &f->m.conf, NULL), 0);
	assert_int_equal(show(f, (const char *const[]){NULL}, names), ERR_ISSUER_UNKNOWN);
}

/* How many questions wait for the checker; they are taken away. */
static size_t drain(struct fixture *f)
{
	json_t *asked;
	size_t n = 0;

	for (; (asked = hear(f->checker)); n++)
		json_decref(asked);
	return n;
}

static void fill(struct fixture *f, const char *issuer)
{
	for (int i = 0; i < 64; i++)
		assert_int_equal(ask(f, issuer), 0);
	assert_int_equal(ask(f, issuer), ERR_AGAIN);
	assert_int_equal(drain(f), 64);
}

/* The first of two issuers is slow, and 64 tokens of its wait: those of the second are shown as ever. */
static void a_full_issuer_holds_up_nobody_elses_shown_tokens(void **state)
{
	static const char *const second[] = {"second"};
	struct fixture *f = *state;

	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(shown_text, strlen(shown_text), "test", &f->m.conf, NULL), 0);
	fill(f, "first");
	assert_int_equal(show(f, (const char *const[]){OF_TEAM("1", "x"), NULL}, second), 0);
	assert_string_equal(f->grant.principal, "second:a");
	/* None of the second's: the first might have known. */
	assert_int_equal(show(f, (const char *const[]){REFUSED("token_foreign"), NULL}, second), ERR_AGAIN);
	fill(f, "second");
	assert_int_equal(show(f, (const char *const[]){NULL}, second), ERR_AGAIN);
	f->m.checker.state = PROC_BACKOFF;
	assert_int_equal(show(f, (const char *const[]){NULL}, second), ERR_UNAVAILABLE);
	f->m.checker.state = PROC_READY;
}

static void an_issuer_that_is_named_no_more_has_no_grants(void **state)
{
	struct fixture *f = *state;
	struct grant g;

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	exchange_shut_out(&f->m);
	assert_int_equal(grants_get(f->m.grants, &f->grant.id, &g, NULL, NULL), 0);
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(none_text, strlen(none_text), "test", &f->m.conf, NULL), 0);
	exchange_shut_out(&f->m);
	assert_int_equal(grants_get(f->m.grants, &f->grant.id, &g, NULL, NULL), ERR_TOKEN_REVOKED);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), ERR_ISSUER_UNKNOWN);
	issue_net_ended(&f->m);
}

static int count_gone(void *arg, const struct grant *g)
{
	(void)g;
	(*(size_t *)arg)++;
	return 0;
}

/* Of an issuer that let very many in: the daemon serves others meanwhile, and the log has each of them. */
static void very_many_are_shut_out_in_turns(void **state)
{
	struct fixture *f = *state;
	struct grant g;
	size_t gone = 0, audited;

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	g = f->grant;
	for (int i = 0; i < 249; i++) {
		assert_int_equal(id_new(&g.id), 0);
		assert_int_equal(grants_create(f->m.grants, &g, "issuer", "issuer gitlab", NULL), 0);
	}
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(none_text, strlen(none_text), "test", &f->m.conf, NULL), 0);
	audited = audit_waiting(f->m.audit);
	exchange_shut_out(&f->m);
	(void)grants_each_gone(f->m.grants, count_gone, &gone);
	assert_int_equal(gone, 100);
	while (uv_is_active((uv_handle_t *)&f->m.shut_out))
		uv_run(&f->m.loop, UV_RUN_ONCE);
	gone = 0;
	(void)grants_each_gone(f->m.grants, count_gone, &gone);
	assert_int_equal(gone, 250);
	assert_int_equal(audit_waiting(f->m.audit) - audited, 250);
	assert_false(f->m.shut_out_owed);
	issue_net_ended(&f->m);
}

/* Net journals what it is sent. The grants whose revocation it was told of. */
static json_t *journaled_revocations(struct fixture *f)
{
	json_t *seen = json_object(), *o;
	size_t nfds = 0;

	(void)sock_set_nonblock(f->net, 1);
	for (int i = 0; i < 1000 && audit_waiting(f->m.audit); i++) {
		audit_net_ready(f->m.audit);
		uv_run(&f->m.loop, UV_RUN_NOWAIT);
		while (sock_recv_packet(f->net, &o, NULL, &nfds, NULL) == 0) {
			json_t *record = json_object_get(o, "record");

			if (strcmp(json_get_text(record, "event"), "grant.revoke") == 0)
				json_object_set(seen, json_get_text(record, "grant_id"), record);
			if (record)
				audit_answer(f->m.audit, json_integer_value(json_object_get(o, "tag")), 0);
			json_decref(o);
		}
	}
	assert_int_equal(audit_waiting(f->m.audit), 0);
	return seen;
}

/* Net is away for so long that the queue of events is full: each revocation is told all the same, and others have room.
 */
static void no_revocation_of_very_many_is_left_out_of_the_record(void **state)
{
	struct fixture *f = *state;
	struct grant g;
	json_t *seen;

	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	g = f->grant;
	for (int i = 0; i < AUDIT_MAX + 100; i++) {
		assert_int_equal(id_new(&g.id), 0);
		assert_int_equal(grants_create(f->m.grants, &g, "issuer", "issuer gitlab", NULL), 0);
	}
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(none_text, strlen(none_text), "test", &f->m.conf, NULL), 0);
	f->m.net.state = PROC_BACKOFF;
	exchange_shut_out(&f->m);
	while (uv_is_active((uv_handle_t *)&f->m.shut_out))
		uv_run(&f->m.loop, UV_RUN_ONCE);
	assert_int_equal(audit_put(f->m.audit, json_pack("{s:s}", "event", "other"), 0, NULL, NULL), 0);
	f->m.net.state = PROC_READY;
	seen = journaled_revocations(f);
	assert_int_equal(json_object_size(seen), AUDIT_MAX + 101);
	json_decref(seen);
}

/* The grants' disk is full at the reload: the next minute that it is not, they end. */
static void a_revocation_that_could_not_be_written_is_tried_again(void **state)
{
	struct fixture *f = *state;
	struct grant g, first;
	struct rlimit old, none;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = (struct rlimit){1, old.rlim_max};
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
	first = f->grant;
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("2")), 0);
	conf_destroy(f->m.conf);
	assert_int_equal(conf_parse(none_text, strlen(none_text), "test", &f->m.conf, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	exchange_shut_out(&f->m);
	exchange_tick(&f->m);
	assert_true(f->m.shut_out_owed);
	assert_false(uv_is_active((uv_handle_t *)&f->m.shut_out)); /* not before */
	assert_int_equal(grants_get(f->m.grants, &first.id, &g, NULL, NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	exchange_tick(&f->m);
	assert_int_equal(grants_get(f->m.grants, &first.id, &g, NULL, NULL), ERR_TOKEN_REVOKED);
	assert_int_equal(grants_get(f->m.grants, &f->grant.id, &g, NULL, NULL), ERR_TOKEN_REVOKED);
	assert_false(f->m.shut_out_owed);
	issue_net_ended(&f->m);
}

static struct grant lasting(int64_t seconds)
{
	struct grant g = {.kind = GRANT_AGENT,
			  .scopes = SCOPE_ROUNDS | SCOPE_GRANT,
			  .issued_ns = NOW * SECOND,
			  .not_before_ns = NOW * SECOND,
			  .expires_ns = (NOW + seconds) * SECOND,
			  .issuer = OWN,
			  .principal = "p",
			  .agent = "ci-a",
			  .task = "t",
			  .reason = "r"};

	assert_int_equal(id_new(&g.id), 0);
	return g;
}

/* No room for another grant of that issuer: the token is as good as before once there is. */
static void an_exchange_that_is_refused_is_not_counted(void **state)
{
	struct fixture *f = *state;
	int64_t later = NOW + 200;

	for (int i = 0; i < GRANTS_OF_SOURCE; i++) {
		struct grant g = lasting(100);

		assert_int_equal(grants_create(f->m.grants, &g, "issuer", "issuer gitlab", NULL), 0);
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_LIMIT);
	clock_test_set((uint64_t)(1000 + 200) * (uint64_t)SECOND, later * SECOND);
	assert_int_equal(grants_expire(f->m.grants, later * SECOND, NULL), 0);
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), 0);
}

static void on_minted(void *arg, int rc, const struct err *e, const struct grant *g, const char *token)
{
	(void)e, (void)g, (void)token;
	*(int *)arg = rc;
}

/* No room for another child: the uses that the lease was to take along stay those of the grant. */
static void a_lease_that_is_refused_takes_no_uses(void **state)
{
	struct fixture *f = *state;
	struct grant holder = lasting(3000);
	struct wish w = {.how = WISH_CHILD, .from = &holder, .via = "grant", .reason = "r", .edge = SEEN "8"};
	int rc = 0;

	holder.bounds.uses = 5;
	w.bounds.uses = 2;
	f->m.conf->edge_lease_max_ns = 600 * (uint64_t)SECOND;
	assert_int_equal(grants_create(f->m.grants, &holder, "admin", "uid 0", NULL), 0);
	for (int i = 0; i < GRANTS_OF_ONE - 1; i++) {
		struct grant g = lasting(3000);

		g.kin.depth = 1;
		g.kin.above[0] = holder.id;
		assert_int_equal(grants_create(f->m.grants, &g, "grant", "grant x", NULL), 0);
	}
	issue_create(&f->m, &w, on_minted, &rc);
	assert_int_equal(rc, ERR_LIMIT);
	assert_int_equal(grants_spent(f->m.grants, &holder), 0);
}

/* Its end of the pipe is closed, and the monitor has not seen that yet. */
static void a_checker_that_has_just_ended_is_unavailable(void **state)
{
	struct fixture *f = *state;

	close(f->checker);
	f->checker = -1;
	assert_int_equal(exchange(f, "{\"reason\":\"r\"}", GOOD("1")), ERR_UNAVAILABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(net_gets_nothing_wider, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_grant_ends_with_its_token, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_token_counts_as_often_as_is_said, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_revocation_shuts_the_token_out, setup, teardown),
	    cmocka_unit_test_setup_teardown(so_many_tokens_are_kept, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_checker_that_lies_is_bounded, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_checker_that_ends_leaves_nobody_waiting, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_slow_issuer_holds_up_its_own_alone, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_checker_that_answers_nobody_is_ended, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_token_that_is_shown_gets_what_the_configuration_says, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_full_issuer_holds_up_nobody_elses_shown_tokens, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_issuer_that_is_named_no_more_has_no_grants, setup, teardown),
	    cmocka_unit_test_setup_teardown(very_many_are_shut_out_in_turns, setup, teardown),
	    cmocka_unit_test_setup_teardown(no_revocation_of_very_many_is_left_out_of_the_record, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_revocation_that_could_not_be_written_is_tried_again, setup, teardown),
	    cmocka_unit_test_setup_teardown(an_exchange_that_is_refused_is_not_counted, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_lease_that_is_refused_takes_no_uses, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_checker_that_has_just_ended_is_unavailable, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
