// tier: check
/* muxlet --freeze: what runs in a sandbox stands still while the channel lives, and goes on as if nothing had been. */
#include "tests/lib/link_rig.h"

#include <sys/stat.h>

#define FREEZER 99

static char dir[64], file[128]; /* in memory: a sync of this machine's disk would take as long as others write there */

static off_t size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_size;
}

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/dev/shm/muxd-freeze-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/lines", dir);
}

static void end(struct rig *r)
{
	rig_destroy(r);
	unlink(file);
	rmdir(dir);
}

static void ask_for_quiet(struct rig *r, uint64_t timeout_ms)
{
	const char *const argv[] = {"muxlet", "--freeze", dir, NULL};
	struct link_open o = {.channel = FREEZER,
			      .argv = argv,
			      .cwd = "/",
			      .timeout_ms = timeout_ms,
			      .grace_ms = 5000,
			      .self = true,
			      .window = 4096};
	struct err e = {0};

	assert_true(link_has_freeze(r->link));
	assert_int_equal(id_new(&o.session), 0);
	assert_int_equal(link_open(r->link, &o, &e), 0);
}

/* "frozen", or "synced" where somebody could not be stopped. */
static void await_quiet(struct rig *r)
{
	assert_true(
	    rig_until(r, 20000, r->ch[FREEZER].len[1] == 7 || r->ch[FREEZER].exited || r->ch[FREEZER].opened_rc));
	if (r->ch[FREEZER].opened_rc)
		fail_msg("it was not begun: %s", r->ch[FREEZER].opened_why);
	if (r->ch[FREEZER].len[1] != 7)
		fail_msg("it ended: %d %s %s", r->ch[FREEZER].exit.code, r->ch[FREEZER].exit.text,
			 rig_text(r, FREEZER, 2));
}

static void freeze(struct rig *r, uint64_t timeout_ms)
{
	ask_for_quiet(r, timeout_ms);
	await_quiet(r);
	assert_string_equal(rig_text(r, FREEZER, 1), "frozen\n");
}

static uint64_t type(struct rig *r, uint32_t channel, uint64_t at, const char *text)
{
	return rig_type(r, channel, at, text, strlen(text));
}

/* Five looks, none of which sees a byte more. */
static void assert_still(struct rig *r)
{
	off_t was = size_of(file);

	for (int i = 0; i < 5; i++) {
		rig_sleep(r, 60);
		assert_int_equal(size_of(file), was);
	}
}

static void assert_moves(struct rig *r)
{
	off_t was = size_of(file);

	assert_true(rig_until(r, 20000, size_of(file) > was + 20));
}

/*
 * A counter in a shell, one below two more shells, one in a session of its own, and processes that come and go. Each
 * ends by itself, should nobody end it.
 */
static void counters(struct rig *r)
{
	char script[1200];

	snprintf(script, sizeof(script),
		 "c='i=0; while [ $i -lt 5000 ]; do echo $1 $i >>%s; i=$((i+1)); sleep 0.01; done'; sh -c \"$c\" c a & "
		 "sh -c 'sh -c \"$1\" c b & wait' d \"$c\" & "
		 "setsid sh -c \"$c\" c s </dev/null >/dev/null 2>&1 & "
		 "n=0; while [ $n -lt 2000 ]; do n=$((n+1)); sh -c 'sleep 0.01'; done",
		 file);
	rig_open(r, 1, script, (struct rig_call){0});
	assert_moves(r);
}

static void nothing_is_written_until_it_goes_on(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	begin();
	counters(r);
	for (int i = 0; i < 3; i++) { /* one behind the other, without a pause */
		freeze(r, 60000);
		assert_still(r);
		assert_int_equal(link_forget(r->link, FREEZER), 0);
		assert_moves(r);
		free(r->ch[FREEZER].text[1]);
		memset(&r->ch[FREEZER], 0, sizeof(r->ch[FREEZER]));
		rig_break(r); /* a channel's number is used once in a stream's life */
		rig_attach(r);
	}
	end(r);
}

