/* Which rounds there are, of which agents, in which files; and what goes when a limit is passed. */
#define LOG_SUBSYS "output"
#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/file.h"
#include "recorder/format/block.h"
#include "recorder/output/outputs_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct output *output_find(struct outputs *o, const struct id *round)
{
	struct output *u = NULL;

	HASH_FIND(hh, o->all, round, sizeof(*round), u);
	return u;
}

static struct outputs_agent *agent_of(struct outputs *o, const char *name)
{
	struct outputs_agent *a = NULL;

	HASH_FIND_STR(o->agents, name, a);
	if (a || !(a = calloc(1, sizeof(*a) + strlen(name) + 1)))
		return a;
	strcpy(a->name, name);
	HASH_ADD_STR(o->agents, name, a);
	return a;
}

int output_add(struct outputs *o, const struct chunk_of *of, struct output **out)
{
	struct output *u = calloc(1, sizeof(*u));

	if (!u || !(u->agent = agent_of(o, of->agent))) {
		free(u);
		return ERR_NOMEM;
	}
	u->of = *of;
	u->touched_ns = of->opened_ns;
	u->agent->rounds++;
	HASH_ADD(hh, o->all, of.round, sizeof(u->of.round), u);
	TAILQ_INSERT_TAIL(&o->list, u, entry);
	o->seen.rounds++;
	*out = u;
	return 0;
}

void output_grew(struct outputs *o, struct output *u, struct strand *s, int64_t bytes)
{
	s->bytes += (uint64_t)bytes;
	u->agent->bytes += (uint64_t)bytes;
	o->seen.bytes += (uint64_t)bytes;
}

void output_ended(struct outputs *o, struct output *u, int64_t wall_ns)
{
	u->state = OUTPUT_ENDING;
	u->touched_ns = wall_ns;
	TAILQ_REMOVE(&o->list, u, entry);
	TAILQ_INSERT_TAIL(&o->list, u, entry);
}

int strand_add(struct strand *s, const struct chunk *c)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 2;
		struct chunk *grown = realloc(s->chunks, cap * sizeof(*grown));

		if (!grown)
			return ERR_NOMEM;
		s->chunks = grown;
		s->cap = cap;
	}
	s->chunks[s->n++] = *c;
	return 0;
}

void strand_drop(struct outputs *o, struct output *u, struct strand *s, size_t i)
{
	char name[CHUNK_NAME_MAX];

	chunk_name(&u->of.round, stream_of(u, s), s->chunks[i].number, name);
	if (unlinkat(o->dir_fd, name, 0) != 0 && errno != ENOENT)
		log_warn(NULL, "output/%s cannot be removed: %s", name, strerror(errno));
	output_grew(o, u, s, -(int64_t)s->chunks[i].size);
	memmove(&s->chunks[i], &s->chunks[i + 1], (s->n - i - 1) * sizeof(s->chunks[0]));
	s->n--;
}

static void output_free(struct outputs *o, struct output *u)
{
	HASH_DEL(o->all, u);
	TAILQ_REMOVE(&o->list, u, entry);
	if (--u->agent->rounds == 0) {
		HASH_DEL(o->agents, u->agent);
		free(u->agent);
	}
	for (size_t i = 0; i < STRANDS; i++) {
		o->seen.pending -= u->strands[i].pend.len;
		free(u->strands[i].pend.p);
		free(u->strands[i].chunks);
	}
	o->seen.rounds--;
	free(u);
}

void output_remove(struct outputs *o, struct output *u)
{
	for (size_t i = 0; i < STRANDS; i++)
		while (u->strands[i].n)
			strand_drop(o, u, &u->strands[i], u->strands[i].n - 1);
	o->seen.removed++;
	output_free(o, u);
}

int outputs_create(int dir_fd, const struct outputs_limits *l, outputs_held *held, void *arg, struct outputs **out)
{
	struct outputs *o = calloc(1, sizeof(*o));

	if (!o || block_coder_create(&o->coder)) {
		free(o);
		return ERR_NOMEM;
	}
	pthread_mutex_init(&o->lock, NULL);
	TAILQ_INIT(&o->list);
	o->dir_fd = dir_fd;
	o->limits = *l;
	o->held = held;
	o->held_arg = arg;
	*out = o;
	return 0;
}

