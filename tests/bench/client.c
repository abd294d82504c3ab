/*
 * client - what the bench measures of the browser's and the SSH door with real clients (peer.h), one process.
 *
 *   client HTTPS-PORT SSH-PORT AGENT MODE [ARGS], a grant's token on the first line of stdin. The last line it prints
 * is JSON. Where others have to look at the daemon meanwhile it prints "phase NAME" and waits for a line.
 */
#include "tests/bench/peer.h"

#include "tests/bench/crowd.h"
#include "tests/bench/keys.h"

#include <pty.h>

static void mode_echo(bool web, unsigned n)
{
	struct peer *p = open_program(web, CAT, on_key);

	type_keys(p, n);
	printf("{");
	say_keys("keys", web ? &web_keys : &ssh_keys);
	printf("}\n");
	peer_keys(p, "\x03");
}

/* ---- the bare PTY */

static int spawn_pty(const char *command, pid_t *out_pid)
{
	int fd;

	*out_pid = forkpty(&fd, NULL, NULL, NULL);
	if (*out_pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (*out_pid < 0)
		die("forkpty: %s", strerror(errno));
	return fd;
}

static void mode_pty_echo(unsigned n)
{
	char b[4096] = "", key;
	pid_t pid;
	int fd = spawn_pty("stty raw -echo; printf READY; exec cat", &pid);

	while (!strstr(b, "READY")) {
		ssize_t got = read(fd, b, sizeof(b) - 1);

		if (got <= 0)
			die("no program behind the PTY");
		b[got] = '\0';
	}
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = now_ns();

		key = (char)('a' + i % 26);
		if (write(fd, &key, 1) != 1 || read(fd, b, sizeof(b)) != 1 || b[0] != key)
			die("the PTY does not echo");
		add(&web_keys, (double)(now_ns() - start) / 1e3);
		usleep(GAP_NS / 1000);
	}
	printf("{");
	say_keys("keys", &web_keys);
	printf("}\n");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void say_speed(uint64_t bytes, uint64_t ns)
{
	printf("{\"mb_per_s\": %.2f}\n", (double)bytes / ((double)ns / 1e3));
}

static void mode_pty_bulk(const char *command, uint64_t bytes)
{
	uint64_t n = 0, start = 0;
	ssize_t got;
	pid_t pid;
	int fd = spawn_pty(command, &pid);

	while ((got = read(fd, flood_text, sizeof(flood_text))) > 0) {
		start = start ? start : now_ns();
		n += (uint64_t)got;
	}
	waitpid(pid, NULL, 0);
	if (n != bytes)
		die("%llu bytes of %llu came", (unsigned long long)n, (unsigned long long)bytes);
	say_speed(n, now_ns() - start);
}

/* ---- bulk */

static void on_bulk(struct peer *p, const unsigned char *at, size_t n)
{
	if (p->mark_at == UINT64_MAX)
		(void)before_ready(p, at, n);
	if (p->mark_at != UINT64_MAX && !p->asked_ns)
		p->asked_ns = now_ns();
}

static void mode_bulk(bool web, const char *command, uint64_t bytes)
{
	struct peer *p = peer_terminal(web, on_bulk);

	peer_keys(p, command);
	peer_keys(p, "\n");
	peer_on_loop(p);
	if (!loop_until(now_ns() + 300000000000u, has_ended, p))
		die("the output does not end");
	if (p->offset - p->mark_at != bytes || (web && !p->whole))
		die("%llu bytes of %llu came", (unsigned long long)(p->offset - p->mark_at), (unsigned long long)bytes);
	say_speed(bytes, now_ns() - p->asked_ns);
}

/* ---- connecting, waiting */

static bool has_output(void *arg)
{
	return ((struct peer *)arg)->received > 0;
}

static void mode_connect(bool web, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = now_ns();
		struct peer *p = peer_terminal(web, ignore);

		peer_on_loop(p);
		if (!loop_until(start + 30000000000u, has_output, p))
			die("no prompt");
		add(&web_keys, (double)(now_ns() - start) / 1e6);
		peer_keys(p, "exit\n");
		(void)loop_until(now_ns() + 30000000000u, has_ended, p);
		peer_close(p);
	}
	printf("{");
	say_keys("ms", &web_keys);
	printf("}\n");
}

static void mode_idle(bool web, unsigned n)
{
	static struct peer *all[CROWD_MAX];

	for (unsigned i = 0; i < n && i < CROWD_MAX; i++)
		all[i] = open_program(web, CAT, on_key);
	loop_until(now_ns() + 2000000000u, NULL, NULL);
	phase("open");
	loop_until(now_ns() + 4000000000u, NULL, NULL);
	phase("idle");
	end_all(all, n);
	printf("{\"sessions\": %u}\n", n);
}

static unsigned number(char **argv, int argc, int i)
{
	if (i >= argc)
		die("an argument is missing");
	return (unsigned)strtoul(argv[i], NULL, 10);
}

static void run(int argc, char **argv)
{
	const char *mode = argv[4];
	bool web = argc > 5 && strcmp(argv[5], "web") == 0;

	if (strcmp(mode, "echo") == 0)
		mode_echo(web, number(argv, argc, 6));
	else if (strcmp(mode, "connect") == 0)
		mode_connect(web, number(argv, argc, 6));
	else if (strcmp(mode, "idle") == 0)
		mode_idle(web, number(argv, argc, 6));
	else if (strcmp(mode, "bulk") == 0 && argc == 8)
		mode_bulk(web, argv[6], strtoull(argv[7], NULL, 10));
	else if (strcmp(mode, "pty-echo") == 0)
		mode_pty_echo(number(argv, argc, 5));
	else if (strcmp(mode, "pty-bulk") == 0 && argc == 7)
		mode_pty_bulk(argv[5], strtoull(argv[6], NULL, 10));
	else if (strcmp(mode, "observers") == 0)
		mode_observers(number(argv, argc, 5), number(argv, argc, 6));
	else if (strcmp(mode, "watched") == 0)
		mode_watched(number(argv, argc, 5), number(argv, argc, 6));
	else if (strcmp(mode, "crowd") == 0)
		mode_crowd(number(argv, argc, 5), number(argv, argc, 6), number(argv, argc, 7), number(argv, argc, 8));
	else
		die("no mode %s", mode);
}

int main(int argc, char **argv)
{
	if (argc < 5)
		die("client HTTPS-PORT SSH-PORT AGENT MODE [ARGS]");
	(void)signal(SIGPIPE, SIG_IGN);
	bench.https = number(argv, argc, 1);
	bench.ssh = number(argv, argc, 2);
	bench.agent = argv[3];
	if (!fgets(bench.token, sizeof(bench.token), stdin))
		die("no token");
	bench.token[strcspn(bench.token, "\n")] = '\0';
	bench.epoll = epoll_create1(EPOLL_CLOEXEC);
	bench.tls = SSL_CTX_new(TLS_client_method());
	if (!bench.tls || bench.epoll < 0)
		die("no memory");
	SSL_CTX_set_mode(bench.tls, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	make_flood_text();
	run(argc, argv);
	return 0;
}
