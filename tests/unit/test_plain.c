// tier: check
/* The plain backend: the hub's end of a link, the peer behind it, shells and programs that are real, a cluster that is
 * not.
 *
 * A little over the length of a file: one set of fakes, and what is told of them.
 */
#include "tests/lib/link_rig.h"

#include "muxd/plain/answer.h"
#include "muxd/plain/peer.h"
#include "muxd/plain/plain.h"
#include "muxd/plain/script.h"
#include "tests/lib/fake_kubelet.h"
#include "tests/lib/link_nap.h"
#include "tests/lib/own_processes.h"

#include <openssl/evp.h>
#include <sys/stat.h>

struct world {
	struct rig *r;
	struct rc_client rc;
	struct kube_creds creds;
	struct plain *plain;
};

static const char *visitor, *visitor_muxlet; /* of the next world */

static void dial(struct world *w)
{
	struct kube_plain_target t = {.agent = "test",
				      .ns = "ns",
				      .pod = "pod",
				      .container = "main",
				      .visitor = visitor,
				      .muxlet = visitor_muxlet,
				      .creds = &w->creds,
				      .rc = &w->rc};
	struct err e = {0};
	int fd = -1, ups = w->r->ups;

	memcpy(t.secret, w->r->secret, sizeof(t.secret));
	rig_new_link(w->r);
	assert_int_equal(plain_open(w->plain, &t, &fd, &e), 0);
	assert_int_equal(link_attach(w->r->link, fd, ++w->r->epoch), 0);
	assert_true(rig_until(w->r, 5000, w->r->ups > ups || w->r->downs));
	assert_int_equal(w->r->downs, 0);
	assert_int_equal(w->r->nlist, 0);
}

static struct world *world_create(int version, unsigned programs)
{
	struct world *w = calloc(1, sizeof(*w));
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(w);
	assert_non_null(r);
	w->r = r;
	assert_int_equal(uv_loop_init(&r->loop), 0);
	uv_timer_init(&r->loop, &r->timer);
	r->timer.data = r;
	assert_int_equal(random_bytes(r->secret, sizeof(r->secret)), 0);
	w->rc.loop = &r->loop;
	w->rc.version = version;
	w->creds.client = &w->rc;
	w->creds.ep.generation = 1;
	TAILQ_INIT(&w->creds.asks);
	uv_timer_init(&r->loop, &w->creds.timer);
	w->creds.timer.data = &w->creds;
	assert_int_equal(plain_create(&r->loop, programs, 30 * NS_PER_SEC, &w->plain), 0);
	dial(w);
	return w;
}

static void world_destroy(struct world *w)
{
	plain_destroy(w->plain);
	uv_close((uv_handle_t *)&w->creds.timer, NULL);
	rig_destroy(w->r);
	free(w);
}

#define WORLD(version)                                                                                                 \
	struct world *w = world_create(version, 8);                                                                    \
	struct rig *r = w->r;                                                                                          \
	(void)state

/* ---- what the scripts say */

static enum answer_kind answer_of(const char *text, struct answer_start *a)
{
	size_t used = 0;

	return answer_start((const uint8_t *)text, strlen(text), a, &used);
}

static void answers_are_read_strictly(void **state)
{
	struct answer_start a;
	struct answer_probe probe;
	size_t used = 0;

	(void)state;
	assert_int_equal(answer_start((const uint8_t *)"muxd started 7 7 7 99\nhello", 27, &a, &used), ANSWER_STARTED);
	assert_int_equal(used, 22);
	assert_int_equal(a.pid, 7);
	assert_string_equal(a.start, "99");
	assert_int_equal(answer_of("muxd started 7 7 7 99\r\n", &a), ANSWER_STARTED);
	assert_string_equal(a.start, "99");
	assert_int_equal(answer_of("muxd cwd 2\n", &a), ANSWER_REFUSED);
	assert_string_equal(a.at, "cwd");
	assert_int_equal(a.error, 2);
	for (size_t i = 0; i < strlen("muxd started 7 7 7 99"); i++) {
		char part[32];

		snprintf(part, sizeof(part), "%.*s", (int)i, "muxd started 7 7 7 99");
		assert_int_equal(answer_of(part, &a), ANSWER_MORE);
	}
	assert_int_equal(answer_of("mux started", &a), ANSWER_NONE);
	assert_int_equal(answer_of("muxd started 7 7 7\n", &a), ANSWER_NONE);
	assert_int_equal(answer_of("muxd started 7 7 -7 1\n", &a), ANSWER_NONE);
	assert_int_equal(answer_of("muxd started 99999999999 7 7 1\n", &a), ANSWER_NONE);
	assert_int_equal(answer_of("muxd exec 99999\n", &a), ANSWER_NONE);
	assert_int_equal(answer_of("\n", &a), ANSWER_NONE);
	assert_true(answer_probe("muxd probe 1 0 1 0\n", &probe));
	assert_true(probe.proc && !probe.head && probe.dd && !probe.bash);
	assert_false(answer_probe("muxd probe 1 0 x", &probe));
	assert_int_equal(answer_left("muxd left 3\nmuxd left 0\n", 0), 3);
	assert_int_equal(answer_left("muxd left 3\nmuxd left 0\n", 1), 0);
	assert_int_equal(answer_left("muxd left 3\nmuxd left 0\n", 2), -1);
	assert_int_equal(answer_left("muxd left x", 0), -1);
	assert_int_equal(answer_left("muxd blind\n", 0), -1);
}

