#define LOG_SUBSYS "keyframes"
#include "recorder/keyframer.h"

#include "muxd/base/bytes.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"
#include "muxd/base/log.h"
#include "muxd/screen/frame.h"
#include "recorder/chain_text.h"
#include "recorder/drawer.h"
#include "recorder/keyframes.h"
#include "recorder/recording.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum keyframer_state { KEYFRAMER_IDLE, KEYFRAMER_DRAWING };

struct keyframer {
	struct keyframer_params p;
	char *dir;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	enum keyframer_state state;
	struct id queue[KEYFRAMER_QUEUE_MAX];
	size_t first, n;
	bool stopping;
};

static void keyframer_set_state(struct keyframer *k, enum keyframer_state s)
{
	static const char *const names[] = {"idle", "drawing"};

	log_debug(NULL, "%s -> %s", names[k->state], names[s]);
	k->state = s;
}

struct drawing {
	struct drawer worker;
	struct keyframes_writer w;
	uint64_t since; /* bytes since the last keyframe */
	uint16_t cols, rows;
};

/* The screen as it is after the event, into the file. One that is too large to draw is left out. */
static int shoot(struct drawing *d, const struct ring_record *rec, struct err *e)
{
	static const uint8_t tag[4];
	struct screen_frame f;
	int rc = drawer_tell(&d->worker, SCREEN_SHOOT, tag, sizeof(tag), NULL, 0);

	if (rc == 0)
		rc = drawer_hear(&d->worker, &f);
	if (rc || f.type != SCREEN_SHOT || f.len < SCREEN_SHOT_HEAD)
		return err_set(e, ERR_EOF, "the worker has ended");
	struct keyframe k = {.ns = rec->boot_ns,
			     .seq = rec->seq,
			     .offset = get_u64(f.payload + 4),
			     .cols = get_u16(f.payload + 12),
			     .rows = get_u16(f.payload + 14),
			     .len = (uint32_t)(f.len - SCREEN_SHOT_HEAD)};
	rc = k.len ? keyframes_add(&d->w, &k, f.payload + SCREEN_SHOT_HEAD, e) : 0;
	drawer_taken(&d->worker);
	d->since = 0;
	return rc;
}

/* ---- one recording */

static int show(struct drawing *d, const struct ring_record *rec)
{
	if (rec->type == RING_DATA && rec->stream == STREAM_OUTPUT)
		d->since += rec->len;
	return drawer_show(&d->worker, rec);
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

static int make(struct keyframer *k, const char *path, struct recording *r, struct drawing *d, struct err *e)
{
	struct keyframes_digest digest;
	struct chain_seal seal;
	struct err why = {0};
	int rc;

	rc = drawer_begin(&d->worker, k->p.drawers, d->cols, d->rows, e);
	if (rc == 0)
		rc = recording_sealed(path, &seal, e);
	if (rc == 0)
		rc = keyframes_begin(&d->w, path, &recording_info(r)->session, seal.leaf, e);
	if (rc == 0) {
		rc = draw(k, d, r, &why);
		/* What killed a worker would kill the next one: what there is by then stays, and is not tried again. */
		if (rc == ERR_EOF) {
			log_warn(NULL, "%s: keyframes end at byte %llu of its output: %s", path,
				 (unsigned long long)d->worker.offset, why.message);
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
	drawer_end(&d->worker);
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
	rc = worth_it(r, &d) ? make(k, path, r, &d, &e) : 0;
	if (rc && rc != ERR_CANCELLED)
		log_warn(&(struct log_ids){.session = text}, "no keyframes: %s", e.message);
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
		keyframer_set_state(k, KEYFRAMER_DRAWING);
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
