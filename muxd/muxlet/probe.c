#include "muxd/muxlet/probe.h"

#include "muxd/muxlet/dial.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEAD_MAX   4096
#define ANSWER_MAX (256 * 1024) /* that is read, so that the server need not see a reset */

static int probe_say(int code, const char *text)
{
	(void)!write(STDOUT_FILENO, text, strlen(text));
	return code;
}

static int send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = send(fd, p, n, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return errno;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

/* The head of the answer, as much as comes before its end or the buffer's. */
static size_t read_answer(int fd, char *head, size_t size)
{
	char rest[HEAD_MAX];
	size_t n = 0, all = 0;

	while (all < ANSWER_MAX) {
		bool more = n < size;
		ssize_t got = read(fd, more ? head + n : rest, more ? size - n : sizeof(rest));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += more ? (size_t)got : 0;
		all += (size_t)got;
	}
	return n;
}

static int probe_path(int fd, uint16_t port, const char *path)
{
	char head[HEAD_MAX], word[48];
	int n = snprintf(head, sizeof(head),
			 "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUser-Agent: muxd\r\nAccept: */*\r\n"
			 "Connection: close\r\n\r\n",
			 path, port);
	int err, status;

	if (n < 0 || (size_t)n >= sizeof(head))
		return probe_say(EINVAL, "the path is too long");
	err = send_all(fd, head, (size_t)n);
	if (err)
		return probe_say(err, strerror(err));
	status = probe_status(head, read_answer(fd, head, sizeof(head)));
	if (!status)
		return probe_say(PROBE_UNHEALTHY, "it answers without a status of HTTP");
	snprintf(word, sizeof(word), "it answers with status %d", status);
	return status < 400 && status >= 200 ? 0 : probe_say(PROBE_UNHEALTHY, word);
}

int probe_port(uint16_t port, const char *path)
{
	int fd = -1, err;

	(void)signal(SIGPIPE, SIG_IGN);
	err = dial_connect(port, &fd);
	if (err)
		return probe_say(err > 0 && err < PROBE_UNHEALTHY ? err : EIO, strerror(err));
	err = path ? probe_path(fd, port, path) : 0;
	close(fd);
	return err;
}