void outputs_destroy(struct outputs *o)
{
	if (!o)
		return;
	while (!TAILQ_EMPTY(&o->list))
		output_free(o, TAILQ_FIRST(&o->list));
	block_coder_destroy(o->coder);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void outputs_configure(struct outputs *o, const struct outputs_limits *l)
{
	pthread_mutex_lock(&o->lock);
	o->limits = *l;
	pthread_mutex_unlock(&o->lock);
}

void outputs_status(struct outputs *o, struct outputs_status *out)
{
	pthread_mutex_lock(&o->lock);
	*out = o->seen;
	pthread_mutex_unlock(&o->lock);
}

/* ---- limits */

static bool disk_is_low(const struct outputs *o, const struct outputs_limits *l)
{
	struct statvfs st;

	return l->free_least && fstatvfs(o->dir_fd, &st) == 0 && (uint64_t)st.f_bavail * st.f_frsize < l->free_least;
}

static bool catalog_may_go(struct outputs *o, const struct output *u)
{
	return u->state != OUTPUT_RUNS && !(o->held && o->held(o->held_arg, &u->of, u->touched_ns));
}

static bool catalog_over(const struct outputs *o, const struct outputs_limits *l, const struct output *u,
			 int64_t oldest_ns, bool low)
{
	return low || u->touched_ns < oldest_ns || u->agent->rounds > l->count || u->agent->bytes > l->agent ||
	       o->seen.bytes > l->total;
}

/* The list is by age, so the oldest of an agent that is over its limit goes first. */
void outputs_sweep(struct outputs *o, int64_t wall_ns, bool by_age)
{
	struct output *u, *next;
	struct outputs_limits l;
	int64_t oldest;
	bool low;

	pthread_mutex_lock(&o->lock);
	l = o->limits;
	pthread_mutex_unlock(&o->lock);
	low = disk_is_low(o, &l);
	oldest = by_age || !l.age_ns ? wall_ns - (int64_t)l.age_ns : INT64_MIN;
	for (u = TAILQ_FIRST(&o->list); u; u = next) {
		next = TAILQ_NEXT(u, entry);
		if (!catalog_over(o, &l, u, oldest, low) || !catalog_may_go(o, u))
			continue;
		pthread_mutex_lock(&o->lock);
		output_remove(o, u);
		pthread_mutex_unlock(&o->lock);
		low = low && disk_is_low(o, &l);
	}
}

/* ---- what the folder holds */

struct listed {
	struct id round;
	unsigned stream;
	uint32_t number;
};

static int listed_order(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;
	int by = memcmp(&x->round, &y->round, sizeof(x->round));

	if (by == 0)
		by = (x->stream > y->stream) - (x->stream < y->stream);
	return by ? by : (x->number > y->number) - (x->number < y->number);
}

static int list_push(struct listed **list, size_t *n, size_t *cap, const struct listed *l)
{
	if (*n == *cap) {
		size_t grown = *cap ? 2 * *cap : 256;
		struct listed *p = realloc(*list, grown * sizeof(*p));

		if (!p)
			return ERR_NOMEM;
		*list = p;
		*cap = grown;
	}
	(*list)[(*n)++] = *l;
	return 0;
}

static int list_folder(int dir_fd, struct listed **out, size_t *out_n, struct err *e)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *de;
	struct listed l;
	size_t cap = 0;

	if (!d) {
		rc = err_sys(e, errno, "cannot list output");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0 && (de = readdir(d)) != NULL)
		if (chunk_name_parse(de->d_name, &l.round, &l.stream, &l.number) == 0)
			rc = list_push(out, out_n, &cap, &l);
	closedir(d);
	if (rc)
		return err_set(e, rc, "out of memory");
	if (*out_n)
		qsort(*out, *out_n, sizeof(**out), listed_order);
	return 0;
}

