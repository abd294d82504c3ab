// tier: check
/* A revocation while net ends: it is answered, and net is left its time. What a net that starts is told of grants.
 * Fields that admin.sock does not know. */
#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "muxd/monitor/admin.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"
#include "tests/lib/stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define IN_TIME_MS 6000 /* more than a net that serves may take to confirm a revocation */

struct fixture {
	struct monitor m;
	char dir[64], path[96], state[96];
	struct grant grant;
	uv_timer_t timer;
	int net_end; /* net's end of its channel */
	int answered;
};

static void on_packet(void *arg, const json_t *msg)
{
	(void)arg, (void)msg;
}

static void on_closed(void *arg, const struct err *why)
{
	(void)arg, (void)why;
}

static const struct channel_ops channel_ops = {.packet = on_packet, .closed = on_closed, .queue_max = 16};
static const struct proc_ops ops = {.name = "net"};

/* A net that takes long to stop: it lives until it is killed. */
static void start_net(struct fixture *f)
{
	struct err e = {0};
	int fds[2];

	assert_int_equal(sock_pair(SOCK_SEQPACKET, fds), 0);
	f->net_end = fds[1];
	assert_int_equal(channel_create(&f->m.loop, fds[0], &channel_ops, f, &f->m.net.channel, &e), 0);
	f->m.net.pid = fork();
	assert_true(f->m.net.pid >= 0);
	if (f->m.net.pid == 0)
		for (;;)
			pause();
	f->m.net.state = PROC_READY;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct grants_load load;
	struct err e = {0};

	strcpy(f->dir, "/dev/shm/muxd-issue.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof f->path, "%s/grants.log", f->dir);
	time_floor_init(&f->m.floor, 0, clock_wall_ns(), clock_boot_ns());
	assert_int_equal(grants_open(f->path, floor_now(&f->m.floor), &f->m.grants, &load, &e), 0);
	assert_int_equal(uv_loop_init(&f->m.loop), 0);
	uv_timer_init(&f->m.loop, &f->timer);
	assert_int_equal(proc_init(&f->m.net, &f->m.loop, &ops, f), 0);
	assert_int_equal(proc_init(&f->m.recorder, &f->m.loop, &ops, f), 0);
	assert_int_equal(audit_create(&f->m.loop, &f->m.net, &f->m.audit), 0);
	f->grant = (struct grant){.kind = GRANT_STAFF,
				  .scopes = SCOPE_TERMINAL,
				  .issuer = "01890a5d-ac96-774b-bcce-b302099a8057",
				  .principal = "ada",
				  .agent = "demo",
				  .task = "console",
				  .reason = "looks"};
	f->grant.issued_ns = f->grant.not_before_ns = floor_now(&f->m.floor);
	f->grant.expires_ns = f->grant.issued_ns + 900 * (int64_t)NS_PER_SEC;
	assert_int_equal(id_new(&f->grant.id), 0);
	assert_int_equal(grants_create(f->m.grants, &f->grant, "admin", "uid 0", &e), 0);
	start_net(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	issue_net_ended(&f->m);
	audit_destroy(f->m.audit);
	proc_finish(&f->m.net);
	proc_finish(&f->m.recorder);
	uv_close((uv_handle_t *)&f->timer, NULL);
	uv_run(&f->m.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->m.loop), 0);
	close(f->net_end);
	grants_close(f->m.grants);
	unlink(f->path);
	rmdir(f->dir);
	free(f);
	return 0;
}

static void on_revoked(void *arg, int rc, const struct err *e, const struct grant *g)
{
	struct fixture *f = arg;

	(void)e;
	assert_int_equal(rc, 0);
	assert_true(id_equal(&g->id, &f->grant.id));
	f->answered++;
}

static void on_time(uv_timer_t *t)
{
	uv_stop(t->loop);
}

static void run(struct fixture *f, uint64_t ms)
{
	uv_update_time(&f->m.loop);
	uv_timer_start(&f->timer, on_time, ms, 0);
	uv_run(&f->m.loop, UV_RUN_DEFAULT);
}

static bool net_lives(const struct fixture *f)
{
	return waitpid(f->m.net.pid, NULL, WNOHANG) == 0;
}

/* It hears of nothing any more: there is no answer to wait for. */
static void one_that_was_told_to_stop_is_not_waited_for(void **state)
{
	struct fixture *f = *state;

	f->m.net.state = PROC_STOPPING;
	issue_revoke(&f->m, &f->grant.id, "admin", "uid 0", on_revoked, f);
	assert_int_equal(f->answered, 1);
	run(f, IN_TIME_MS);
	assert_true(net_lives(f));
}

/* It was told, and stops before it has answered: its end is the answer. */
static void one_that_stops_meanwhile_is_left_its_time(void **state)
{
	struct fixture *f = *state;

	issue_revoke(&f->m, &f->grant.id, "admin", "uid 0", on_revoked, f);
	assert_int_equal(f->answered, 0);
	f->m.net.state = PROC_STOPPING;
	run(f, IN_TIME_MS);
	assert_true(net_lives(f));
	assert_int_equal(f->answered, 0);
	issue_net_ended(&f->m);
	assert_int_equal(f->answered, 1);
}

/* One that serves on without an answer is not to be trusted with it. */
static void one_that_does_not_answer_is_killed(void **state)
{
	struct fixture *f = *state;
	int status;

	issue_revoke(&f->m, &f->grant.id, "admin", "uid 0", on_revoked, f);
	run(f, IN_TIME_MS);
	assert_int_equal(waitpid(f->m.net.pid, &status, 0), f->m.net.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	f->m.net.pid = 0;
}

static void one_more(struct fixture *f, bool renews)
{
	struct grant g = f->grant;
	struct grants_revoked out;

	assert_int_equal(id_new(&g.id), 0);
	if (renews)
		g.kin.first = f->grant.id;
	assert_int_equal(grants_create(f->m.grants, &g, "admin", "uid 0", NULL), 0);
	if (renews)
		assert_int_equal(grants_renewed(f->m.grants, &g.id, NULL), 0);
	else
		assert_int_equal(
		    grants_revoke(f->m.grants, &g.id, GRANTS_WITH_ALL, g.issued_ns, "admin", "uid 0", &out, NULL), 0);
}

static void is_unknown_field(struct fixture *f, const struct admin_op *op, const char *key)
{
	struct admin_call c = {.m = &f->m, .by = "uid 0"};
	json_t *msg = json_pack("{s:s, s:s}", "op", op->name, key, "x"), *answer = NULL;
	struct err e = {0};

	assert_int_equal(op->run(&c, msg, &answer, &e), ERR_INVAL);
	if (!strstr(e.message, "is not a known field"))
		fail_msg("%s with %s: %s", op->name, key, e.message);
	json_decref(msg);
}

/* A field that counts for nothing is not taken as if it did: a revocation has no reason. */
static void what_admin_sock_does_not_know_is_an_error(void **state)
{
	struct fixture *f = *state;

	for (const struct admin_op *op = admin_ops; op->name; op++) {
		is_unknown_field(f, op, "strange");
		if (strstr(op->name, ".revoke"))
			is_unknown_field(f, op, "reason");
	}
}

/* More revocations than the first packet holds, and a renewal: net reads on until it has them all, so it must know. */
static void what_follows_a_start_is_counted(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};
	json_t *start, *msg;
	int64_t follow = -1;

	for (int i = 0; i < 1004; i++)
		one_more(f, false);
	one_more(f, true);
	start = start_packet(&f->m, NULL, 0, false);
	assert_int_equal(json_integer_value(json_object_get(start, "follow")), 4); /* the recorder's */
	json_decref(start);
	start = start_packet(&f->m, NULL, 0, true);
	assert_int_equal(json_opt_int(start, "follow", 0, 100, &follow, NULL), 0);
	assert_int_equal(follow, 5);
	assert_int_equal(start_send(&f->m, f->m.net.channel, start, NULL, 0, &e), 0);
	assert_int_equal(start_send_renewed(&f->m, f->m.net.channel, &e), 0);
	json_decref(start);
	for (int i = 0; i < 1 + follow; i++) {
		assert_int_equal(sock_recv_packet(f->net_end, &msg, NULL, NULL, &e), 0);
		json_decref(msg);
	}
	assert_int_equal(sock_set_nonblock(f->net_end, 1), 0);
	assert_int_equal(sock_recv_packet(f->net_end, &msg, NULL, NULL, &e), ERR_AGAIN);
}

static void open_keys(struct fixture *f)
{
	struct err e = {0};

	snprintf(f->state, sizeof f->state, "%s/state", f->dir);
	f->m.who =
	    (struct identity){.owner = {geteuid(), getegid()}, .net = FILE_OWNER_SELF, .recorder = FILE_OWNER_SELF};
	if (layout_open(f->state, &f->m.who, &f->m.layout, &e) ||
	    keys_open(&f->m.layout, &f->m.who, true, &f->m.keys, &e))
		fail_msg("%s", e.message);
}

static void close_keys(struct fixture *f)
{
	char command[PATH_MAX];

	stuck[0] = '\0';
	keys_finish(&f->m.keys);
	layout_close(&f->m.layout);
	snprintf(command, sizeof command, "rm -rf '%s'", f->state);
	assert_int_equal(system(command), 0);
}

/* The keys that net was told of last; NULL: it was told of none. */
static json_t *keys_told(struct fixture *f)
{
	json_t *msg, *last = NULL;
	struct err e;

	assert_int_equal(sock_set_nonblock(f->net_end, 1), 0);
	while (sock_recv_packet(f->net_end, &msg, NULL, NULL, &e) == 0) {
		if (strcmp(json_get_text(msg, "op"), "grant_keys") == 0) {
			json_decref(last);
			last = json_incref(json_object_get(msg, "grant_keys"));
		}
		json_decref(msg);
	}
	return last;
}

/* An old key that cannot be dropped: the answer is a failure, and net knows all the same by which key grants are
 * signed. */
static void net_is_told_of_a_key_beside_one_that_stays(void **state)
{
	struct fixture *f = *state;
	struct admin_call call = {.m = &f->m, .by = "uid 0"};
	const struct admin_op *op = admin_ops;
	json_t *msg, *out = NULL, *told;
	struct err e = {0};
	size_t i, n = 0;

	open_keys(f);
	snprintf(stuck, sizeof stuck, "%.80s/keys/grant/%s.pub", f->state, f->m.keys.kid);
	while (strcmp(op->name, "key.rotate") != 0)
		op++;
	msg = json_pack("{s:s, s:b}", "op", "key.rotate", "drop_old", true);
	assert_int_equal(op->run(&call, msg, &out, &e), ERR_PERMISSION);
	assert_null(out);
	json_decref(msg);
	told = keys_told(f);
	assert_int_equal(json_array_size(told), 2);
	for (i = 0; i < 2; i++)
		n += strcmp(json_get_text(json_array_get(told, i), "kid"), f->m.keys.kid) == 0;
	assert_int_equal(n, 1);
	json_decref(told);
	assert_int_equal(audit_waiting(f->m.audit), 1);
	close_keys(f);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(one_that_was_told_to_stop_is_not_waited_for),
	    TEST(one_that_stops_meanwhile_is_left_its_time),
	    TEST(one_that_does_not_answer_is_killed),
	    TEST(what_admin_sock_does_not_know_is_an_error),
	    TEST(what_follows_a_start_is_counted),
	    TEST(net_is_told_of_a_key_beside_one_that_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
