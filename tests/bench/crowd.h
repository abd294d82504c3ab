/*
 * crowd.h - many at once: a flood, clients that stall, those who watch, and keys beside them.
 *
 * The flood and its watchers live in a process of their own (the helper), so that their work delays no key in the
 * client that measures. Static functions, for inclusion by client.c alone.
 */
#ifndef TESTS_BENCH_CROWD_H
#define TESTS_BENCH_CROWD_H

#include "tests/bench/keys.h"

#include <sys/wait.h>

struct told {
	char what; /* 'f': a flood and a client that stalls; 'o': observers; 'm': measure; 'e': end */
	unsigned n;
	char session[40];
};

struct found {
	double flood, watched; /* MB/s */
	uint64_t left_out, least;
	unsigned screens;
};

struct helper {
	int fd;
	pid_t pid;
};

static struct peer *observers[CROWD_MAX];
static unsigned nobservers;

static inline void start_flood(struct peer **out_stalled)
{
	for (int i = 0; i < 2; i++) { /* one of each door: a flood that nobody reads */
		out_stalled[i] = peer_terminal(i == 0, ignore);
		peer_keys(out_stalled[i], FLOOD);
	}
	flood = open_program(true, FLOOD, on_flood);
}

static inline void measure(unsigned seconds, struct found *out)
{
	uint64_t start = now_ns(), before = flood ? flood->received : 0, watched = 0, took;
	static uint64_t had[CROWD_MAX];

	memset(out, 0, sizeof(*out));
	out->least = UINT64_MAX;
	for (unsigned i = 0; i < nobservers; i++)
		had[i] = observers[i]->offset;
	loop_until(start + seconds * (uint64_t)1000000000u, NULL, NULL);
	took = now_ns() - start;
	for (unsigned i = 0; i < nobservers; i++) {
		struct peer *p = observers[i];

		watched += p->received;
		out->screens += p->screens;
		out->left_out += p->left_out;
		out->least = p->offset - had[i] < out->least ? p->offset - had[i] : out->least;
		p->received = p->left_out = p->screens = 0;
	}
	out->flood = flood ? (double)(flood->received - before) / ((double)took / 1e3) : 0;
	out->watched = (double)watched / ((double)took / 1e3);
}

/* n of them, the last of whom reads nothing. */
static inline void open_observers(const struct peer *of, unsigned n)
{
	for (nobservers = 0; nobservers < n; nobservers++) {
		struct peer *p = peer_observer(of, flood ? on_watched_flood : ignore);

		if (nobservers == n - 1)
			break;
		observers[nobservers] = p;
		peer_on_loop(p);
		loop_until(now_ns() + 1000000, NULL, NULL); /* the flood is read meanwhile */
	}
	loop_until(now_ns() + 500000000, NULL, NULL);
}

static inline void help(int fd)
{
	struct peer *stalled[2] = {NULL, NULL}, of;
	struct found found = {0};
	struct told t;

	while (read(fd, &t, sizeof(t)) == (ssize_t)sizeof(t) && t.what != 'e') {
		if (t.what == 'f') {
			start_flood(stalled);
		} else if (t.what == 'o') {
			memcpy(of.session, flood ? flood->session : t.session, sizeof(of.session));
			open_observers(&of, t.n);
		} else {
			measure(t.n, &found);
		}
		if (write(fd, &found, sizeof(found)) != (ssize_t)sizeof(found))
			die("nobody wants to know");
	}
	if (flood) {
		peer_keys((struct peer *)(uintptr_t)flood, "\x03");
		for (int i = 0; i < 2; i++)
			peer_keys(stalled[i], "\x03");
		(void)loop_until(now_ns() + 30000000000u, has_ended, (void *)(uintptr_t)flood);
	}
	exit(0);
}

