#include "muxd/muxlet/order.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x5244524fu /* "ORDR" */
#define SLOTS 2           /* before argv: of the interpreter, and one that keeps the rest aligned */

enum flag { CWD_OPTIONAL = 1, TTY = 2, FIRST = 4, GUARD = 8 };

/* Then room for the pointers (SLOTS, argv, NULL, envp, NULL), which the receiver fills; then the strings. */
struct head {
	uint32_t magic, number, size, argc, envc, flags, nmore;
	int32_t nice;
	uint32_t file, path, cwd; /* where they begin in the strings; argv and envp lead */
	int32_t to[ORDER_MORE_MAX];
	struct rlimit files, procs;
};

/* What a packet holds when the bytes are in a memory file. */
struct elsewhere {
	uint32_t magic, size;
};

static size_t pointers(const struct head *h)
{
	return ((size_t)SLOTS + h->argc + 1 + h->envc + 1) * sizeof(char *);
}

static size_t measure(char *const *v, uint32_t *count)
{
	size_t n = 0;

	for (*count = 0; v[*count]; (*count)++)
		n += strlen(v[*count]) + 1;
	return n;
}

static uint32_t order_put(uint8_t **at, const uint8_t *strings, const char *text)
{
	uint32_t from = (uint32_t)(*at - strings);
	size_t n = strlen(text) + 1;

	memcpy(*at, text, n);
	*at += n;
	return from;
}

static void put_all(uint8_t **at, const uint8_t *strings, char *const *v)
{
	for (; *v; v++)
		(void)order_put(at, strings, *v);
}

static struct head head_of(const struct child *c, uint32_t number)
{
	struct head h = {.magic = MAGIC,
			 .number = number,
			 .flags = (c->cwd_optional ? CWD_OPTIONAL : 0u) | (c->tty ? TTY : 0u) |
				  (c->first ? FIRST : 0u) | (c->guard ? GUARD : 0u),
			 .nmore = (uint32_t)c->nmore,
			 .nice = c->nice,
			 .files = c->files,
			 .procs = c->procs};

	for (size_t i = 0; i < c->nmore; i++)
		h.to[i] = c->more[i].to;
	return h;
}

/* Read from its start by everyone: its offset is shared, so nobody moves it. */
static int to_file(struct order *o)
{
	size_t done = 0;

	o->file = memfd_create("order", MFD_CLOEXEC);
	if (o->file < 0)
		return errno;
	while (done < o->n) {
		ssize_t n = pwrite(o->file, o->p + done, o->n - done, (off_t)done);

		if (n <= 0)
			return n < 0 ? errno : EIO;
		done += (size_t)n;
	}
	return 0;
}

int order_make(const struct child *c, uint32_t number, struct order *out)
{
	struct head h;
	struct order o = {.file = -1};
	size_t strings;
	uint8_t *at, *first;
	int err = 0;

	if (c->nmore > ORDER_MORE_MAX)
		return E2BIG;
	h = head_of(c, number);
	strings = measure(c->argv, &h.argc) + measure(c->envp, &h.envc) + strlen(c->file) + strlen(c->path) +
		  strlen(c->cwd) + 3;
	o.n = sizeof(h) + pointers(&h) + strings;
	if (o.n > ORDER_MAX)
		return E2BIG;
	o.p = calloc(1, o.n);
	if (!o.p)
		return ENOMEM;
	h.size = (uint32_t)o.n;
	first = at = o.p + sizeof(h) + pointers(&h);
	put_all(&at, first, c->argv);
	put_all(&at, first, c->envp);
	h.file = order_put(&at, first, c->file);
	h.path = order_put(&at, first, c->path);
	h.cwd = order_put(&at, first, c->cwd);
	memcpy(o.p, &h, sizeof(h));
	for (; o.nfds < 3; o.nfds++)
		o.fd[o.nfds] = c->fd[o.nfds];
	for (size_t i = 0; i < c->nmore; i++)
		o.fd[o.nfds++] = c->more[i].from;
	if (o.n > ORDER_INLINE)
		err = to_file(&o);
	if (err)
		order_finish(&o);
	else
		*out = o;
	return err;
}

void order_finish(struct order *o)
{
	if (o->p)
		explicit_bzero(o->p, o->n); /* environments hold what is nobody else's business */
	free(o->p);
	if (o->file >= 0)
		close(o->file);
	*o = (struct order){.file = -1};
}

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE((ORDER_FDS + 1) * sizeof(int))];
};

