/*
 * Local sandboxes for real: bubblewrap, a loop-mounted workspace, control groups.
 *
 * Needs root (for the parts that only root can do; the mode without root is
 * tried as another uid). The program is its own muxlet: bound into the sandbox
 * and started there with --listen-fd it runs one shell line per connection.
 */
#include "control/local/found.h"
#include "control/local/local.h"
#include "muxd/base/clock.h"
#include "muxd/base/conf.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (UINT64_C(1) << 20)

/* --- the muxlet of these tests --- */

static void serve_one(int fd)
{
	char line[8192];
	size_t n = 0;

	while (n + 1 < sizeof(line) && read(fd, line + n, 1) == 1 && line[n] != '\n')
		n++;
	line[n] = '\0';
	signal(SIGCHLD, SIG_DFL);
	dup2(fd, 1);
	dup2(fd, 2);
	close(fd);
	close(3);
	execl("/bin/sh", "sh", "-c", line, (char *)NULL);
	_exit(127);
}

static int agent_main(void)
{
	unsigned char secret[32];

	if (read(4, secret, sizeof(secret)) != (ssize_t)sizeof(secret))
		return 1;
	close(4);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int fd = accept(3, NULL, NULL);

		if (fd < 0)
			continue;
		if (fork() == 0)
			serve_one(fd);
		close(fd);
	}
}

/* --- helpers --- */

static char self_path[4096];
static char top[64];
/* Of this run alone: other daemons of this host have sandboxes, too. */
static char instance[32];
static unsigned uid_base;
static uint32_t pids_max = 40;

struct box {
	struct local *l;
	struct conf c;
	char *dir;
};

/* One shell line in the sandbox behind fd; all it printed. */
static char *ask_fd(int fd, const char *line)
{
	static char out[1 << 16];
	size_t n = 0;
	ssize_t got;

	assert_true(write(fd, line, strlen(line)) == (ssize_t)strlen(line));
	assert_true(write(fd, "\n", 1) == 1);
	while (n + 1 < sizeof(out)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		assert_true(poll(&p, 1, 60000) == 1);
		got = read(fd, out + n, sizeof(out) - 1 - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	out[n] = '\0';
	close(fd);
	return out;
}

static char *ask(struct box *b, const char *agent, const char *line)
{
	struct sandbox_info info;
	struct err e = {0};
	int fd = -1;

	if (local_ensure(b->l, agent, &info, &fd, &e) != 0)
		fail_msg("ensure %s: %s", agent, e.message);
	assert_int_equal(info.state, SANDBOX_RUNNING);
	return ask_fd(fd, line);
}

static void box_conf(struct conf *c)
{
	static char none[] = "";

	memset(c, 0, sizeof(*c));
	c->workspace_size = 16 * MIB;
	c->memory_max = 96 * MIB;
	c->pids_max = pids_max;
	c->cpu_milli = 1500;
	c->sandbox_shell = none;
	c->sandbox_create_timeout_ns = 20 * NS_PER_SEC;
	c->sandbox_uid_base = uid_base;
}

static struct local *box_local(struct box *b, bool root)
{
	struct local_params p = {.state_dir = b->dir, .muxlet_path = self_path, .instance = instance, .root = root};
	struct local *l = NULL;
	struct err e = {0};

	if (local_create(&p, &b->c, &l, &e) != 0)
		fail_msg("local_create: %s: %s", err_name(e.code), e.message);
	return l;
}

static char real_self[sizeof(self_path)];
static bool current; /* a test has sandboxes in left_dir */
static char left_dir[512];

static void box_open(struct box *b, const char *name)
{
	assert_true(asprintf(&b->dir, "%s/%s", top, name) > 0);
	assert_int_equal(mkdir(b->dir, 0711), 0);
	snprintf(left_dir, sizeof(left_dir), "%s", b->dir);
	current = true;
	box_conf(&b->c);
	b->l = box_local(b, true);
}

static void box_wipe(struct box *b)
{
	struct sandbox_info *list;
	struct err e = {0};
	size_t n;

	assert_int_equal(local_list(b->l, &list, &n, &e), 0);
	for (size_t i = 0; i < n; i++)
		if (local_destroy_sandbox(b->l, list[i].agent, true, &e) != 0)
			fail_msg("destroy %s: %s", list[i].agent, e.message);
	free(list);
	local_destroy(b->l);
	free(b->dir);
	current = false;
}

/* A test that failed leaves its sandboxes to this, not to the tests after it. */
static int box_leftover(void **state)
{
	struct local *l = NULL;
	struct err e = {0};

	(void)state;
	memcpy(self_path, real_self, sizeof(self_path));
	pids_max = 40;
	if (current) {
		struct box b = {.dir = left_dir};

		box_conf(&b.c);
		l = box_local(&b, true);
		if (local_destroy_all(l, &e) != 0)
			print_message("cannot clean up: %s\n", e.message);
		local_destroy(l);
		current = false;
	}
	return 0;
}

/* How many lines of a host command's output; for what must not be left. */
static int host_count(const char *command)
{
	char line[512];
	int n = 0;
	FILE *f = popen(command, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		print_message("left: %s", line);
		n++;
	}
	pclose(f);
	return n;
}

static void assert_nothing_left(void)
{
	char command[256];

	/* Backing files by path: other programs on this host have loop devices, too. */
	snprintf(command, sizeof(command), "cat /sys/block/loop*/loop/backing_file 2>/dev/null | grep -F '%s'", top);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "grep -F '%s' /proc/mounts", top);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "find /sys/fs/cgroup -type d -path '*muxd-%s*' 2>/dev/null", instance);
	assert_int_equal(host_count(command), 0);
	snprintf(command, sizeof(command), "ps -eo uid,pid,stat,comm | awk '$1 >= %u && $1 < %u && $3 !~ /Z/'",
		 uid_base, uid_base + 100);
	assert_int_equal(host_count(command), 0);
}

