// tier: check
/* muxlet as a process: what it lets in, what it gives away, how it starts and ends. Spoken to in raw frames. */
#include "tests/lib/link_peer.h"

#include <dirent.h>

static int children_of(pid_t pid, char state)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int found = 0;

	while ((e = readdir(dir))) {
		char path[300], text[512] = "", s, *at;
		int ppid;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !(f = fopen(path, "re")))
			continue;
		if (fgets(text, sizeof(text), f) && (at = strrchr(text, ')')) &&
		    sscanf(at + 1, " %c %d", &s, &ppid) == 2)
			found += ppid == pid && (!state || s == state);
		fclose(f);
	}
	closedir(dir);
	return found;
}

static void nothing_before_the_proof(void **state)
{
	static const struct {
		const char *what;
		struct frame frame;
		uint16_t code;
	} table[] = {
	    {"a round", {.type = FRAME_FORGET, .channel = 1}, CODE_PROTOCOL},
	    {"a ping", {.type = FRAME_PING}, CODE_PROTOCOL},
	    {"a proof of nothing", {.type = FRAME_PROOF}, CODE_PROTOCOL},
	    {"another version", {.type = FRAME_HELLO, .u.hello = {.major = 2}}, CODE_VERSION},
	};
	struct rig *r = rig_create();

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		int fd = rig_dial(r);
		struct peer *p = peer_of(fd, fd);

		say(p, &table[i].frame);
		goodbye_with(p, table[i].code);
		peer_close(p);
	}
	rig_open(r, 1, "exit 0", (struct rig_call){0}); /* and the hub noticed nothing */
	rig_wait_exit(r, 1);
	assert_int_equal(r->downs, 0);
	rig_destroy(r);
}

static void a_wrong_proof_or_an_old_epoch_is_turned_away(void **state)
{
	struct rig *r = rig_create();
	uint8_t wrong[LINK_SECRET_LEN] = {0};
	int fd = rig_dial(r);
	struct peer *p = peer_of(fd, fd);

	(void)state;
	hello(p, 1000);
	prove(p, wrong);
	goodbye_with(p, CODE_AUTH);
	peer_close(p);
	fd = rig_dial(r);
	p = up(fd, fd, r->secret, r->epoch);
	goodbye_with(p, CODE_STALE);
	peer_close(p);
	rig_sleep(r, 50);
	assert_int_equal(link_state(r->link), LINK_UP);
	assert_int_equal(r->downs, 0);
	rig_destroy(r);
}