static void names_that_a_shell_cannot_export_are_known(void **state)
{
	(void)state;
	assert_true(script_name_ok("A=b"));
	assert_true(script_name_ok("_x9="));
	assert_false(script_name_ok("a.b=c"));
	assert_false(script_name_ok("9a=c"));
	assert_false(script_name_ok("=c"));
	assert_false(script_name_ok("A"));
	assert_false(script_name_ok("UID=0"));
	assert_false(script_name_ok("a b=c"));
	assert_false(script_name_ok("$(x)=c"));
}

/* ---- rounds */

static void a_round_answers_stdout_stderr_and_code(void **state)
{
	WORLD(4);

	rig_open(r, 1, "echo out; echo err >&2; exit 7", (struct rig_call){0});
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].opened_rc, 0);
	assert_string_equal(rig_text(r, 1, 1), "out\n");
	assert_string_equal(rig_text(r, 1, 2), "err\n");
	assert_int_equal(r->ch[1].exit.cause, EXIT_EXITED);
	assert_int_equal(r->ch[1].exit.code, 7);
	rig_open(r, 2, "kill -9 $$", (struct rig_call){0}); /* a code is all that comes of a signal */
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.code, 137);
	assert_int_equal(r->ch[2].exit.signal, 0);
	world_destroy(w);
}

static void what_cannot_start_says_where_and_why(void **state)
{
	static const char *const nothing[] = {"no-such-program-here", NULL}, *const locked[] = {"/etc/passwd", NULL},
				 *const fine[] = {"true", NULL};
	WORLD(4);

	assert_int_equal(rig_open_argv(r, 1, nothing, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 2, locked, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 3, fine, &(struct rig_call){.cwd = "/no/such/place"}), 0);
	assert_int_equal(rig_open_argv(r, 4, fine, &(struct rig_call){.pty = true, .cwd = "/etc/passwd"}), 0);
	for (int i = 1; i <= 4; i++) {
		rig_wait_exit(r, i);
		assert_int_equal(r->ch[i].opened_rc, ERR_SYS);
		assert_int_equal(r->ch[i].exit.cause, EXIT_NOT_STARTED);
		assert_int_equal(r->ch[i].len[1], 0);
	}
	assert_int_equal(r->ch[1].exit.error, ENOENT);
	assert_string_equal(r->ch[1].exit.error_at, "exec");
	assert_int_equal(r->ch[2].exit.error, EACCES);
	assert_string_equal(r->ch[3].exit.error_at, "cwd");
	assert_int_equal(r->ch[4].exit.error, ENOTDIR);
	world_destroy(w);
}

static void what_a_caller_says_is_never_script(void **state)
{
	static const char *const env[] = {"GREETING=a b'\"$(touch /tmp/muxd-plain-spliced)`;", "IFS=x",
					  "PATH=/bin:/usr/bin", NULL},
				 *const bad[] = {"a.b=1", NULL};
	static const char *const argv[] = {
	    "/bin/sh", "-c",    "printf '%s|%s|%s|%s' \"$GREETING\" \"$PWD\" ${#MUXD_CHANNEL} \"$1\"",
	    "sh",      "$(id)", NULL};
	WORLD(4);

	assert_int_equal(rig_open_argv(r, 1, argv, &(struct rig_call){.env = env, .cwd = "/usr"}), 0);
	assert_int_equal(rig_open_argv(r, 2, argv, &(struct rig_call){.env = bad}), 0);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_string_equal(rig_text(r, 1, 1), "a b'\"$(touch /tmp/muxd-plain-spliced)`;|/usr|36|$(id)");
	assert_int_equal(access("/tmp/muxd-plain-spliced", F_OK), -1);
	assert_string_equal(r->ch[2].exit.error_at, "unsupported");
	assert_non_null(strstr(r->ch[2].exit.text, "a.b"));
	world_destroy(w);
}

static void stdin_ends(struct world *w, uint32_t channel, const char *script)
{
	size_t n = 3 * 1024 * 1024 + 17;
	uint8_t *sent = malloc(n);
	struct rig *r = w->r;
	uint64_t at;

	assert_non_null(sent);
	for (size_t i = 0; i < n; i++)
		sent[i] = (uint8_t)(i * 2654435761u >> 13);
	rig_open(r, channel, script, (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 10000, r->ch[channel].opened));
	at = rig_type(r, channel, 0, sent, n);
	assert_int_equal(at, n);
	assert_int_equal(link_input_eof(r->link, channel, at), 0);
	rig_wait_exit(r, channel);
	assert_int_equal(r->ch[channel].len[1], n);
	assert_memory_equal(r->ch[channel].text[1], sent, n);
	assert_string_equal(rig_text(r, channel, 2), "done\n");
	assert_int_equal(r->ch[channel].exit.code, 3);
	assert_int_equal(r->ch[channel].exit.total[0], n);
	free(sent);
}

