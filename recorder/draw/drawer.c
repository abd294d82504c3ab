#define LOG_SUBSYS "drawer"
#include "recorder/draw/drawer.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/screen/frame.h"
#include "recorder/format/event.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WORKER_WAIT_S 10
#define WORKER_IO_S   30
#define ANSWERS_MAX   4
#define HEAR_STEP     ((size_t)64 * 1024)

struct drawers {
	struct drawers_params p;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	unsigned waiting;
	int answers[ANSWERS_MAX]; /* not taken yet; -1: there was none */
	unsigned n;
	bool stopping;
};

/* ---- workers for those who wait */

int drawers_create(const struct drawers_params *p, struct drawers **out, struct err *e)
{
	struct drawers *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ERR_NOMEM, "out of memory");
	d->p = *p;
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->moved, NULL);
	*out = d;
	return 0;
}

void drawers_destroy(struct drawers *d)
{
	if (!d)
		return;
	for (unsigned i = 0; i < d->n; i++)
		if (d->answers[i] >= 0)
			close(d->answers[i]);
	pthread_mutex_destroy(&d->lock);
	pthread_cond_destroy(&d->moved);
	free(d);
}

void drawers_answer(struct drawers *d, int fd)
{
	pthread_mutex_lock(&d->lock);
	if (d->n < d->waiting && d->n < ANSWERS_MAX && !d->stopping) {
		d->answers[d->n++] = fd;
		fd = -1;
		pthread_cond_broadcast(&d->moved);
	}
	pthread_mutex_unlock(&d->lock);
	if (fd >= 0) /* who asked for it has given up */
		close(fd);
}

void drawers_stop(struct drawers *d)
{
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_cond_broadcast(&d->moved);
	pthread_mutex_unlock(&d->lock);
}

static int drawer_take(struct drawers *d, struct err *e)
{
	struct timespec until;
	int fd = -1, rc = 0;

	pthread_mutex_lock(&d->lock);
	d->waiting++;
	pthread_mutex_unlock(&d->lock);
	rc = d->p.ask(d->p.arg, e);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += rc ? 0 : WORKER_WAIT_S;
	pthread_mutex_lock(&d->lock);
	while (!d->n && !d->stopping && !pthread_cond_timedwait(&d->moved, &d->lock, &until))
		;
	if (d->n && !d->stopping)
		fd = d->answers[--d->n];
	d->waiting--;
	pthread_mutex_unlock(&d->lock);
	if (fd < 0 && rc == 0)
		err_set(e, ERR_UNAVAILABLE, "no screen worker is to be had now");
	return fd >= 0 ? fd : ERR_UNAVAILABLE;
}

/* ---- one of them */

static int drawer_flush(struct drawer *d)
{
	while (buf_len(&d->out)) {
		ssize_t n = send(d->fd, buf_ptr(&d->out), buf_len(&d->out), MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return ERR_EOF;
		if (n > 0)
			buf_consume(&d->out, (size_t)n);
	}
	return 0;
}

int drawer_tell(struct drawer *d, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody)
{
	int rc = screen_frame_put(&d->out, type, head, nhead, body, nbody);

	return rc ? rc : drawer_flush(d);
}

int drawer_begin(struct drawer *d, struct drawers *from, uint16_t cols, uint16_t rows, struct err *e)
{
	const struct timeval io = {.tv_sec = WORKER_IO_S};
	uint8_t head[12];

	*d = (struct drawer){.fd = -1};
	buf_init(&d->out, SCREEN_FRAME_MAX + SCREEN_HEADER);
	buf_init(&d->in, SCREEN_FRAME_MAX + SCREEN_HEADER + HEAR_STEP);
	d->fd = drawer_take(from, e);
	if (d->fd < 0)
		return ERR_UNAVAILABLE;
	if (setsockopt(d->fd, SOL_SOCKET, SO_RCVTIMEO, &io, sizeof(io)) ||
	    setsockopt(d->fd, SOL_SOCKET, SO_SNDTIMEO, &io, sizeof(io)))
		return err_sys(e, errno, "set a worker's patience");
	put_u64(head, 0);
	put_u16(head + 8, cols);
	put_u16(head + 10, rows);
	return drawer_tell(d, SCREEN_OPEN, head, sizeof(head), NULL, 0) ? err_set(e, ERR_EOF, "the worker has ended")
									: 0;
}

void drawer_end(struct drawer *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	buf_finish(&d->out);
	buf_finish(&d->in);
}

int drawer_feed(struct drawer *d, const uint8_t *p, size_t n)
{
	uint8_t head[8];
	int rc = 0;

	while (rc == 0 && n) {
		size_t part = n < SCREEN_FEED_MAX ? n : SCREEN_FEED_MAX;

		put_u64(head, d->offset);
		rc = drawer_tell(d, SCREEN_FEED, head, sizeof(head), p, part);
		d->offset += part;
		p += part;
		n -= part;
	}
	return rc;
}

int drawer_cut(struct drawer *d, uint64_t to)
{
	uint8_t head[8];

	d->offset = to;
	put_u64(head, to);
	return drawer_tell(d, SCREEN_CUT, head, sizeof(head), NULL, 0);
}

int drawer_resize(struct drawer *d, uint16_t cols, uint16_t rows)
{
	uint8_t head[4];

	put_u16(head, cols);
	put_u16(head + 2, rows);
	return drawer_tell(d, SCREEN_RESIZE, head, sizeof(head), NULL, 0);
}

int drawer_show(struct drawer *d, const struct ring_record *rec)
{
	if (rec->type == RING_RESIZE && rec->len >= 4)
		return drawer_resize(d, get_u16(rec->payload), get_u16(rec->payload + 2));
	if (rec->stream != STREAM_OUTPUT || !event_extent(rec))
		return 0;
	if (rec->type == RING_DATA)
		return drawer_feed(d, rec->payload, rec->len);
	return drawer_cut(d, rec->offset + event_extent(rec));
}

int drawer_hear(struct drawer *d, struct screen_frame *out)
{
	size_t size;
	int rc;

	while ((rc = screen_frame_next(&d->in, out, &size)) == 0) {
		uint8_t *p;
		ssize_t n;

		if (buf_reserve(&d->in, HEAR_STEP, &p))
			return ERR_EOF;
		n = recv(d->fd, p, HEAR_STEP, 0);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			return ERR_EOF;
		buf_commit(&d->in, n > 0 ? (size_t)n : 0);
	}
	return rc == 1 ? 0 : ERR_EOF;
}

int drawer_version(struct drawer *d, char out[DRAWER_VERSION_MAX], struct err *e)
{
	struct screen_frame f;
	int rc = drawer_tell(d, SCREEN_WHICH, NULL, 0, NULL, 0);

	if (rc == 0)
		rc = drawer_hear(d, &f);
	if (rc || f.type != SCREEN_DRAWS || f.len == 0 || f.len >= DRAWER_VERSION_MAX)
		return err_set(e, ERR_EOF, "the worker has ended");
	for (size_t i = 0; i < f.len; i++)
		out[i] = (char)(f.payload[i] > ' ' && f.payload[i] < 0x7f ? f.payload[i] : '?');
	out[f.len] = '\0';
	drawer_taken(d);
	return 0;
}

void drawer_taken(struct drawer *d)
{
	struct screen_frame f;
	size_t size;

	if (screen_frame_next(&d->in, &f, &size) == 1)
		buf_consume(&d->in, size);
}
