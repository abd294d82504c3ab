#include "muxd/muxlet/framed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_MAX  (64 * 1024)
#define DIGITS_MAX 5

static bool framed_read_all(int fd, void *p, size_t n)
{
	for (uint8_t *at = p; n;) {
		ssize_t got = read(fd, at, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

/* False: nobody reads it any more. */
static bool framed_write_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
	}
	return true;
}

/* -1: the stream is gone, or what comes is no length. */
static long read_length(int from)
{
	char text[DIGITS_MAX + 2], *end;
	size_t n = 0;
	long v;

	while (n < sizeof(text) - 1) {
		if (!framed_read_all(from, text + n, 1))
			return -1;
		if (text[n++] == '\n')
			break;
	}
	text[n] = '\0';
	v = strtol(text, &end, 10);
	return end > text && strcmp(end, "\n") == 0 && v >= 0 && v <= PIECE_MAX ? v : -1;
}

/* Until the end of input. False: the stream is gone before that. */
static bool take_apart(int from, int to)
{
	static uint8_t piece[PIECE_MAX];
	bool wanted = true;
	long n;

	while ((n = read_length(from)) > 0) {
		if (!framed_read_all(from, piece, (size_t)n))
			return false;
		wanted = wanted && framed_write_all(to, piece, (size_t)n); /* else it is read and dropped */
	}
	return n == 0;
}

/* The stream's descriptor is ours alone: with the process it goes. */
static void *serve(void *arg)
{
	const int *fd = arg;
	bool whole = take_apart(fd[0], fd[1]);
	uint8_t more;

	if (whole) {
		close(fd[1]);
		while (
		    framed_read_all(fd[0], &more, 1)) /* until the stream is gone: who let go of it wants no answer */
			;
	}
	(void)kill(getpid(), SIGTERM);
	return NULL;
}

int framed_begin(void)
{
	static int fd[2]; /* the stream, and what is fed */
	int ends[2], err;
	pthread_t feeder;

	(void)signal(SIGPIPE, SIG_IGN);
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	fd[0] = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	fd[1] = ends[1];
	if (fd[0] < 0 || dup2(ends[0], STDIN_FILENO) < 0)
		return errno;
	close(ends[0]);
	err = pthread_create(&feeder, NULL, serve, fd);
	return err ? err : pthread_detach(feeder);
}
