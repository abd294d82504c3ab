#include "muxd/monitor/sandboxes.h"
#include "base/background.h"
#include "base/conf.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define LOG_BYTES 65536
#define PLACE_MAX (AGENT_NAME_MAX + 1 + ID_STR_LEN)

/* An image as the configuration had it: that may be another one before the job begins. */
struct own_image {
	struct local_image it;
	char name[CONF_IMAGE_NAME_MAX + 1], digest[CONF_IMAGE_DIGEST_LEN + 1], path[4096];
};

struct job {
	TAILQ_ENTRY(job) entry;
	uv_work_t work;
	pthread_t thread; /* one that hashes in the background has a thread, and tells of its end by this */
	uv_async_t ended;
	struct sandboxes *owner;
	struct sandbox_question q;
	struct own_image *image;
	bool unpacks; /* as it began: the image first */
	char agent[AGENT_NAME_MAX + 1], from[AGENT_NAME_MAX + 1], after[PLACE_MAX];
	sandbox_answered *done;
	void *arg;
	struct sandboxes_answer answer;
};
TAILQ_HEAD(jobs, job);

struct sandboxes {
	uv_loop_t *loop;
	struct local *local; /* any thread may call it */
	struct jobs waiting, running;
	size_t n, nrunning, ncopying;
	bool unpacking;      /* an image */
	struct job *hashing; /* in the background */
	atomic_bool ending;  /* nothing is hashed or unpacked any more */
};

static void sandboxes_job_free(struct job *j)
{
	if (j->answer.fd >= 0)
		close(j->answer.fd);
	OPENSSL_cleanse(&j->answer.info, sizeof j->answer.info);
	if (j->answer.list)
		OPENSSL_cleanse(j->answer.list, j->answer.n * sizeof *j->answer.list);
	free(j->image);
	free(j->answer.list);
	free(j->answer.snapshots);
	buf_finish(&j->answer.text);
	free(j);
}

/* Of one snapshot, which is taken or hashed. */
static int run_snapshot(struct local *l, struct job *j)
{
	struct sandboxes_answer *a = &j->answer;

	a->snapshots = calloc(1, sizeof *a->snapshots);
	if (!a->snapshots)
		return err_set(&a->err, ERR_NOMEM, "no memory for a snapshot's description");
	a->n = 1;
	if (j->q.job == JOB_SNAPSHOT)
		return local_snapshot_take(l, j->agent, &j->q.snapshot, j->q.timeout_ns, a->snapshots, &a->err);
	return local_snapshot_hash(l, j->agent, &j->q.snapshot, &j->owner->ending, a->snapshots, &a->err);
}

static int sandboxes_run(struct local *l, struct job *j)
{
	struct sandboxes_answer *a = &j->answer;
	const char *after = j->q.after ? j->after : NULL;

	switch (j->q.job) {
	case JOB_ENSURE:
		return local_ensure_shape(l, j->agent,
					  &(struct local_shape){j->image ? &j->image->it : NULL, j->q.resources},
					  &a->info, &a->fd, &a->err);
	case JOB_CONNECT:
		return local_connect(l, j->agent, &a->info, &a->fd, &a->err);
	case JOB_STAT:
		return local_stat(l, j->agent, &a->info, &a->err);
	case JOB_DESTROY:
	case JOB_WIPE:
		return local_destroy_sandbox(l, j->agent, j->q.job == JOB_WIPE, &a->err);
	case JOB_LIST:
		return local_list(l, after, j->q.max, &a->list, &a->n, &a->more, &a->err);
	case JOB_LOG:
		return local_log(l, j->agent, j->q.max, &a->text, &a->err);
	case JOB_SNAPSHOT:
	case JOB_SNAPSHOT_HASH:
		return run_snapshot(l, j);
	case JOB_SNAPSHOTS:
		return local_snapshot_list(l, j->q.agent ? j->agent : NULL, after, j->q.max, &a->snapshots, &a->n,
					   &a->more, &a->err);
	case JOB_SNAPSHOT_DROP:
		return local_snapshot_drop(l, j->agent, &j->q.snapshot, &a->err);
	case JOB_RESTORE:
		return local_restore(l, j->agent, j->from, &j->q.snapshot, j->q.read_only, j->q.timeout_ns, &a->info,
				     &a->err);
	case JOB_DROP_WORKSPACE:
		return local_drop_workspace(l, j->agent, &a->info, &a->err);
	case JOB_DESTROY_ALL:
		return local_destroy_all(l, &a->err);
	case JOB_NOTHING:
		return 0;
	}
	return err_set(&a->err, ERR_INTERNAL, "unknown sandbox job");
}

