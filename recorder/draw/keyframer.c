#define LOG_SUBSYS "keyframes"
#include "recorder/draw/keyframer.h"

#include "base/background.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"
#include "recorder/draw/drawing.h"
#include "recorder/draw/keyframes.h"
#include "recorder/format/recording.h"

#include <pthread.h>
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

static bool stopping(struct keyframer *k)
{
	bool yes;

	pthread_mutex_lock(&k->lock);
	yes = k->stopping;
	pthread_mutex_unlock(&k->lock);
	return yes;
}

/* Into the file, screen by screen. */
static int draw(struct keyframer *k, struct drawing *d, struct keyframes_writer *w, struct err *e)
{
	const uint8_t *data = NULL;
	struct keyframe screen;
	int rc;

	while ((rc = drawing_step(d, &screen, &data, e)) == 1) {
		if (screen.len && (rc = keyframes_add(w, &screen, data, e)) != 0)
			return rc;
		if (stopping(k))
			return ERR_CANCELLED;
	}
	return rc;
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

static int keyframer_write_all(struct keyframer *k, const char *path, struct drawing *d, struct keyframes_writer *w,
			       struct err *e)
{
	struct keyframes_digest digest;
	struct err why = {0};
	int rc = draw(k, d, w, &why);

	/* What killed a worker would kill the next one: what there is by then stays, and is not tried again. */
	if (rc == ERR_EOF)
		log_warn(NULL, "%s: keyframes end at byte %llu of its output: %s", path,
			 (unsigned long long)d->worker.offset, why.message);
	else if (rc)
		return err_set(e, rc, "%s", why.message);
	rc = keyframes_end(w, &digest, e);
	if (rc)
		return rc;
	text_put(digest.drawing, sizeof(digest.drawing), d->version);
	return k->p.made(k->p.arg, &recording_info(d->recording)->session, &digest, e);
}

static int keyframer_make(struct keyframer *k, const char *path, struct recording *r, struct err *e)
{
	struct keyframes_writer w = {.fd = -1};
	struct chain_seal seal;
	struct drawing d;
	int rc = drawing_begin(&d, r, k->p.drawers, e);

	if (rc == 0)
		rc = recording_sealed(path, &seal, e);
	if (rc == 0)
		rc = keyframes_begin(&w, path, &recording_info(r)->session, seal.leaf, e);
	if (rc == 0)
		rc = keyframer_write_all(k, path, &d, &w, e);
	keyframes_abandon(&w);
	drawing_end(&d);
	return rc;
}

static void keyframer_one(struct keyframer *k, const struct id *session)
{
	struct recording *r = NULL;
	char path[FILE_PATH_MAX], text[ID_STR_LEN];
	struct err e = {0};
	int rc = recording_open_found(k->dir, session, path, &r, &e);

	if (rc || there(k, path, session)) {
		recording_close(r);
		return; /* expired meanwhile, or there already; damage is verify's business */
	}
	id_format(session, text);
	rc = drawing_worth(r) ? keyframer_make(k, path, r, &e) : 0;
	if (rc && rc != ERR_CANCELLED)
		log_warn(&(struct log_ids){.session = text}, "no keyframes: %s", e.message);
	recording_close(r);
}

static void *keyframer_run(void *arg)
{
	struct keyframer *k = arg;
	struct id next;

	background_enter();
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
		keyframer_one(k, &next);
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
	if (pthread_create(&k->thread, NULL, keyframer_run, k)) {
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
