/*
 * hub_rig.h - a real hub with a real muxlet behind it, for tests of sessions as doors see them.
 *
 * The rig plays what stands around it: the provider, which knows one sandbox; the recorder, which takes what is in the
 * ring unless it is stalled; and a client. Everything static: a test is one file.
 */
#ifndef TESTS_LIB_HUB_RIG_H
#define TESTS_LIB_HUB_RIG_H

#include "tests/lib/link_rig.h"

#include "base/ids.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/shelf.h"
#include "muxd/hub/session/screen.h"
#include "muxd/hub/session/session_end.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/wake.h"
#include "muxd/hub/setup.h"
#include "muxd/link/link_state.h"
#include "tests/lib/patience.h"

#define HUB_RING (1024 * 1024)

struct hub_rig {
	struct sandbox_provider provider; /* first: the provider is the rig */
	uv_loop_t loop;
	uv_timer_t timer;
	struct rig *let; /* of it the muxlet alone */
	struct hub *hub;
	char dir[64];
	int ring_fd, cursor_fd;
	struct ring_reader *reader;
	bool stalled, disk_full, failed; /* what the recorder does */
	bool deaf;                       /* what answers in the sandbox is no muxlet */
	int (*dial)(void *arg);          /* ... or one of the test's own; NULL */
	void *dial_arg;
	int refuses; /* ERR_* that the provider answers instead of a stream; 0 */
	unsigned asked;
	sandbox_done *asking; /* answered in the next turn */
	void *asking_arg;
	struct sandbox_info info;
	char whole[AGENT_NAME_MAX + 8]; /* of the pod that was named last */
	unsigned lists, stats;          /* questions to the provider */
	json_t *audit;                  /* what the recorder has taken of it */
	json_t *exits;                  /* EXIT records */
	struct buf output, input;
	unsigned resizes, cuts;         /* recorded */
	const struct id *revoked_first; /* told to the next hub before it knows any session */
};

/* A client, with what it was told. */
struct hub_client {
	struct attachment *a;
	struct session *s; /* NULL once it has ended */
	int opened, rc;    /* times, and how */
	char why[400];
	struct hub_client *takes_along; /* detached with it, as the channels of one connection are */
	unsigned screens, cols, rows;
	unsigned cuts, ends, writables;
	enum exit_cause cause;
	struct buf got;
};

/* ---- the recorder */

static void hub_take(struct hub_rig *r, const struct ring_record *rec)
{
	struct buf *b = rec->stream == STREAM_INPUT ? &r->input : &r->output;
	json_t *o;

	if (rec->type == RING_DATA)
		assert_int_equal(buf_append(b, rec->payload, rec->len), 0);
	if (rec->type == RING_RESIZE)
		r->resizes++;
	if (rec->type == RING_EVENT && memmem(rec->payload, rec->len, "\"cut\"", 5))
		r->cuts++;
	if (rec->type != RING_AUDIT && rec->type != RING_EXIT)
		return;
	o = json_loadb((const char *)rec->payload, rec->len, 0, NULL);
	assert_non_null(o);
	json_array_append_new(rec->type == RING_AUDIT ? r->audit : r->exits, o);
}

static void hub_record(struct hub_rig *r)
{
	struct ring_cursor c = {.heartbeat_ns = clock_boot_ns(),
				.state = r->disk_full ? RING_READER_DISK_FULL
					 : r->failed  ? RING_READER_FAILED
						      : RING_READER_OK};
	struct ring_record rec;
	struct err e = {0};

	while (!r->stalled && !r->disk_full && !r->failed && ring_read(r->reader, &rec, &e) == 1)
		hub_take(r, &rec);
	c.durable = ring_reader_position(r->reader);
	assert_int_equal(ring_cursor_write(r->cursor_fd, &c), 0);
}

RIG_UNUSED static unsigned hub_audited(const struct hub_rig *r, const char *event)
{
	unsigned n = 0;
	json_t *o;
	size_t i;

	json_array_foreach(r->audit, i, o) n += strcmp(json_string_value(json_object_get(o, "event")), event) == 0;
	return n;
}

/* ---- the provider */

static void hub_asked(struct hub_rig *r, const char *agent, sandbox_done *done, void *arg)
{
	assert_null(r->asking);
	snprintf(r->info.agent, sizeof(r->info.agent), "%s", agent);
	r->asked++;
	r->asking = done;
	r->asking_arg = arg;
}

