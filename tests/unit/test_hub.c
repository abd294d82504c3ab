// tier: check
/* Sessions over a real muxlet: what waits for the record or the link goes on by itself, and ends come in any order. */
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/record/share.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_output.h"
#include "muxd/hub/setup.h"
#include "tests/lib/hub_rig.h"

#define FRESH(r) struct hub_rig *r = hub_rig_create(NULL)

static void a_terminal_is_found_without_an_agent(void **state)
{
	FRESH(r);
	struct request rq = hub_request();
	struct hub_client c, other = {0};
	struct err e = {0};

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "read x");
	assert_int_equal(broker_attach(r->hub, &rq, NULL, NULL, ROLE_DRIVER, &client_ops, &other, &other.a, &e), 0);
	assert_ptr_equal(attachment_session(other.a), c.s);
	client_leaves(&other);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* A hub that cannot be made leaves nothing: neither memory nor a handle in its loop. */
static void a_hub_without_a_ring_is_not_made(void **state)
{
	struct hub *h = NULL;
	struct err e = {0};
	struct conf *c;
	uv_loop_t loop;
	struct hub_params p = {
	    .loop = &loop, .instance = "test", .ring_fd = -1, .cursor_fd = -1, .bell_fd = -1, .moved_fd = -1};

	(void)state;
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_int_equal(conf_create(&c), 0);
	p.conf = c;
	assert_int_not_equal(hub_create(&p, &h, &e), 0);
	assert_null(h);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	conf_destroy(c);
}

/* As much as is taken; the rest when `writable` has come. */
static void pour(struct hub_client *c, uint64_t *sent, uint64_t total)
{
	static uint8_t piece[32 * 1024];
	ssize_t n = 1;

	while (*sent < total && n > 0) {
		size_t want = total - *sent < sizeof(piece) ? (size_t)(total - *sent) : sizeof(piece);

		n = attachment_input(c->a, piece, want);
		assert_true(n >= 0);
		*sent += (uint64_t)n;
	}
}

static bool pours(struct hub_rig *r, struct hub_client *c, uint64_t *sent, uint64_t total)
{
	unsigned before = c->writables;

	pour(c, sent, total);
	if (*sent == total)
		return true;
	return hub_until(r, c->writables > before);
}

static void input_goes_on_when_the_record_does(void **state)
{
	const uint64_t total = 4 * HUB_RING;
	FRESH(r);
	struct hub_client bulk, keys;
	uint64_t sent = 0;

	(void)state;
	hub_open(r, &keys, SESSION_TERMINAL, "stty -echo; read x; echo \"got $x\"");
	hub_open(r, &bulk, SESSION_EXEC, "wc -c");
	r->stalled = true;
	pour(&bulk, &sent, total);
	hub_turns(r, 500);
	pour(&bulk, &sent, total);
	hub_turns(r, 500);
	assert_true(sent < HUB_RING / 2); /* not more than its share of the ring */
	assert_int_equal(attachment_input(keys.a, "x\n", 2), 2);
	assert_true(hub_until(r, r->hub->stats.bytes_in >= sent + 2));
	r->stalled = false;
	while (sent < total)
		assert_true(pours(r, &bulk, &sent, total));
	assert_int_equal(attachment_input_eof(bulk.a), 0);
	assert_true(hub_until(r, bulk.ends && keys.ends));
	assert_true(hub_shows(&bulk, "4194304"));
	assert_true(hub_shows(&keys, "got x"));
	assert_true(hub_until(r, hub_audited(r, "session.end") == 2));
	assert_int_equal(buf_len(&r->input), total + 2);
	buf_finish(&bulk.got);
	buf_finish(&keys.got);
	hub_rig_destroy(r);
}

/* The smallest records until not one more fits. */
static void fill_reserve(struct hub_rig *r)
{
	while (journal_bytes(r->hub->journal, RING_CLOCK, NULL, "x", 1) == 0)
		;
}

static void a_size_that_was_not_recorded_is_given_again(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "read x; stty size; read x");
	r->stalled = true;
	fill_reserve(r);
	assert_int_equal(attachment_resize(c.a, 100, 30, 0, 0), ERR_AGAIN);
	r->stalled = false;
	assert_true(hub_until(r, attachment_resize(c.a, 100, 30, 0, 0) == 0));
	assert_true(hub_until(r, attachment_input(c.a, "\n", 1) == 1));
	assert_true(hub_until(r, hub_shows(&c, "30 100")));
	assert_int_equal(r->resizes, 1);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

