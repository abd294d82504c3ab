/*
 * monitor_rig.h - a monitor's grants by themselves: its log, its key, its audit, and a net that journals all it is
 * told.
 *
 * The clock stands at NOW; clock_test_set() moves it. setup() and teardown() are cmocka's.
 */
#ifndef TESTS_LIB_MONITOR_RIG_H
#define TESTS_LIB_MONITOR_RIG_H

#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000000)
#define NOW    INT64_C(1800000000)
#define OWN    "01890a5d-ac96-774b-bcce-b302099a8057"

struct fixture {
	struct monitor m;
	char path[96];
	int net;            /* the test's end */
	struct grant grant; /* of the last answer, with its token */
	char token[GRANT_TOKEN_MAX + 1];
	int rc;
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

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct monitor *m = &f->m;
	struct grants_load loaded;
	const char text[] = "grants: {ttl_max: 1h, renew_max: 1h}\n";
	int fds[2];

	clock_test_set(1000 * (uint64_t)SECOND, NOW * SECOND);
	snprintf(f->path, sizeof f->path, "/dev/shm/muxd-rig.%d", (int)getpid());
	(void)unlink(f->path);
	assert_int_equal(conf_parse(text, strlen(text), "test", &m->conf, NULL), 0);
	strcpy(m->layout.instance, OWN);
	time_floor_init(&m->floor, 0, clock_wall_ns(), clock_boot_ns());
	assert_int_equal(grants_open(f->path, NOW * SECOND, &m->grants, &loaded, NULL), 0);
	m->keys.set.keys = calloc(1, sizeof *m->keys.set.keys);
	m->keys.set.n = 1;
	assert_int_equal(grant_key_create(m->keys.seed, m->keys.set.keys), 0);
	memcpy(m->keys.kid, m->keys.set.keys[0].kid, sizeof m->keys.kid);
	assert_int_equal(uv_loop_init(&m->loop), 0);
	assert_int_equal(proc_init(&m->net, &m->loop, &ops, f), 0);
	assert_int_equal(sock_pair(SOCK_SEQPACKET, fds), 0);
	assert_int_equal(channel_create(&m->loop, fds[0], &channel, &m->net, &m->net.channel, NULL), 0);
	m->net.state = PROC_READY;
	f->net = fds[1];
	assert_int_equal(proc_init(&m->recorder, &m->loop, &ops, f), 0);
	assert_int_equal(audit_create(&m->loop, &m->net, &m->audit), 0);
	audit_net_ready(m->audit);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	audit_destroy(f->m.audit);
	grants_close(f->m.grants);
	proc_finish(&f->m.net);
	proc_finish(&f->m.recorder);
	uv_run(&f->m.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&f->m.loop);
	close(f->net);
	free(f->m.keys.set.keys);
	conf_destroy(f->m.conf);
	(void)unlink(f->path);
	clock_test_reset();
	free(f);
	return 0;
}

static void on_done(void *arg, int rc, const struct err *e, const struct grant *g, const char *token)
{
	struct fixture *f = arg;

	(void)e;
	f->rc = rc;
	if (rc)
		return;
	f->grant = *g;
	snprintf(f->token, sizeof f->token, "%s", token);
}

/* Net journals all that it is told. Returns the code of the answer. */
static int ask(struct fixture *f, const struct wish *w)
{
	size_t n = 0;
	json_t *o;

	issue_create(&f->m, w, on_done, f);
	(void)sock_set_nonblock(f->net, 1);
	while (sock_recv_packet(f->net, &o, NULL, &n, NULL) == 0) {
		const json_t *tag = json_object_get(o, "tag");

		if (json_is_integer(tag))
			audit_answer(f->m.audit, json_integer_value(tag), 0);
		json_decref(o);
	}
	return f->rc;
}

#endif