static bool has(const char *text, const char *part)
{
	if (strstr(text, part))
		return true;
	print_message("no '%s' in: %s\n", part, text);
	return false;
}

/* --- tests --- */

static void test_who_and_where(void **state)
{
	struct box b;
	char *o;

	(void)state;
	box_open(&b, "who");
	o = ask(&b, "demo", "id; whoami; hostname; pwd; echo $HOME; tty; touch f && stat -c %U:%a f; echo pid $PPID");
	assert_true(
	    has(o, "uid=1000(agent) gid=1000(agent) groups=1000(agent)\nagent\ndemo\n/workspace\n/workspace\n"));
	assert_true(has(o, "agent:644\n"));
	assert_true(has(o, "pid 1\n"));
	o = ask(&b, "demo", "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status");
	assert_true(has(o, "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
			   "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"));
	o = ask(&b, "demo", "ulimit -c; ulimit -n");
	assert_true(has(o, "0\n4096\n"));
	o = ask(&b, "demo", "env | sort");
	assert_true(has(o, "HOME=/workspace\nLANG=C.UTF-8\nLOGNAME=agent\n"));
	box_wipe(&b);
	assert_nothing_left();
}

static void test_nothing_of_the_host(void **state)
{
	struct box b;
	char line[512];
	char *o;

	(void)state;
	box_open(&b, "host");
	o = ask(&b, "demo", "ls -A /; echo --; ls -A /run /tmp /var /var/tmp; ls /home /root /boot /sys /opt");
	assert_true(has(o, ".muxlet\n"));
	assert_true(has(o, "'/home': No such file"));
	assert_true(has(o, "'/root': No such file"));
	assert_true(has(o, "'/sys': No such file"));
	snprintf(line, sizeof(line), "ls %s; ls /etc/shadow /etc/ssh /etc/sudoers; cat /etc/hosts", b.dir);
	o = ask(&b, "demo", line);
	assert_true(has(o, "No such file"));
	assert_true(has(o, "'/etc/shadow': No such file"));
	assert_true(has(o, "127.0.1.1 demo\n"));
	/* Processes: only its own. */
	o = ask(&b, "demo", "ls /proc | grep -c '^[0-9]'");
	assert_true(atoi(o) <= 5);
	/* Descriptors of process 1 seen from outside are checked below; inside, a child has just its own. */
	o = ask(&b, "demo",
		"for f in /proc/self/fd/*; do readlink $f; done | grep -v -e '^/dev/null$' -e ^socket: -e ^/proc/ -e "
		"^pipe:");
	assert_string_equal(o, "");
	/* Read-only but where it may write. */
	o = ask(&b, "demo", "for d in / /usr /etc /dev /run /var /.muxlet; do touch $d/x 2>/dev/null && echo $d; done");
	assert_string_equal(o, "/run\n");
	o = ask(&b, "demo", "touch /workspace/x /tmp/x /var/tmp/x /dev/shm/x && echo fine");
	assert_string_equal(o, "fine\n");
	box_wipe(&b);
}

