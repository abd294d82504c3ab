// tier: check
/*
 * A local sandbox with the real muxlet in it and the real link to it: a program
 * runs, is still there after the "monitor" and the stream are gone, and goes on.
 * Needs root; says so otherwise.
 */
#include "base/conf.h"
#include "base/err.h"
#include "control/local/local.h"
#include "muxd/link/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

struct run {
	uv_loop_t loop;
	uv_timer_t limit;
	struct link *link;
	struct link_channel_info list[4];
	size_t nlist;
	bool up, timed_out;
	int down_rc;
	char out[4096];
	size_t len;
	bool ended[4]; /* by channel */
	struct link_exit exit[4];
	const char *until; /* stop when the output ends with it */
};

static char top[64];
static char instance[40];

static void on_up(void *arg, const struct link_channel_info *list, size_t n)
{
	struct run *r = arg;

	r->up = true;
	r->nlist = n > 4 ? 4 : n;
	if (n)
		memcpy(r->list, list, r->nlist * sizeof(*list));
	uv_stop(&r->loop);
}

static void on_down(void *arg, int rc, const char *why)
{
	struct run *r = arg;

	print_message("down: %s: %s\n", err_name(rc), why ? why : "");
	r->down_rc = rc ? rc : ERR_EOF;
	uv_stop(&r->loop);
}

static void on_opened(void *arg, uint32_t channel, int rc, const char *why)
{
	(void)arg;
	(void)channel;
	if (rc)
		print_message("not opened: %s\n", why);
}

static void on_data(void *arg, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n)
{
	struct run *r = arg;

	(void)channel;
	(void)stream;
	(void)offset;
	if (n > sizeof(r->out) - 1 - r->len)
		n = sizeof(r->out) - 1 - r->len;
	memcpy(r->out + r->len, p, n);
	r->len += n;
	r->out[r->len] = '\0';
	if (r->until && strstr(r->out, r->until))
		uv_stop(&r->loop);
}

static void on_consumed(void *arg, uint32_t channel, uint64_t offset)
{
	(void)arg;
	(void)channel;
	(void)offset;
}

static void on_echo(void *arg, uint32_t channel, enum link_echo mode)
{
	(void)arg;
	(void)channel;
	(void)mode;
}

static void on_exited(void *arg, uint32_t channel, const struct link_exit *x)
{
	struct run *r = arg;

	assert_true(channel < 4);
	r->exit[channel] = *x;
	r->ended[channel] = true;
	uv_stop(&r->loop);
}

static const struct link_ops ops = {.up = on_up,
				    .down = on_down,
				    .opened = on_opened,
				    .data = on_data,
				    .input_consumed = on_consumed,
				    .echo = on_echo,
				    .exited = on_exited};

static void on_limit(uv_timer_t *t)
{
	struct run *r = t->data;

	r->timed_out = true;
	uv_stop(&r->loop);
}

static void turn(struct run *r)
{
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_false(r->timed_out);
}

static void run_begin(struct run *r, const struct sandbox_info *info, int fd)
{
	struct link_params p = {.epoch = info->epoch, .name = info->agent};

	memset(r, 0, sizeof(*r));
	memcpy(p.secret, info->secret, sizeof(p.secret));
	assert_int_equal(uv_loop_init(&r->loop), 0);
	assert_int_equal(uv_timer_init(&r->loop, &r->limit), 0);
	r->limit.data = r;
	uv_timer_start(&r->limit, on_limit, 20000, 0);
	assert_int_equal(link_create((struct uv_loop_s *)&r->loop, &p, &ops, r, &r->link), 0);
	assert_int_equal(link_attach(r->link, fd, info->epoch), 0);
	turn(r);
	assert_int_equal(r->down_rc, 0);
	assert_true(r->up);
}

static void run_end(struct run *r)
{
	link_destroy(r->link);
	uv_close((uv_handle_t *)&r->limit, NULL);
	uv_run(&r->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&r->loop), 0);
}

static struct local *make_local(const char *dir)
{
	struct local_params p = {.state_dir = dir,
				 .muxlet_path = BUILD_DIR "/muxlet",
				 .archiver_path = BUILD_DIR "/muxd-archive",
				 .instance = instance,
				 .root = true};
	struct local *l = NULL;
	struct err e = {0};
	struct conf *c;

	assert_int_equal(conf_create(&c), 0);
	c->sandbox_uid_base = 100000 + (unsigned)getpid() * 100;
	if (local_create(&p, c, &l, &e) != 0)
		fail_msg("%s: %s", err_name(e.code), e.message);
	conf_destroy(c);
	return l;
}

static void ensure(struct local *l, struct sandbox_info *info, int *fd)
{
	struct err e = {0};

	if (local_ensure(l, "demo", info, fd, &e) != 0)
		fail_msg("%s: %s", err_name(e.code), e.message);
}

static void open_shell(struct run *r, uint32_t channel, struct id *session, const char *line)
{
	const char *argv[] = {"sh", "-c", line, NULL};
	const char *env[] = {NULL};
	struct link_open o = {.channel = channel, .argv = argv, .env = env, .window = 65536, .grace_ms = 500};
	struct err e = {0};

	assert_int_equal(id_new(session), 0);
	o.session = *session;
	if (link_open(r->link, &o, &e) != 0)
		fail_msg("%s", e.message);
}

static void test_program_outlives_stream_and_monitor(void **state)
{
	const uint64_t have[3] = {0, strlen("first 1000\n"), 0};
	struct sandbox_info info, again;
	struct err e = {0};
	struct id session;
	struct run r;
	char dir[128];
	struct local *l;
	int fd;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/state", top);
	assert_int_equal(mkdir(dir, 0711), 0);
	l = make_local(dir);
	ensure(l, &info, &fd);
	run_begin(&r, &info, fd);
	assert_int_equal(r.nlist, 0);
	r.until = "first 1000\n";
	open_shell(&r, 1, &session, "echo first $(id -u); while [ ! -e go ]; do sleep 0.05; done; echo second; exit 7");
	while (!strstr(r.out, r.until) && !r.ended[1])
		turn(&r);
	run_end(&r);
	local_destroy(l);

	l = make_local(dir);
	ensure(l, &again, &fd);
	assert_true(id_equal(&info.sandbox_id, &again.sandbox_id));
	assert_true(again.epoch > info.epoch);
	run_begin(&r, &again, fd);
	assert_int_equal(r.nlist, 1);
	assert_true(id_equal(&r.list[0].session, &session));
	assert_false(r.list[0].exited);
	assert_int_equal(link_resume(r.link, 1, have, 65536), 0);
	open_shell(&r, 2, &session, "touch go");
	while (!strstr(r.out, "second\n"))
		turn(&r);
	while (!r.ended[1] || !r.ended[2])
		turn(&r);
	assert_string_equal(r.out, "second\n");
	assert_int_equal(r.exit[1].cause, EXIT_EXITED);
	assert_int_equal(r.exit[1].code, 7);
	assert_int_equal(r.exit[2].code, 0);
	run_end(&r);
	if (local_destroy_sandbox(l, "demo", true, &e) != 0)
		fail_msg("%s", e.message);
	local_destroy(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_program_outlives_stream_and_monitor)};
	char command[128];
	int rc;

	if (geteuid() != 0) {
		printf("SKIP test_local_link: needs root (loop devices, control groups, uids of sandboxes)\n");
		return 0;
	}
	snprintf(instance, sizeof(instance), "test-local-link-%d", (int)getpid());
	snprintf(top, sizeof(top), "/tmp/test-link.XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755) != 0)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command) != 0 ? 1 : rc;
}
