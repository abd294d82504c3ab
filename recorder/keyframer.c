#define LOG_SUBSYS "keyframes"
#include "recorder/keyframer.h"

#include "muxd/base/bytes.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"
#include "muxd/base/log.h"
#include "muxd/screen/frame.h"
#include "recorder/chain_text.h"
#include "recorder/keyframes.h"
#include "recorder/recording.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define WORKER_WAIT_S 10
#define WORKER_IO_S   30

enum keyframer_state { KEYFRAMER_IDLE, KEYFRAMER_WAITING, KEYFRAMER_DRAWING };

struct keyframer {
	struct keyframer_params p;
	char *dir;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	enum keyframer_state state;
	struct id queue[KEYFRAMER_QUEUE_MAX];
	size_t first, n;
	int worker; /* -1: none; under lock while WAITING, the thread's while DRAWING */
	bool answered, stopping;
};

static void keyframer_set_state(struct keyframer *k, enum keyframer_state s)
{
	static const char *const names[] = {"idle", "waiting", "drawing"};

	log_debug(NULL, "%s -> %s", names[k->state], names[s]);
	k->state = s;
}

/* ---- talking to the worker; blocking, with the socket's own timeouts */

struct drawing {
	int fd;
	struct buf out, in;
	struct keyframes_writer w;
	uint64_t offset, since; /* where the worker stands; bytes since the last keyframe */
	uint16_t cols, rows;
};

static int flush(struct drawing *d)
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

static int tell(struct drawing *d, uint8_t type, const void *head, size_t nhead, const void *body, size_t nbody)
{
	int rc = screen_frame_put(&d->out, type, head, nhead, body, nbody);

	return rc ? rc : flush(d);
}

static int tell_size(struct drawing *d, uint8_t type)
{
	uint8_t head[12];
	size_t at = 0;

	if (type == SCREEN_OPEN) {
		put_u64(head, d->offset);
		at = 8;
	}
	put_u16(head + at, d->cols);
	put_u16(head + at + 2, d->rows);
	return tell(d, type, head, at + 4, NULL, 0);
}

static int feed(struct drawing *d, const uint8_t *p, size_t n)
{
	uint8_t head[8];
	int rc = 0;

	while (rc == 0 && n) {
		size_t part = n < SCREEN_FEED_MAX ? n : SCREEN_FEED_MAX;

		put_u64(head, d->offset);
		rc = tell(d, SCREEN_FEED, head, sizeof(head), p, part);
		d->offset += part;
		d->since += part;
		p += part;
		n -= part;
	}
	return rc;
}

static int cut(struct drawing *d, uint64_t to)
{
	uint8_t head[8];

	d->offset = to;
	put_u64(head, to);
	return tell(d, SCREEN_CUT, head, sizeof(head), NULL, 0);
}

static int next_frame(struct drawing *d, struct screen_frame *f, size_t *size)
{
	int rc;

	while ((rc = screen_frame_next(&d->in, f, size)) == 0) {
		uint8_t *p;
		ssize_t n;

		if (buf_reserve(&d->in, 64 * 1024, &p))
			return ERR_TOO_LARGE;
		n = recv(d->fd, p, 64 * 1024, 0);
		if (n <= 0 && !(n < 0 && errno == EINTR))
			return ERR_EOF;
		buf_commit(&d->in, n > 0 ? (size_t)n : 0);
	}
	return rc;
}

/* The screen as it is after the event, into the file. One that is too large to draw is left out. */
static int shoot(struct drawing *d, const struct ring_record *rec, struct err *e)
{
	static const uint8_t tag[4];
	struct screen_frame f;
	size_t size;
	int rc = tell(d, SCREEN_SHOOT, tag, sizeof(tag), NULL, 0);

	if (rc == 0)
		rc = next_frame(d, &f, &size);
	if (rc != 1 || f.type != SCREEN_SHOT || f.len < SCREEN_SHOT_HEAD)
		return err_set(e, ERR_EOF, "the worker has ended");
	struct keyframe k = {.ns = rec->boot_ns,
			     .seq = rec->seq,
			     .offset = get_u64(f.payload + 4),
			     .cols = get_u16(f.payload + 12),
			     .rows = get_u16(f.payload + 14),
			     .len = (uint32_t)(f.len - SCREEN_SHOT_HEAD)};
	rc = k.len ? keyframes_add(&d->w, &k, f.payload + SCREEN_SHOT_HEAD, e) : 0;
	buf_consume(&d->in, size);
	d->since = 0;
	return rc;
}

/* ---- one recording */