static void test_descriptors_from_outside(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char path[64], link[256];
	int fd, more = 0;
	DIR *d;

	(void)state;
	box_open(&b, "fds");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), 0);
	close(fd);
	snprintf(path, sizeof(path), "/proc/%d/fd", info.pid);
	d = opendir(path);
	assert_non_null(d);
	for (struct dirent *de; (de = readdir(d));) {
		ssize_t n = readlinkat(dirfd(d), de->d_name, link, sizeof(link) - 1);

		if (n <= 0)
			continue;
		link[n] = '\0';
		/* 0, 1: null; 2: the pipe of errors; 3: the listener; 5 and up: connections it took */
		if (strcmp(link, "/dev/null") != 0 && strncmp(link, "socket:", 7) != 0 &&
		    strncmp(link, "pipe:", 5) != 0) {
			print_message("fd %s -> %s\n", de->d_name, link);
			more++;
		}
	}
	closedir(d);
	assert_int_equal(more, 0);
	box_wipe(&b);
}

static void test_no_network(void **state)
{
	struct box b;
	char *o;

	(void)state;
	box_open(&b, "net");
	o = ask(&b, "demo", "cat /proc/net/route /proc/net/dev | grep -v -e Iface -e Inter -e face");
	assert_true(strstr(o, "lo:") && !strchr(strchr(o, '\n') + 1, '\n'));
	o = ask(&b, "demo", "bash -c 'echo > /dev/tcp/192.0.2.1/80' 2>&1; bash -c 'echo > /dev/tcp/127.0.0.1/22' 2>&1");
	assert_true(has(o, "Network is unreachable"));
	assert_true(has(o, "Connection refused"));
	box_wipe(&b);
}

static void test_workspace_cap(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char *o;
	int fd;

	(void)state;
	box_open(&b, "cap");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), 0);
	close(fd);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	assert_null(strstr(info.detail, "cap"));
	o = ask(&b, "demo", "head -c 8M /dev/zero > a && echo eight; head -c 16M /dev/zero > b; stat -c %s b");
	assert_true(has(o, "eight\n"));
	assert_true(has(o, "No space left on device"));
	/* Room again after deleting, and the sparse file gives it back to the host. */
	o = ask(&b, "demo", "rm a b; head -c 8M /dev/zero > a && echo again; ls -A");
	assert_string_equal(o, "again\na\n");
	box_wipe(&b);
	assert_nothing_left();
}

static void test_memory_and_pids(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char *o;

	(void)state;
	box_open(&b, "limits");
	o = ask(&b, "demo", "head -c 300M /dev/zero | tail -c 250M | wc -c; echo alive");
	assert_true(has(o, "alive\n"));
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_RUNNING);
	if (info.memory_enforced) {
		assert_true(info.oom_kills >= 1);
		assert_null(strstr(o, "262144000"));
	} else {
		print_message("SKIP memory: %s\n", info.detail);
	}
	if (info.pids_enforced) {
		o = ask(&b, "demo", "for i in $(seq 100); do sleep 20 & done 2>&1 | tail -1; exit");
		assert_true(has(o, "ork"));
	} else {
		print_message("SKIP pids: %s\n", info.detail);
	}
	box_wipe(&b);
	assert_nothing_left();
}