static void it_goes_on_when_its_time_is_over(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	begin();
	counters(r);
	freeze(r, 1500);
	assert_moves(r);
	rig_wait_exit(r, FREEZER);
	assert_int_equal(r->ch[FREEZER].exit.cause, EXIT_TIMEOUT);
	end(r);
}

/* Programs that stand still are not silent, and their time runs out behind the snapshot: a TERM would let them go on.
 */
static void nobodys_time_is_over_meanwhile(void **state)
{
	struct rig *r = rig_create();
	char script[300];
	uint64_t from;

	(void)state;
	begin();
	snprintf(script, sizeof(script),
		 "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo xxxxxxxx | tee -a %s; sleep 0.05; done", file);
	rig_open(r, 1, script, (struct rig_call){.idle_ms = 800});
	rig_open(r, 2, "sleep 100", (struct rig_call){.timeout_ms = 1200});
	rig_open(r, 3, "sleep 100", (struct rig_call){.idle_ms = 1600});
	assert_moves(r);
	freeze(r, 60000);
	rig_sleep(r, 1400);
	assert_still(r);
	for (uint32_t i = 1; i <= 3; i++)
		assert_false(r->ch[i].exited);
	from = clock_boot_ns();
	assert_int_equal(link_forget(r->link, FREEZER), 0);
	rig_wait_exit(r, 2);
	assert_int_equal(r->ch[2].exit.cause, EXIT_TIMEOUT);
	rig_wait_exit(r, 3);
	assert_int_equal(r->ch[3].exit.cause, EXIT_IDLE_TIMEOUT);
	assert_true(clock_boot_ns() - from >= 1500 * NS_PER_MS);
	assert_moves(r);
	assert_false(r->ch[1].exited);
	end(r);
}

/* As the kernel does it for want of memory. */
static void it_goes_on_when_who_holds_it_is_killed(void **state)
{
	struct rig *r = rig_create();
	char command[200];
	int pid = 0;
	FILE *f;

	(void)state;
	begin();
	counters(r);
	freeze(r, 60000);
	snprintf(command, sizeof(command), "pgrep -P %d -f -- --freeze", (int)r->pid);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	pclose(f);
	assert_int_equal(kill(pid, SIGKILL), 0);
	rig_wait_exit(r, FREEZER);
	assert_moves(r);
	end(r);
}

/* The shell must not take its job for one that was stopped by hand. */
static void a_shell_at_a_terminal_sees_nothing_of_it(void **state)
{
	static const char *const bash[] = {"/bin/bash", "--norc", "-i", NULL};
	struct rig *r = rig_create();
	uint64_t at;

	(void)state;
	begin();
	assert_int_equal(rig_open_argv(r, 2, bash, &(struct rig_call){.pty = true}), 0);
	at = type(r, 2, 0, "PS1=\n");
	at = type(r, 2, at, "sh -c 'echo be''gun; sleep 1000; echo no'\n");
	assert_true(rig_until(r, 20000, strstr(rig_text(r, 2, 1), "begun") != NULL));
	freeze(r, 60000);
	assert_int_equal(link_forget(r->link, FREEZER), 0);
	at = type(r, 2, at, "\003");
	at = type(r, 2, at, "echo af''ter; jobs; exit\n");
	rig_wait_exit(r, 2);
	assert_non_null(strstr(rig_text(r, 2, 1), "after"));
	assert_null(strstr(rig_text(r, 2, 1), "Stopped"));
	end(r);
}