/* Without `local` the machine has no sandboxes: nothing to list, nothing to end. */
static int run_without(struct job *j)
{
	switch (j->q.job) {
	case JOB_LIST:
	case JOB_SNAPSHOTS:
	case JOB_DESTROY_ALL:
	case JOB_NOTHING:
		return 0;
	default:
		return err_set(
		    &j->answer.err, ERR_UNSUPPORTED,
		    "this machine could not run sandboxes when the daemon started, with sandbox.backend kubernetes");
	}
}

static void sandboxes_on_work(uv_work_t *w)
{
	struct job *j = w->data;

	j->answer.rc = j->owner->local ? sandboxes_run(j->owner->local, j) : run_without(j);
}

/* Takes as long as a workspace is large, or an image. */
static bool copies(const struct job *j)
{
	return j->unpacks || j->q.job == JOB_SNAPSHOT || j->q.job == JOB_RESTORE ||
	       (j->q.job == JOB_SNAPSHOT_HASH && !j->q.idle);
}

static bool hashes_idly(const struct job *j)
{
	return j->q.job == JOB_SNAPSHOT_HASH && j->q.idle;
}

static bool alone(const struct job *j)
{
	return j->q.job == JOB_DESTROY_ALL || j->q.job == JOB_NOTHING;
}

/*
 * Takes no lock, and says what is there now. What a run of lifecycle looks at comes in its order: a daemon that died
 * may have left an end or a restore behind, which is to be over first.
 */
static bool looks(const struct job *j)
{
	return !j->q.run && (j->q.job == JOB_STAT || j->q.job == JOB_CONNECT || j->q.job == JOB_LOG);
}

/* Must `later` wait until `j` is done? */
static bool holds_back(const struct job *j, const struct job *later)
{
	enum sandbox_job what = later->q.job;

	if (alone(j) || alone(later))
		return true;
	if (looks(j) || looks(later))
		return false;
	/* A snapshot never changes; one that goes meanwhile is read to its end. */
	if (j->q.job == JOB_SNAPSHOT_HASH || what == JOB_SNAPSHOT_HASH)
		return false;
	if (!j->agent[0] || strcmp(j->agent, later->agent) != 0)
		return false;
	return j->q.job != JOB_SNAPSHOT || (what != JOB_ENSURE && what != JOB_CONNECT && what != JOB_STAT &&
					    what != JOB_LOG && what != JOB_SNAPSHOTS);
}

/* One at a time: who waits for the same image would hold a worker for as long. */
static bool may_run(const struct sandboxes *s, struct job *j)
{
	const struct job *before;

	j->unpacks = j->image && s->local && local_image_missing(s->local, &j->image->it);
	if (j->unpacks && s->unpacking)
		return false;
	if (copies(j) && s->ncopying == SANDBOX_COPIERS)
		return false;
	if (hashes_idly(j) ? s->hashing != NULL : s->nrunning >= SANDBOX_WORKERS)
		return false;
	TAILQ_FOREACH(before, &s->running, entry)
	if (holds_back(before, j))
		return false;
	for (before = TAILQ_FIRST(&s->waiting); before != j; before = TAILQ_NEXT(before, entry))
		if (holds_back(before, j))
			return false;
	return true;
}

static void sandboxes_on_done(uv_work_t *w, int status);
static void sandboxes_on_hashed(uv_async_t *h);

static void *hash_idly(void *arg)
{
	struct job *j = arg;

	background_enter();
	sandboxes_on_work(&j->work);
	uv_async_send(&j->ended);
	return NULL;
}