static void stdin_arrives_whole_and_ends_on_v5_and_on_v4(void **state)
{
	(void)state;
	for (int version = 4; version <= 5; version++) {
		struct world *w = world_create(version, 8);

		stdin_ends(w, 1, "cat; echo done >&2; exit 3");
		world_destroy(w);
	}
}

static void a_program_that_ends_does_not_wait_for_its_stdin(void **state)
{
	static uint8_t zeros[1024 * 1024];
	WORLD(4);

	rig_open(r, 1, "head -c 10 | wc -c", (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 10000, r->ch[1].opened));
	rig_type(r, 1, 0, zeros, sizeof(zeros));
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "10\n");
	rig_open(r, 2, "exit 4", (struct rig_call){.with_stdin = true});
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.code, 4);
	assert_int_equal(r->downs, 0);
	world_destroy(w);
}

static void much_output_comes_whole_and_a_window_holds_it_back(void **state)
{
	WORLD(4);

	r->no_grant = true;
	rig_open(r, 1, "head -c 30000000 /dev/zero | tr '\\0' x; echo end >&2", (struct rig_call){.window = 1000});
	assert_true(rig_until(r, 10000, r->ch[1].len[1] == 1000));
	rig_sleep(r, 200);
	assert_int_equal(r->ch[1].len[1], 1000);
	assert_int_equal(link_window(r->link, 1, 2, 1000), 0);
	r->no_grant = false;
	assert_int_equal(link_window(r->link, 1, 1, 100000), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], 30000000);
	assert_string_equal(rig_text(r, 1, 2), "end\n");
	world_destroy(w);
}

/* ---- terminals */

static void a_terminal_has_its_size_and_its_keys(void **state)
{
	WORLD(4);

	rig_open(r, 1,
		 "stty size; read x; stty size; echo \"<$x>\"; trap 'echo INT; exit 5' INT; echo ready; while :; do "
		 "sleep 0.1; done",
		 (struct rig_call){.pty = true});
	assert_true(rig_until(r, 10000, strstr(rig_text(r, 1, 1), "24 80\r\n")));
	assert_int_equal(strncmp(rig_text(r, 1, 1), "24 80", 5), 0);
	assert_int_equal(r->ch[1].echo_off, 1); /* nobody knows when it asks for a password */
	assert_int_equal(link_resize(r->link, 1, 132, 43, 0, 0), 0);
	rig_type(r, 1, 0, "hello\n", 6);
	assert_true(rig_until(r, 10000, strstr(rig_text(r, 1, 1), "ready")));
	assert_non_null(strstr(rig_text(r, 1, 1), "43 132\r\n<hello>"));
	assert_int_equal(link_signal(r->link, 1, SIGINT), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.code, 5);
	world_destroy(w);
}

/* An exec has a code alone. Where it is that of a signal that was sent, that signal was the end. */
static void a_signal_that_was_sent_is_told_as_the_end(void **state)
{
	WORLD(4);

	rig_open(r, 1, "echo ready; exec sleep 60", (struct rig_call){0});
	assert_true(rig_until(r, 10000, strstr(rig_text(r, 1, 1), "ready")));
	assert_int_equal(link_signal(r->link, 1, SIGUSR1), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_EXITED);
	assert_int_equal(r->ch[1].exit.signal, SIGUSR1);
	assert_int_equal(r->ch[1].exit.code, -1);
	rig_open(r, 2, "trap 'exit 137' USR1; echo ready; while :; do sleep 0.1; done", (struct rig_call){0});
	assert_true(rig_until(r, 10000, strstr(rig_text(r, 2, 1), "ready")));
	assert_int_equal(link_signal(r->link, 2, SIGUSR1), 0);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.code, 137);
	assert_int_equal(r->ch[2].exit.signal, 0);
	world_destroy(w);
}

static void the_shell_of_the_image_is_found_and_ends_at_the_end_of_input(void **state)
{
	static const char *const shell[] = {"", NULL};
	WORLD(4);

	assert_int_equal(rig_open_argv(r, 1, shell, &(struct rig_call){.pty = true, .login = true}), 0);
	/* at its prompt: what is typed while a shell sets up its terminal may be lost, as with any terminal */
	assert_true(rig_until(r, 10000, strpbrk(rig_text(r, 1, 1), "#$>")));
	rig_type(r, 1, 0, "echo $((6*7))\n", 14);
	assert_true(rig_until(r, 10000, strstr(rig_text(r, 1, 1), "42\r\n")));
	assert_int_equal(link_input_eof(r->link, 1, 14), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_EXITED);
	world_destroy(w);
}

/* ---- ends */