static void an_end_is_audited_when_there_is_room(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_open(r, &c, SESSION_EXEC, "read x");
	r->stalled = true;
	fill_reserve(r);
	c.s->result = calloc(1, sizeof(*c.s->result));
	assert_non_null(c.s->result);
	session_audit_end(c.s);
	assert_true(c.s->audit_due);
	assert_int_equal(hub_audited(r, "session.end"), 0);
	r->stalled = false;
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
	assert_false(c.s->audit_due);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* So that no kill in between leaves an end that the audit log does not tell. */
static void an_end_and_its_event_go_in_together(void **state)
{
	FRESH(r);
	struct hub_client c;
	uint64_t at;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "read x");
	r->stalled = true;
	while (journal_takes_end(r->hub->journal)) /* there is room for its EXIT alone */
		assert_int_equal(journal_bytes(r->hub->journal, RING_CLOCK, NULL, "x", 1), 0);
	assert_int_equal(attachment_input(c.a, "\n", 1), 1);
	assert_true(hub_until(r, c.s->end == END_KNOWN));
	at = journal_position(r->hub->journal);
	hub_turns(r, 300);
	assert_int_equal(c.s->end, END_KNOWN);
	assert_int_equal(journal_position(r->hub->journal), at);
	r->stalled = false;
	assert_true(hub_until(r, c.ends && hub_audited(r, "session.end") == 1));
	assert_int_equal(json_array_size(r->exits), 1);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* ---- who is told of an end begins the next */

struct steps {
	struct session_waiter waiter;
	struct hub_rig *rig;
	struct hub_client c;
	unsigned left;
};

static void next_step(struct steps *x);

static void on_step(void *arg, struct session *s)
{
	struct steps *x = arg;

	(void)s;
	if (--x->left)
		next_step(x);
}

static void step_opened(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			const struct id *seen)
{
	struct steps *x = arg;

	(void)e, (void)a, (void)seen;
	assert_int_equal(rc, 0);
	session_wait(s, &x->waiter, on_step, x);
}

static void next_step(struct steps *x)
{
	struct exec_spec spec = {
	    .kind = SESSION_ROUND, .agent = "box", .command = "echo much", .head = UINT64_MAX, .tail = UINT64_MAX};
	struct request rq = hub_request();

	broker_open(x->rig->hub, &rq, &spec, NULL, NULL, step_opened, x);
}

static void a_step_may_follow_a_step_that_is_not_kept(void **state)
{
	FRESH(r);
	struct steps x = {.rig = r, .left = 5};

	(void)state;
	r->hub->conf->round_keep_size = 1;
	next_step(&x);
	assert_true(hub_until(r, !x.left));
	assert_true(hub_until(r, !shelf_oldest(r->hub)));
	hub_rig_destroy(r);
}

/* ---- grants */

static void a_revoked_grant_ends_what_an_observer_holds(void **state)
{
	struct request rq = hub_request();
	FRESH(r);
	struct hub_client c, watcher;

	(void)state;
	hub_ask(r, &c, SESSION_TERMINAL, "read x", &rq);
	assert_true(hub_until(r, c.opened && !c.rc));
	hub_join(r, &watcher, c.s, ROLE_OBSERVER);
	assert_int_equal(hub_revoke(r->hub, &rq.grant.id, rq.grant.expires_ns), 0);
	assert_int_equal(c.cuts, 1);
	assert_int_equal(watcher.cuts, 0);
	client_leaves(&watcher);
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
	buf_finish(&c.got);
	buf_finish(&watcher.got);
	hub_rig_destroy(r);
}

/* An observer keeps no program running for a grant that has ended; for a driver by a grant of his own it goes on. */
static void a_round_ends_with_its_grant_whoever_watches(void **state)
{
	struct request revoked = hub_request(), expires = hub_request(), driven = hub_request();
	struct hub_client a = {0}, b = {0}, c = {0}, see_a, see_b, drive_c;
	FRESH(r);

	(void)state;
	expires.grant.expires_ns = clock_wall_ns() + (int64_t)NS_PER_SEC;
	hub_ask(r, &a, SESSION_ROUND, "sleep 60", &revoked);
	hub_ask(r, &b, SESSION_ROUND, "sleep 60", &expires);
	hub_ask(r, &c, SESSION_ROUND, "sleep 60", &driven);
	assert_true(hub_until(r, a.opened && b.opened && c.opened));
	assert_int_equal(a.rc | b.rc | c.rc, 0);
	hub_join(r, &see_a, a.s, ROLE_OBSERVER);
	hub_join(r, &see_b, b.s, ROLE_OBSERVER);
	hub_join(r, &drive_c, c.s, ROLE_DRIVER);
	assert_int_equal(hub_revoke(r->hub, &revoked.grant.id, revoked.grant.expires_ns), 0);
	assert_int_equal(hub_revoke(r->hub, &driven.grant.id, driven.grant.expires_ns), 0);
	assert_true(hub_until(r, see_a.ends && see_b.ends));
	assert_int_equal(drive_c.ends, 0);
	client_leaves(&see_a);
	client_leaves(&see_b);
	client_leaves(&drive_c);
	assert_true(hub_until(r, hub_audited(r, "round.end") == 3));
	buf_finish(&a.got);
	buf_finish(&b.got);
	buf_finish(&c.got);
	buf_finish(&see_a.got);
	buf_finish(&see_b.got);
	buf_finish(&drive_c.got);
	hub_rig_destroy(r);
}

/* ---- a sandbox that does not answer */

static void who_waits_for_a_silent_sandbox_is_answered(void **state)
{
	FRESH(r);
	struct hub_client c;

	(void)state;
	r->deaf = true;
	r->hub->conf->sandbox_create_timeout_ns = 500 * NS_PER_MS;
	hub_ask(r, &c, SESSION_ROUND, "echo x", NULL);
	assert_true(hub_until(r, c.opened));
	assert_int_equal(c.rc, ERR_LINK_LOST);
	assert_true(r->asked < 10); /* not in one go */
	r->deaf = false;
	hub_open(r, &c, SESSION_ROUND, "echo x");
	hub_rig_destroy(r);
}

static void a_start_that_is_not_answered_fails_and_nothing_else(void **state)
{
	FRESH(r);
	struct hub_client lives, late;

	(void)state;
	hub_open(r, &lives, SESSION_TERMINAL, "read x; echo \"got $x\"");
	r->hub->conf->sandbox_create_timeout_ns = 300 * NS_PER_MS;
	assert_int_equal(kill(r->let->pid, SIGSTOP), 0);
	hub_ask(r, &late, SESSION_EXEC, "echo x", NULL);
	assert_true(hub_until(r, late.opened));
	assert_int_equal(late.rc, ERR_LINK_LOST);
	assert_int_equal(kill(r->let->pid, SIGCONT), 0);
	assert_int_equal(attachment_input(lives.a, "1\n", 2), 2);
	assert_true(hub_until(r, lives.ends));
	assert_true(hub_shows(&lives, "got 1"));
	r->hub->conf->sandbox_create_timeout_ns = 60 * NS_PER_SEC;
	buf_finish(&lives.got);
	hub_open(r, &lives, SESSION_EXEC, "exit 0");
	assert_true(hub_until(r, lives.ends));
	buf_finish(&lives.got);
	hub_rig_destroy(r);
}

static void who_is_cut_before_his_start_is_cut_once(void **state)
{
	struct request rq = hub_request();
	FRESH(r);
	struct hub_client c;
	struct grant cut;

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "true"); /* the link is up */
	assert_int_equal(kill(r->let->pid, SIGSTOP), 0);
	hub_ask(r, &c, SESSION_TERMINAL, "read x", &rq);
	hub_turns(r, 50);
	r->hub->conf->grant_warn_ns = 0;
	cut = *TAILQ_FIRST(hub_attachments(r->hub))->grant;
	cut.expires_ns = 1;
	hub_regrant(r, &TAILQ_FIRST(hub_attachments(r->hub))->grant, &cut);
	hub_turns(r, 1200);
	assert_int_equal(r->cuts, 1);
	assert_int_equal(kill(r->let->pid, SIGCONT), 0);
	assert_true(hub_until(r, c.opened));
	assert_true(hub_until(r, c.cuts == 1));
	assert_int_equal(r->cuts, 1);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

static void what_is_told_to_end_ends_without_its_link(void **state)
{
	FRESH(r);
	struct request rq = hub_request();
	struct hub_client c;
	struct err e = {0};

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "read x");
	r->deaf = true;
	assert_int_equal(kill(r->let->pid, SIGKILL), 0);
	assert_true(hub_until(r, c.s->state == SESSION_SUSPENDED));
	assert_int_equal(broker_terminate(r->hub, &rq, &c.s->id, "tested", &e), 0);
	c.s->kill_deadline = 1; /* as if it had come */
	assert_true(hub_until(r, c.ends));
	assert_int_equal(c.cause, EXIT_UNKNOWN);
	assert_true(hub_until(r, hub_audited(r, "session.end") == 1));
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* ---- the record waits, the sandbox does not */

static void what_waits_for_the_record_outlives_its_sandbox(void **state)
{
	FRESH(r);
	struct hub_client c;
	uint64_t came;

	(void)state;
	hub_open(r, &c, SESSION_EXEC, "echo begin; read x; head -c 1000000 /dev/zero | tr '\\0' x; sleep 1000");
	assert_true(hub_until(r, hub_holds(&r->output, "begin")));
	r->stalled = true;
	assert_int_equal(attachment_input(c.a, "\n", 1), 1);
	assert_true(hub_until(r, session_backlog(c.s)));
	hub_turns(r, 100);
	came = c.s->stream[STREAM_OUTPUT].end + buf_len(&c.s->backlog[STREAM_OUTPUT]);
	agent_gone(r->hub, "box", &r->info.sandbox_id, "for the test");
	hub_turns(r, 300);
	assert_int_equal(c.ends, 0);
	r->stalled = false;
	assert_true(hub_until(r, c.ends));
	assert_int_equal(c.cause, EXIT_LOST);
	assert_int_equal(buf_len(&r->output), came);
	assert_int_equal(buf_len(&c.got), came);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* ---- a round's input over a restart */

/* The round as the recorder tells of it, to the next hub. */
static struct session *over_a_restart(struct hub_rig *r, struct session *s, json_t *open)
{
	struct id id = s->id;
	json_t *entry = json_pack("{s:s,s:o,s:[I,I,I]}", "session", s->id_text, "open", open, "offsets",
				  (json_int_t)s->in_offset, (json_int_t)s->stream[1].end, (json_int_t)0);
	struct err e = {0};

	hub_rig_again(r);
	if (r->revoked_first)
		assert_int_equal(hub_revoke(r->hub, r->revoked_first, INT64_MAX), 0);
	assert_int_equal(session_restore(r->hub, entry, &e), 0);
	json_decref(entry);
	s = hub_session_find(r->hub, &id);
	assert_non_null(s);
	agent_reconnect(s->agent);
	return s;
}

/* The wall clock was set a day ahead before the daemon was restarted: no round is older for that. */
static void a_clock_that_was_set_makes_no_round_older(void **state)
{
	FRESH(r);
	struct hub_client c;
	struct session *s;
	uint64_t began;
	int64_t wall;
	json_t *open;

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "exec sleep 1000");
	c.s->launch.timeout_ns = 3600 * NS_PER_SEC;
	began = c.s->opened_boot_ns;
	wall = c.s->opened_wall_ns - 86400 * (int64_t)NS_PER_SEC;
	open = session_open_json(c.s);
	json_object_set_new(open, "wall_ns", json_integer(wall));
	s = over_a_restart(r, c.s, json_deep_copy(open));
	assert_int_equal(s->opened_boot_ns, began);
	assert_int_equal(s->opened_wall_ns, wall);
	assert_true(hub_until(r, s->state == SESSION_RUNNING));
	hub_turns(r, 1200); /* a look at what is late */
	assert_int_equal(s->state, SESSION_RUNNING);
	assert_int_equal(s->end, END_NOT_YET);
	/* Behind another boot there is the wall clock alone. */
	json_object_set_new(open, "boot_id", json_string("of another boot"));
	if (began > 86400 * NS_PER_SEC) {
		s = over_a_restart(r, s, json_deep_copy(open));
		assert_true(s->opened_boot_ns + 86000 * NS_PER_SEC < began);
	}
	json_decref(open);
	hub_rig_destroy(r);
}

static void a_round_takes_input_after_a_restart(void **state)
{
	struct request rq = hub_request();
	FRESH(r);
	struct hub_client c;
	struct err e = {0};
	struct session *s;
	size_t taken = 0;

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "cat; sleep 0.5");
	assert_int_equal(launch_leased(&c.s->launch, &(struct work_ids){.lease = "l-1", .run = "run-1"}), 0);
	assert_int_equal(broker_round_stdin(r->hub, &rq, &c.s->id, 0, "a", 1, false, &taken, &e), 0);
	assert_true(hub_until(r, hub_holds(&r->output, "a")));
	s = over_a_restart(r, c.s, session_open_json(c.s));
	assert_string_equal(s->launch.work->run, "run-1");
	assert_true(hub_until(r, s->state == SESSION_RUNNING));
	assert_int_equal(broker_round_stdin(r->hub, &rq, &s->id, 1, "b", 1, true, &taken, &e), 0);
	assert_true(hub_until(r, s->end == END_TOLD));
	assert_int_equal(s->result->cause, EXIT_EXITED);
	assert_int_equal(buf_len(&r->output), 2);
	assert_memory_equal(buf_ptr(&r->output), "ab", 2);
	hub_rig_destroy(r);
}

