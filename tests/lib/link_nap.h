/*
 * link_nap.h - programs of one test that do nothing but sleep, and how many of them there are.
 *
 * Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_LINK_NAP_H
#define TESTS_LIB_LINK_NAP_H

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* What they sleep: the number of seconds is this process's own, since others test beside us. */
static inline const char *nap(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "97.%07d", (int)getpid());
	return text;
}

/* For a script that says sleep $NAP. */
static inline const char *const *nap_env(void)
{
	static char text[40];
	static const char *env[] = {text, NULL};

	snprintf(text, sizeof(text), "NAP=%s", nap());
	return env;
}

/* Whether a process is one of them; what has ended has no words. */
static inline bool nap_is(const char *pid)
{
	char path[64], words[64] = "", want[64];
	int n = snprintf(want, sizeof(want), "sleep%c%s", 0, nap());
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	(void)!fread(words, 1, sizeof(words) - 1, f);
	fclose(f);
	return memcmp(words, want, (size_t)n + 1) == 0;
}

/* How many there are; each gets the signal, unless that is 0. */
static inline int nappers_signal(int signum)
{
	DIR *dir = opendir("/proc");
	const struct dirent *e;
	int n = 0;

	assert_non_null(dir);
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && nap_is(e->d_name))
			n += kill(atoi(e->d_name), signum) == 0;
	closedir(dir);
	return n;
}

static inline int nappers(void)
{
	return nappers_signal(0);
}

#endif