static void a_kill_ends_the_whole_tree(void **state)
{
	WORLD(4);

	rig_open(r, 1,
		 "trap '' TERM HUP; sleep $NAP & setsid sleep $NAP & (setsid sh -c 'sleep $NAP & sleep $NAP' &); env "
		 "-i sleep $NAP",
		 (struct rig_call){.env = nap_env(), .grace_ms = 300});
	rig_open(r, 2, "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done", (struct rig_call){0});
	rig_open(r, 3, "sleep $NAP", (struct rig_call){.env = nap_env(), .pty = true});
	assert_true(rig_until(r, 10000, nappers() == 6 && r->ch[2].len[1]));
	assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), 0);
	assert_int_equal(link_kill(r->link, 2, EXIT_TIMEOUT), 0);
	assert_int_equal(link_kill(r->link, 3, EXIT_KILLED), 0);
	for (int i = 1; i <= 3; i++)
		rig_wait_exit(r, i);
	assert_int_equal(nappers(), 0);
	assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
	assert_int_equal(r->ch[1].exit.code, 137);
	assert_string_equal(r->ch[1].exit.text, "");
	assert_int_equal(r->ch[2].exit.cause, EXIT_TIMEOUT);
	assert_int_equal(r->ch[2].exit.code, 3);
	assert_string_equal(rig_text(r, 2, 1), "ready\nbye\n");
	assert_int_equal(r->ch[3].exit.cause, EXIT_KILLED);
	world_destroy(w);
}

static void a_timeout_and_a_forgotten_one_end_too(void **state)
{
	WORLD(4);

	rig_open(r, 1, "sleep $NAP", (struct rig_call){.env = nap_env(), .timeout_ms = 300});
	rig_open(r, 2, "sleep $NAP", (struct rig_call){.env = nap_env()});
	rig_open(r, 3, "cat; sleep $NAP", (struct rig_call){.env = nap_env(), .with_stdin = true});
	assert_true(rig_until(r, 10000, r->ch[2].opened && r->ch[3].opened));
	assert_int_equal(link_input_eof(r->link, 3, 0), 0);
	assert_int_equal(link_forget(r->link, 2), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_TIMEOUT);
	assert_true(rig_until(r, 10000, nappers() == 1));
	assert_int_equal(link_kill(r->link, 3, EXIT_KILLED), 0);
	rig_wait_exit(r, 3);
	assert_int_equal(nappers(), 0);
	assert_int_equal(link_forget(r->link, 1), 0);
	assert_int_equal(link_forget(r->link, 3), 0);
	world_destroy(w);
}

static void a_lost_connection_is_a_cause_and_its_program_is_ended_later(void **state)
{
	WORLD(4);

	rig_open(r, 1, "echo before; sleep $NAP", (struct rig_call){.env = nap_env()});
	rig_open(r, 2, "sleep $NAP", (struct rig_call){.env = nap_env(), .pty = true});
	assert_true(rig_until(r, 10000, r->ch[1].len[1] && r->ch[2].opened && nappers() == 2));
	w->rc.refuse = ERR_K8S_UNREACHABLE; /* and for a while nobody can look */
	w->rc.words = "connection refused";
	w->rc.refuse_times = 2;
	kubelet_cut(&w->rc);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[1].exit.cause, EXIT_LOST);
	assert_int_equal(r->ch[1].exit.code, -1);
	assert_non_null(strstr(r->ch[1].exit.text, "left_running"));
	assert_non_null(strstr(r->ch[1].exit.text, "reset"));
	assert_string_equal(rig_text(r, 1, 1), "before\n");
	assert_int_equal(link_forget(r->link, 1), 0);
	assert_true(rig_until(r, 20000, nappers() == 0));
	assert_int_equal(r->downs, 0);
	world_destroy(w);
}

static void no_status_is_unknown_and_never_zero(void **state)
{
	WORLD(4);

	w->rc.no_status = false;
	rig_open(r, 1, "true", (struct rig_call){0});
	rig_wait_exit(r, 1);
	w->rc.no_status = true;
	rig_open(r, 2, "echo x", (struct rig_call){0});
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.cause, EXIT_UNKNOWN);
	assert_int_equal(r->ch[2].exit.code, -1);
	assert_string_equal(rig_text(r, 2, 1), "x\n");
	assert_non_null(strstr(r->ch[2].exit.text, "without a status"));
	world_destroy(w);
}

/* ---- an image without a shell */

static struct world *bare_world(int version)
{
	struct world *w = world_create(version, 8);

	w->rc.absent[0] = "/bin/sh";
	w->rc.absent[1] = "/bin/bash";
	w->rc.absent[2] = "/busybox/sh";
	return w;
}

