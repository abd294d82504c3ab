#include "muxd/muxlet/errand.h"

#include "muxd/muxlet/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_SYSTEM 71

/* Calls each() with every piece of our own file. 0, or -1 with errno. */
static int read_self(int (*each)(void *arg, const uint8_t *p, size_t n), void *arg)
{
	uint8_t buf[16384];
	ssize_t n;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 || each(arg, buf, (size_t)n))
			break;
	}
	close(fd);
	return n == 0 ? 0 : -1;
}

static int add_digest(void *arg, const uint8_t *p, size_t n)
{
	sha256_add(arg, p, n);
	return 0;
}

int errand_check(const char *hex)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[SHA256_LEN];
	char text[2 * SHA256_LEN + 1];
	struct sha256 s;

	sha256_init(&s);
	if (read_self(add_digest, &s))
		return 2;
	sha256_finish(&s, digest);
	for (size_t i = 0; i < SHA256_LEN; i++) {
		text[2 * i] = digits[digest[i] >> 4];
		text[2 * i + 1] = digits[digest[i] & 15];
	}
	text[2 * SHA256_LEN] = '\0';
	return strcmp(text, hex) == 0 ? 0 : 1;
}

static int add_copy(void *arg, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t done = write(*(int *)arg, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return -1;
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

int errand_install(const char *path)
{
	char temporary[4096];
	int fd = -1, rc = -1;

	if (snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid()) < (int)sizeof(temporary))
		fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	if (fd >= 0) {
		rc = read_self(add_copy, &fd);
		if (!rc)
			rc = fchmod(fd, 0555);
		if (close(fd))
			rc = -1;
		if (!rc)
			rc = rename(temporary, path);
	}
	if (!rc)
		return 0;
	fprintf(stderr, "muxlet: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		(void)unlink(temporary);
	return EXIT_SYSTEM;
}

/* As process 1 it ends when it is told so from outside: who is inside is seen with a pid, or came another way than
 * kill. */
static bool may_end(const siginfo_t *si)
{
	return si->si_signo != SIGCHLD && (getpid() != 1 || (si->si_code == SI_USER && si->si_pid == 0));
}

int errand_pause(void)
{
	sigset_t set;
	siginfo_t si;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_SETMASK, &set, NULL))
		return EXIT_SYSTEM;
	do {
		while (sigwaitinfo(&set, &si) < 0)
			if (errno != EINTR)
				return EXIT_SYSTEM;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	} while (!may_end(&si));
	return 0;
}

int errand_sync(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0 || syncfs(fd))
		rc = errno;
	if (rc)
		fprintf(stderr, "muxlet: %s: %s\n", path, strerror(rc));
	if (fd >= 0)
		close(fd);
	return rc;
}
