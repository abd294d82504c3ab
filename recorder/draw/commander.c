#define LOG_SUBSYS "commands"
#include "recorder/draw/commander.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/draw/commander_look.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KNOWN_MAX 1024
#define PATIENCE  50 /* times what the last look took, until the next */
#define AGAIN_NS  (2 * NS_PER_SEC)
#define READY_NS  (200 * NS_PER_MS)

enum commander_state { COMMANDER_IDLE, COMMANDER_LOOKING };

struct wanted {
	struct id session;
	uint64_t due_ns;
	bool sealed;
};

/* What was told since the start may not be in the index yet. */
struct known {
	struct id session;
	struct commander_told told;
	uint64_t next_ns; /* no look before */
};

struct commander {
	struct commander_params p;
	char *dir;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t moved;
	enum commander_state state;
	struct wanted queue[COMMANDER_QUEUE_MAX];
	size_t n;
	struct known known[KNOWN_MAX]; /* the thread's */
	size_t nknown;
	bool stopping, lost; /* lost: the queue was full, so somebody may have been forgotten */
};

static void commander_set_state(struct commander *c, enum commander_state s)
{
	static const char *const names[] = {"idle", "looking"};

	log_debug(NULL, "%s -> %s", names[c->state], names[s]);
	c->state = s;
}

static bool stopping(void *arg)
{
	struct commander *c = arg;
	bool yes;

	pthread_mutex_lock(&c->lock);
	yes = c->stopping;
	pthread_mutex_unlock(&c->lock);
	return yes;
}

static struct known *known_of(struct commander *c, const struct id *session, struct err *e)
{
	struct known *k;
	size_t at = 0, n = c->nknown < KNOWN_MAX ? c->nknown : KNOWN_MAX;

	while (at < n && !id_equal(&c->known[at].session, session))
		at++;
	k = &c->known[at < n ? at : c->nknown % KNOWN_MAX];
	if (at == n) {
		struct known fresh = {.session = *session};

		if (c->p.told(c->p.arg, session, &fresh.told, e))
			return NULL;
		*k = fresh;
		c->nknown++;
	}
	return k;
}

static int commander_tell(void *arg, const struct id *session, const json_t *event, struct err *e)
{
	struct commander *c = arg;

	return c->p.tell(c->p.arg, session, event, e);
}

static void commander_put(struct commander *c, const struct id *session, bool sealed, uint64_t due_ns)
{
	size_t i = 0;

	while (i < c->n && !id_equal(&c->queue[i].session, session))
		i++;
	if (i == COMMANDER_QUEUE_MAX) {
		c->lost = true;
		return;
	}
	if (i == c->n)
		c->queue[c->n++] = (struct wanted){.session = *session, .due_ns = due_ns, .sealed = sealed};
	if (due_ns < c->queue[i].due_ns || sealed)
		c->queue[i].due_ns = due_ns;
	c->queue[i].sealed = c->queue[i].sealed || sealed;
	pthread_cond_signal(&c->moved);
}

static void commander_again(struct commander *c, const struct wanted *w, uint64_t due_ns)
{
	pthread_mutex_lock(&c->lock);
	commander_put(c, &w->session, w->sealed, due_ns);
	pthread_mutex_unlock(&c->lock);
}

static void commander_one(struct commander *c, const struct wanted *w)
{
	struct look_params look = {.dir = c->dir,
				   .drawers = c->p.drawers,
				   .session = &w->session,
				   .tell = commander_tell,
				   .stopping = stopping,
				   .arg = c};
	uint64_t began = clock_boot_ns();
	char text[ID_STR_LEN];
	struct err e = {0};
	struct known *k = known_of(c, &w->session, &e);
	bool more = false;
	int rc;

	if (!k) {
		commander_again(c, w, began + AGAIN_NS);
		return;
	}
	if (k->told.final)
		return;
	if (!w->sealed && began < k->next_ns) {
		commander_again(c, w, k->next_ns);
		return;
	}
	rc = look_run(&look, &k->told, &more, &e);
	k->next_ns = clock_boot_ns() + (clock_boot_ns() - began) * PATIENCE;
	if (rc == ERR_CANCELLED || rc == ERR_NOT_FOUND)
		return; /* it has expired */
	if (rc) {
		id_format(&w->session, text);
		log_warn(&(struct log_ids){.session = text}, "its commands: %s", e.message);
	}
	/* A damaged recording is the business of others, and what killed a worker would kill the next. */
	if (more || rc == ERR_UNAVAILABLE || rc == ERR_LIMIT)
		commander_again(c, w, clock_boot_ns() + AGAIN_NS);
}

