// tier: check
/* muxlet --join: what an exec stream of a container gets, from the first that begins the daemon to the last that is
 * cut. */
#include "tests/lib/link_peer.h"

#include "muxd/muxlet/join.h"
#include "tests/lib/patience.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/sha.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

struct name {
	char text[40];
};

static struct name new_name(void)
{
	static int serial;
	struct name n;

	snprintf(n.text, sizeof(n.text), "muxd-test-%d-%d", (int)getpid(), ++serial);
	return n;
}

/* A runtime's profile that refuses filters to everybody: the next execs are under it. */
static bool refusing;

static void refuse_filters(void)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 3, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p, 0, 0))
		_exit(126);
}

/* One exec of the container's runtime: pipes of our own, stderr to nobody. */
struct exec {
	pid_t pid;
	int in, out; /* ours: read from, write to */
};

static struct exec exec_of(const char *const *argv)
{
	int to[2], from[2], null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct exec x;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	x.pid = fork();
	if (x.pid == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		dup2(null, 2);
		if (refusing)
			refuse_filters();
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(null);
	close(to[0]);
	close(from[1]);
	x.in = from[0];
	x.out = to[1];
	return x;
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* `muxlet --pause` waits in sigtimedwait(): before that, a SIGTERM would end it as it ends anybody. */
static void until_it_waits(pid_t pid)
{
	char path[64];
	long number = -1;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)pid);
	for (int i = 0; i < 3000 && number != SYS_rt_sigtimedwait; i++) {
		FILE *f = fopen(path, "r");

		usleep(10000);
		if (!f || fscanf(f, "%ld", &number) != 1)
			number = -1; /* it runs */
		if (f)
			fclose(f);
	}
	assert_int_equal(number, SYS_rt_sigtimedwait);
}

static void say_preamble(struct exec *x, const uint8_t *secret)
{
	uint8_t text[JOIN_MAGIC_LEN + LINK_SECRET_LEN];

	memcpy(text, JOIN_MAGIC, JOIN_MAGIC_LEN);
	memcpy(text + JOIN_MAGIC_LEN, secret, LINK_SECRET_LEN);
	assert_int_equal(write(x->out, text, sizeof(text)), sizeof(text));
}

/* The first line, without its end; "" at the end of the stream. */
static void hear_line(struct exec *x, char *line, size_t size)
{
	size_t n = 0;

	while (n + 1 < size && read(x->in, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
}

static struct exec join(const struct name *name, const uint8_t *secret, const char *daemon)
{
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name->text, "--workdir", "/tmp", NULL};
	struct exec x = exec_of(argv);
	char line[300], want[64];

	say_preamble(&x, secret);
	hear_line(&x, line, sizeof(line));
	snprintf(want, sizeof(want), " daemon=%s ", daemon);
	assert_non_null(strstr(line, "muxlet join=1 version="));
	assert_non_null(strstr(line, want));
	assert_int_equal(strstr(line, " guard=refused") != NULL, refusing);
	return x;
}

/* The processes that were started for names that hold this text; the pid of one of them when there is one left. */
static int holders_like(const char *name, pid_t but, pid_t *out_pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int found = 0;

	while ((e = readdir(dir))) {
		char path[300], text[512] = "";
		size_t n;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !(f = fopen(path, "re")))
			continue;
		n = fread(text, 1, sizeof(text) - 2, f);
		fclose(f);
		for (size_t i = 0; i < n; i++)
			if (!text[i])
				text[i] = ' ';
		strcat(text, " ");
		if (!strstr(text, "muxlet --join ") || !strstr(text, name) || atoi(e->d_name) == but)
			continue;
		found++;
		*out_pid = (pid_t)atoi(e->d_name);
	}
	closedir(dir);
	return found;
}

static int holders_but(const struct name *name, pid_t but, pid_t *out_pid)
{
	return holders_like(name->text, but, out_pid);
}

static int holders(const struct name *name, pid_t *out_pid)
{
	return holders_but(name, 0, out_pid);
}

/*
 * A daemon in a container of its own never leaves: the container's end is its end, and a test has none. So a process
 * that the test's end wakes, whatever that end was, ends the daemons of its names.
 */