/* A proof is worth one stream: replayed on another it is wrong. */
static void a_proof_cannot_be_replayed(void **state)
{
	struct rig *r = rig_create();
	struct frame proof = {.type = FRAME_PROOF}, first = {.type = FRAME_HELLO};
	struct peer *p = dialed(r), *q;
	int fd = rig_dial(r);

	(void)state;
	mac(p, r->secret, "muxd-hub", proof.u.proof);
	first.u.hello = p->ours;
	q = peer_of(fd, fd);
	say(q, &first);
	hear_of(q, FRAME_HELLO);
	say(q, &proof);
	goodbye_with(q, CODE_AUTH);
	peer_close(q);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static void silent_strangers_lock_nobody_out(void **state)
{
	struct rig *r = rig_create();
	int fds[20];

	(void)state;
	for (int i = 0; i < 20; i++)
		fds[i] = rig_dial(r);
	rig_break(r);
	rig_attach(r);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
	rig_destroy(r);
}

/* Both ends give a silent peer 10 seconds, at the same time here. */
static void a_handshake_has_its_time(void **state)
{
	struct rig *r = rig_create();
	struct link *up_link = r->link;
	int silent = rig_dial(r), pair[2];
	struct peer *p = peer_of(silent, silent);

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	rig_new_link(r);
	assert_int_equal(link_attach(r->link, pair[0], 5), 0);
	assert_true(rig_until(r, 15000, r->downs));
	assert_int_equal(r->down_rc, ERR_TIMEOUT);
	assert_int_equal(link_state(r->link), LINK_IDLE);
	goodbye_with(p, CODE_AUTH);
	assert_int_equal(link_state(up_link), LINK_UP);
	assert_true(rig_until(r, 15000, r->rtt > 0)); /* a PING went out and came back meanwhile */
	peer_close(p);
	close(pair[1]);
	link_destroy(r->link);
	r->link = up_link;
	r->downs = 0;
	rig_destroy(r);
}

static void a_hub_that_breaks_the_protocol_is_cut_and_programs_live(void **state)
{
	static const struct frame table[] = {
	    {.type = FRAME_DATA, .channel = 1, .offset = 5, .p = (const uint8_t *)"x", .n = 1},
	    {.type = FRAME_EOF, .channel = 1, .offset = 5},
	    {.type = FRAME_DATA, .channel = 1, .stream = 1, .p = (const uint8_t *)"x", .n = 1},
	    {.type = FRAME_ACK, .channel = 1, .stream = 1, .offset = 99},
	    {.type = FRAME_WINDOW, .channel = 1, .stream = 0, .offset = 99},
	    {.type = FRAME_PROOF},
	    {.type = FRAME_HELLO},
	};
	struct rig *r = rig_create();
	struct peer *p = dialed(r);

	(void)state;
	say_open(p, 1, "sleep 60", OPEN_STDIN);
	hear_of(p, FRAME_OPENED);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct frame resume = {.type = FRAME_RESUME, .channel = 1, .u.resume = {{0, 0, 0}, 1000}};

		say(p, &table[i]);
		goodbye_with(p, CODE_PROTOCOL);
		peer_close(p);
		p = dialed(r);
		assert_int_equal(hear_of(p, FRAME_LIST).channel, 1);
		hear_of(p, FRAME_LISTED);
		say(p, &resume);
	}
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static void more_input_than_the_window_is_refused(void **state)
{
	static uint8_t block[FRAME_DATA_MAX];
	struct rig *r = rig_create();
	struct peer *p = dialed(r);
	struct frame f = {.type = FRAME_DATA, .channel = 1, .p = block, .n = sizeof(block)};

	(void)state;
	/* A small buffer: the sender is in the middle of a frame when muxlet leaves, as it may be on a busy machine. */
	assert_int_equal(setsockopt(p->out, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
	say_open(p, 1, "sleep 60", OPEN_STDIN);
	hear_of(p, FRAME_OPENED);
	/* The queue takes 256 KiB, and the pipe 64 when a thread has come to it: the fifth or the sixth is too much. */
	for (int i = 0; i < 6; i++, f.offset += f.n)
		say(p, &f);
	goodbye_with(p, CODE_PROTOCOL);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static void faults_of_one_request_are_errors(void **state)
{
	static const struct {
		struct frame frame;
		uint16_t code;
	} table[] = {
	    {{.type = FRAME_SIGNAL, .channel = 77, .u.number = 15}, CODE_NOT_FOUND},
	    {{.type = FRAME_DATA, .channel = 77, .p = (const uint8_t *)"x", .n = 1}, CODE_NOT_FOUND},
	    {{.type = FRAME_RESIZE, .channel = 1, .u.resize = {1, 1, 0, 0}}, CODE_INVALID},
	    {{.type = FRAME_RESUME, .channel = 1}, CODE_STATE},
	    {{.type = FRAME_SECRET, .channel = 1, .u.fd = 5}, CODE_INVALID},
	    {{.type = FRAME_SECRET, .channel = 2, .u.fd = 2}, CODE_INVALID},
	    {{.type = FRAME_SIGNAL, .channel = 3, .u.number = 15}, CODE_STATE},
	};
	struct rig *r = rig_create();
	struct peer *p = dialed(r);

	(void)state;
	say_open(p, 1, "sleep 60", 0);
	say_open(p, 3, "exit 0", 0);
	hear_of(p, FRAME_EXIT);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct frame f;

		say(p, &table[i].frame);
		f = hear_of(p, FRAME_ERROR);
		assert_int_equal(f.channel, table[i].frame.channel);
		assert_int_equal(f.u.opened.code, table[i].code);
	}
	say_open(p, 1, "echo twice", 0);
	assert_int_equal(hear_of(p, FRAME_OPENED).u.opened.code, CODE_CONFLICT);
	say(p, &(struct frame){.type = FRAME_PING, .offset = 42});
	assert_int_equal(hear_of(p, FRAME_PONG).offset, 42);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

/*
 * The program has ended, and the window holds back what it wrote; it opens while muxlet does not run, for longer than a
 * pipe may be silent. The bytes come all the same: they were there, and nobody had looked.
 */
static void what_was_held_back_is_read_before_the_end(void **state)
{
	enum { WINDOW = 100000, MORE = 60000 }; /* of say_open(); no more than a pipe holds */
	struct rig *r = rig_create();
	struct peer *p = dialed(r);
	struct frame window = {.type = FRAME_WINDOW, .channel = 1, .stream = 1, .offset = 1000000}, f;
	uint64_t n = 0;

	(void)state;
	say_open(p, 1, "head -c 160000 /dev/zero", 0);
	while (n < WINDOW)
		n += hear_of(p, FRAME_DATA).n;
	assert_int_equal(n, WINDOW);
	usleep(300000); /* for the program to end: one that has not shows nothing here */
	assert_int_equal(kill(r->pid, SIGSTOP), 0);
	say(p, &window);
	usleep(2500000);
	assert_int_equal(kill(r->pid, SIGCONT), 0);
	do {
		f = hear(p, 5000);
		n += f.type == FRAME_DATA ? f.n : 0;
	} while (f.type && f.type != FRAME_EXIT);
	assert_int_equal(f.type, FRAME_EXIT);
	assert_int_equal(f.u.exit.total[1], WINDOW + MORE);
	assert_int_equal(n, WINDOW + MORE);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static uint64_t wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A program that writes a byte at a time: what it wrote is read together, no more than 16 times within 10 ms, and
 * whole. */
static void many_small_writes_are_gathered(void **state)
{
	enum { BYTES = 300000 };
	struct rig *r = rig_create();
	struct peer *p = dialed(r);
	struct frame window = {.type = FRAME_WINDOW, .channel = 1, .stream = 1, .offset = 2 * BYTES}, f;
	uint64_t n, frames = 1, began, took;

	(void)state;
	say_open(p, 1, "exec dd if=/dev/zero bs=1 count=300000 status=none", 0);
	began = wall_ms();
	n = hear_of(p, FRAME_DATA).n;
	say(p, &window);
	do {
		f = hear(p, 5000);
		n += f.type == FRAME_DATA ? f.n : 0;
		frames += f.type == FRAME_DATA;
	} while (f.type && f.type != FRAME_EXIT);
	took = wall_ms() - began;
	assert_int_equal(f.type, FRAME_EXIT);
	assert_int_equal(n, BYTES);
	if (frames > (took / 10 + 2) * 16 + BYTES / 4096)
		fail_msg("%llu frames in %llu ms", (unsigned long long)frames, (unsigned long long)took);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

/* A hub that begins anew does not know the numbers of what the one before it forgot: LIST leaves them out. */
static void a_forgotten_number_is_free_while_its_program_ends(void **state)
{
	struct rig *r = rig_create();
	struct peer *p = dialed(r);

	(void)state;
	say_open(p, 1, "trap '' TERM; while :; do sleep 0.1; done", 0);
	hear_of(p, FRAME_OPENED);
	say(p, &(struct frame){.type = FRAME_FORGET, .channel = 1}); /* it has half a second from here on */
	say(p, &(struct frame){.type = FRAME_PING, .offset = 42});
	hear_of(p, FRAME_PONG);
	peer_close(p);
	p = dialed(r);
	assert_int_equal(hear_of(p, FRAME_LISTED).offset, 0);
	say_open(p, 1, "exit 5", 0);
	assert_int_equal(hear_of(p, FRAME_OPENED).u.opened.code, CODE_OK);
	assert_int_equal(hear_of(p, FRAME_EXIT).u.exit.code, 5);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static void unknown_frames_are_skipped_and_critical_ones_are_not(void **state)
{
	static const uint8_t unknown[] = {5, 0, 0, 0, 200, 0, 1, 2, 3}, critical[] = {5, 0, 0, 0, 200, 0x80, 1, 2, 3};
	struct rig *r = rig_create();
	struct peer *p = dialed(r);

	(void)state;
	assert_int_equal(write(p->out, unknown, sizeof(unknown)), sizeof(unknown));
	say(p, &(struct frame){.type = FRAME_PING, .offset = 1});
	hear_of(p, FRAME_PONG);
	assert_int_equal(write(p->out, critical, sizeof(critical)), sizeof(critical));
	goodbye_with(p, CODE_PROTOCOL);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

/* Any bytes at all from a proven hub: it may be cut, muxlet and its programs stay. */
static void noise_ends_streams_only(void **state)
{
	struct rig *r = rig_create();
	uint8_t noise[2000];
	struct peer *p;

	(void)state;
	srand(7);
	for (int i = 0; i < 200; i++) {
		p = dialed(r);
		if (i == 0)
			say_open(p, 1, "sleep 60", OPEN_PTY);
		hear_of(p, FRAME_LISTED);
		random_bytes(noise, sizeof(noise));
		for (size_t at = 0; at + 40 < sizeof(noise); at += 40) { /* frames that are whole, of random content */
			noise[at] = 36;
			noise[at + 1] = noise[at + 2] = noise[at + 3] = 0;
			noise[at + 4] = (uint8_t)(rand() % 30);
			noise[at + 5] = 0;
			noise[at + 6] = (uint8_t)(rand() % 3);
			noise[at + 7] = noise[at + 8] = noise[at + 9] = 0;
			if (noise[at + 4] == FRAME_FORGET || noise[at + 4] == FRAME_KILL ||
			    noise[at + 4] == FRAME_SIGNAL)
				noise[at + 6] = 2;
		}
		assert_true(write(p->out, noise, sizeof(noise)) > 0);
		peer_close(p);
	}
	p = dialed(r);
	assert_int_equal(hear_of(p, FRAME_LIST).channel, 1);
	peer_close(p);
	r->downs = 0;
	rig_destroy(r);
}

static void orphans_are_reaped(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	for (uint32_t i = 1; i <= 20; i++)
		rig_open(r, i, "(sleep 0.1 &) ; (sh -c 'exit 3' &); setsid sh -c 'sleep 0.2 & exit 0'",
			 (struct rig_call){0});
	for (uint32_t i = 1; i <= 20; i++)
		rig_wait_exit(r, i);
	assert_true(rig_until(r, 5000, children_of(r->pid, 0) == 0));
	assert_int_equal(children_of(r->pid, 'Z'), 0);
	rig_destroy(r);
}

static int open_fds(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -1;
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void nothing_leaks_over_many_rounds(void **state)
{
	struct rig *r = rig_create();
	int before = open_fds(r->pid);

	(void)state;
	for (uint32_t i = 1; i <= 300; i++) {
		bool pty = i % 3 == 0, fails = i % 5 == 0;

		rig_open(r, i, "echo x; read y",
			 (struct rig_call){.pty = pty, .with_stdin = i % 2, .cwd = fails ? "/none" : NULL});
		if (!fails && (pty || i % 2))
			assert_int_equal(link_kill(r->link, i, EXIT_KILLED), 0);
		rig_wait_exit(r, i);
		assert_int_equal(link_forget(r->link, i), 0);
	}
	rig_sleep(r, 100);
	assert_int_equal(open_fds(r->pid), before);
	rig_destroy(r);
}

/* muxlet shares its uid with programs that want its secret; root could look anyway, so it is nobody here. */
static void programs_cannot_look_into_muxlet(void **state)
{
	char copy[] = "/tmp/muxd-muxlet-XXXXXX", command[200];
	const char *const as_nobody[] = {"/usr/bin/setpriv",
					 "--reuid=65534",
					 "--regid=65534",
					 "--clear-groups",
					 copy,
					 "--listen-fd",
					 "3",
					 "--secret-fd",
					 "4",
					 NULL};
	struct rig *r;
	int fd = mkstemp(copy);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "cp %s/muxlet %s && chmod 755 %s", BUILD_DIR, copy, copy);
	assert_int_equal(system(command), 0);
	r = rig_create_as(geteuid() == 0 ? as_nobody : NULL);
	rig_open(r, 1,
		 "id -u; head -c 1 /proc/self/environ >/dev/null && echo mine; for f in environ mem maps fd/4; do "
		 "head -c 1 /proc/$PPID/$f >/dev/null && echo $f; done; ls /proc/$PPID/fd && echo listed; echo end",
		 (struct rig_call){.cwd = "/"});
	rig_wait_exit(r, 1);
	assert_string_not_equal(rig_text(r, 1, 1), "0\nmine\nend\n");
	assert_non_null(strstr(rig_text(r, 1, 1), "\nmine\nend\n"));
	rig_destroy(r);
	unlink(copy);
}

static void a_second_term_is_heeded_at_once(void **state)
{
	struct rig *r = rig_create();
	uint64_t begun;
	int status;

	(void)state;
	rig_open(r, 1, "trap '' TERM HUP; echo ready; sleep 60; sleep 60", (struct rig_call){0});
	assert_true(rig_until(r, 5000, r->ch[1].len[1]));
	begun = clock_boot_ns();
	kill(r->pid, SIGTERM);
	usleep(200000);
	assert_int_equal(waitpid(r->pid, &status, WNOHANG), 0);
	kill(r->pid, SIGTERM);
	rig_wait_exit(r, 1); /* told before the stream ends */
	assert_int_equal(r->ch[1].exit.cause, EXIT_KILLED);
	assert_int_equal(r->ch[1].exit.signal, SIGKILL);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_true(clock_boot_ns() - begun < 20 * NS_PER_SEC);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(rig_until(r, 5000, r->downs));
	assert_int_equal(r->down_rc, ERR_LINK_LOST);
	r->pid = 0;
	rig_destroy(r);
}

/* As pid 1 of a namespace of its own, where default signals are ignored and everybody is its child. */
static void as_the_first_process_of_a_sandbox(void **state)
{
	static const char *const argv[] = {"/usr/bin/unshare",
					   "--user",
					   "--map-root-user",
					   "--pid",
					   "--fork",
					   "--mount-proc",
					   "--kill-child=KILL",
					   BUILD_DIR "/muxlet",
					   "--listen-fd",
					   "3",
					   "--secret-fd",
					   "4",
					   "--workdir",
					   "/tmp",
					   NULL};
	struct rig *r;
	int status;
	pid_t inner;
	char command[100];
	FILE *f;

	(void)state;
	if (system("unshare --user --map-root-user --pid --fork --mount-proc true 2>/dev/null") != 0)
		skip(); /* no user namespaces here */
	r = rig_create_as(argv);
	rig_open(r, 1, "echo ppid $PPID; (setsid sleep 60 &); (sh -c 'sleep 0.1; exit 3' &)", (struct rig_call){0});
	rig_open(r, 2, "trap '' HUP; sleep 60", (struct rig_call){.pty = true, .with_stdin = true});
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "ppid 1\n"));
	snprintf(command, sizeof(command), "pgrep -P %d", (int)r->pid);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%d", &inner), 1);
	pclose(f);
	rig_sleep(r, 300);
	assert_int_equal(children_of(inner, 'Z'), 0);
	kill(inner, SIGTERM);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.cause, EXIT_KILLED);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	r->pid = 0;
	rig_destroy(r);
}

static int run(const char *args)
{
	char command[200];

	snprintf(command, sizeof(command), BUILD_DIR "/muxlet %s >/dev/null 2>&1 </dev/null", args);
	return WEXITSTATUS(system(command));
}

static void bad_arguments_are_said(void **state)
{
	(void)state;
	assert_int_equal(run(""), 64);
	assert_int_equal(run("--listen-fd x --secret-fd 4"), 64);
	assert_int_equal(run("--listen-fd 3"), 64);
	assert_int_equal(run("--join"), 64);
	assert_int_equal(run("--join x --pause"), 64);
	assert_int_equal(run("--join x --listen-fd 3"), 64);
	assert_int_equal(run("--no-such"), 64);
	assert_int_equal(run("--ver --version"), 64); /* --verbose, --version: nobody guesses */
	assert_int_equal(run("--listen-fd 3 --secret-fd 4 extra"), 64);
	assert_int_equal(run("--version"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_before_the_proof),
	    cmocka_unit_test(a_wrong_proof_or_an_old_epoch_is_turned_away),
	    cmocka_unit_test(a_proof_cannot_be_replayed),
	    cmocka_unit_test(silent_strangers_lock_nobody_out),
	    cmocka_unit_test(a_handshake_has_its_time),
	    cmocka_unit_test(a_hub_that_breaks_the_protocol_is_cut_and_programs_live),
	    cmocka_unit_test(more_input_than_the_window_is_refused),
	    cmocka_unit_test(faults_of_one_request_are_errors),
	    cmocka_unit_test(what_was_held_back_is_read_before_the_end),
	    cmocka_unit_test(many_small_writes_are_gathered),
	    cmocka_unit_test(a_forgotten_number_is_free_while_its_program_ends),
	    cmocka_unit_test(unknown_frames_are_skipped_and_critical_ones_are_not),
	    cmocka_unit_test(noise_ends_streams_only),
	    cmocka_unit_test(orphans_are_reaped),
	    cmocka_unit_test(nothing_leaks_over_many_rounds),
	    cmocka_unit_test(programs_cannot_look_into_muxlet),
	    cmocka_unit_test(a_second_term_is_heeded_at_once),
	    cmocka_unit_test(as_the_first_process_of_a_sandbox),
	    cmocka_unit_test(bad_arguments_are_said),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