static void without_a_shell_programs_run_as_they_are(void **state)
{
	static const char *const fine[] = {"/usr/bin/dash", "-c", "echo out; exit 7", NULL},
				 *const shell[] = {"", NULL}, *const nothing[] = {"/no/such", NULL},
				 *const idle[] = {"/usr/bin/sleep", "5", NULL};
	struct world *w = bare_world(4);
	struct rig *r = w->r;

	(void)state;
	w->rc.absent[3] = "/no/such";
	assert_int_equal(rig_open_argv(r, 1, fine, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 2, shell, &(struct rig_call){.pty = true}), 0);
	assert_int_equal(rig_open_argv(r, 3, fine, &(struct rig_call){.cwd = "/tmp"}), 0);
	assert_int_equal(rig_open_argv(r, 4, nothing, &(struct rig_call){0}), 0);
	assert_int_equal(rig_open_argv(r, 5, idle, &(struct rig_call){0}), 0);
	for (int i = 1; i <= 4; i++)
		rig_wait_exit(r, i);
	assert_string_equal(rig_text(r, 1, 1), "out\n");
	assert_int_equal(r->ch[1].exit.code, 7);
	assert_string_equal(r->ch[2].exit.error_at, "no_shell");
	assert_string_equal(r->ch[3].exit.error_at, "no_shell");
	assert_string_equal(r->ch[4].exit.error_at, "exec");
	assert_int_equal(r->ch[4].exit.error, ENOENT);
	assert_true(rig_until(r, 10000, r->ch[5].opened));
	assert_int_equal(link_kill(r->link, 5, EXIT_KILLED), 0);
	rig_wait_exit(r, 5);
	assert_int_equal(r->ch[5].exit.cause, EXIT_UNKNOWN);
	assert_non_null(strstr(r->ch[5].exit.text, "left_running"));
	world_destroy(w);
}

static void without_a_shell_v4_has_no_end_of_input(void **state)
{
	static const char *const cat[] = {"/usr/bin/cat", NULL};
	struct world *w = bare_world(4);
	struct rig *r = w->r;

	(void)state;
	for (uint32_t i = 1; i <= 3; i++)
		assert_int_equal(rig_open_argv(r, i, cat, &(struct rig_call){.with_stdin = true}), 0);
	assert_true(rig_until(r, 10000, r->ch[1].opened && r->ch[2].opened && r->ch[3].opened));
	assert_int_equal(link_input_eof(r->link, 1, 0), 0); /* none at all can be said */
	rig_type(r, 2, 0, "some", 4);
	assert_int_equal(link_input_eof(r->link, 2, 4), 0);
	rig_wait_exit(r, 1);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[1].exit.code, 0);
	assert_int_equal(r->ch[2].exit.cause, EXIT_NOT_STARTED);
	assert_string_equal(r->ch[2].exit.error_at, "no_end_of_input");
	rig_type(r, 3, 0, "line\n", 5); /* what never ends flows */
	assert_true(rig_until(r, 10000, strcmp(rig_text(r, 3, 1), "line\n") == 0));
	assert_int_equal(link_kill(r->link, 3, EXIT_KILLED), 0);
	rig_wait_exit(r, 3);
	world_destroy(w);
	w = bare_world(5);
	r = w->r;
	assert_int_equal(rig_open_argv(r, 1, cat, &(struct rig_call){.with_stdin = true}), 0);
	assert_true(rig_until(r, 10000, r->ch[1].opened));
	rig_type(r, 1, 0, "some", 4);
	assert_int_equal(link_input_eof(r->link, 1, 4), 0);
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "some");
	assert_int_equal(r->ch[1].exit.code, 0);
	world_destroy(w);
}

/* ---- turns, refusals, lives */

/* An eighth is staff's, and one exec more may kill and look. */
static void so_many_run_and_the_others_wait(void **state)
{
	WORLD(4);

	for (uint32_t i = 1; i <= 20; i++)
		rig_open(r, i, "echo on; read x; echo $x", (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 10000, r->ch[20].waits && w->rc.running == 7));
	assert_int_equal(w->rc.running, 7);
	rig_open(r, 30, "echo staff", (struct rig_call){.reserve = true});
	rig_wait_exit(r, 30);
	assert_string_equal(rig_text(r, 30, 1), "staff\n");
	assert_int_equal(link_kill(r->link, 20, EXIT_KILLED), 0); /* has not begun */
	rig_wait_exit(r, 20);
	assert_int_equal(r->ch[20].exit.cause, EXIT_NOT_STARTED);
	assert_string_equal(r->ch[20].exit.error_at, "cancelled");
	assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), 0); /* a kill has its place */
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
	for (uint32_t i = 2; i <= 19; i++) {
		assert_true(rig_until(r, 10000, r->ch[i].opened));
		rig_type(r, i, 0, "hi\n", 3);
		rig_wait_exit(r, i);
		assert_string_equal(rig_text(r, i, 1), "on\nhi\n");
	}
	assert_true(w->rc.most <= 9);
	for (uint32_t i = 100; i < 700; i++)
		rig_open(r, i, "read x", (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 10000, r->ch[699].exited));
	assert_string_equal(r->ch[699].exit.error_at, "limit_reached");
	world_destroy(w);
}