/* The last of a strand may be torn, and is looked at whole; the others' blocks alone are walked. */
static int chunk_load(int dir_fd, const char *name, bool last, struct chunk_found *out, struct err *e)
{
	uint64_t size;
	int fd = -1, rc = file_open_at(dir_fd, name, O_RDWR, name, &fd, &size, e);

	if (rc == 0)
		rc = last ? chunk_recover(fd, out, e) : chunk_scan(fd, false, out, e);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int take_found(struct outputs *o, const struct chunk_found *f)
{
	struct output *u = output_find(o, &f->of.round);
	struct strand *s;
	int rc = u ? 0 : output_add(o, &f->of, &u);

	if (rc)
		return rc;
	s = strand_of(u, f->of.stream);
	if ((rc = strand_add(s, &f->chunk)) != 0)
		return rc;
	output_grew(o, u, s, (int64_t)f->chunk.size);
	s->end = s->pend.at = f->chunk.last;
	s->closed = f->ended;
	if (f->ended) {
		u->is_found = true;
		u->found.ended_ns = f->ended_ns;
		for (size_t i = 0; i < STRANDS; i++)
			if (u->found.totals[i] < f->totals[i])
				u->found.totals[i] = f->totals[i];
	}
	return 0;
}

/* Bytes behind its last chunk are written over the end that stands there. */
static void strand_open_again(struct outputs *o, struct output *u, struct strand *s)
{
	struct chunk *c = s->n ? &s->chunks[s->n - 1] : NULL;

	if (!c || !s->closed)
		return;
	s->closed = false;
	c->size -= CHUNK_END_SIZE;
	c->blocks--;
	output_grew(o, u, s, -(int64_t)CHUNK_END_SIZE);
}

/*
 * All files of a round are there. A crash between the end of one stream and that of the other leaves a round that is
 * still to be fed: it has no end before each stream that had bytes has one.
 */
static void output_loaded(struct outputs *o, struct output *u)
{
	bool ended = u->is_found;

	for (size_t i = 0; i < STRANDS; i++)
		ended = ended && (u->strands[i].n ? u->strands[i].closed : !u->found.totals[i]);
	for (size_t i = 0; i < STRANDS; i++) {
		struct strand *s = &u->strands[i];

		if (!ended)
			strand_open_again(o, u, s);
		else if (s->end < u->found.totals[i])
			s->end = s->pend.at = u->found.totals[i];
	}
	if (ended) {
		u->state = OUTPUT_ENDED;
		u->touched_ns = u->found.ended_ns;
	}
}

/* ERR_NOMEM alone: one file that cannot be read is no reason to keep none. */
static int load_one(struct outputs *o, const struct listed *l, bool last, struct err *e)
{
	char name[CHUNK_NAME_MAX];
	struct chunk_found f;
	struct err why = {0};
	int rc;

	chunk_name(&l->round, l->stream, l->number, name);
	rc = chunk_load(o->dir_fd, name, last, &f, &why);
	if (rc == 0 && (!id_equal(&f.of.round, &l->round) || f.of.stream != l->stream || f.chunk.number != l->number))
		rc = err_set(&why, ERR_CORRUPT, "another file's header stands in it");
	if (rc == ERR_CORRUPT || rc == ERR_NOT_A_FILE) {
		log_warn(NULL, "output/%s is removed: %s", name, why.message);
		if (unlinkat(o->dir_fd, name, 0))
			log_warn(NULL, "output/%s cannot be removed: %s", name, strerror(errno));
		return 0;
	}
	if (rc && rc != ERR_NOMEM) {
		log_warn(NULL, "output/%s is passed over: %s", name, why.message[0] ? why.message : err_name(rc));
		return 0;
	}
	if (rc == 0)
		rc = take_found(o, &f);
	return rc ? err_set(e, rc, "output/%s: out of memory", name) : 0;
}

static int by_age(const struct output *a, const struct output *b)
{
	return (a->touched_ns > b->touched_ns) - (a->touched_ns < b->touched_ns);
}

static void sort_by_age(struct outputs *o)
{
	struct output *u, *next;

	HASH_SORT(o->all, by_age);
	TAILQ_INIT(&o->list);
	HASH_ITER(hh, o->all, u, next)
	TAILQ_INSERT_TAIL(&o->list, u, entry);
}

int outputs_load(struct outputs *o, struct err *e)
{
	struct listed *list = NULL;
	struct output *u, *next;
	size_t n = 0;
	int rc = list_folder(o->dir_fd, &list, &n, e);

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = load_one(o, &list[i],
			      i + 1 == n || !id_equal(&list[i].round, &list[i + 1].round) ||
				  list[i].stream != list[i + 1].stream,
			      e);
	if (rc == 0) {
		HASH_ITER(hh, o->all, u, next)
		output_loaded(o, u);
		sort_by_age(o);
	}
	pthread_mutex_unlock(&o->lock);
	free(list);
	return rc;
}