static void test_privileges_do_not_come_back(void **state)
{
	struct box b;
	char *o;

	(void)state;
	box_open(&b, "priv");
	o = ask(&b, "demo",
		"unshare -U true && echo made; unshare -n true && echo made; mount -t tmpfs x /tmp && echo mounted; :");
	assert_null(strstr(o, "made"));
	assert_null(strstr(o, "mounted"));
	o = ask(&b, "demo",
		"for p in su mount passwd newgrp; do f=$(command -v $p); [ -u \"$f\" ] && echo $f; done | head -1");
	if (*o)
		o = ask(&b, "demo", "cp /usr/bin/id . && chmod u+s id && ./id -u; su -c id root </dev/null 2>&1; :");
	assert_null(strstr(o, "uid=0"));
	/* Python has the raw calls. */
	o = ask(&b, "demo",
		"python3 -c 'import ctypes,socket,fcntl,errno; "
		"l=ctypes.CDLL(None,use_errno=True); r=[]; "
		"r.append((l.syscall(250,0,0,0),ctypes.get_errno())); "     /* keyctl */
		"r.append((l.syscall(321,0,0,0),ctypes.get_errno())); "     /* bpf */
		"r.append((l.syscall(425,1,0),ctypes.get_errno())); "       /* io_uring_setup */
		"r.append((l.syscall(435,0,0),ctypes.get_errno())); "       /* clone3 */
		"r.append((l.syscall(41,40,1,0),ctypes.get_errno())); "     /* AF_VSOCK */
		"r.append((l.syscall(16,0,0x5412,0),ctypes.get_errno())); " /* TIOCSTI */
		"r.append((l.syscall(16,0,0x100005412,0),ctypes.get_errno())); "
		"print(r)'");
#ifdef __x86_64__
	if (strstr(o, "not found") || strstr(o, "ModuleNotFound"))
		print_message("SKIP raw calls: no python3 with ctypes\n");
	else
		assert_string_equal(o, "[(-1, 1), (-1, 1), (-1, 38), (-1, 38), (-1, 97), (-1, 1), (-1, 1)]\n");
#endif
	box_wipe(&b);
}

static void test_found_again(void **state)
{
	struct sandbox_info before, after;
	struct err e = {0};
	struct box b;
	char *o;
	int fd;

	(void)state;
	box_open(&b, "again");
	ask(&b, "demo", "echo kept > file; (setsid sleep 300 >/dev/null 2>&1 </dev/null & )");
	assert_int_equal(local_stat(b.l, "demo", &before, &e), 0);
	local_destroy(b.l);
	b.l = box_local(&b, true);
	assert_int_equal(local_connect(b.l, "demo", &after, &fd, &e), 0);
	o = ask_fd(fd, "cat file; ls /proc | grep '^[0-9]' | xargs -I% cat /proc/%/comm 2>/dev/null | grep -c sleep");
	assert_string_equal(o, "kept\n1\n");
	assert_true(id_equal(&before.sandbox_id, &after.sandbox_id));
	assert_int_equal(before.pid, after.pid);
	assert_memory_equal(before.secret, after.secret, sizeof(before.secret));
	assert_true(after.epoch > before.epoch);
	assert_true(after.cap_enforced == before.cap_enforced && after.pids_enforced == before.pids_enforced);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_killed_and_made_anew(void **state)
{
	struct sandbox_info first, now, second;
	struct err e = {0};
	struct box b;
	int fd;

	(void)state;
	box_open(&b, "kill");
	assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
	assert_int_equal(now.state, SANDBOX_ABSENT);
	assert_int_equal(local_connect(b.l, "demo", &now, &fd, &e), ERR_NOT_FOUND);
	ask(&b, "demo", "echo survives > file");
	assert_int_equal(local_stat(b.l, "demo", &first, &e), 0);
	assert_int_equal(kill(first.pid, SIGKILL), 0);
	for (int i = 0; i < 500; i++) {
		assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
		if (now.state != SANDBOX_RUNNING)
			break;
		usleep(2000);
	}
	assert_int_equal(now.state, SANDBOX_STOPPED);
	assert_int_equal(local_connect(b.l, "demo", &now, &fd, &e), ERR_NOT_FOUND);
	assert_string_equal(ask(&b, "demo", "cat file"), "survives\n");
	assert_int_equal(local_stat(b.l, "demo", &second, &e), 0);
	assert_false(id_equal(&first.sandbox_id, &second.sandbox_id));
	assert_memory_not_equal(first.secret, second.secret, sizeof(first.secret));
	/* Ended on purpose: the same, and twice is no error. */
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	assert_nothing_left();
	assert_string_equal(ask(&b, "demo", "cat file"), "survives\n");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	assert_int_equal(local_stat(b.l, "demo", &now, &e), 0);
	assert_int_equal(now.state, SANDBOX_ABSENT);
	assert_true(strstr(ask(&b, "demo", "cat file"), "No such file") != NULL);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_names(void **state)
{
	static const struct {
		const char *agent;
		int rc;
	} rows[] = {{"default/pod-1", ERR_UNSUPPORTED},
		    {"..", ERR_INVAL},
		    {"../x", ERR_UNSUPPORTED},
		    {"", ERR_INVAL},
		    {"Upper", ERR_INVAL},
		    {".x", ERR_INVAL},
		    {"a b", ERR_INVAL},
		    {"-a", ERR_INVAL}};
	struct sandbox_info info;
	struct box b;
	int fd;

	(void)state;
	box_open(&b, "names");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};

		assert_int_equal(local_ensure(b.l, rows[i].agent, &info, &fd, &e), rows[i].rc);
		assert_int_equal(local_stat(b.l, rows[i].agent, &info, &e), rows[i].rc);
		assert_int_equal(local_destroy_sandbox(b.l, rows[i].agent, true, &e), rows[i].rc);
		assert_true(e.message[0]);
	}
	box_wipe(&b);
}