static void hub_stat(struct hub_rig *r, const char *agent, sandbox_done *done, void *arg)
{
	struct err e = {0};

	r->stats++;
	if (strcmp(agent, r->info.agent) != 0)
		err_set(&e, ERR_NOT_FOUND, "no such sandbox");
	sandbox_answer(done, arg, e.code, &e, &r->info, -1);
}

static void hub_provider_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct hub_rig *r = (struct hub_rig *)p;

	switch (q->op) {
	case SANDBOX_ENSURE:
	case SANDBOX_CONNECT:
		hub_asked(r, q->agent, done, arg);
		break;
	case SANDBOX_STAT:
		hub_stat(r, q->agent, done, arg);
		break;
	case SANDBOX_LIST:
		r->lists++;
		done(arg, &(struct sandbox_answer){.fd = -1});
		break;
	case SANDBOX_RESOLVE: /* a pod's one container */
		snprintf(r->whole, sizeof(r->whole), "%s/app", q->agent);
		done(arg, &(struct sandbox_answer){.name = r->whole, .fd = -1});
		break;
	default: /* an end changes nothing */
		sandbox_answer(done, arg, 0, NULL, &r->info, -1);
	}
}

static const struct sandbox_provider_ops hub_provider_ops = {.ask = hub_provider_ask};
#define HUB_PROVIDER_CAN                                                                                               \
	(SANDBOX_CAN(SANDBOX_ENSURE) | SANDBOX_CAN(SANDBOX_CONNECT) | SANDBOX_CAN(SANDBOX_STAT) |                      \
	 SANDBOX_CAN(SANDBOX_LIST) | SANDBOX_CAN(SANDBOX_DESTROY) | SANDBOX_CAN(SANDBOX_RESOLVE))

static int hub_deaf_fd(void)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	close(fd[1]);
	return fd[0];
}

static void hub_provide(struct hub_rig *r)
{
	sandbox_done *done = r->asking;

	r->asking = NULL;
	if (!done)
		return;
	if (r->refuses) {
		struct err e = {0};

		err_set(&e, r->refuses, "refused by the test");
		sandbox_answer(done, r->asking_arg, r->refuses, &e, NULL, -1);
		return;
	}
	r->info.epoch++;
	sandbox_answer(done, r->asking_arg, 0, NULL, &r->info,
		       r->deaf   ? hub_deaf_fd()
		       : r->dial ? r->dial(r->dial_arg)
				 : rig_dial(r->let));
}

/* ---- turns of the loop */

static void hub_tick(uv_timer_t *t)
{
	(void)t;
}

static void hub_turn(struct hub_rig *r)
{
	uv_timer_start(&r->timer, hub_tick, 10, 10);
	uv_run(&r->loop, UV_RUN_ONCE);
	hub_record(r);
	hub_provide(r);
}

/* Turns until the condition holds; a loaded machine may need more of them. */
#define hub_until(r, condition)                                                                                        \
	({                                                                                                             \
		struct patience left_ = patience_of(60 * NS_PER_SEC);                                                  \
		while (!(condition) && !patience_over(&left_))                                                         \
			hub_turn(r);                                                                                   \
		!!(condition);                                                                                         \
	})

RIG_UNUSED static void hub_turns(struct hub_rig *r, unsigned ms)
{
	uint64_t until = clock_boot_ns() + ms * NS_PER_MS;

	while (clock_boot_ns() < until)
		hub_turn(r);
}

/* ---- the beginning and the end */