static void a_round_whose_input_is_lost_says_so(void **state)
{
	FRESH(r);
	struct hub_client c;
	struct session *s;
	json_t *open;

	(void)state;
	hub_open(r, &c, SESSION_ROUND, "cat");
	open = session_open_json(c.s);
	json_object_set_new(open, "stdin_bytes", json_integer(100)); /* of which none went on */
	s = over_a_restart(r, c.s, open);
	assert_true(hub_until(r, s->end == END_TOLD));
	assert_int_equal(s->result->cause, EXIT_LOST);
	assert_non_null(strstr(s->result->message, "input is lost"));
	hub_rig_destroy(r);
}

static void a_revocation_that_came_before_the_session_ends_it(void **state)
{
	struct request rq = hub_request();
	FRESH(r);
	struct id grant = rq.grant.id;
	struct hub_client c;
	struct session *s;

	(void)state;
	hub_ask(r, &c, SESSION_ROUND, "read x", &rq);
	assert_true(hub_until(r, c.opened && !c.rc));
	r->revoked_first = &grant;
	s = over_a_restart(r, c.s, session_open_json(c.s));
	assert_true(hub_until(r, s->end == END_TOLD));
	assert_int_equal(s->result->cause, EXIT_KILLED);
	hub_rig_destroy(r);
}