/* A DIR far over what a socket address holds. */
static void test_long_directory(void **state)
{
	char name[160];
	struct box b;

	(void)state;
	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	box_open(&b, name);
	assert_string_equal(ask(&b, "a-rather-long-name-of-an-agent-that-is-still-a-dns-label", "echo here"), "here\n");
	box_wipe(&b);
}

static void test_each_its_own_uid(void **state)
{
	struct sandbox_info a, c;
	struct err e = {0};
	struct stat sa, sc;
	struct box b;
	char path[64];

	(void)state;
	box_open(&b, "uids");
	ask(&b, "one", "true");
	ask(&b, "two", "true");
	assert_int_equal(local_stat(b.l, "one", &a, &e), 0);
	assert_int_equal(local_stat(b.l, "two", &c, &e), 0);
	snprintf(path, sizeof(path), "/proc/%d/mounts", a.pid);
	assert_int_equal(stat(path, &sa), 0);
	snprintf(path, sizeof(path), "/proc/%d/mounts", c.pid);
	assert_int_equal(stat(path, &sc), 0);
	assert_true(sa.st_uid >= uid_base && sc.st_uid >= uid_base && sa.st_uid != sc.st_uid);
	box_wipe(&b);
}

/* The file is lost with a power cut: a new one with another uid, and the files are its own again. */
static void test_lost_state_file(void **state)
{
	struct sandbox_info info;
	struct found old;
	struct err e = {0};
	struct box b;
	char path[4200];
	int fd;

	(void)state;
	box_open(&b, "lost");
	ask(&b, "demo", "mkdir -p d/e; echo mine > d/e/f; chmod 700 d");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/sandbox.json", b.dir);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(ask(&b, "demo", "echo more >> d/e/f; cat d/e/f; stat -c %U d/e/f"), "mine\nmore\nagent\n");
	/* Lost while it runs: its groups lead to it, or who has the image mounted. It is never mounted twice. */
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(ask(&b, "demo", "cat d/e/f"), "mine\nmore\n");
	assert_int_equal(found_take(info.pid, &old), ERR_NOT_FOUND);
	box_wipe(&b);
	assert_nothing_left();
}

