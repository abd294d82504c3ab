/*
 * keys.h - what the bench's clients do: a program that gives keys back, a flood whose bytes are known, times kept.
 *
 * Static functions, for inclusion by client.c alone.
 */
#ifndef TESTS_BENCH_KEYS_H
#define TESTS_BENCH_KEYS_H

#include "tests/bench/peer.h"

#define SAMPLES_MAX 20000
#define CROWD_MAX   2048
#define GAP_NS      (5 * 1000000u)
/* Interrupts stay on, so that ^C ends it. What it prints is not in what is typed. */
#define CAT        "stty -icanon -echo -opost; printf REA''DY; exec cat\n"
#define LINE       "a line of a flood, as long as a line of a compiler or a log is 0123"
#define FLOOD      "stty -icanon -echo; printf REA''DY; exec yes '" LINE "'\n"
#define FLOOD_LINE LINE "\r\n"
#define FLOOD_SIZE (sizeof(FLOOD_LINE) - 1)

struct samples {
	double us[SAMPLES_MAX];
	size_t n;
};

static struct samples web_keys, ssh_keys;
static const struct peer *flood; /* what observers see must be of it */
static unsigned char flood_text[256 * 1024];

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double quantile(struct samples *s, double q)
{
	if (!s->n)
		die("nothing was measured");
	qsort(s->us, s->n, sizeof(s->us[0]), by_value);
	return s->us[(size_t)(q * (double)(s->n - 1))];
}

static inline void add(struct samples *s, double v)
{
	if (s->n < SAMPLES_MAX)
		s->us[s->n++] = v;
}

static inline void phase(const char *name)
{
	char line[16];

	printf("phase %s\n", name);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("nobody is there");
}

/* ---- what comes */

static inline void ignore(struct peer *p, const unsigned char *at, size_t n)
{
	(void)p, (void)at, (void)n;
}

/* How many of these bytes belong to what was before READY, and READY itself. */
static inline size_t before_ready(struct peer *p, const unsigned char *at, size_t n)
{
	static const char mark[] = "READY";
	size_t i = 0;

	if (p->mark_at != UINT64_MAX)
		return 0;
	for (; i < n && p->matched < 5; i++)
		p->matched = at[i] == (unsigned char)mark[p->matched] ? p->matched + 1 : at[i] == 'R';
	if (p->matched == 5)
		p->mark_at = p->offset + i;
	return i;
}

/* Of a program that gives back what it got: the key, and nothing else. */
static inline void on_key(struct peer *p, const unsigned char *at, size_t n)
{
	size_t skip = before_ready(p, at, n);

	for (size_t i = skip; i < n; i++) {
		if (!p->asked_ns || at[i] != p->key)
			die("a client got a byte that is not the key it typed");
		add(p->web ? &web_keys : &ssh_keys, (double)(now_ns() - p->asked_ns) / 1e3);
		p->asked_ns = 0;
		p->keys++;
	}
}

static inline void check_flood(uint64_t at_flood, const unsigned char *at, size_t n)
{
	if (memcmp(at, flood_text + at_flood % FLOOD_SIZE, n) != 0)
		die("the flood's bytes are not those of the flood");
}

static inline void on_flood(struct peer *p, const unsigned char *at, size_t n)
{
	size_t skip = before_ready(p, at, n);

	if (skip < n)
		check_flood(p->offset + skip - p->mark_at, at + skip, n - skip);
}

static inline void on_watched_flood(struct peer *p, const unsigned char *at, size_t n)
{
	if (p->offset >= flood->mark_at)
		check_flood(p->offset - flood->mark_at, at, n);
}

static inline void make_flood_text(void)
{
	for (size_t i = 0; i < sizeof(flood_text); i++)
		flood_text[i] = (unsigned char)FLOOD_LINE[i % FLOOD_SIZE];
}

static inline bool is_ready(void *arg)
{
	return ((struct peer *)arg)->mark_at != UINT64_MAX;
}

static inline struct peer *open_program(bool web, const char *command,
					void (*output)(struct peer *, const unsigned char *, size_t))
{
	struct peer *p = peer_terminal(web, output);

	peer_keys(p, command);
	peer_on_loop(p);
	if (!loop_until(now_ns() + 30000000000u, is_ready, p))
		die("a program did not start");
	return p;
}

/* ---- keys */

static inline bool answered(void *arg)
{
	return !((struct peer *)arg)->asked_ns;
}

static inline void type_key(struct peer *p)
{
	char key[2] = {(char)('a' + p->keys % 26), 0};

	p->key = (unsigned char)key[0];
	p->asked_ns = now_ns();
	peer_keys(p, key);
}

static inline void type_keys(struct peer *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		type_key(p);
		if (!loop_until(now_ns() + 30000000000u, answered, p))
			die("a key was lost");
		loop_until(now_ns() + GAP_NS, NULL, NULL);
	}
}

/* Every sample, so that runs can be pooled. */
static inline void say_samples(const struct samples *s)
{
	printf("{\"us\": [");
	for (size_t i = 0; i < s->n; i++)
		printf("%s%.1f", i ? ", " : "", s->us[i]);
	printf("]}\n");
}

static inline void say_keys(const char *name, struct samples *s)
{
	printf("\"%s\": {\"p50\": %.1f, \"p99\": %.1f}", name, quantile(s, 0.5), quantile(s, 0.99));
	s->n = 0;
}

static inline bool has_ended(void *arg)
{
	return ((struct peer *)arg)->ended;
}

/* They end by themselves, else each would stay for the time that a terminal lingers. */
static inline void end_all(struct peer **all, unsigned n)
{
	uint64_t until = now_ns() + 120000000000u; /* all of them */

	for (unsigned i = 0; i < n; i++)
		if (!all[i]->ended)
			peer_keys(all[i], "\x03");
	for (unsigned i = 0; i < n; i++) {
		if (!loop_until(until, has_ended, all[i]) && !all[i]->ended)
			die("a program does not end");
		peer_close(all[i]);
	}
}

#endif
