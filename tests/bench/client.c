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

/* Keys one after the other; where others look at the processes before and after. */
static void mode_echo(bool web, unsigned n)
{
	struct peer *p = open_program(web, CAT, on_key);

	phase("begin");
	type_keys(p, n);
	phase("end");
	say_samples(web ? &web_keys : &ssh_keys);
	peer_keys(p, "\x03");
	(void)loop_until(now_ns() + 10000000000u, has_ended, p);
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

/* Of any program that stands between: the terminal here is raw, as a client's is. */
static void mode_pty_echo(const char *command, unsigned n)
{
	char b[4096] = "", key;
	size_t len = 0;
	pid_t pid;
	int fd = spawn_pty(command, &pid);

	while (!strstr(b, "READY")) {
		ssize_t got = read(fd, b + len, sizeof(b) - 1 - len);

		if (got <= 0)
			die("no program behind the PTY");
		len += (size_t)got;
		b[len] = '\0';
	}
	usleep(300000);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	while (read(fd, b, sizeof(b)) > 0) /* what tmux draws besides */
		;
	(void)fcntl(fd, F_SETFL, 0);
	for (unsigned i = 0; i < n; i++) {
		uint64_t start = now_ns();
		ssize_t got = 0;

		key = (char)('a' + i % 26);
		if (write(fd, &key, 1) != 1)
			die("the PTY takes no key");
		do
			got = read(fd, b, sizeof(b));
		while (got > 0 && !memchr(b, key, (size_t)got));
		if (got <= 0)
			die("the PTY does not echo");
		add(&web_keys, (double)(now_ns() - start) / 1e3);
		usleep(GAP_NS / 1000);
	}
	say_samples(&web_keys);
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

struct bulk {
	struct peer *peer;
	uint64_t bytes;
};

static bool has_all(void *arg)
{
	const struct bulk *b = arg;

	return b->peer->ended || (b->peer->mark_at != UINT64_MAX && b->peer->offset - b->peer->mark_at >= b->bytes);
}

/* command goes on when it has said all, so that the processes on the way can be looked at. */
static void mode_bulk(bool web, const char *command, uint64_t bytes)
{
	struct bulk b = {.bytes = bytes};
	struct peer *p = b.peer = peer_terminal(web, on_bulk);
	uint64_t took;

	phase("begin");
	peer_keys(p, command);
	peer_keys(p, "\n");
	peer_on_loop(p);
	if (!loop_until(now_ns() + 300000000000u, has_all, &b))
		die("the output does not end");
	took = now_ns() - p->asked_ns;
	loop_until(now_ns() + 20000000, NULL, NULL); /* more than was asked for? */
	if (p->offset - p->mark_at != bytes || p->left_out)
		die("%llu bytes of %llu came", (unsigned long long)(p->offset - p->mark_at), (unsigned long long)bytes);
	phase("end");
	say_speed(bytes, took);
	peer_keys(p, "\x03");
	(void)loop_until(now_ns() + 10000000000u, has_ended, p);
}

static bool told_to_end(void *arg)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	(void)arg;
	return poll(&in, 1, 0) > 0;
}

/* A flood whose bytes are compared, until somebody says that it is enough. */
static void mode_flood(bool web)
{
	struct peer *p = open_program(web, FLOOD, on_flood);
	uint64_t start, before;

	phase("runs");
	start = now_ns();
	before = p->received;
	while (!loop_until(now_ns() + 3600000000000u, told_to_end, NULL))
		;
	say_speed(p->received - before, now_ns() - start);
	fflush(stdout);
	peer_keys(p, "\x03");
	(void)loop_until(now_ns() + 10000000000u, has_ended, p);
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
		add(&web_keys, (double)(now_ns() - start) / 1e3);
		peer_keys(p, "exit\n");
		(void)loop_until(now_ns() + 30000000000u, has_ended, p);
		peer_close(p);
	}
	say_samples(&web_keys);
}

static void mode_idle(bool web, unsigned n)
{
	static struct peer *all[CROWD_MAX];

	for (unsigned i = 0; i < n && i < CROWD_MAX; i++)
		all[i] = open_program(web, CAT, on_key);
	loop_until(now_ns() + 1000000000u, NULL, NULL);
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
	else if (strcmp(mode, "flood") == 0)
		mode_flood(web);
	else if (strcmp(mode, "pty-echo") == 0 && argc == 7)
		mode_pty_echo(argv[5], number(argv, argc, 6));
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