static void test_damaged_image(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char path[4200], zero[8192] = {0};
	struct stat before, after;
	int fd, out;

	(void)state;
	box_open(&b, "damage");
	ask(&b, "demo", "true");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (!info.cap_enforced) {
		print_message("SKIP: %s\n", info.detail);
		box_wipe(&b);
		return;
	}
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	snprintf(path, sizeof(path), "%s/sandboxes/demo/workspace.img", b.dir);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), 0), sizeof(zero));
	close(fd);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(local_ensure(b.l, "demo", &info, &out, &e), ERR_CORRUPT);
	assert_true(has(e.message, "e2fsck"));
	assert_int_equal(stat(path, &after), 0);
	assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_ERROR);
	assert_true(has(info.detail, "e2fsck"));
	box_wipe(&b);
	assert_nothing_left();
}

/* As a power cut leaves it: journal not replayed, marked as mounted. It is repaired and goes on. */
static void test_unclean_image(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char command[9000];

	(void)state;
	box_open(&b, "unclean");
	ask(&b, "demo", "echo text > file; sync");
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	if (info.cap_enforced) {
		snprintf(command, sizeof(command), "cp --sparse=always %s/sandboxes/demo/workspace.img %s/copy", b.dir,
			 b.dir);
		assert_int_equal(system(command), 0);
		assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
		snprintf(command, sizeof(command), "mv %s/copy %s/sandboxes/demo/workspace.img", b.dir, b.dir);
		assert_int_equal(system(command), 0);
		assert_string_equal(ask(&b, "demo", "cat file"), "text\n");
	}
	box_wipe(&b);
}

static void test_bwrap_says_why(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char path[4200], text[512] = "";
	int fd;
	ssize_t n;

	(void)state;
	/* A script whose interpreter does not exist: bwrap fails at the exec. */
	snprintf(self_path, sizeof(self_path), "%s/no-program", top);
	fd = open(self_path, O_WRONLY | O_CREAT, 0755);
	assert_true(fd >= 0 && write(fd, "#!/not/there\n", 13) == 13);
	close(fd);
	box_open(&b, "why");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), ERR_SANDBOX_CREATE);
	assert_true(has(e.message, "bwrap: execvp /.muxlet/muxlet: No such file or directory"));
	assert_int_equal(local_stat(b.l, "demo", &info, &e), 0);
	assert_int_equal(info.state, SANDBOX_ERROR);
	assert_true(has(info.detail, "No such file or directory"));
	snprintf(path, sizeof(path), "%s/sandboxes/demo/log", b.dir);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	assert_true(n > 0 && has(text, "No such file or directory"));
	assert_nothing_left();
	/* With a program again it starts, and the error is forgotten. */
	local_destroy(b.l);
	memcpy(self_path, real_self, sizeof(self_path));
	b.l = box_local(&b, true);
	assert_string_equal(ask(&b, "demo", "echo well"), "well\n");
	box_wipe(&b);
}

/* A program that ends at once, without taking its secret. */
static void test_muxlet_ends_at_once(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	int fd;

	(void)state;
	snprintf(self_path, sizeof(self_path), "/bin/true");
	box_open(&b, "once");
	assert_int_equal(local_ensure(b.l, "demo", &info, &fd, &e), ERR_SANDBOX_CREATE);
	assert_true(has(e.message, "ended"));
	box_wipe(&b);
	assert_nothing_left();
}