static int hub_file(struct hub_rig *r, const char *name, char path[100])
{
	int fd;

	snprintf(path, 100, "%s/%s", r->dir, name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void hub_make_ring(struct hub_rig *r)
{
	struct err e = {0};
	char path[100];

	snprintf(r->dir, sizeof(r->dir), "/tmp/muxd-hub-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	snprintf(path, sizeof(path), "%s/ring", r->dir);
	assert_int_equal(ring_file_prepare(path, HUB_RING, &e), 0);
	snprintf(path, sizeof(path), "%s/cursor", r->dir);
	assert_int_equal(ring_cursor_prepare(path, &e), 0);
	r->ring_fd = hub_file(r, "ring", path);
	r->cursor_fd = hub_file(r, "cursor", path);
	assert_int_equal(ring_reader_create(r->ring_fd, 0, &r->reader, &e), 0);
	hub_record(r);
}

static void hub_start(struct hub_rig *r, const struct hub_screens *screens)
{
	struct hub_params p = {.loop = &r->loop,
			       .ring_fd = r->ring_fd,
			       .cursor_fd = r->cursor_fd,
			       .provider = &r->provider,
			       .instance = "test"};
	struct err e = {0};

	if (screens)
		p.screens = *screens;
	assert_int_equal(conf_create(&p.conf), 0);
	p.conf->file_changes = false; /* programs begin in /tmp, which is everybody's */
	assert_int_equal(hub_create(&p, &r->hub, &e), 0);
	r->hub->recovered = true;
}

RIG_UNUSED static struct hub_rig *hub_rig_create(const struct hub_screens *screens)
{
	struct hub_rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(uv_loop_init(&r->loop), 0);
	uv_timer_init(&r->loop, &r->timer);
	r->provider.ops = &hub_provider_ops;
	r->provider.can = HUB_PROVIDER_CAN;
	r->audit = json_array();
	r->exits = json_array();
	buf_init(&r->output, 64 << 20);
	buf_init(&r->input, 64 << 20);
	hub_make_ring(r);
	r->let = calloc(1, sizeof(*r->let));
	assert_non_null(r->let);
	rig_start_muxlet(r->let, NULL);
	memcpy(r->info.secret, r->let->secret, sizeof(r->info.secret));
	assert_int_equal(id_new(&r->info.sandbox_id), 0);
	r->info.state = SANDBOX_RUNNING;
	hub_start(r, screens);
	return r;
}

/* As when net is killed: the next hub goes on with the same ring and the same muxlet. */
RIG_UNUSED static void hub_rig_again(struct hub_rig *r)
{
	hub_destroy(r->hub);
	hub_provide(r); /* to nobody */
	uv_run(&r->loop, UV_RUN_NOWAIT);
	hub_start(r, NULL);
}

static void hub_end_muxlet(struct rig *let)
{
	int status;

	kill(let->pid, SIGCONT);
	kill(let->pid, SIGTERM);
	assert_int_equal(waitpid(let->pid, &status, 0), let->pid);
	unlink(let->path);
	rmdir(let->dir);
	free(let);
}

RIG_UNUSED static void hub_rig_destroy(struct hub_rig *r)
{
	char path[100];

	hub_destroy(r->hub);
	hub_provide(r);
	hub_end_muxlet(r->let);
	uv_close((uv_handle_t *)&r->timer, NULL);
	while (uv_run(&r->loop, UV_RUN_DEFAULT))
		;
	assert_int_equal(uv_loop_close(&r->loop), 0);
	ring_reader_destroy(r->reader);
	close(r->ring_fd);
	close(r->cursor_fd);
	snprintf(path, sizeof(path), "%s/ring", r->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/cursor", r->dir);
	unlink(path);
	rmdir(r->dir);
	json_decref(r->audit);
	json_decref(r->exits);
	buf_finish(&r->output);
	buf_finish(&r->input);
	free(r);
}

/* The stream of the link breaks; the next one is made when r->deaf is not set. */
RIG_UNUSED static void hub_break(struct hub_rig *r, const struct session *s)
{
	assert_int_equal(shutdown(s->agent->link->fd, SHUT_RDWR), 0);
	assert_true(hub_until(r, s->state == SESSION_SUSPENDED));
}

/* ---- a client */

static void client_readable(void *arg)
{
	struct hub_client *c = arg;
	const uint8_t *p;
	size_t n;

	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		while ((n = attachment_peek(c->a, i, &p)) > 0) {
			assert_int_equal(buf_append(&c->got, p, n), 0);
			attachment_consume(c->a, i, n);
		}
}

static void client_leaves(struct hub_client *c)
{
	struct attachment *a = c->a;

	c->a = NULL;
	attachment_detach(a);
}

static void client_writable(void *arg)
{
	((struct hub_client *)arg)->writables++;
}

static void client_notice(void *arg, const char *text, bool over)
{
	(void)arg, (void)text, (void)over;
}

static void client_skipped(void *arg, int stream, uint64_t n)
{
	(void)arg, (void)stream, (void)n;
}

static void client_screen(void *arg, const struct screen_shot *shot)
{
	struct hub_client *c = arg;

	c->screens++;
	c->cols = shot->cols;
	c->rows = shot->rows;
	if (c->takes_along) {
		client_leaves(c->takes_along);
		client_leaves(c);
	}
}

static void client_ended(void *arg, const struct session_result *result)
{
	struct hub_client *c = arg;

	c->ends++;
	c->cause = result->cause;
	client_leaves(c);
	c->s = NULL;
}

static void client_cut(void *arg, enum cut_cause cause, const char *text)
{
	struct hub_client *c = arg;

	(void)cause, (void)text;
	c->cuts++;
	client_leaves(c);
}

static const struct attachment_ops client_ops = {.readable = client_readable,
						 .writable = client_writable,
						 .notice = client_notice,
						 .screen = client_screen,
						 .skipped = client_skipped,
						 .ended = client_ended,
						 .cut = client_cut};

static void client_opened(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			  const struct id *seen)
{
	struct hub_client *c = arg;

	(void)seen;
	c->opened++;
	c->rc = rc;
	c->s = s;
	c->a = a;
	snprintf(c->why, sizeof(c->why), "%s", e ? e->message : "");
}

/* Of a session or an attachment: it is held by g from here on. */
static inline void hub_regrant(struct hub_rig *r, const struct grant **at, const struct grant *g)
{
	hub_grant_unshare(r->hub, *at);
	*at = hub_grant_share(r->hub, g);
	assert_non_null(*at);
}

static struct request hub_request(void)
{
	struct request rq = {.door = "test"};

	assert_int_equal(id_new(&rq.id), 0);
	assert_int_equal(id_new(&rq.grant.id), 0);
	rq.grant.kind = GRANT_STAFF;
	rq.grant.scopes = UINT32_MAX;
	rq.grant.expires_ns = clock_wall_ns() + (int64_t)(3600 * NS_PER_SEC);
	snprintf(rq.grant.principal, sizeof(rq.grant.principal), "tester");
	snprintf(rq.grant.agent, sizeof(rq.grant.agent), "*");
	snprintf(rq.grant.task, sizeof(rq.grant.task), "test");
	snprintf(rq.grant.reason, sizeof(rq.grant.reason), "test");
	return rq;
}

/* sh -c command as that kind of session; `done` has been called or will be. */
RIG_UNUSED static void hub_ask(struct hub_rig *r, struct hub_client *c, enum session_kind kind, const char *command,
			       const struct request *rq)
{
	struct exec_spec spec = {.kind = kind,
				 .agent = "box",
				 .command = command,
				 .pty = kind == SESSION_TERMINAL,
				 .cols = 80,
				 .rows = 24,
				 .stdin_open = true,
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};
	struct request own = hub_request();

	memset(c, 0, sizeof(*c));
	buf_init(&c->got, 64 << 20);
	broker_open(r->hub, rq ? rq : &own, &spec, kind == SESSION_ROUND ? NULL : &client_ops, c, client_opened, c);
}

RIG_UNUSED static void hub_open(struct hub_rig *r, struct hub_client *c, enum session_kind kind, const char *command)
{
	hub_ask(r, c, kind, command, NULL);
	assert_true(hub_until(r, c->opened));
	assert_int_equal(c->rc, 0);
}

RIG_UNUSED static void hub_join(struct hub_rig *r, struct hub_client *c, const struct session *s,
				enum attachment_role role)
{
	struct request rq = hub_request();
	struct err e = {0};

	memset(c, 0, sizeof(*c));
	buf_init(&c->got, 64 << 20);
	assert_int_equal(broker_attach(r->hub, &rq, "box", s->id_text, role, &client_ops, c, &c->a, &e), 0);
	c->s = attachment_session(c->a);
}

RIG_UNUSED static bool hub_shows(const struct hub_client *c, const char *text)
{
	return buf_len(&c->got) && memmem(buf_ptr(&c->got), buf_len(&c->got), text, strlen(text));
}

RIG_UNUSED static bool hub_holds(const struct buf *b, const char *text)
{
	return buf_len(b) && memmem(buf_ptr(b), buf_len(b), text, strlen(text));
}

#endif