/* Not in the pool: a large image, read in the background, would hold one of its threads for long. */
static bool hash_begin(struct sandboxes *s, struct job *j)
{
	if (uv_async_init(s->loop, &j->ended, sandboxes_on_hashed))
		return false;
	j->ended.data = j;
	s->hashing = j;
	if (pthread_create(&j->thread, NULL, hash_idly, j)) {
		j->answer.rc = err_set(&j->answer.err, ERR_SYS, "cannot start a thread");
		j->thread = pthread_self();
		uv_async_send(&j->ended);
	}
	return true;
}

/* The end waits for the piece that is being read or unpacked, and no longer. */
static void cut_short(struct sandboxes *s)
{
	atomic_store(&s->ending, true);
}

static void next(struct sandboxes *s)
{
	struct job *j, *after;

	for (j = TAILQ_FIRST(&s->waiting); j; j = after) {
		after = TAILQ_NEXT(j, entry);
		if (!may_run(s, j)) {
			if (alone(j))
				return;
			continue;
		}
		TAILQ_REMOVE(&s->waiting, j, entry);
		TAILQ_INSERT_TAIL(&s->running, j, entry);
		if (hashes_idly(j) && hash_begin(s, j))
			continue;
		s->nrunning++;
		s->ncopying += copies(j);
		s->unpacking |= j->unpacks;
		uv_queue_work(s->loop, &j->work, sandboxes_on_work, sandboxes_on_done);
	}
}

static void sandboxes_on_done(uv_work_t *w, int status)
{
	struct job *j = w->data;
	struct sandboxes *s = j->owner;

	if (status)
		j->answer.rc = err_set(&j->answer.err, ERR_CANCELLED, "the daemon is ending");
	TAILQ_REMOVE(&s->running, j, entry);
	s->nrunning--;
	s->ncopying -= copies(j);
	s->unpacking &= !j->unpacks;
	s->n--;
	next(s); /* before the callback, which may take its time */
	j->done(j->arg, &j->answer);
	sandboxes_job_free(j);
}

static void sandboxes_on_closed(uv_handle_t *h)
{
	sandboxes_job_free(h->data);
}

static void sandboxes_on_hashed(uv_async_t *h)
{
	struct job *j = h->data;
	struct sandboxes *s = j->owner;

	if (!pthread_equal(j->thread, pthread_self()))
		pthread_join(j->thread, NULL);
	TAILQ_REMOVE(&s->running, j, entry);
	s->hashing = NULL;
	s->n--;
	next(s);
	j->done(j->arg, &j->answer);
	uv_close((uv_handle_t *)h, sandboxes_on_closed);
}

int sandboxes_create(uv_loop_t *loop, struct local *local, struct sandboxes **out)
{
	struct sandboxes *s = calloc(1, sizeof *s);

	if (!s)
		return ERR_NOMEM;
	s->loop = loop;
	s->local = local;
	TAILQ_INIT(&s->waiting);
	TAILQ_INIT(&s->running);
	*out = s;
	return 0;
}

void sandboxes_destroy(struct sandboxes *s)
{
	if (!s)
		return;
	local_destroy(s->local);
	free(s);
}

unsigned sandboxes_look(struct sandboxes *s)
{
	return s->local ? local_look(s->local) : 0;
}

static struct own_image *image_copy(const struct conf_image *x, uint64_t max, const atomic_bool *given_up)
{
	struct own_image *o = calloc(1, sizeof *o);

	if (!o)
		return NULL;
	text_put(o->name, sizeof o->name, x->name);
	text_put(o->digest, sizeof o->digest, x->digest);
	text_put(o->path, sizeof o->path, x->archive ? x->archive : x->dir);
	o->it = (struct local_image){.name = o->name,
				     .archive = x->archive ? o->path : NULL,
				     .dir = x->archive ? NULL : o->path,
				     .digest = o->digest,
				     .max = max,
				     .given_up = given_up};
	return o;
}

static size_t of_agent(const struct jobs *list, const char *agent)
{
	const struct job *j;
	size_t n = 0;

	TAILQ_FOREACH(j, list, entry)
	n += strcmp(j->agent, agent) == 0;
	return n;
}

