/*
 * patience.h - how long a test waits for what will come. While others wait for processors, time counts for the part of
 * one that a program gets, as it does for the runner's own limits: a busy machine makes no test fail, and a hang ends.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_LOOK_NS UINT64_C(200000000)

struct patience {
	uint64_t left_ns, at_ns;
};

static inline uint64_t patience_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* Of so much time the part that counts, a tenth at least. */
static inline uint64_t patience_counted(uint64_t ns)
{
	cpu_set_t mine;
	long processors = sched_getaffinity(0, sizeof(mine), &mine) ? 1 : CPU_COUNT(&mine), running = 1;
	FILE *f = fopen("/proc/loadavg", "re");

	if (f) {
		if (fscanf(f, "%*s %*s %*s %ld", &running) != 1)
			running = 1;
		fclose(f);
	}
	running--; /* whoever asks is one of them */
	if (running <= processors)
		return ns;
	return running > 10 * processors ? ns / 10 : ns * (uint64_t)processors / (uint64_t)running;
}

static inline struct patience patience_of(uint64_t ns)
{
	return (struct patience){.left_ns = ns, .at_ns = patience_now()};
}

static inline bool patience_over(struct patience *p)
{
	uint64_t now = patience_now(), counted;

	if (now - p->at_ns < (p->left_ns < PATIENCE_LOOK_NS ? p->left_ns : PATIENCE_LOOK_NS))
		return false;
	counted = patience_counted(now - p->at_ns);
	p->left_ns = counted < p->left_ns ? p->left_ns - counted : 0;
	p->at_ns = now;
	return p->left_ns == 0;
}

#endif