int order_send(const struct order *o, int sock)
{
	struct elsewhere there = {MAGIC, (uint32_t)o->n};
	struct iovec iov = {o->p, o->n};
	size_t nfds = o->nfds + (o->file >= 0);
	union control control;
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	int fds[ORDER_FDS + 1];

	memset(&control, 0, sizeof(control));
	memcpy(fds, o->fd, o->nfds * sizeof(int));
	if (o->file >= 0) {
		fds[o->nfds] = o->file;
		iov = (struct iovec){&there, sizeof(there)};
	}
	msg.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(nfds * sizeof(int));
	memcpy(CMSG_DATA(&control.head), fds, nfds * sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? errno : 0;
}

void order_close(struct order_box *box)
{
	for (size_t i = 0; i < box->nfds; i++)
		if (box->fd[i] >= 0)
			close(box->fd[i]);
	box->nfds = 0;
	if (box->map)
		(void)munmap(box->map, box->mapped);
	box->map = NULL;
}

/* Out of the numbers that they are to get in the program. */
static int raise_fds(struct order_box *box, int least)
{
	for (size_t i = 0; i < box->nfds; i++) {
		int up;

		if (box->fd[i] >= least)
			continue;
		up = fcntl(box->fd[i], F_DUPFD_CLOEXEC, least);
		if (up < 0)
			return errno;
		close(box->fd[i]);
		box->fd[i] = up;
	}
	return 0;
}

static int keep_fds(struct order_box *box, struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
			       ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
			       : 0;

		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (box->nfds < sizeof(box->fd) / sizeof(box->fd[0]))
				box->fd[box->nfds++] = fd;
			else
				close(fd);
		}
	}
	return msg->msg_flags & (MSG_CTRUNC | MSG_TRUNC) ? EBADMSG : 0;
}

/* The last descriptor is the memory file: private to us, since pointers are written into it. */
static int from_file(struct order_box *box, const uint8_t *packet, uint8_t **bytes, size_t *n)
{
	struct elsewhere there;
	struct stat st;
	int fd;

	memcpy(&there, packet, sizeof(there));
	if (there.magic != MAGIC || box->nfds == 0)
		return EBADMSG;
	fd = box->fd[--box->nfds];
	box->mapped = there.size;
	if (there.size > ORDER_MAX || fstat(fd, &st) != 0 || st.st_size != (off_t)there.size) {
		close(fd);
		return EBADMSG;
	}
	box->map = mmap(NULL, box->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	close(fd);
	if (box->map == MAP_FAILED) {
		box->map = NULL;
		return errno;
	}
	*bytes = box->map;
	*n = box->mapped;
	return 0;
}

/* Points v at count strings from *at on; NULL when they do not end before the end. */
static char **point(char **v, uint32_t count, char **at, const char *end)
{
	for (uint32_t i = 0; i < count; i++) {
		v[i] = *at;
		*at = memchr(*at, 0, (size_t)(end - *at));
		if (!*at)
			return NULL;
		(*at)++;
	}
	v[count] = NULL;
	return v;
}

static int unpack(struct order_box *box, uint8_t *bytes, size_t n, struct child *out, struct head *h)
{
	char **v = (char **)(void *)(bytes + sizeof(*h));
	char *strings, *at, *end = (char *)bytes + n;

	if (n < sizeof(*h))
		return EBADMSG;
	memcpy(h, bytes, sizeof(*h));
	if (h->magic != MAGIC || h->size != n || h->argc > n || h->envc > n || h->nmore > ORDER_MORE_MAX ||
	    box->nfds != 3 + (size_t)h->nmore || n - sizeof(*h) <= pointers(h) || end[-1])
		return EBADMSG;
	strings = at = (char *)v + pointers(h);
	if (h->file >= end - strings || h->path >= end - strings || h->cwd >= end - strings)
		return EBADMSG;
	out->argv = point(v + SLOTS, h->argc, &at, end);
	out->envp = out->argv ? point(out->argv + h->argc + 1, h->envc, &at, end) : NULL;
	out->file = strings + h->file;
	out->path = strings + h->path;
	out->cwd = strings + h->cwd;
	return out->envp ? 0 : EBADMSG;
}

static void order_fill(struct order_box *box, const struct head *h, const struct guard *guard, struct child *out)
{
	out->cwd_optional = h->flags & CWD_OPTIONAL;
	out->tty = h->flags & TTY;
	out->first = h->flags & FIRST;
	out->guard = h->flags & GUARD ? guard : NULL;
	out->nice = h->nice;
	out->files = h->files;
	out->procs = h->procs;
	memcpy(out->fd, box->fd, sizeof(out->fd));
	for (uint32_t i = 0; i < h->nmore; i++)
		box->more[i] = (struct child_fd){box->fd[3 + i], h->to[i]};
	out->more = box->more;
	out->nmore = h->nmore;
}

int order_receive(int sock, struct order_box *box, const struct guard *guard, struct child *out, uint32_t *number)
{
	struct iovec iov = {box->room, sizeof(box->room)};
	union control control;
	struct msghdr msg = {
	    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	struct child c = {0};
	struct head h = {0};
	uint8_t *bytes = box->room;
	size_t len;
	ssize_t n;
	int err;

	box->nfds = 0;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno;
	if (n == 0 && msg.msg_controllen == 0)
		return -1;
	len = (size_t)n;
	err = keep_fds(box, &msg);
	if (!err && len == sizeof(struct elsewhere))
		err = from_file(box, box->room, &bytes, &len);
	err = err ? err : unpack(box, bytes, len, &c, &h);
	err = err ? err : raise_fds(box, h.nmore ? CHILD_SECRET_LAST + 1 : CHILD_SECRET_FIRST);
	if (err) {
		order_close(box);
		return err;
	}
	order_fill(box, &h, guard, &c);
	*out = c;
	*number = h.number;
	return 0;
}