/* A workspace nested deeper than any path is removed, in a plain directory, too. */
static void test_deep_tree(void **state)
{
	struct err e = {0};
	struct box b;

	(void)state;
	box_open(&b, "deep");
	ask(&b, "demo", "true");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	/* Make it a plain one by hand: what is there decides. */
	{
		char path[4200];

		snprintf(path, sizeof(path), "%s/sandboxes/demo", b.dir);
		assert_int_equal(mkdir(path, 0700), 0);
		snprintf(path, sizeof(path), "%s/sandboxes/demo/workspace", b.dir);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	/* Ten times 200 levels around what is there; names like those that removal makes itself; a link outwards. */
	assert_string_equal(
	    ask(&b, "demo",
		"p=d; for i in $(seq 200); do p=$p/dddddddddddddd; done; mkdir inner; ln -s /etc inner/l; "
		"for i in $(seq 10); do mkdir -p $p .removed.$i/x; touch $p/f; mv inner $p/ && mv d inner; done; "
		"chmod 0 .removed.3; echo done"),
	    "done\n");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", true, &e), 0);
	box_wipe(&b);
}

struct job {
	struct box *b;
	int number, rc;
	struct err e;
	uint64_t ns;
};

static void *job_run(void *arg)
{
	struct job *j = arg;
	struct sandbox_info info;
	char agent[32];
	uint64_t begin = clock_boot_ns();
	int fd;

	snprintf(agent, sizeof(agent), "agent-%d", j->number);
	j->rc = local_ensure(j->b->l, agent, &info, &fd, &j->e);
	if (j->rc == 0)
		close(fd);
	j->ns = clock_boot_ns() - begin;
	return NULL;
}

static void test_twenty_at_once(void **state)
{
	pthread_t threads[24];
	struct job jobs[24] = {0};
	struct sandbox_info *list;
	struct err e = {0};
	struct box b;
	size_t n;

	(void)state;
	box_open(&b, "twenty");
	for (int i = 0; i < 24; i++) {
		/* The last four ask for agents that others make just now. */
		jobs[i] = (struct job){.b = &b, .number = i < 20 ? i : i - 20};
		assert_int_equal(pthread_create(&threads[i], NULL, job_run, &jobs[i]), 0);
	}
	for (int i = 0; i < 24; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 24; i++) {
		if (jobs[i].rc)
			fail_msg("agent-%d: %s", jobs[i].number, jobs[i].e.message);
	}
	assert_int_equal(local_list(b.l, &list, &n, &e), 0);
	assert_int_equal(n, 20);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(list[i].pid, list[k].pid);
	free(list);
	assert_string_equal(ask(&b, "agent-7", "hostname"), "agent-7\n");
	if (local_destroy_all(b.l, &e) != 0)
		fail_msg("%s", e.message);
	assert_nothing_left();
	box_wipe(&b);
}

/* The monitor is killed at any moment of a start or an end: the next one goes on, with the same files. */
static void test_monitor_killed_anywhere(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	unsigned seed = 4711;
	struct box b;
	int fd, status;

	(void)state;
	/* Without a group the limit is the uid's and counts the dead whom a slow init has not reaped yet. */
	pids_max = 2000;
	box_open(&b, "monitor");
	ask(&b, "demo", "echo text > file");
	for (int i = 0; i < 25; i++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			struct local *l = box_local(&b, true);

			for (;;) {
				if (local_destroy_sandbox(l, "demo", false, NULL) != 0 ||
				    local_ensure(l, "demo", &info, &fd, NULL) != 0)
					_exit(1);
				close(fd);
			}
		}
		usleep((useconds_t)(2000 + rand_r(&seed) % 40000));
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_string_equal(ask(&b, "demo", "cat file; ls"), "text\nfile\n");
	}
	if (local_destroy_all(b.l, &e) != 0)
		fail_msg("%s", e.message);
	assert_nothing_left();
	box_wipe(&b);
}

/* The same without root, as a process of another uid. */
static int user_run(const char *dir)
{
	struct box b = {.dir = strdup(dir)};
	struct local_params p = {.state_dir = dir, .muxlet_path = self_path, .instance = instance, .root = false};
	struct sandbox_info info;
	struct err e = {0};
	char *o;
	int fd;

	box_conf(&b.c);
	if (local_create(&p, &b.c, &b.l, &e) != 0 || local_ensure(b.l, "demo", &info, &fd, &e) != 0) {
		fprintf(stderr, "user mode: %s: %s\n", err_name(e.code), e.message);
		return 2;
	}
	o = ask_fd(
	    fd, "id -u; whoami; echo text > f; cat f; ls -d /home /tmp; mkdir locked; touch locked/x; chmod 0 locked");
	if (strncmp(o, "1000\nagent\ntext\n", 16) != 0 || !strstr(o, "'/home': No such"))
		return 3;
	if (info.cap_enforced || !strstr(info.detail, "workspace cap not enforced"))
		return 4;
	if (local_destroy_sandbox(b.l, "demo", true, &e) != 0) {
		fprintf(stderr, "user mode: %s\n", e.message);
		return 5;
	}
	local_destroy(b.l);
	free(b.dir);
	return 0;
}