static bool has_place(const struct sandboxes *s, const struct sandbox_question *q)
{
	size_t all = q->run ? SANDBOX_JOBS_MAX : SANDBOX_JOBS_MAX - SANDBOX_JOBS_KEPT;
	size_t one = q->run ? SANDBOX_JOBS_OF_ONE : SANDBOX_JOBS_OF_ONE - SANDBOX_KEPT_OF_ONE;

	return q->urgent || (s->n < all && (!q->agent || of_agent(&s->waiting, q->agent) < one));
}

/* A run's ahead of what others ask, in the order of runs; nothing passes by what has to be alone. */
static void queue(struct sandboxes *s, struct job *j)
{
	struct job *before = TAILQ_LAST(&s->waiting, jobs);

	while (j->q.run && before && !before->q.run && !alone(before))
		before = TAILQ_PREV(before, jobs, entry);
	if (before)
		TAILQ_INSERT_AFTER(&s->waiting, before, j, entry);
	else
		TAILQ_INSERT_HEAD(&s->waiting, j, entry);
	s->n++;
}

int sandboxes_ask(struct sandboxes *s, const struct sandbox_question *q, sandbox_answered *done, void *arg)
{
	struct job *j;

	if (!has_place(s, q))
		return ERR_AGAIN;
	j = calloc(1, sizeof *j);
	if (!j || (q->image && !(j->image = image_copy(q->image, q->image_size, &s->ending)))) {
		free(j);
		return ERR_NOMEM;
	}
	j->owner = s;
	j->work.data = j;
	j->q = *q;
	j->q.max = q->max ? q->max : SANDBOX_PAGE;
	j->done = done;
	j->arg = arg;
	j->answer.fd = -1;
	buf_init(&j->answer.text, LOG_BYTES);
	text_put(j->agent, sizeof j->agent, q->agent ? q->agent : "");
	text_put(j->from, sizeof j->from, q->from ? q->from : "");
	text_put(j->after, sizeof j->after, q->after ? q->after : "");
	queue(s, j);
	if (alone(j))
		cut_short(s);
	next(s);
	return 0;
}

bool sandboxes_idle(const struct sandboxes *s)
{
	return s->n == 0;
}

json_t *sandbox_info_json(const struct sandbox_info *i, bool with_secret)
{
	char id[ID_STR_LEN];
	char *secret = NULL;
	json_t *o;

	id_format(&i->sandbox_id, id);
	o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:b, s:b, s:b, s:b, s:s, s:b, s:s, s:s}", "agent",
		      i->agent, "sandbox_id", id, "state", sandbox_state_name(i->state), "detail", i->detail, "pid",
		      (int)i->pid, "created_wall_ns", (json_int_t)i->created_wall_ns, "epoch", (json_int_t)i->epoch,
		      "oom_kills", (json_int_t)i->oom_kills, "cap_enforced", i->cap_enforced, "memory_enforced",
		      i->memory_enforced, "pids_enforced", i->pids_enforced, "cpu_enforced", i->cpu_enforced,
		      "snapshot_id", i->snapshot_id, "has_workspace", i->has_workspace, "image", i->image,
		      "image_digest", i->image_digest);
	if (o && (json_object_set_new(o, "asked", resources_json(&i->asked)) ||
		  json_object_set_new(o, "limits", resources_json(&i->limits)))) {
		json_decref(o);
		return NULL;
	}
	if (!o || !with_secret)
		return o;
	secret = base64_encode(i->secret, sizeof i->secret, true);
	if (!secret || json_object_set_new(o, "secret", json_string(secret))) {
		json_decref(o);
		o = NULL;
	}
	if (secret)
		OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
	return o;
}

json_t *sandbox_snapshot_json(const struct sandbox_snapshot *s)
{
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:s, s:s, s:I, s:I}", "id", id, "agent", s->agent, "name",
			 s->name, "how", s->how, "size", (json_int_t)s->size, "created_wall_ns",
			 (json_int_t)s->created_wall_ns, "ready", s->ready, "detail", s->detail, "digest", s->digest,
			 "stored", (json_int_t)s->stored, "mtime_ns", (json_int_t)s->mtime_ns);
}