static void opens(struct rig *r, uint32_t from, uint32_t to, bool reserve)
{
	for (uint32_t i = from; i <= to; i++)
		rig_open(r, i, "read x; exit 3", (struct rig_call){.with_stdin = true, .reserve = reserve});
}

static bool is_at(const struct rig *r, uint32_t channel, const char *place)
{
	char want[60];

	snprintf(want, sizeof(want), "waiting: place %s, ", place);
	return strncmp(r->ch[channel].waiting, want, strlen(want)) == 0;
}

static unsigned how_many(const struct rig *r, uint32_t from, uint32_t to)
{
	unsigned n = 0;

	for (uint32_t i = from; i <= to; i++)
		n += r->ch[i].opened && !r->ch[i].exited;
	return n;
}

/* 100 programs, of which 40 run: places are told, move up when one in the middle gives up, and are kept in order. */
static void each_is_told_its_place(void **state)
{
	struct world *w = world_create(4, 46);
	struct rig *r = w->r;

	(void)state;
	opens(r, 1, 100, false);
	assert_true(
	    rig_until(r, 30000, how_many(r, 1, 100) == 40 && is_at(r, 41, "1 of 60") && is_at(r, 100, "60 of 60")));
	assert_int_equal(how_many(r, 1, 40), 40);
	assert_int_equal(link_kill(r->link, 50, EXIT_KILLED), 0);
	assert_true(rig_until(r, 10000, is_at(r, 100, "59 of 59") && is_at(r, 49, "9 of 59")));
	opens(r, 101, 103, true); /* staff: into what is kept for them */
	assert_true(rig_until(r, 10000, how_many(r, 101, 103) == 3));
	opens(r, 104, 110, true); /* ... and ahead of agents, once that is full */
	assert_true(
	    rig_until(r, 10000, how_many(r, 101, 110) == 6 && is_at(r, 110, "4 of 63") && is_at(r, 41, "5 of 63")));
	rig_type(r, 1, 0, "\n", 1);
	rig_type(r, 2, 0, "\n", 1);
	assert_true(rig_until(r, 10000, how_many(r, 101, 110) == 8 && is_at(r, 41, "3 of 61")));
	assert_false(r->ch[41].opened);
	for (uint32_t i = 3; i <= 110; i++)
		if (i != 50) {
			assert_true(rig_until(r, 20000, r->ch[i].opened));
			rig_type(r, i, 0, "\n", 1);
		}
	for (uint32_t i = 1; i <= 110; i++)
		if (i != 50) {
			rig_wait_exit(r, i);
			assert_int_equal(r->ch[i].exit.code, 3);
		}
	world_destroy(w);
}

/* The configuration allows 64, the server stands ten: nobody is refused, who waits is told the server's words. */
static void what_the_server_stands_is_found_out(void **state)
{
	struct world *w = world_create(4, 64);
	struct rig *r = w->r;

	(void)state;
	w->rc.stands = 10;
	opens(r, 1, 40, false);
	assert_true(rig_until(r, 20000, how_many(r, 1, 40) >= 8 && w->rc.busy && r->ch[40].waits));
	assert_true(rig_until(r, 20000, strstr(r->ch[40].waiting, "the server is busy: error dialing backend")));
	assert_true(w->rc.running <= 10);
	for (uint32_t i = 1; i <= 40; i++) {
		assert_true(rig_until(r, 20000, r->ch[i].opened));
		assert_int_equal(r->ch[i].opened_rc, 0);
		rig_type(r, i, 0, "\n", 1);
	}
	for (uint32_t i = 1; i <= 40; i++) {
		rig_wait_exit(r, i);
		assert_int_equal(r->ch[i].exit.code, 3);
	}
	world_destroy(w);
}

/* A container that has ended is answered by the same code as a server that is full: nobody waits for that. */
static void a_failure_without_programs_is_an_answer(void **state)
{
	WORLD(4);

	rig_open(r, 1, "exit 6", (struct rig_call){0});
	rig_wait_exit(r, 1);
	w->rc.refuse = ERR_K8S;
	w->rc.http_status = 500;
	w->rc.words = "unable to upgrade connection: container not found (\"main\")";
	rig_open(r, 2, "true", (struct rig_call){0});
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].waits, 0);
	assert_int_equal(r->ch[2].exit.cause, EXIT_NOT_STARTED);
	assert_string_equal(r->ch[2].exit.text, w->rc.words);
	w->rc.http_status = 429; /* whoever says that it is busy is asked again */
	w->rc.refuse_times = 3;
	rig_open(r, 3, "exit 6", (struct rig_call){0});
	rig_wait_exit(r, 3);
	assert_int_equal(r->ch[3].exit.code, 6);
	world_destroy(w);
}

static void a_wait_ends(void **state)
{
	struct world *w = world_create(4, 1);
	struct rig *r = w->r;

	(void)state;
	opens(r, 1, 1, false);
	assert_true(rig_until(r, 20000, r->ch[1].opened)); /* the look at the container takes its time */
	w->plain->wait_ns = 700 * NS_PER_MS;
	opens(r, 2, 2, false);
	rig_wait_exit(r, 2);
	assert_string_equal(r->ch[2].exit.error_at, "limit_reached");
	assert_non_null(
	    strstr(r->ch[2].exit.text, "1 programs run in this container (of 1: kubernetes.plain_programs)"));
	assert_false(r->ch[1].exited);
	world_destroy(w);
}