static int show(struct drawing *d, const struct ring_record *rec)
{
	if (rec->type == RING_RESIZE && rec->len >= 4) {
		d->cols = get_u16(rec->payload);
		d->rows = get_u16(rec->payload + 2);
		return tell_size(d, SCREEN_RESIZE);
	}
	if (rec->stream != STREAM_OUTPUT || !event_extent(rec))
		return 0;
	if (rec->type == RING_DATA)
		return feed(d, rec->payload, rec->len);
	return cut(d, rec->offset + event_extent(rec));
}

static bool stopping(struct keyframer *k)
{
	bool yes;

	pthread_mutex_lock(&k->lock);
	yes = k->stopping;
	pthread_mutex_unlock(&k->lock);
	return yes;
}

/* All events of a sequence belong on one side of a keyframe: it is taken before the next sequence begins. */
static int draw(struct keyframer *k, struct drawing *d, struct recording *r, struct err *e)
{
	struct ring_record rec, last = {0};
	int rc;

	while ((rc = recording_next(r, &rec, e)) == 1) {
		if (d->since >= KEYFRAMER_SPACING && rec.seq != last.seq && (rc = shoot(d, &last, e)) != 0)
			return rc;
		if (show(d, &rec))
			return err_set(e, ERR_EOF, "the worker has ended");
		last = rec;
		if (stopping(k))
			return ERR_CANCELLED;
	}
	return rc;
}

/* Is it a terminal's, and is there so much of it that drawing all of it takes a while? */
static bool worth_it(const struct recording *r, struct drawing *d)
{
	const struct recording_info *info = recording_info(r);
	int64_t cols = 0, rows = 0;
	bool pty = false;
	json_t *o = NULL;

	if (info->sealed && info->streams[STREAM_OUTPUT].kept >= 2 * KEYFRAMER_SPACING &&
	    json_parse(info->open_json, strlen(info->open_json), RING_RECORD_MAX, &o, NULL) == 0) {
		(void)json_opt_bool(o, "pty", &pty, NULL);
		(void)json_opt_int(o, "cols", 0, UINT16_MAX, &cols, NULL);
		(void)json_opt_int(o, "rows", 0, UINT16_MAX, &rows, NULL);
	}
	json_decref(o);
	d->cols = cols ? (uint16_t)cols : 80;
	d->rows = rows ? (uint16_t)rows : 24;
	return pty;
}

/* There, and as the log has it. What else stands under its name is nobody's: it goes, and is drawn again. */
static bool there(struct keyframer *k, const char *recording, const struct id *session)
{
	struct keyframe first;
	struct buf data;
	char path[FILE_PATH_MAX], root[65] = "";
	uint8_t want[DIGEST_LEN];
	int rc;

	if (keyframes_path(recording, path, NULL))
		return true;
	if (k->p.known(k->p.arg, session, root, NULL))
		return true; /* the index is at work: somebody will ask again */
	buf_init(&data, KEYFRAME_DATA_MAX);
	rc = root[0] && chain_unhex(root, want, DIGEST_LEN) == 0
		 ? keyframes_find(recording, session, want, 0, &first, &data, NULL)
		 : ERR_CORRUPT;
	buf_finish(&data);
	if (rc == ERR_CORRUPT)
		(void)unlink(path);
	return rc >= 0;
}

/* A worker of our own; -1: none. */
static int get_worker(struct keyframer *k)
{
	struct timeval io = {.tv_sec = WORKER_IO_S};
	struct timespec until;
	struct err e = {0};
	int fd;

	pthread_mutex_lock(&k->lock);
	keyframer_set_state(k, KEYFRAMER_WAITING);
	k->answered = false;
	pthread_mutex_unlock(&k->lock);
	if (k->p.ask(k->p.arg, &e))
		log_warn(NULL, "no screen worker: %s", e.message);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += e.code ? 0 : WORKER_WAIT_S;
	pthread_mutex_lock(&k->lock);
	while (!k->answered && !k->stopping && !pthread_cond_timedwait(&k->moved, &k->lock, &until))
		;
	keyframer_set_state(k, KEYFRAMER_DRAWING); /* an answer that comes now is closed */
	fd = k->worker;
	k->worker = -1;
	pthread_mutex_unlock(&k->lock);
	if (fd >= 0 && (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &io, sizeof(io)) ||
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &io, sizeof(io)))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int make(struct keyframer *k, const char *path, struct recording *r, struct drawing *d, struct err *e)
{
	struct keyframes_digest digest;
	struct chain_seal seal;
	struct err why = {0};
	int rc;

	d->fd = get_worker(k);
	if (d->fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "no screen worker is to be had now");
	rc = recording_sealed(path, &seal, e);
	if (rc == 0)
		rc = keyframes_begin(&d->w, path, &recording_info(r)->session, seal.leaf, e);
	if (rc == 0) {
		rc = tell_size(d, SCREEN_OPEN) ? ERR_EOF : draw(k, d, r, &why);
		/* What killed a worker would kill the next one: what there is by then stays, and is not tried again. */
		if (rc == ERR_EOF) {
			log_warn(NULL, "%s: keyframes end at byte %llu of its output: %s", path,
				 (unsigned long long)d->offset, why.message);
			rc = 0;
		}
		if (rc == 0)
			rc = keyframes_end(&d->w, &digest, e);
		else
			err_set(e, rc, "%s", why.message);
		if (rc == 0)
			rc = k->p.made(k->p.arg, &recording_info(r)->session, &digest, e);
	}
	keyframes_abandon(&d->w);
	close(d->fd);
	return rc;
}