/* ---- passwords over a break */

static void prompt_over_a_break(bool over, const char *recorded)
{
	FRESH(r);
	struct hub_client c;
	char script[300], go[100], gone[100];

	snprintf(go, sizeof(go), "%s/go", r->dir);
	snprintf(gone, sizeof(gone), "%s/gone", r->dir);
	snprintf(script, sizeof(script),
		 "stty -echo; echo there; until [ -e %s ]; do sleep 0.05; done; %s : >%s; read x; echo \"got $x\"", go,
		 over ? "stty echo;" : "", gone);
	hub_open(r, &c, SESSION_TERMINAL, script);
	assert_true(hub_until(r, hub_shows(&c, "there") && c.s->echo_off));
	r->deaf = true;
	hub_break(r, c.s);
	close(open(go, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_true(hub_until(r, access(gone, F_OK) == 0));
	r->deaf = false;
	assert_true(hub_until(r, c.s->state == SESSION_RUNNING));
	assert_true(c.s->echo_off || !c.s->echo_due); /* as it was until it is known */
	assert_true(hub_until(r, !c.s->echo_due));
	assert_int_equal(c.s->echo_off, !over);
	assert_int_equal(attachment_input(c.a, "word\n", 5), 5);
	assert_true(hub_until(r, c.ends));
	assert_true(hub_shows(&c, "got word"));
	assert_true(hub_until(r, buf_len(&r->input) == 5));
	assert_memory_equal(buf_ptr(&r->input), recorded, 5);
	unlink(go);
	unlink(gone);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

static void keys_after_a_prompt_that_ended_in_a_break_are_recorded(void **state)
{
	(void)state;
	prompt_over_a_break(true, "word\n");
}

static void a_password_after_a_break_is_not_recorded(void **state)
{
	(void)state;
	prompt_over_a_break(false, "*****");
}

/* ---- screens */

static void start_worker(void *ctx, hub_screen_done *done, void *arg)
{
	static const char *const argv[] = {BUILD_DIR "/muxd-screen", NULL};
	pid_t *pid = ctx;
	int fd[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	*pid = rig_spawn(argv, fd[1], null);
	close(fd[1]);
	close(null);
	done(arg, 0, NULL, fd[0]);
}

/* Who waits for a screen does not do without one because the machine is busy, as people do. */
static void join_patiently(struct hub_rig *r, struct hub_client *c, const struct session *s)
{
	hub_join(r, c, s, ROLE_OBSERVER);
	c->a->screen_by = UINT64_MAX;
}

static void a_screen_has_the_last_size_given(void **state)
{
	pid_t worker = 0;
	struct hub_rig *r = hub_rig_create(&(struct hub_screens){.start = start_worker, .ctx = &worker});
	struct hub_client c, watcher, third;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "stty -echo; trap : WINCH; echo there; while :; do read x; done");
	assert_true(hub_until(r, hub_shows(&c, "there")));
	join_patiently(r, &watcher, c.s);
	assert_true(hub_until(r, watcher.screens));
	assert_int_equal(attachment_resize(c.a, 100, 30, 0, 0), 0);
	assert_true(hub_until(r, c.s->screen->cols == 100));
	assert_int_equal(attachment_resize(c.a, 120, 40, 0, 0), 0);
	join_patiently(r, &third, c.s);
	assert_int_equal(uv_timer_get_due_in(&c.s->screen->timer), 0); /* nothing is printed that would move it */
	assert_true(hub_until(r, third.screens));
	assert_int_equal(third.cols, 120);
	assert_int_equal(third.rows, 40);
	client_leaves(&third);
	client_leaves(&watcher);
	client_leaves(&c);
	buf_finish(&c.got);
	buf_finish(&third.got);
	buf_finish(&watcher.got);
	hub_rig_destroy(r);
	assert_int_equal(waitpid(worker, NULL, 0), worker);
}

static void a_screen_may_be_the_end_of_others_that_wait_for_it(void **state)
{
	pid_t worker = 0;
	struct hub_rig *r = hub_rig_create(&(struct hub_screens){.start = start_worker, .ctx = &worker});
	struct hub_client c, one, two;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "echo there; read x");
	assert_true(hub_until(r, hub_shows(&c, "there")));
	join_patiently(r, &one, c.s);
	join_patiently(r, &two, c.s);
	one.takes_along = &two;
	assert_true(hub_until(r, one.screens));
	assert_null(two.a);
	assert_int_equal(two.screens, 0);
	client_leaves(&c);
	buf_finish(&c.got);
	buf_finish(&one.got);
	buf_finish(&two.got);
	hub_rig_destroy(r);
	assert_int_equal(waitpid(worker, NULL, 0), worker);
}

/* An agent that opens all it can leaves room for people: its next one is refused by name, theirs is not. */
static void an_agent_at_its_limit_leaves_room_for_staff(void **state)
{
	FRESH(r);
	struct request agent = hub_request();
	struct hub_client held[4], one_more, person;

	(void)state;
	agent.grant.kind = GRANT_AGENT;
	agent.grant.scopes = SCOPE_ROUNDS;
	snprintf(agent.grant.principal, sizeof(agent.grant.principal), "agent.1");
	r->hub->conf->sessions_max_per_agent = 4;
	for (size_t i = 0; i < 4; i++) {
		hub_ask(r, &held[i], SESSION_ROUND, "read x", &agent);
		assert_true(hub_until(r, held[i].opened));
		assert_int_equal(held[i].rc, 0);
	}
	hub_ask(r, &one_more, SESSION_ROUND, "true", &agent);
	assert_true(hub_until(r, one_more.opened));
	assert_int_equal(one_more.rc, ERR_LIMIT);
	assert_non_null(strstr(one_more.why, "sessions.max_per_agent"));
	r->hub->conf->sessions_max = 4;
	hub_open(r, &person, SESSION_TERMINAL, "echo i''n; read x");
	assert_true(hub_until(r, hub_shows(&person, "in")));
	client_leaves(&person);
	for (size_t i = 0; i < 4; i++) {
		session_kill(held[i].s, EXIT_KILLED, "test");
		buf_finish(&held[i].got);
	}
	assert_true(hub_until(r, hub_audited(r, "round.end") == 4));
	r->hub->conf->sessions_max = 8;
	buf_finish(&one_more.got);
	hub_ask(r, &one_more, SESSION_ROUND, "true", &agent); /* what it held is given back */
	assert_true(hub_until(r, one_more.opened));
	assert_int_equal(one_more.rc, 0);
	buf_finish(&one_more.got);
	buf_finish(&person.got);
	hub_rig_destroy(r);
}

/* Names that a principal made grants for are one with it: neither it nor another of them gets past its share. */
static void children_have_the_share_of_their_principal(void **state)
{
	static const char *const names[] = {"bot/1", "bot/2", "bot", "bot2"};
	FRESH(r);
	struct hub_client c[4];

	(void)state;
	r->hub->conf->share_most[CONF_SHARE_ROUNDS][CONF_SHARE_PRINCIPAL] = 1;
	for (size_t i = 0; i < 4; i++) {
		struct request rq = hub_request();

		rq.grant.kind = GRANT_AGENT;
		snprintf(rq.grant.principal, sizeof(rq.grant.principal), "%s", names[i]);
		hub_ask(r, &c[i], SESSION_ROUND, "read x", &rq);
		assert_true(hub_until(r, c[i].opened));
		assert_int_equal(c[i].rc, i == 0 || i == 3 ? 0 : ERR_LIMIT);
		if (c[i].rc)
			assert_non_null(strstr(c[i].why, "1 rounds of principal bot are live"));
		buf_finish(&c[i].got);
	}
	hub_rig_destroy(r);
}

static unsigned terminals_that_stay(const struct hub_rig *r)
{
	const struct session *s;
	unsigned n = 0;

	TAILQ_FOREACH(s, hub_sessions(r->hub), order)
	n += s->state != SESSION_ENDED && !s->killing;
	return n;
}

/* Whose connection broke again and again has terminals that wait for him: the one that waits longest makes room, for
 * one that nothing else refuses. */
static void terminals_that_linger_do_not_keep_their_person_out(void **state)
{
	FRESH(r);
	struct hub_client c[32], other, refused;
	struct request counted = hub_request();
	const struct session *first;
	unsigned n = 0;

	(void)state;
	r->hub->conf->sessions_max_per_agent = 2;
	hub_open(r, &other, SESSION_TERMINAL, "read x"); /* somebody is at it: it is left alone */
	hub_open(r, &c[0], SESSION_TERMINAL, "read x");
	first = c[0].s;
	for (n = 1; n < 32; n++) {
		client_leaves(&c[n - 1]);
		buf_finish(&c[n - 1].got);
		hub_turns(r, 20);
		hub_ask(r, &c[n], SESSION_TERMINAL, "read x", NULL);
		assert_true(hub_until(r, c[n].opened));
		assert_int_equal(c[n].rc, 0);
	}
	assert_true(first->killing || first->state == SESSION_ENDED);
	assert_int_equal(other.ends + other.cuts, 0);
	assert_true(hub_until(r, hub_audited(r, "session.end") >= 31 - 2 - SHARE_SANDBOX_RESERVE));
	n = terminals_that_stay(r);
	counted.grant.bounds.uses = 1; /* which nobody counts here: it is refused behind the limits */
	hub_ask(r, &refused, SESSION_TERMINAL, "read x", &counted);
	assert_true(hub_until(r, refused.opened));
	assert_int_equal(refused.rc, ERR_UNSUPPORTED);
	assert_int_equal(terminals_that_stay(r), n);
	buf_finish(&refused.got);
	client_leaves(&c[31]);
	client_leaves(&other);
	buf_finish(&c[31].got);
	buf_finish(&other.got);
	hub_rig_destroy(r);
}

static uint64_t said_in(struct hub_rig *r, const struct session *s, unsigned ms)
{
	uint64_t before = s->stream[STREAM_OUTPUT].end;

	hub_turns(r, ms);
	return s->stream[STREAM_OUTPUT].end - before;
}

/* Nobody looks: after its burst a flood goes on at its rate, no faster and no slower; who comes sees it at full speed.
 */
static void a_flood_nobody_looks_at_is_paced(void **state)
{
	FRESH(r);
	struct hub_client c, again;
	struct session *s;
	uint64_t from, begin, took;
	json_t *o;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "stty -echo -opost; exec yes a line that is as long as lines of builds are");
	s = c.s;
	assert_true(hub_until(r, s->stream[STREAM_OUTPUT].end > 1024 * 1024));
	assert_false(s->paced);
	client_leaves(&c);
	session_pace(s, clock_boot_ns());
	assert_int_equal(s->alone_until, s->stream[STREAM_OUTPUT].end + SESSION_ALONE_BURST);
	s->alone_until = s->stream[STREAM_OUTPUT].end; /* as if all of that had been said */
	assert_true(hub_until(r, s->paced));
	(void)said_in(r, s, 500); /* what the last window still allowed */
	from = s->stream[STREAM_OUTPUT].end;
	begin = clock_boot_ns();
	hub_turns(r, 2500);
	took = clock_boot_ns() - begin;
	assert_in_range(s->stream[STREAM_OUTPUT].end - from, (took - NS_PER_SEC) * SESSION_ALONE_RATE / NS_PER_SEC,
			(took + NS_PER_SEC) * SESSION_ALONE_RATE / NS_PER_SEC);
	assert_true(hub_until(r, s->paced)); /* with each share of its rate it goes on for a moment */
	o = session_describe(s);
	assert_true(json_is_true(json_object_get(o, "paced")));
	json_decref(o);
	hub_join(r, &again, s, ROLE_DRIVER);
	assert_false(s->paced);
	from = s->stream[STREAM_OUTPUT].end;
	begin = clock_boot_ns();
	assert_true(hub_until(r, s->stream[STREAM_OUTPUT].end > from + 6 * 1024 * 1024));
	assert_true(clock_boot_ns() - begin < 6 * NS_PER_SEC);
	client_leaves(&again);
	buf_finish(&c.got);
	buf_finish(&again.got);
	hub_rig_destroy(r);
}

/* A program that says little while nobody looks has its burst back, and never waits. */
static void a_quiet_terminal_is_never_paced(void **state)
{
	FRESH(r);
	struct hub_client c;
	struct session *s;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "while sleep 0.1; do echo a line of a build; done");
	s = c.s;
	client_leaves(&c);
	assert_true(hub_until(r, s->alone_until));
	s->alone_until -= SESSION_ALONE_BURST / 64;
	assert_true(hub_until(r, s->alone_until == s->stream[STREAM_OUTPUT].end + SESSION_ALONE_BURST));
	assert_false(s->paced);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* A terminal in another sandbox gives no room in this one: it stays, and the limit is said. */
static void a_full_sandbox_ends_no_terminal_elsewhere(void **state)
{
	FRESH(r);
	struct hub_client held[2 + SHARE_SANDBOX_RESERVE], waits;
	unsigned most = sizeof(held) / sizeof(held[0]), n = 0;
	struct agent *there, *box;
	struct session *s;

	(void)state;
	hub_open(r, &waits, SESSION_TERMINAL, "read x");
	s = waits.s;
	box = s->agent;
	there = agent_get(r->hub, "elsewhere");
	assert_non_null(there);
	HASH_DELETE(hh_channel, box->channels, s); /* as if it ran there */
	s->agent = there;
	HASH_ADD(hh_channel, there->channels, channel, sizeof(s->channel), s);
	client_leaves(&waits);
	hub_turns(r, 20);
	assert_true(s->linger_at);
	r->hub->conf->sessions_max_per_agent = 2;
	do {
		hub_ask(r, &held[n], SESSION_TERMINAL, "read x", NULL);
		assert_true(hub_until(r, held[n].opened));
	} while (!held[n].rc && ++n < most);
	assert_in_range(n, 3, most - 1);
	assert_int_equal(held[n].rc, ERR_LIMIT);
	assert_non_null(strstr(held[n].why, "sessions.max_per_agent"));
	assert_false(s->killing);
	HASH_DELETE(hh_channel, there->channels, s);
	s->agent = box;
	HASH_ADD(hh_channel, box->channels, channel, sizeof(s->channel), s);
	buf_finish(&held[n].got);
	while (n-- > 0) {
		client_leaves(&held[n]);
		buf_finish(&held[n].got);
	}
	buf_finish(&waits.got);
	hub_rig_destroy(r);
}

/* Who waits for the record while the sandbox goes is given the next one, and never what is not there. */
static void what_goes_while_the_record_is_waited_for_is_woken_again(void **state)
{
	static const enum session_kind kinds[] = {SESSION_TERMINAL, SESSION_EXEC};
	FRESH(r);
	struct hub_client first, c[2];
	struct agent *box = NULL;

	(void)state;
	hub_open(r, &first, SESSION_EXEC, "true");
	assert_true(hub_until(r, first.ends));
	box = agent_find(r->hub, "box");
	assert_non_null(box);
	assert_int_equal(shutdown(box->link->fd, SHUT_RDWR), 0);
	assert_true(hub_until(r, box->state == AGENT_LOST));
	for (int i = 0; i < 2; i++)
		hub_ask(r, &c[i], kinds[i], "echo aw''ake; read x", NULL);
	r->failed = true;
	hub_record(r);
	journal_refresh(r->hub->journal);
	assert_true(hub_until(r, box->state == AGENT_UP));
	hub_turns(r, 300);
	assert_false(c[0].opened || c[1].opened);
	agent_gone(r->hub, "box", &box->linked, "it was ended");
	assert_null(box->link);
	r->failed = false;
	for (int i = 0; i < 2; i++) {
		assert_true(hub_until(r, c[i].opened));
		assert_int_equal(c[i].rc, 0);
		assert_true(hub_until(r, hub_shows(&c[i], "awake")));
		client_leaves(&c[i]);
		buf_finish(&c[i].got);
	}
	buf_finish(&first.got);
	hub_rig_destroy(r);
}

struct destroy_answer {
	unsigned n;
	int rc;
};

static void on_destroy(void *arg, int rc, const struct err *e, json_t *result)
{
	struct destroy_answer *a = arg;

	(void)e, (void)result;
	a->n++;
	a->rc = rc;
}

/* A grant that is revoked while its call waits for the record does nothing any more. */
static void a_grant_that_ends_during_the_wait_begins_nothing(void **state)
{
	struct request rq = hub_request();
	struct destroy_answer got = {0};
	FRESH(r);
	struct hub_client c;

	(void)state;
	hub_open(r, &c, SESSION_EXEC, "read x");
	r->failed = true;
	hub_record(r);
	journal_refresh(r->hub->journal);
	broker_destroy(r->hub, &rq, "box", "test", false, on_destroy, &got);
	hub_turns(r, 100);
	assert_int_equal(got.n, 0);
	assert_int_equal(hub_revoke(r->hub, &rq.grant.id, rq.grant.expires_ns), 0);
	r->failed = false;
	assert_true(hub_until(r, got.n == 1));
	assert_int_equal(got.rc, ERR_TOKEN_REVOKED);
	assert_int_equal(c.ends, 0);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

struct name_answer {
	unsigned n;
	int rc;
};

static void on_name(void *arg, int rc, const struct err *e, const char *name)
{
	struct name_answer *a = arg;

	(void)e, (void)name;
	a->n++;
	a->rc = rc;
}

static void on_agents(void *arg, int rc, const struct err *e, json_t *result)
{
	struct name_answer *a = arg;

	(void)e;
	a->n++;
	a->rc = rc;
	assert_int_equal(json_array_size(json_object_get(result, "agents")), 0);
}

/* The provider's list is as long as there are sandboxes, and is made on the loop. */
static void nobody_lists_all_sandboxes_for_an_id_that_is_unknown(void **state)
{
	FRESH(r);
	struct request all = hub_request(), one = hub_request();
	struct name_answer a = {0};
	char text[ID_STR_LEN];
	struct id id;

	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(id_new(&id), 0);
		id_format(&id, text);
		broker_locate(r->hub, &all, SCOPE_PORTS, text, "", on_name, &a);
		assert_int_equal(a.rc, ERR_NOT_FOUND);
	}
	assert_int_equal(a.n, 100);
	assert_int_equal(r->stats, 100);
	snprintf(one.grant.agent, sizeof(one.grant.agent), "nobody");
	broker_agents(r->hub, &one, NULL, on_agents, &a);
	assert_int_equal(a.n, 101);
	assert_int_equal(a.rc, 0);
	assert_int_equal(r->lists, 0);
	hub_rig_destroy(r);
}

/* That of the context, too, where the configuration says none: it is what pods are made in. */
static void the_namespace_of_the_cluster_is_our_own(void **state)
{
	FRESH(r);
	struct request all = hub_request();
	struct name_answer got = {0};
	struct hub_client c;

	(void)state;
	snprintf(r->hub->p.cluster_namespace, sizeof(r->hub->p.cluster_namespace), "team");
	hub_open(r, &c, SESSION_TERMINAL, "read x");
	broker_locate(r->hub, &all, SCOPE_PORTS, c.s->agent->name, "team", on_name, &got);
	assert_int_equal(got.rc, 0);
	broker_locate(r->hub, &all, SCOPE_PORTS, c.s->agent->name, "default", on_name, &got);
	assert_int_equal(got.n, 2);
	assert_int_equal(got.rc, ERR_NOT_FOUND);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* The id of a sandbox that has ended is nobody's, though its agent has been seen with it, or has another by now. */
static void the_id_of_a_sandbox_that_ended_is_unknown(void **state)
{
	FRESH(r);
	struct request all = hub_request();
	struct name_answer got = {0};
	struct hub_client c;
	char text[ID_STR_LEN];
	struct agent *a;
	struct id was;

	(void)state;
	hub_open(r, &c, SESSION_TERMINAL, "read x");
	a = c.s->agent;
	was = a->linked;
	id_format(&was, text);
	broker_locate(r->hub, &all, SCOPE_PORTS, text, "", on_name, &got);
	assert_int_equal(got.rc, 0);
	agent_gone(r->hub, a->name, &was, "idle");
	assert_true(hub_until(r, c.ends));
	broker_locate(r->hub, &all, SCOPE_PORTS, text, "", on_name, &got);
	assert_int_equal(got.n, 2);
	assert_int_equal(got.rc, ERR_NOT_FOUND);
	client_leaves(&c);
	buf_finish(&c.got);
	hub_rig_destroy(r);
}

/* muxlet may not go first here: so what an agent runs goes behind the terminals of staff. */
static void what_an_agent_runs_goes_behind(void **state)
{
	FRESH(r);
	struct request agent = hub_request();
	struct hub_client work, person;

	(void)state;
	agent.grant.kind = GRANT_AGENT;
	hub_ask(r, &work, SESSION_EXEC, "echo nice:$(nice).; read x", &agent);
	assert_true(hub_until(r, hub_shows(&work, "nice:10.")));
	hub_open(r, &person, SESSION_TERMINAL, "echo nice:$(nice).; read x");
	assert_true(hub_until(r, hub_shows(&person, "nice:0.")));
	client_leaves(&person);
	client_leaves(&work);
	buf_finish(&work.got);
	buf_finish(&person.got);
	hub_rig_destroy(r);
}

/* Part of what is recorded is a sandbox's own: nesting that no reader of the record takes costs that part alone. */
static void what_is_nested_too_deep_is_left_out_of_the_record(void **state)
{
	FRESH(r);
	json_t *deep = json_string("end"), *o;
	char *text;

	(void)state;
	for (int i = 0; i < 31; i++) {
		json_t *list = json_array();

		json_array_append_new(list, deep);
		deep = list;
	}
	assert_int_equal(audit_event(r->hub, "file.write", NULL, "ann", "ok",
				     json_pack("{s:o,s:s}", "changes", deep, "path", "x.txt")),
			 0);
	assert_true(hub_until(r, hub_audited(r, "file.write") == 1));
	o = json_array_get(r->audit, json_array_size(r->audit) - 1);
	assert_string_equal(json_get_text(json_object_get(o, "detail"), "path"), "x.txt");
	text = json_text(o);
	assert_non_null(strstr(text, "left out: nested more than 16 levels deep"));
	free(text);
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_hub_without_a_ring_is_not_made),
	    cmocka_unit_test(a_terminal_is_found_without_an_agent),
	    cmocka_unit_test(input_goes_on_when_the_record_does),
	    cmocka_unit_test(a_size_that_was_not_recorded_is_given_again),
	    cmocka_unit_test(an_end_is_audited_when_there_is_room),
	    cmocka_unit_test(an_end_and_its_event_go_in_together),
	    cmocka_unit_test(what_is_nested_too_deep_is_left_out_of_the_record),
	    cmocka_unit_test(a_step_may_follow_a_step_that_is_not_kept),
	    cmocka_unit_test(a_revoked_grant_ends_what_an_observer_holds),
	    cmocka_unit_test(a_round_ends_with_its_grant_whoever_watches),
	    cmocka_unit_test(who_waits_for_a_silent_sandbox_is_answered),
	    cmocka_unit_test(a_start_that_is_not_answered_fails_and_nothing_else),
	    cmocka_unit_test(who_is_cut_before_his_start_is_cut_once),
	    cmocka_unit_test(what_is_told_to_end_ends_without_its_link),
	    cmocka_unit_test(what_waits_for_the_record_outlives_its_sandbox),
	    cmocka_unit_test(a_clock_that_was_set_makes_no_round_older),
	    cmocka_unit_test(a_round_takes_input_after_a_restart),
	    cmocka_unit_test(a_round_whose_input_is_lost_says_so),
	    cmocka_unit_test(a_revocation_that_came_before_the_session_ends_it),
	    cmocka_unit_test(keys_after_a_prompt_that_ended_in_a_break_are_recorded),
	    cmocka_unit_test(a_password_after_a_break_is_not_recorded),
	    cmocka_unit_test(an_agent_at_its_limit_leaves_room_for_staff),
	    cmocka_unit_test(children_have_the_share_of_their_principal),
	    cmocka_unit_test(terminals_that_linger_do_not_keep_their_person_out),
	    cmocka_unit_test(a_full_sandbox_ends_no_terminal_elsewhere),
	    cmocka_unit_test(a_flood_nobody_looks_at_is_paced),
	    cmocka_unit_test(a_quiet_terminal_is_never_paced),
	    cmocka_unit_test(what_goes_while_the_record_is_waited_for_is_woken_again),
	    cmocka_unit_test(a_grant_that_ends_during_the_wait_begins_nothing),
	    cmocka_unit_test(nobody_lists_all_sandboxes_for_an_id_that_is_unknown),
	    cmocka_unit_test(the_namespace_of_the_cluster_is_our_own),
	    cmocka_unit_test(the_id_of_a_sandbox_that_ended_is_unknown),
	    cmocka_unit_test(what_an_agent_runs_goes_behind),
	    cmocka_unit_test(a_screen_has_the_last_size_given),
	    cmocka_unit_test(a_screen_may_be_the_end_of_others_that_wait_for_it),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
