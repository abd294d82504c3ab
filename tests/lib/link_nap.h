/*
 * link_nap.h - programs of one test that do nothing but sleep, and how many of them there are.
 *
 * Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_LINK_NAP_H
#define TESTS_LIB_LINK_NAP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

/* How many there are. */
static inline int nappers(void)
{
	char command[200], out[32] = "";
	FILE *p;

	snprintf(command, sizeof(command), "pgrep -f '^sleep %s$' | wc -l", nap());
	p = popen(command, "r");
	assert_non_null(p);
	assert_non_null(fgets(out, sizeof(out), p));
	pclose(p);
	return atoi(out);
}

#endif