static inline struct helper start_helper(void)
{
	struct helper h;
	int fd[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		die("socketpair: %s", strerror(errno));
	fflush(stdout);
	h.pid = fork();
	if (h.pid == 0) {
		close(fd[0]);
		close(bench.epoll);
		bench.epoll = epoll_create1(EPOLL_CLOEXEC);
		help(fd[1]);
	}
	close(fd[1]);
	h.fd = fd[0];
	return h;
}

static inline void tell(const struct helper *h, char what, unsigned n, const char *session)
{
	struct told t = {.what = what, .n = n};

	snprintf(t.session, sizeof(t.session), "%s", session);
	if (write(h->fd, &t, sizeof(t)) != (ssize_t)sizeof(t))
		die("the other half of the bench has gone");
}

static inline struct found heard(const struct helper *h)
{
	struct found f;

	if (read(h->fd, &f, sizeof(f)) != (ssize_t)sizeof(f))
		die("the other half of the bench has failed");
	return f;
}

static inline void end_helper(struct helper *h)
{
	int status;

	tell(h, 'e', 0, "");
	if (waitpid(h->pid, &status, 0) < 0 || status)
		die("the other half of the bench has failed");
	close(h->fd);
}

static inline void say_found(const char *name, const struct found *f)
{
	printf(
	    "\"%s\": {\"flood_mb_per_s\": %.2f, \"observed_mb_per_s\": %.2f, \"screens\": %u, \"left_out_mb\": %.1f, "
	    "\"least_progress_mb\": %.1f}",
	    name, f->flood, f->watched, f->screens, (double)f->left_out / 1e6,
	    f->least == UINT64_MAX ? 0 : (double)f->least / 1e6);
}

/* A flood without observers and with n of them, in turns. */
static inline void mode_observers(unsigned n, unsigned seconds)
{
	struct helper h;
	struct found alone, with;

	h = start_helper();
	tell(&h, 'f', 0, "");
	(void)heard(&h);
	phase("alone");
	tell(&h, 'm', seconds, "");
	alone = heard(&h);
	phase("open");
	tell(&h, 'o', n, "");
	(void)heard(&h);
	phase("with");
	tell(&h, 'm', seconds, "");
	with = heard(&h);
	phase("end");
	end_helper(&h);
	printf("{");
	say_found("alone", &alone);
	printf(", ");
	say_found("with", &with);
	printf("}\n");
}

/* Keys of a terminal alone, and with n who watch it, one of whom reads nothing. */
static inline void mode_watched(unsigned n, unsigned keys)
{
	struct peer *p = open_program(true, CAT, on_key);
	struct helper h;

	type_keys(p, keys);
	printf("{");
	say_keys("alone", &web_keys);
	h = start_helper();
	tell(&h, 'o', n, p->session);
	(void)heard(&h);
	tell(&h, 'm', 2 + keys * 8 / 1000, "");
	type_keys(p, keys);
	printf(", ");
	say_keys("watched", &web_keys);
	printf("}\n");
	(void)heard(&h);
	end_helper(&h);
	peer_keys(p, "\x03");
}

/* ---- a crowd */

static struct peer *crowd[CROWD_MAX];
static unsigned ncrowd;

/* Every 5 ms the next one types. */
static inline void crowd_types(unsigned seconds)
{
	uint64_t until = now_ns() + seconds * (uint64_t)1000000000u, next = now_ns();

	for (unsigned i = 0; now_ns() < until; i++) {
		struct peer *p = crowd[i % ncrowd];

		if (!p->asked_ns)
			type_key(p);
		next += GAP_NS;
		loop_until(next, NULL, NULL);
	}
	for (unsigned i = 0; i < ncrowd; i++)
		if (!loop_until(now_ns() + 30000000000u, answered, crowd[i]))
			die("a key was lost");
}

static inline void say_crowd(const char *name)
{
	printf("\"%s\": {", name);
	say_keys("web", &web_keys);
	printf(", ");
	say_keys("ssh", &ssh_keys);
	printf("}, ");
}

static inline void mode_crowd(unsigned web, unsigned ssh, unsigned watching, unsigned seconds)
{
	struct helper h;
	struct found f[3];

	for (ncrowd = 0; ncrowd < web + ssh - 3 && ncrowd < CROWD_MAX; ncrowd++)
		crowd[ncrowd] = open_program(ncrowd % 2 ? ncrowd / 2 >= ssh - 1 : ncrowd / 2 < web - 2, CAT, on_key);
	phase("open");
	web_keys.n = ssh_keys.n = 0;
	crowd_types(seconds);
	phase("quiet");
	printf("{");
	say_crowd("quiet");
	h = start_helper();
	tell(&h, 'f', 0, "");
	(void)heard(&h);
	printf("\n");
	phase("flood");
	tell(&h, 'm', seconds, "");
	crowd_types(seconds);
	f[0] = heard(&h);
	say_crowd("flood");
	tell(&h, 'o', watching, "");
	(void)heard(&h);
	printf("\n");
	phase("observers");
	tell(&h, 'm', seconds, "");
	crowd_types(seconds);
	f[1] = heard(&h);
	say_crowd("observers");
	printf("\n");
	phase("end");
	say_found("flooding", &f[0]);
	printf(", ");
	say_found("observed", &f[1]);
	end_helper(&h);
	end_all(crowd, ncrowd);
	printf("}\n");
}

#endif