static void watch_over_daemons(void)
{
	char names[32], byte;
	int alive[2];
	pid_t pid;

	snprintf(names, sizeof(names), "muxd-test-%d-", (int)getpid());
	assert_int_equal(pipe2(alive, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid > 0) {
		close(alive[0]); /* alive[1] is closed by the kernel */
		return;
	}
	(void)setsid(); /* what ends the test's group does not end this */
	for (int fd = 0; fd < alive[1]; fd++)
		if (fd != alive[0])
			close(fd);
	(void)close_range((unsigned)alive[1], ~0U, 0);
	(void)!read(alive[0], &byte, 1);
	while (holders_like(names, 0, &pid))
		kill(pid, SIGKILL);
	_exit(0);
}

static pid_t daemon_of(const struct name *name, pid_t exec)
{
	pid_t pid = 0;

	assert_int_equal(holders_but(name, exec, &pid), 1);
	return pid;
}

#define until(condition)                                                                                               \
	({                                                                                                             \
		struct patience left_ = patience_of(30 * NS_PER_SEC);                                                  \
		bool is_;                                                                                              \
		while (!(is_ = (condition)) && !patience_over(&left_))                                                 \
			usleep(10000);                                                                                 \
		is_;                                                                                                   \
	})

static void end_daemon(const struct name *name)
{
	pid_t pid = 0;

	assert_true(until(holders(name, &pid) == 1));
	kill(pid, SIGTERM);
	assert_true(until(holders(name, &pid) == 0));
}

static void hang_up(struct exec *x)
{
	close(x->in);
	close(x->out);
	(void)status_of(x->pid);
}

/* Somebody kills the test: its daemons end, too. */
static void nothing_outlives_the_test(void **state)
{
	char names[32];
	pid_t test, pid;

	(void)state;
	test = fork();
	if (test == 0) {
		struct name name = new_name();
		uint8_t secret[LINK_SECRET_LEN] = {1};

		watch_over_daemons();
		(void)join(&name, secret, "started");
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(status_of(test), 1000 + SIGKILL);
	snprintf(names, sizeof(names), "muxd-test-%d-", (int)test);
	assert_true(until(holders_like(names, 0, &pid) == 0));
}

static void programs_outlive_the_exec_that_began_them(void **state)
{
	struct frame resume = {.type = FRAME_RESUME, .channel = 1, .u.resume = {{0, 2, 0}, 1000}}, f;
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	char gate[120], program[400];
	struct exec first, second;
	struct peer *p;

	(void)state;
	random_bytes(secret, sizeof(secret));
	first = join(&name, secret, "started");
	p = up(first.in, first.out, secret, 1);
	hear_of(p, FRAME_LISTED);
	(void)snprintf(gate, sizeof(gate), "/tmp/%s.gate", name.text);
	(void)snprintf(program, sizeof(program), "echo 1; until [ -e %s ]; do sleep 0.05; done; rm %s; echo 2; exit 5",
		       gate, gate);
	say_open(p, 1, program, 0);
	f = hear_of(p, FRAME_DATA);
	assert_int_equal(f.n, 2);
	peer_close(p); /* the exec stream is cut; the program and muxlet go on, and the exec itself ends */
	(void)status_of(first.pid);
	assert_return_code(close(open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), errno);
	second = join(&name, secret, "running");
	p = up(second.in, second.out, secret, 2);
	assert_int_equal(hear_of(p, FRAME_LIST).channel, 1);
	hear_of(p, FRAME_LISTED);
	say(p, &resume);
	f = hear_of(p, FRAME_DATA);
	assert_int_equal(f.offset, 2);
	assert_memory_equal(f.p, "2\n", 2);
	assert_int_equal(hear_of(p, FRAME_EXIT).u.exit.code, 5);
	peer_close(p);
	(void)status_of(second.pid);
	end_daemon(&name);
}

static void the_daemon_holds_nothing_of_the_exec(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN], byte;
	struct exec x;

	(void)state;
	random_bytes(secret, sizeof(secret));
	x = join(&name, secret, "started");
	kill(x.pid, SIGKILL);
	assert_int_equal(status_of(x.pid), 1000 + SIGKILL);
	assert_int_equal(read(x.in, &byte, 1), 0); /* at once: nobody else has the other end */
	close(x.in);
	close(x.out);
	end_daemon(&name);
}

static void a_newer_stream_ends_the_older_exec(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	struct exec first, second;
	struct peer *p, *q;

	(void)state;
	random_bytes(secret, sizeof(secret));
	first = join(&name, secret, "started");
	p = up(first.in, first.out, secret, 7);
	hear_of(p, FRAME_LISTED);
	second = join(&name, secret, "running");
	q = up(second.in, second.out, secret, 8);
	hear_of(q, FRAME_LISTED);
	goodbye_with(p, CODE_STALE);
	assert_int_equal(status_of(first.pid), 0); /* though nobody closed its stdin */
	peer_close(p);
	peer_close(q);
	(void)status_of(second.pid);
	end_daemon(&name);
}

static void a_hundred_at_once_begin_one(void **state)
{
	enum { COUNT = 100 };
	struct name name = new_name();
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name.text, NULL};
	uint8_t secret[LINK_SECRET_LEN];
	struct exec x[COUNT];
	int started = 0;
	pid_t pid;

	(void)state;
	random_bytes(secret, sizeof(secret));
	for (int i = 0; i < COUNT; i++)
		x[i] = exec_of(argv);
	for (int i = 0; i < COUNT; i++)
		say_preamble(&x[i], secret);
	for (int i = 0; i < COUNT; i++) {
		char line[300];

		hear_line(&x[i], line, sizeof(line));
		assert_non_null(strstr(line, "muxlet join=1 "));
		started += strstr(line, "daemon=started") != NULL;
	}
	assert_int_equal(started, 1);
	for (int i = 0; i < COUNT; i++)
		hang_up(&x[i]);
	assert_true(until(holders(&name, &pid) == 1));
	end_daemon(&name);
}

