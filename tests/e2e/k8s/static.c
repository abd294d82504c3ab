/*
 * static - all that is in an image without a shell. Called with a verb it does one thing; without one it waits as pid 1
 * of a pod has to: takes in orphans, ends on TERM.
 *
 *   static cat             stdin to stdout
 *   static exit N          ends with N
 *   static kill N          ends by signal N
 *   static flood BYTES     so many bytes of 'x' in lines of 64
 *   static sleep SECONDS
 *   static args ...        its arguments, one a line
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int sig)
{
	(void)sig;
	_exit(0);
}

static void reap(int sig)
{
	(void)sig;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static void hold(void)
{
	signal(SIGTERM, end);
	signal(SIGINT, end);
	signal(SIGCHLD, reap);
	for (;;)
		pause();
}

static int put(const char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(STDOUT_FILENO, p, n);
		if (w < 0)
			return -1;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

static int cat(void)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0)
		if (put(buf, (size_t)n) < 0)
			return 1;
	return n < 0;
}

static int flood(unsigned long long left)
{
	char line[64];

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (left > 0) {
		size_t n = left < sizeof(line) ? (size_t)left : sizeof(line);
		if (put(line, n) < 0)
			return 1;
		left -= n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	const char *arg = argc > 2 ? argv[2] : "0";

	if (!*verb)
		hold();
	if (!strcmp(verb, "cat"))
		return cat();
	if (!strcmp(verb, "exit"))
		return atoi(arg);
	if (!strcmp(verb, "kill"))
		return raise(atoi(arg));
	if (!strcmp(verb, "flood"))
		return flood(strtoull(arg, NULL, 10));
	if (!strcmp(verb, "sleep"))
		return sleep((unsigned)atoi(arg)) != 0;
	if (!strcmp(verb, "args")) {
		for (int i = 2; i < argc; i++)
			puts(argv[i]);
		return 0;
	}
	fprintf(stderr, "static: no verb '%s'\n", verb);
	return 2;
}