/* Sessions whose end was sealed and not looked at, by a recorder before or because there were too many. */
static void sweep(struct commander *c)
{
	static const size_t most = COMMANDER_QUEUE_MAX / 2;
	struct id *ids = calloc(most, sizeof(*ids));
	size_t n = ids ? c->p.due(c->p.arg, ids, most) : 0;

	for (size_t i = 0; i < n; i++)
		commander_want(c, &ids[i], true);
	free(ids);
}

static bool wait_ready(struct commander *c)
{
	const struct timespec pause = {.tv_nsec = READY_NS};

	while (!stopping(c) && c->p.ready(c->p.arg))
		nanosleep(&pause, NULL);
	return !stopping(c);
}

/* Under the lock. False: nothing is due. */
static bool next(struct commander *c, struct wanted *out)
{
	size_t first = 0;
	struct timespec until;
	uint64_t now = clock_boot_ns(), wait;

	if (!c->n) {
		pthread_cond_wait(&c->moved, &c->lock);
		return false;
	}
	for (size_t i = 1; i < c->n; i++)
		if (c->queue[i].due_ns < c->queue[first].due_ns)
			first = i;
	*out = c->queue[first];
	if (out->due_ns > now) {
		wait = out->due_ns - now;
		clock_gettime(CLOCK_REALTIME, &until);
		wait += (uint64_t)until.tv_nsec;
		until.tv_sec += (time_t)(wait / NS_PER_SEC);
		until.tv_nsec = (long)(wait % NS_PER_SEC);
		pthread_cond_timedwait(&c->moved, &c->lock, &until);
		return false;
	}
	c->queue[first] = c->queue[--c->n];
	return true;
}

static void *commander_run(void *arg)
{
	struct commander *c = arg;
	struct sched_param none = {0};
	struct wanted w;

	(void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none); /* where it may */
	if (wait_ready(c))
		sweep(c);
	pthread_mutex_lock(&c->lock);
	while (!c->stopping) {
		if (!next(c, &w))
			continue;
		bool again_all = c->lost && !c->n;

		c->lost = c->lost && !again_all;
		commander_set_state(c, COMMANDER_LOOKING);
		pthread_mutex_unlock(&c->lock);
		commander_one(c, &w);
		if (again_all)
			sweep(c);
		pthread_mutex_lock(&c->lock);
		commander_set_state(c, COMMANDER_IDLE);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- outside */

int commander_create(const struct commander_params *p, struct commander **out, struct err *e)
{
	struct commander *c = calloc(1, sizeof(*c));

	if (!c || !(c->dir = strdup(p->dir))) {
		free(c);
		return err_set(e, ERR_NOMEM, "out of memory");
	}
	c->p = *p;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->moved, NULL);
	if (pthread_create(&c->thread, NULL, commander_run, c)) {
		pthread_mutex_destroy(&c->lock);
		pthread_cond_destroy(&c->moved);
		free(c->dir);
		free(c);
		return err_set(e, ERR_SYS, "cannot start a thread");
	}
	*out = c;
	return 0;
}

void commander_destroy(struct commander *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	pthread_cond_broadcast(&c->moved);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->moved);
	free(c->dir);
	free(c);
}

void commander_want(struct commander *c, const struct id *session, bool sealed)
{
	pthread_mutex_lock(&c->lock);
	commander_put(c, session, sealed, clock_boot_ns());
	pthread_mutex_unlock(&c->lock);
}

void commander_told_parse(const json_t *detail, struct commander_told *out)
{
	int64_t through = 0, n = 0, omitted = 0;
	bool final = false;

	(void)json_opt_int(detail, "through", 0, INT64_MAX, &through, NULL);
	(void)json_opt_int(detail, "told", 0, INT64_MAX, &n, NULL);
	(void)json_opt_int(detail, "omitted", 0, INT64_MAX, &omitted, NULL);
	(void)json_opt_bool(detail, "final", &final, NULL);
	*out = (struct commander_told){
	    .through = (uint64_t)through, .n = (uint64_t)n, .omitted = (uint64_t)omitted, .final = final};
}