static void test_without_root(void **state)
{
	uid_t user = uid_base + 99;
	char dir[128];
	int status;
	pid_t pid;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/user", top);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chown(dir, user, user), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0 ? 1 : user_run(dir));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_nothing_left();
}

static void test_start_time(void **state)
{
	struct err e = {0};
	uint64_t sum = 0;
	struct box b;
	int rounds = 10;

	(void)state;
	pids_max = 2000;
	box_open(&b, "time");
	ask(&b, "agent-0", "true");
	for (int i = 0; i < rounds; i++) {
		struct job j = {.b = &b};

		assert_int_equal(local_destroy_sandbox(b.l, "agent-0", false, &e), 0);
		job_run(&j);
		assert_int_equal(j.rc, 0);
		sum += j.ns;
	}
	print_message("a start with an existing workspace takes %.1f ms (mean of %d)\n",
		      (double)sum / (double)rounds / 1e6, rounds);
	assert_true(sum / (uint64_t)rounds < 2 * NS_PER_SEC);
	box_wipe(&b);
}

static void self_copy(void)
{
	char command[16384], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		exit(1);
	self[n] = '\0';
	snprintf(self_path, sizeof(self_path), "%s/muxlet", top);
	memcpy(real_self, self_path, sizeof(self_path));
	snprintf(command, sizeof(command), "cp '%s' '%s' && chmod 755 '%s'", self, self_path, self_path);
	if (system(command) != 0)
		exit(1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_who_and_where, box_leftover),
	    cmocka_unit_test_teardown(test_nothing_of_the_host, box_leftover),
	    cmocka_unit_test_teardown(test_descriptors_from_outside, box_leftover),
	    cmocka_unit_test_teardown(test_no_network, box_leftover),
	    cmocka_unit_test_teardown(test_workspace_cap, box_leftover),
	    cmocka_unit_test_teardown(test_memory_and_pids, box_leftover),
	    cmocka_unit_test_teardown(test_privileges_do_not_come_back, box_leftover),
	    cmocka_unit_test_teardown(test_found_again, box_leftover),
	    cmocka_unit_test_teardown(test_killed_and_made_anew, box_leftover),
	    cmocka_unit_test_teardown(test_names, box_leftover),
	    cmocka_unit_test_teardown(test_long_directory, box_leftover),
	    cmocka_unit_test_teardown(test_each_its_own_uid, box_leftover),
	    cmocka_unit_test_teardown(test_lost_state_file, box_leftover),
	    cmocka_unit_test_teardown(test_damaged_image, box_leftover),
	    cmocka_unit_test_teardown(test_unclean_image, box_leftover),
	    cmocka_unit_test_teardown(test_bwrap_says_why, box_leftover),
	    cmocka_unit_test_teardown(test_muxlet_ends_at_once, box_leftover),
	    cmocka_unit_test_teardown(test_deep_tree, box_leftover),
	    cmocka_unit_test_teardown(test_twenty_at_once, box_leftover),
	    cmocka_unit_test_teardown(test_monitor_killed_anywhere, box_leftover),
	    cmocka_unit_test_teardown(test_without_root, box_leftover),
	    cmocka_unit_test_teardown(test_start_time, box_leftover),
	};
	int rc;

	if (argc > 1 && strcmp(argv[1], "--listen-fd") == 0)
		return agent_main();
	if (geteuid() != 0) {
		printf("SKIP test_local: needs root (loop devices, control groups, uids of sandboxes)\n");
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	if (getenv("TEST_LOG"))
		log_setup("test", getenv("TEST_LOG"), LOG_TEXT, 2, NULL);
	snprintf(instance, sizeof(instance), "test-local-%d", (int)getpid());
	uid_base = 70000 + (unsigned)getpid() % 10000 * 100;
	snprintf(top, sizeof(top), "/tmp/test-local.XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755) != 0)
		return 1;
	self_copy();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	if (rc == 0) {
		char command[128];

		snprintf(command, sizeof(command), "rm -rf '%s'", top);
		rc = system(command) != 0;
	}
	return rc;
}
