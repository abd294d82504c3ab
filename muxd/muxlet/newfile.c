#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHUNK       (64 * 1024)
#define TRAILER     (8 + SHA256_LEN)
#define TEMP_PREFIX ".muxd-put-"
#define TEMP_TRIES  8

/* For the handler: whose temporary names have to go when we are told to end, newest first. */
static struct newfile *volatile ending;

static void newfile_temp_name(struct newfile *t)
{
	uint8_t r[8] = {0};
	size_t n = sizeof(TEMP_PREFIX) - 1;

	if (getrandom(r, sizeof(r), 0) < 0)
		r[0] = (uint8_t)getpid();
	memcpy(t->temp, TEMP_PREFIX, n);
	for (size_t i = 0; i < sizeof(r); i++)
		snprintf(t->temp + n + 2 * i, 3, "%02x", r[i]);
}

static void newfile_on_end(int signum)
{
	for (const struct newfile *t = ending; t; t = t->next)
		if (t->named)
			(void)unlinkat(t->dir_fd, t->temp, 0);
	_exit(128 + signum);
}

static void newfile_watch_end(struct newfile *t)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = newfile_on_end;
	t->next = ending;
	ending = t;
	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGHUP, &sa, NULL);
}

static int open_named(struct newfile *t)
{
	for (int i = 0; i < TEMP_TRIES; i++) {
		newfile_temp_name(t);
		t->named = true; /* before it stands there: the handler may come in between */
		t->fd = openat(t->dir_fd, t->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (t->fd >= 0)
			return 0;
		t->named = false;
		if (errno != EEXIST)
			break;
	}
	return errno;
}

/* Without a name it vanishes with us, however we end. */
int newfile_open(struct newfile *t)
{
	newfile_watch_end(t);
	t->fd = openat(t->dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (t->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT && errno != ENOSYS)
		return errno;
	return open_named(t);
}

/* ---- the content */

int newfile_write_counted(int fd, const void *data, size_t n, size_t *out_done)
{
	const uint8_t *p = data;

	*out_done = 0;
	while (*out_done < n) {
		ssize_t done = write(fd, p + *out_done, n - *out_done);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		*out_done += (size_t)done;
	}
	return 0;
}

int newfile_write(int fd, const void *data, size_t n)
{
	size_t done;

	return newfile_write_counted(fd, data, n, &done);
}

ssize_t newfile_read(int fd, void *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = read(fd, (uint8_t *)p + have, n - have);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return (ssize_t)have;
}

static uint64_t get_u64_le(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | p[i];
	return v;
}

/* The bytes that were held back are the sender's word about all before them. */
static int check_trailer(const uint8_t *p, size_t n, uint64_t size, const uint8_t own[SHA256_LEN])
{
	if (n != TRAILER || get_u64_le(p) != size || memcmp(p + 8, own, SHA256_LEN) != 0)
		return EBADMSG;
	return 0;
}

/* Content on its way in: all but the last 40 bytes goes on. */
struct receiving {
	int (*take)(void *arg, const uint8_t *p, size_t n);
	void *arg;
	ssize_t (*read)(int fd, void *p, size_t n);
	struct sha256 sum;
	uint64_t size;
};

/* Everything but the last 40 bytes, which are known to be the last when the end has come. */
static int receive_to_end(struct receiving *r, uint8_t own[SHA256_LEN])
{
	static uint8_t buf[CHUNK + TRAILER];
	size_t held = 0;
	ssize_t got;

	sha256_init(&r->sum);
	while ((got = r->read(STDIN_FILENO, buf + held, CHUNK)) > 0) {
		size_t n = held + (size_t)got, out = n > TRAILER ? n - TRAILER : 0;
		int err = out ? r->take(r->arg, buf, out) : 0;

		if (err)
			return err;
		sha256_add(&r->sum, buf, out);
		r->size += out;
		held = n - out;
		memmove(buf, buf + out, held);
	}
	if (got < 0)
		return errno;
	sha256_finish(&r->sum, own);
	return check_trailer(buf, held, r->size, own);
}

static int take_to_file(void *arg, const uint8_t *p, size_t n)
{
	return newfile_write(*(int *)arg, p, n);
}

int newfile_receive(int fd, uint8_t out_sum[SHA256_LEN], uint64_t *out_size)
{
	struct receiving r = {.take = take_to_file, .arg = &fd, .read = newfile_read};
	uint8_t own[SHA256_LEN];
	int err = receive_to_end(&r, own);

	if (!err && out_sum)
		memcpy(out_sum, own, sizeof(own));
	if (!err && out_size)
		*out_size = r.size;
	return err;
}

static volatile sig_atomic_t told_to_end;

static void newfile_on_told_to_end(int signum)
{
	(void)signum;
	told_to_end = 1;
}

/* By which a program of this room is told to end; all others kill. */
static sigset_t newfile_ends(void)
{
	sigset_t ends;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	return ends;
}

/* Reads the bytes that there are; TERM and HUP are heard while there are none. */
static ssize_t read_until_end(int fd, void *p, size_t n)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	sigset_t open;

	sigprocmask(SIG_BLOCK, NULL, &open);
	sigdelset(&open, SIGTERM);
	sigdelset(&open, SIGHUP);
	while (!told_to_end && ppoll(&wait, 1, NULL, &open) < 0)
		if (errno != EINTR)
			return -1;
	if (!told_to_end)
		return read(fd, p, n);
	errno = ECANCELED;
	return -1;
}

int newfile_hold_end(void)
{
	struct sigaction act = {.sa_handler = newfile_on_told_to_end};
	sigset_t ends = newfile_ends();

	return sigprocmask(SIG_BLOCK, &ends, NULL) || sigaction(SIGTERM, &act, NULL) || sigaction(SIGHUP, &act, NULL)
		   ? errno
		   : 0;
}

bool newfile_is_ended(void)
{
	sigset_t come;

	return told_to_end || (sigpending(&come) == 0 && (sigismember(&come, SIGTERM) || sigismember(&come, SIGHUP)));
}

int newfile_receive_each(int (*take)(void *arg, const uint8_t *p, size_t n), void *arg)
{
	struct receiving r = {.take = take, .arg = arg, .read = read_until_end};
	uint8_t own[SHA256_LEN];
	int err = newfile_hold_end();

	return err ? err : receive_to_end(&r, own);
}

/* ---- its name */

static int link_unnamed(struct newfile *t, const char *name)
{
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", t->fd);
	return linkat(AT_FDCWD, path, t->dir_fd, name, AT_SYMLINK_FOLLOW) ? errno : 0;
}

/* link() does not replace, rename() does: so a name that is taken is taken over in two steps. */
static int link_over(struct newfile *t)
{
	int err = EEXIST;

	for (int i = 0; i < TEMP_TRIES && err == EEXIST; i++) {
		newfile_temp_name(t);
		t->named = true;
		err = link_unnamed(t, t->temp);
		t->named = err == 0;
	}
	return err;
}

/* A file with a temporary name gets its own; without replace by a link, which fails where the name is taken. */
static int rename_temp(struct newfile *t, bool replace)
{
	int err = 0;

	if (replace ? renameat(t->dir_fd, t->temp, t->dir_fd, t->base)
		    : linkat(t->dir_fd, t->temp, t->dir_fd, t->base, 0))
		err = errno;
	if (err || !replace)
		(void)unlinkat(t->dir_fd, t->temp, 0);
	t->named = false;
	return err;
}

static int give_name(struct newfile *t, bool replace)
{
	int err;

	if (t->named)
		return rename_temp(t, replace);
	err = link_unnamed(t, t->base);
	if (err != EEXIST || !replace)
		return err;
	err = link_over(t);
	return err ? err : rename_temp(t, true);
}

int newfile_settle(struct newfile *t, mode_t mode)
{
	return fchmod(t->fd, mode) || fsync(t->fd) ? errno : 0;
}

int newfile_publish(struct newfile *t, mode_t mode, bool replace)
{
	int err = newfile_settle(t, mode);

	return err ? err : newfile_name(t, replace);
}

int newfile_link(struct newfile *t, bool replace)
{
	return give_name(t, replace);
}

int newfile_name(struct newfile *t, bool replace)
{
	int err = give_name(t, replace);

	if (!err && fsync(t->dir_fd) && errno != EBADF && errno != EINVAL)
		err = errno; /* it is there, but a power cut may undo that */
	return err;
}

void newfile_drop(struct newfile *t)
{
	struct newfile *volatile *at = &ending;

	if (t->named)
		(void)unlinkat(t->dir_fd, t->temp, 0);
	t->named = false;
	while (*at && *at != t)
		at = &(*at)->next;
	if (*at)
		*at = t->next;
}