static void a_refusal_keeps_the_clusters_words(void **state)
{
	WORLD(4);

	w->rc.refuse = ERR_K8S_FORBIDDEN;
	w->rc.http_status = 403;
	w->rc.words = "pods \"pod\" is forbidden: User \"x\" cannot create resource \"pods/exec\"";
	rig_open(r, 1, "true", (struct rig_call){0});
	rig_wait_exit(r, 1);
	assert_string_equal(r->ch[1].exit.error_at, "k8s_forbidden");
	assert_string_equal(r->ch[1].exit.text, w->rc.words);
	w->rc.refuse = ERR_K8S_UNAUTHENTICATED; /* a token that was rotated: asked for again, once */
	w->rc.http_status = 401;
	w->rc.refuse_times = 1;
	rig_open(r, 2, "exit 6", (struct rig_call){0});
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.code, 6);
	assert_int_equal(w->rc.generation, 2);
	w->rc.refuse = ERR_K8S_UNAUTHENTICATED;
	w->rc.http_status = 401;
	w->rc.refuse_times = 0;
	rig_open(r, 3, "exit 6", (struct rig_call){0});
	rig_wait_exit(r, 3);
	assert_string_equal(r->ch[3].exit.error_at, "k8s_unauthenticated");
	world_destroy(w);
}

/* What it ends is known by having no parent in the pod (tests/e2e/k8s shows that): here everything has one. */
static void the_next_life_knows_nothing_and_harms_nobody(void **state)
{
	WORLD(4);

	rig_open(r, 1, "sleep $NAP & sleep $NAP", (struct rig_call){.env = nap_env()});
	assert_true(rig_until(r, 10000, nappers() == 2));
	link_destroy(r->link); /* as when the daemon was killed */
	rig_sleep(r, 50);
	assert_int_equal(nappers(), 2);
	dial(w);
	rig_open(r, 3, "echo new", (struct rig_call){0});
	rig_wait_exit(r, 3);
	assert_string_equal(rig_text(r, 3, 1), "new\n");
	assert_int_equal(nappers(), 2);
	assert_int_equal(nappers_signal(SIGKILL), 2);
	world_destroy(w);
}

/* ---- muxlet in an ephemeral container beside it */

static char visit_dir[32];

