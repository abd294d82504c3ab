// tier: check
/* A local sandbox from inside: who one is, what is there, what cannot be done; and who may have one. */
#include "tests/lib/local_box.h"

#include "base/json.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
		o = ask(&b, "demo", "for i in $(seq 150); do sleep 20 & done 2>&1 | tail -1; exit");
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
		"r.append((l.syscall(250,0,0,0),ctypes.get_errno())); " /* keyctl */
		"r.append((l.syscall(321,0,0,0),ctypes.get_errno())); " /* bpf */
		"r.append((l.syscall(425,1,0),ctypes.get_errno())); "   /* io_uring_setup */
		"r.append((l.syscall(435,0,0),ctypes.get_errno())); "   /* clone3 */
		"r.append((l.syscall(41,40,1,0),ctypes.get_errno())); " /* AF_VSOCK */
		"p=(ctypes.c_int*2)(); w=ctypes.c_ulong; "
		"r.append((l.syscall(53,30,1,0,p),ctypes.get_errno())); "             /* a pair of AF_TIPC */
		"r.append((l.syscall(53,w(0x100000001),1,0,p),ctypes.get_errno())); " /* AF_UNIX, with a high bit */
		"r.append((l.syscall(53,1,1,0,p),0)); "
		"r.append((l.syscall(16,0,0x5412,0),ctypes.get_errno())); " /* TIOCSTI */
		"r.append((l.syscall(16,0,w(0x100005412),0),ctypes.get_errno())); "
		"print(r)'");
#ifdef __x86_64__
	if (strstr(o, "not found") || strstr(o, "ModuleNotFound"))
		print_message("SKIP raw calls: no python3 with ctypes\n");
	else
		assert_string_equal(
		    o,
		    "[(-1, 1), (-1, 1), (-1, 38), (-1, 38), (-1, 97), (-1, 97), (-1, 97), (0, 0), (-1, 1), (-1, 1)]\n");
#endif
	box_wipe(&b);
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

/* n agents that sleep, each with a slot of its own from `first` on: their directories as demo's is. */
static int make_sleepers(const char *dir, int first, int n)
{
	char path[4200];
	json_t *o;
	int rc = 0;

	snprintf(path, sizeof(path), "%s/sandboxes/demo/sandbox.json", dir);
	o = json_load_file(path, 0, NULL);
	for (int i = first; o && rc == 0 && i < first + n; i++) {
		snprintf(path, sizeof(path), "%s/sandboxes/sleeper-%d", dir, i);
		rc = mkdir(path, 0700) || json_object_set_new(o, "slot", json_integer(i));
		snprintf(path, sizeof(path), "%s/sandboxes/sleeper-%d/sandbox.json", dir, i);
		rc = rc || json_dump_file(o, path, 0);
	}
	rc = rc || !o;
	json_decref(o);
	return rc;
}

/* As many as the lowest uids suffice for, and one more: it gets the first of the upper ones. */
static void test_many(void **state)
{
	struct sandbox_info info;
	struct err e = {0};
	struct box b;
	char command[4300];
	int fd;

	(void)state;
	box_open(&b, "many");
	ask(&b, "demo", "true");
	assert_int_equal(local_destroy_sandbox(b.l, "demo", false, &e), 0);
	assert_int_equal(make_sleepers(b.dir, 1, 619), 0);
	local_destroy(b.l);
	b.c.sandbox_uid_base = 64900;
	b.l = box_local(&b, true);
	if (local_ensure(b.l, "next", &info, &fd, &e) != 0)
		fail_msg("%s", e.message);
	assert_string_equal(ask_fd(fd, "id -u; echo text > f; cat f"), "1000\ntext\n");
	snprintf(command, sizeof(command), "grep -q '\"uid\": *65536[^0-9]' %s/sandboxes/next/sandbox.json", b.dir);
	assert_int_equal(system(command), 0);
	box_wipe(&b);
	assert_nothing_left();
}

/* The same without root, as a process of another uid. */
static int user_run(const char *dir)
{
	struct box b = {.dir = strdup(dir)};
	struct local_params p = {.state_dir = dir,
				 .muxlet_path = self_path,
				 .archiver_path = archiver_path,
				 .instance = instance,
				 .root = false};
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
	if (local_destroy_sandbox(b.l, "demo", false, &e) != 0 || make_sleepers(dir, 1, 700) != 0) {
		fprintf(stderr, "user mode: %s\n", e.message);
		return 5;
	}
	local_destroy(b.l);
	if (local_create(&p, &b.c, &b.l, &e) != 0 || local_ensure(b.l, "one-more", &info, &fd, &e) != 0) {
		fprintf(stderr, "user mode: beside 700 others: %s: %s\n", err_name(e.code), e.message);
		return 6;
	}
	if (strcmp(ask_fd(fd, "echo here"), "here\n") != 0)
		return 7;
	if (local_destroy_sandbox(b.l, "one-more", true, &e) != 0 || local_destroy_sandbox(b.l, "demo", true, &e) != 0)
		return 8;
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_teardown(test_who_and_where, box_leftover),
	    cmocka_unit_test_teardown(test_nothing_of_the_host, box_leftover),
	    cmocka_unit_test_teardown(test_descriptors_from_outside, box_leftover),
	    cmocka_unit_test_teardown(test_no_network, box_leftover),
	    cmocka_unit_test_teardown(test_memory_and_pids, box_leftover),
	    cmocka_unit_test_teardown(test_privileges_do_not_come_back, box_leftover),
	    cmocka_unit_test_teardown(test_names, box_leftover),
	    cmocka_unit_test_teardown(test_long_directory, box_leftover),
	    cmocka_unit_test_teardown(test_each_its_own_uid, box_leftover),
	    cmocka_unit_test_teardown(test_many, box_leftover),
	    cmocka_unit_test_teardown(test_without_root, box_leftover),
	};
	int rc;

	if (!box_begin(argc, argv, &rc))
		return rc;
	return box_end(cmocka_run_group_tests(tests, NULL, NULL));
}