static void an_exec_that_is_cut_leaves_no_process(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	struct exec x;
	pid_t pid;

	(void)state;
	random_bytes(secret, sizeof(secret));
	for (int i = 0; i < 50; i++) {
		x = join(&name, secret, i ? "running" : "started");
		if (i % 3 == 0)
			close(x.out); /* stdin ends, as at a disconnect */
		else if (i % 3 == 1)
			close(x.in); /* nobody reads any more */
		else
			close(x.in), close(x.out);
		(void)status_of(x.pid);
		if (i % 3 == 0)
			close(x.in);
		else if (i % 3 == 1)
			close(x.out);
	}
	assert_int_equal(holders(&name, &pid), 1);
	end_daemon(&name);
}

/* Somebody stalls: stdout is full and nobody reads it. The end of muxlet ends the exec all the same. */
static void a_stalled_exec_ends_with_its_muxlet(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	struct exec x;
	struct peer *p;
	pid_t pid;

	(void)state;
	random_bytes(secret, sizeof(secret));
	x = join(&name, secret, "started");
	p = up(x.in, x.out, secret, 1);
	hear_of(p, FRAME_LISTED);
	say_open(p, 1, "head -c 1000000 /dev/zero; sleep 5", 0);
	say(p, &(struct frame){.type = FRAME_WINDOW, .channel = 1, .stream = 1, .offset = 1000000});
	assert_int_equal(hear_of(p, FRAME_OPENED).channel, 1);
	usleep(300000); /* the pipe fills: it holds 64 KiB */
	pid = daemon_of(&name, x.pid);
	kill(pid, SIGKILL);
	assert_int_equal(status_of(x.pid), 1);
	peer_close(p);
	assert_true(until(holders(&name, &pid) == 0));
}

static void bad_beginnings_are_said(void **state)
{
	struct name name = new_name();
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name.text, NULL};
	struct exec x;
	pid_t pid;

	(void)state;
	x = exec_of(argv);
	close(x.out);
	assert_int_equal(status_of(x.pid), 65);
	close(x.in);
	x = exec_of(argv);
	assert_int_equal(write(x.out, "MUXJOIN\x02 but then something else altogether", 40), 40);
	assert_int_equal(status_of(x.pid), 65);
	close(x.in);
	close(x.out);
	assert_int_equal(holders(&name, &pid), 0);
}