/* A job that was stopped before stays so. */
static void a_stopped_job_stays_stopped(void **state)
{
	struct rig *r = rig_create();
	char script[300];

	(void)state;
	begin();
	snprintf(script, sizeof(script),
		 "(i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo xxxxxxxx >>%s; sleep 0.01; done) & kill -STOP $!; "
		 "echo ready; read x; kill -CONT $!; read x",
		 file);
	rig_open(r, 3, script, (struct rig_call){.with_stdin = true});
	assert_true(rig_until(r, 20000, strstr(rig_text(r, 3, 1), "ready") != NULL));
	freeze(r, 60000);
	assert_int_equal(link_forget(r->link, FREEZER), 0);
	assert_still(r);
	(void)type(r, 3, 0, "\n");
	assert_moves(r);
	end(r);
}

/*
 * A machine that gives so little that not everybody stands still in time: then all go on, "synced" is what is said, and
 * the one who said it has ended.
 */
static void end_quiet(struct rig *r)
{
	bool frozen = strcmp(rig_text(r, FREEZER, 1), "frozen\n") == 0;
	int rc = link_kill(r->link, FREEZER, EXIT_KILLED);

	if (frozen || rc != ERR_ENDED)
		assert_int_equal(rc, 0);
	rig_wait_exit(r, FREEZER);
}

/* Nobody is stopped on his way from muxlet to his program: muxlet would wait for him, and hear of nothing any more. */
static void who_begins_meanwhile_does_not_stop_muxlet(void **state)
{
	struct rig *r = rig_create();

	(void)state;
	begin();
	for (int turn = 0; turn < 20; turn++) {
		ask_for_quiet(r, 60000);
		for (uint32_t i = 1; i <= 60; i++)
			rig_open(r, i, "exit 3", (struct rig_call){0});
		await_quiet(r);
		end_quiet(r); /* its number is free again */
		assert_int_equal(link_forget(r->link, FREEZER), 0);
		for (uint32_t i = 1; i <= 60; i++) {
			rig_wait_exit(r, i);
			assert_int_equal(r->ch[i].exit.code, 3);
			assert_int_equal(link_forget(r->link, i), 0);
		}
		for (uint32_t i = 1; i <= FREEZER; i++) {
			free(r->ch[i].text[1]);
			free(r->ch[i].text[2]);
			memset(&r->ch[i], 0, sizeof(r->ch[i]));
		}
		rig_break(r);
		rig_attach(r);
	}
	end(r);
}

/* A program that calls itself what a process on its way from the nursery is called: it is held as all are. */
static void a_name_is_no_excuse(void **state)
{
	static const char *const names[] = {"--nursery", "--freeze"};
	char script[600], self[300];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	struct rig *r;

	(void)state;
	assert_true(n > 0);
	self[n] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		setenv("RIG_NURSERY", "1", 1);
		r = rig_create();
		unsetenv("RIG_NURSERY");
		begin();
		snprintf(script, sizeof(script), "exec >>%s; exec -a muxlet %s %s", file, self, names[i]);
		assert_int_equal(
		    rig_open_argv(r, 1, (const char *const[]){"/bin/bash", "-c", script, NULL}, &(struct rig_call){0}),
		    0);
		assert_moves(r);
		freeze(r, 60000);
		assert_still(r);
		assert_int_equal(link_forget(r->link, FREEZER), 0);
		assert_moves(r);
		end(r);
	}
}

/* That program: ends by itself, should nobody end it. */
static int write_on(void)
{
	for (int i = 0; i < 5000; i++) {
		(void)!write(STDOUT_FILENO, "still here\n", 11);
		usleep(10000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_written_until_it_goes_on),
	    cmocka_unit_test(it_goes_on_when_its_time_is_over),
	    cmocka_unit_test(nobodys_time_is_over_meanwhile),
	    cmocka_unit_test(it_goes_on_when_who_holds_it_is_killed),
	    cmocka_unit_test(a_shell_at_a_terminal_sees_nothing_of_it),
	    cmocka_unit_test(a_stopped_job_stays_stopped),
	    cmocka_unit_test(who_begins_meanwhile_does_not_stop_muxlet),
	    cmocka_unit_test(a_name_is_no_excuse),
	};

	if (strcmp(argv[0], "muxlet") == 0)
		return write_on();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