static void one(struct keyframer *k, const struct id *session)
{
	struct drawing d = {.w.fd = -1};
	struct recording *r = NULL;
	char path[FILE_PATH_MAX], text[ID_STR_LEN];
	struct err e = {0};
	int rc = recording_find(k->dir, session, path, sizeof(path), &e);

	if (rc || there(k, path, session) || recording_open(path, &r, &e))
		return; /* expired meanwhile, or there already; damage is verify's business */
	id_format(session, text);
	buf_init(&d.out, SCREEN_FRAME_MAX + SCREEN_HEADER);
	buf_init(&d.in, SCREEN_FRAME_MAX + SCREEN_HEADER + (size_t)64 * 1024);
	rc = worth_it(r, &d) ? make(k, path, r, &d, &e) : 0;
	if (rc && rc != ERR_CANCELLED)
		log_warn(&(struct log_ids){.session = text}, "no keyframes: %s", e.message);
	buf_finish(&d.out);
	buf_finish(&d.in);
	recording_close(r);
}

static void *run(void *arg)
{
	struct keyframer *k = arg;
	struct sched_param none = {0};
	struct id next;

	(void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* where it may */
	pthread_mutex_lock(&k->lock);
	while (!k->stopping) {
		if (!k->n) {
			pthread_cond_wait(&k->moved, &k->lock);
			continue;
		}
		next = k->queue[k->first];
		k->first = (k->first + 1) % KEYFRAMER_QUEUE_MAX;
		k->n--;
		pthread_mutex_unlock(&k->lock);
		one(k, &next);
		pthread_mutex_lock(&k->lock);
		keyframer_set_state(k, KEYFRAMER_IDLE);
	}
	pthread_mutex_unlock(&k->lock);
	return NULL;
}

/* ---- outside */

int keyframer_create(const struct keyframer_params *p, struct keyframer **out, struct err *e)
{
	struct keyframer *k = calloc(1, sizeof(*k));

	if (!k || !(k->dir = strdup(p->dir))) {
		free(k);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	k->p = *p;
	k->worker = -1;
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->moved, NULL);
	if (pthread_create(&k->thread, NULL, run, k)) {
		pthread_mutex_destroy(&k->lock);
		pthread_cond_destroy(&k->moved);
		free(k->dir);
		free(k);
		return err_set(e, ERR_SYS, "cannot start a thread");
	}
	*out = k;
	return 0;
}

void keyframer_destroy(struct keyframer *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->stopping = true;
	pthread_cond_broadcast(&k->moved);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	if (k->worker >= 0)
		close(k->worker);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->moved);
	free(k->dir);
	free(k);
}

void keyframer_want(struct keyframer *k, const struct id *session)
{
	bool known = false;

	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; !known && i < k->n; i++)
		known = id_equal(&k->queue[(k->first + i) % KEYFRAMER_QUEUE_MAX], session);
	if (!known && k->n < KEYFRAMER_QUEUE_MAX) {
		k->queue[(k->first + k->n++) % KEYFRAMER_QUEUE_MAX] = *session;
		pthread_cond_signal(&k->moved);
	}
	pthread_mutex_unlock(&k->lock);
}

void keyframer_worker(struct keyframer *k, int fd)
{
	pthread_mutex_lock(&k->lock);
	if (k->state == KEYFRAMER_WAITING && !k->answered) {
		k->answered = true;
		k->worker = fd;
		fd = -1;
		pthread_cond_broadcast(&k->moved);
	}
	pthread_mutex_unlock(&k->lock);
	if (fd >= 0)
		close(fd);
}