static int bind_abstract(const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, name, strlen(name));
	if (bind(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) ||
	    listen(fd, 4))
		return -1;
	return fd;
}

static int dial_abstract(const char *name)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, name, strlen(name));
	if (connect(fd, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))))
		return -1;
	return fd;
}

static void a_name_of_another_user_is_refused(void **state)
{
	struct name name = new_name();
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name.text, NULL};
	uint8_t secret[LINK_SECRET_LEN] = {1};
	struct exec x;
	int ready[2];
	pid_t other;
	char byte;

	(void)state;
	if (getuid() != 0)
		skip();
	assert_int_equal(pipe(ready), 0);
	other = fork();
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setuid(65534) || bind_abstract(name.text) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	x = exec_of(argv);
	say_preamble(&x, secret);
	assert_int_equal(status_of(x.pid), 77);
	close(x.in);
	close(x.out);
	kill(other, SIGKILL);
	(void)status_of(other);
	close(ready[0]);
	close(ready[1]);
}

static void another_user_is_not_spoken_to(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN] = {1};
	struct exec x;
	pid_t other;

	(void)state;
	if (getuid() != 0)
		skip();
	x = join(&name, secret, "started");
	other = fork();
	if (other == 0) {
		char byte;
		int fd;

		if (setuid(65534) || (fd = dial_abstract(name.text)) < 0)
			_exit(1);
		_exit(read(fd, &byte, 1) == 0 ? 0 : 2); /* closed without a word */
	}
	assert_int_equal(status_of(other), 0);
	hang_up(&x);
	end_daemon(&name);
}

static void it_leaves_when_nobody_needs_it(void **state)
{
	struct name name = new_name();
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name.text, "--leave", "1",
				    "--workdir",         "/tmp",   NULL};
	uint8_t secret[LINK_SECRET_LEN] = {1};
	struct exec x = exec_of(argv);
	char line[300];
	struct peer *p;
	pid_t pid;

	(void)state;
	say_preamble(&x, secret);
	hear_line(&x, line, sizeof(line));
	p = up(x.in, x.out, secret, 1);
	hear_of(p, FRAME_LISTED);
	say_open(p, 1, "sleep 3", 0);
	hear_of(p, FRAME_OPENED);
	usleep(2500000);
	assert_int_equal(holders(&name, &pid), 2); /* there is a hub */
	assert_int_equal(hear_of(p, FRAME_EXIT).u.exit.code, 0);
	say(p, &(struct frame){.type = FRAME_FORGET, .channel = 1});
	say(p, &(struct frame){.type = FRAME_PING, .offset = 1});
	hear_of(p, FRAME_PONG);
	peer_close(p);
	(void)status_of(x.pid);
	assert_true(until(holders(&name, &pid) == 0));
}