/* A container of this machine has no other root: so the muxlet there is told of none. */
static void make_visitor(void)
{
	static char path[64];
	char own[4096];
	FILE *f;

	strcpy(visit_dir, "/tmp/muxd-visit.XXXXXX");
	assert_non_null(mkdtemp(visit_dir));
	assert_non_null(realpath(BUILD_DIR "/muxlet", own));
	snprintf(path, sizeof(path), "%s/muxlet", visit_dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n[ \"$1 $2\" = '--visit 1' ] || exit 99\nshift 2\nexec %s \"$@\"\n", own);
	fclose(f);
	assert_int_equal(chmod(path, 0755), 0);
	visitor = "muxd-visitor-1";
	visitor_muxlet = path;
}

static void drop_visitor(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", visit_dir);
	assert_int_equal(system(command), 0);
	visitor = visitor_muxlet = NULL;
}

static const char *in_container(const struct world *w)
{
	return LIST_FIRST(&w->rc.streams) ? LIST_FIRST(&w->rc.streams)->p.container : "none";
}

static void put_by_visitor(struct world *w, uint32_t channel, const char *path, bool whole)
{
	const char *const argv[] = {"muxlet", "--put", path, NULL};
	struct rig *r = w->r;
	uint8_t trailer[8 + 32] = {5};
	uint64_t at;

	assert_int_equal(EVP_Digest("hello", 5, trailer + 8, NULL, EVP_sha256(), NULL), 1);
	rig_open_argv(r, channel, argv, &(struct rig_call){.with_stdin = true, .self = true});
	assert_true(rig_until(r, 20000, r->ch[channel].opened));
	assert_string_equal(in_container(w), visitor);
	at = rig_type(r, channel, 0, "hello", 5);
	at = rig_type(r, channel, at, trailer, sizeof(trailer));
	if (whole)
		assert_int_equal(link_input_eof(r->link, channel, at), 0);
	else
		assert_int_equal(link_kill(r->link, channel, EXIT_KILLED), 0);
	rig_wait_exit(r, channel);
}

/* By the old protocol, too, which cannot say the end of input. */
static void files_go_by_an_ephemeral_container(void **state)
{
	char path[64];

	(void)state;
	make_visitor();
	snprintf(path, sizeof(path), "%s/put", visit_dir);
	for (int version = 4; version <= 5; version++) {
		const char *const get[] = {"muxlet", "--get", path, NULL}, *const sync[] = {"muxlet", "--sync", "/",
											    NULL};
		WORLD(version);

		assert_true(link_has_files(r->link) && link_has_ports(r->link));
		assert_false(link_has_sync(r->link));
		put_by_visitor(w, 1, path, false);
		assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
		assert_int_equal(access(path, F_OK), -1);
		put_by_visitor(w, 2, path, true);
		assert_int_equal(r->ch[2].exit.cause, EXIT_EXITED);
		assert_int_equal(r->ch[2].exit.code, 0);
		rig_open_argv(r, 3, get, &(struct rig_call){.self = true});
		rig_wait_exit(r, 3);
		assert_int_equal(r->ch[3].exit.code, 0);
		assert_non_null(strstr(rig_text(r, 3, 1), "\nhello"));
		rig_open_argv(r, 4, sync, &(struct rig_call){.self = true});
		rig_wait_exit(r, 4);
		assert_string_equal(r->ch[4].exit.error_at, "unsupported");
		rig_open(r, 5, "sleep 0.3; echo hi", (struct rig_call){0}); /* programs: in the target */
		assert_true(rig_until(r, 20000, r->ch[5].opened));
		assert_string_equal(in_container(w), "main");
		rig_wait_exit(r, 5);
		assert_string_equal(rig_text(r, 5, 1), "hi\n");
		w->rc.absent[0] = visitor_muxlet;
		rig_open_argv(r, 6, get, &(struct rig_call){.self = true});
		rig_wait_exit(r, 6);
		assert_string_equal(r->ch[6].exit.error_at, "unsupported"); /* and not: no such file */
		assert_int_equal(unlink(path), 0);
		world_destroy(w);
	}
	drop_visitor();
}

/* Without one it is as it always was. */
static void without_one_there_are_no_files(void **state)
{
	const char *const get[] = {"muxlet", "--get", "/etc/passwd", NULL};
	WORLD(4);

	assert_false(link_has_files(r->link) || link_has_ports(r->link));
	rig_open_argv(r, 1, get, &(struct rig_call){.self = true});
	rig_wait_exit(r, 1);
	assert_string_equal(r->ch[1].exit.error_at, "unsupported");
	world_destroy(w);
}

static void a_peer_can_go_at_any_moment(void **state)
{
	for (unsigned ms = 0; ms < 60; ms += 3) {
		WORLD(4);

		rig_open(r, 1, "sleep $NAP", (struct rig_call){.env = nap_env(), .pty = true});
		rig_open(r, 2, "cat", (struct rig_call){.env = nap_env(), .with_stdin = true});
		rig_sleep(r, ms + 1);
		if (r->ch[1].opened)
			assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), 0);
		rig_sleep(r, ms / 2 + 1);
		if (ms % 2)
			plain_destroy(w->plain), w->plain = NULL;
		world_destroy(w);
	}
	(void)nappers_signal(SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(answers_are_read_strictly),
	    cmocka_unit_test(files_go_by_an_ephemeral_container),
	    cmocka_unit_test(without_one_there_are_no_files),
	    cmocka_unit_test(names_that_a_shell_cannot_export_are_known),
	    cmocka_unit_test(a_round_answers_stdout_stderr_and_code),
	    cmocka_unit_test(what_cannot_start_says_where_and_why),
	    cmocka_unit_test(what_a_caller_says_is_never_script),
	    cmocka_unit_test(stdin_arrives_whole_and_ends_on_v5_and_on_v4),
	    cmocka_unit_test(a_program_that_ends_does_not_wait_for_its_stdin),
	    cmocka_unit_test(much_output_comes_whole_and_a_window_holds_it_back),
	    cmocka_unit_test(a_terminal_has_its_size_and_its_keys),
	    cmocka_unit_test(a_signal_that_was_sent_is_told_as_the_end),
	    cmocka_unit_test(the_shell_of_the_image_is_found_and_ends_at_the_end_of_input),
	    cmocka_unit_test(a_kill_ends_the_whole_tree),
	    cmocka_unit_test(a_timeout_and_a_forgotten_one_end_too),
	    cmocka_unit_test(a_lost_connection_is_a_cause_and_its_program_is_ended_later),
	    cmocka_unit_test(no_status_is_unknown_and_never_zero),
	    cmocka_unit_test(without_a_shell_programs_run_as_they_are),
	    cmocka_unit_test(without_a_shell_v4_has_no_end_of_input),
	    cmocka_unit_test(so_many_run_and_the_others_wait),
	    cmocka_unit_test(each_is_told_its_place),
	    cmocka_unit_test(what_the_server_stands_is_found_out),
	    cmocka_unit_test(a_failure_without_programs_is_an_answer),
	    cmocka_unit_test(a_wait_ends),
	    cmocka_unit_test(a_refusal_keeps_the_clusters_words),
	    cmocka_unit_test(the_next_life_knows_nothing_and_harms_nobody),
	    cmocka_unit_test(a_peer_can_go_at_any_moment),
	};

	own_processes();
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