static void it_knows_its_own_digest(void **state)
{
	char hex[2 * SHA256_DIGEST_LENGTH + 1], command[400];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct stat st;
	FILE *f = fopen(BUILD_DIR "/muxlet", "rb");
	uint8_t *bytes;

	(void)state;
	assert_non_null(f);
	assert_int_equal(fstat(fileno(f), &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_int_equal(fread(bytes, 1, (size_t)st.st_size, f), st.st_size);
	fclose(f);
	SHA256(bytes, (size_t)st.st_size, digest);
	free(bytes);
	for (int i = 0; i < SHA256_DIGEST_LENGTH; i++)
		sprintf(hex + 2 * i, "%02x", digest[i]);
	snprintf(command, sizeof(command), BUILD_DIR "/muxlet --check %s", hex);
	assert_int_equal(WEXITSTATUS(system(command)), 0);
	hex[0] = hex[0] == 'a' ? 'b' : 'a';
	snprintf(command, sizeof(command), BUILD_DIR "/muxlet --check %s", hex);
	assert_int_equal(WEXITSTATUS(system(command)), 1);
}

static void it_installs_itself(void **state)
{
	char dir[] = "/tmp/muxd-install-XXXXXX", command[300];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(command, sizeof(command), BUILD_DIR "/muxlet --install %s/muxlet", dir);
	assert_int_equal(WEXITSTATUS(system(command)), 0);
	assert_int_equal(WEXITSTATUS(system(command)), 0); /* again, over the one that is there */
	snprintf(command, sizeof(command), "cmp " BUILD_DIR "/muxlet %s/muxlet && test \"$(ls %s)\" = muxlet", dir,
		 dir);
	assert_int_equal(WEXITSTATUS(system(command)), 0);
	snprintf(command, sizeof(command), "%s/muxlet", dir);
	assert_int_equal(stat(command, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_int_equal(WEXITSTATUS(system(BUILD_DIR "/muxlet --install /no/such/dir/muxlet 2>/dev/null")), 71);
	unlink(command);
	rmdir(dir);
}

static void it_holds_a_container(void **state)
{
	const char *const argv[] = {BUILD_DIR "/muxlet", "--pause", NULL};
	struct exec x = exec_of(argv);

	(void)state;
	until_it_waits(x.pid);
	assert_int_equal(waitpid(x.pid, NULL, WNOHANG), 0);
	kill(x.pid, SIGCHLD);
	usleep(100000);
	assert_int_equal(waitpid(x.pid, NULL, WNOHANG), 0);
	kill(x.pid, SIGTERM);
	assert_int_equal(status_of(x.pid), 0);
	close(x.in);
	close(x.out);
}

/* As process 1 of a pod: what runs inside cannot end it, and so the pod, for who else works there. */
static void it_holds_against_who_is_inside(void **state)
{
	const char *const argv[] = {"/usr/bin/unshare", "--pid", "--fork", BUILD_DIR "/muxlet", "--pause", NULL};
	char command[200];
	int first = 0;
	struct exec x;
	FILE *f;

	(void)state;
	if (geteuid() != 0)
		skip();
	x = exec_of(argv);
	for (int i = 0; i < 100 && first == 0; i++) {
		usleep(20000);
		snprintf(command, sizeof(command), "/proc/%d/task/%d/children", (int)x.pid, (int)x.pid);
		f = fopen(command, "r");
		if (f && fscanf(f, "%d", &first) != 1)
			first = 0;
		if (f)
			fclose(f);
	}
	assert_true(first > 0);
	until_it_waits(first); /* it is muxlet */
	snprintf(command, sizeof(command), "nsenter -t %d -p sh -c 'kill -TERM 1; kill -INT 1; kill -CHLD 1'", first);
	assert_int_equal(system(command), 0);
	usleep(200000);
	assert_int_equal(waitpid(x.pid, NULL, WNOHANG), 0);
	kill(first, SIGTERM);
	assert_int_equal(status_of(x.pid), 0);
	close(x.in);
	close(x.out);
}

/* The hub's own link over the exec, with bulk in both directions. */
static void where_filters_are_refused_programs_run_without(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	struct exec x;
	struct frame f;
	struct peer *p;

	(void)state;
	random_bytes(secret, sizeof(secret));
	refusing = true;
	x = join(&name, secret, "started");
	refusing = false;
	p = up(x.in, x.out, secret, 1);
	hear_of(p, FRAME_LISTED);
	say_open(p, 1, "exit 5", 0);
	f = hear_of(p, FRAME_EXIT);
	assert_int_equal(f.u.exit.cause, CAUSE_EXITED);
	assert_int_equal(f.u.exit.code, 5);
	peer_close(p);
	(void)status_of(x.pid);
	end_daemon(&name);
}

/* A program that dials muxlet again and again, and holds what it got, is of the same user: the next stream of the hub's
 * comes up all the same. */
/* Until so much output came, in however many frames. */
static void hear_bytes(struct peer *p, size_t n)
{
	for (size_t have = 0; have < n;)
		have += hear_of(p, FRAME_DATA).n;
}

static void programs_inside_lock_nobody_out(void **state)
{
	struct name name = new_name();
	uint8_t secret[LINK_SECRET_LEN];
	char flood[600];
	struct exec x;
	struct peer *p;

	(void)state;
	random_bytes(secret, sizeof(secret));
	x = join(&name, secret, "started");
	p = up(x.in, x.out, secret, 1);
	hear_of(p, FRAME_LISTED);
	snprintf(flood, sizeof(flood),
		 "echo on; exec /usr/bin/python3 -c \"\nimport socket\nheld = []\nwhile True:\n s = "
		 "socket.socket(socket.AF_UNIX)\n try: s.connect('\\0%s')\n except OSError: pass\n held.append(s)\n if "
		 "len(held) == 3: print('full', flush=True)\n if len(held) > 200: held.pop(0).close()\n\"",
		 name.text);
	say_open(p, 1, flood, 0);
	hear_bytes(p, strlen("on\nfull\n")); /* it is at it */
	peer_close(p);
	(void)status_of(x.pid);
	for (uint64_t epoch = 2; epoch < 6; epoch++) {
		x = join(&name, secret, "running");
		p = up(x.in, x.out, secret, epoch);
		assert_int_equal(hear_of(p, FRAME_LIST).channel, 1);
		hear_of(p, FRAME_LISTED);
		peer_close(p);
		(void)status_of(x.pid);
	}
	end_daemon(&name);
}

static void a_link_carries_bulk_both_ways(void **state)
{
	enum { BULK = 8 * 1024 * 1024 };
	struct name name = new_name();
	struct rig *r = calloc(1, sizeof(*r));
	const char *const argv[] = {BUILD_DIR "/muxlet", "--join", name.text, "--workdir", "/tmp", NULL};
	uint8_t *bulk = malloc(BULK);
	struct exec x = {0};
	char line[300];
	int pair[2];

	(void)state;
	assert_int_equal(uv_loop_init(&r->loop), 0);
	uv_timer_init(&r->loop, &r->timer);
	r->timer.data = r;
	random_bytes(r->secret, sizeof(r->secret));
	random_bytes(bulk, BULK);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	x.pid = fork();
	if (x.pid == 0) {
		dup2(pair[1], 0);
		dup2(pair[1], 1);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(pair[1]);
	x.in = x.out = pair[0];
	say_preamble(&x, r->secret);
	hear_line(&x, line, sizeof(line));
	rig_new_link(r);
	assert_int_equal(link_attach(r->link, pair[0], 1), 0);
	assert_true(rig_until(r, 5000, r->ups));
	rig_open(r, 1, "cat", (struct rig_call){.with_stdin = true});
	assert_int_equal(rig_type(r, 1, 0, bulk, BULK), BULK);
	assert_int_equal(link_input_eof(r->link, 1, BULK), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], BULK);
	assert_memory_equal(r->ch[1].text[1], bulk, BULK);
	r->pid = 0;
	rig_destroy(r);
	(void)status_of(x.pid);
	end_daemon(&name);
	free(bulk);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_outlives_the_test),
	    cmocka_unit_test(programs_outlive_the_exec_that_began_them),
	    cmocka_unit_test(the_daemon_holds_nothing_of_the_exec),
	    cmocka_unit_test(a_newer_stream_ends_the_older_exec),
	    cmocka_unit_test(a_hundred_at_once_begin_one),
	    cmocka_unit_test(an_exec_that_is_cut_leaves_no_process),
	    cmocka_unit_test(a_stalled_exec_ends_with_its_muxlet),
	    cmocka_unit_test(bad_beginnings_are_said),
	    cmocka_unit_test(a_name_of_another_user_is_refused),
	    cmocka_unit_test(another_user_is_not_spoken_to),
	    cmocka_unit_test(it_leaves_when_nobody_needs_it),
	    cmocka_unit_test(it_knows_its_own_digest),
	    cmocka_unit_test(it_installs_itself),
	    cmocka_unit_test(it_holds_a_container),
	    cmocka_unit_test(it_holds_against_who_is_inside),
	    cmocka_unit_test(where_filters_are_refused_programs_run_without),
	    cmocka_unit_test(programs_inside_lock_nobody_out),
	    cmocka_unit_test(a_link_carries_bulk_both_ways),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	watch_over_daemons();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
