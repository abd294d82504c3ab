#include "recorder/write/live.h"

#include "base/err.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Out of memory is ERR_NOMEM: the element is not in the table then. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct entry {
	struct live_session s;
	UT_hash_handle hh;
};

struct live {
	pthread_mutex_t lock;
	struct entry *entries; /* by the session's id */
	struct entry *last;    /* records of one session come in rows */
};

int live_create(struct live **out)
{
	struct live *l = calloc(1, sizeof(*l));
	if (!l)
		return ERR_NOMEM;
	pthread_mutex_init(&l->lock, NULL);
	*out = l;
	return 0;
}

void live_session_finish(struct live_session *s)
{
	free(s->open);
	free(s->exit);
	s->open = s->exit = NULL;
}

static void entry_drop(struct live *l, struct entry *n)
{
	HASH_DEL(l->entries, n);
	if (l->last == n)
		l->last = NULL;
	live_session_finish(&n->s);
	free(n);
}

void live_destroy(struct live *l)
{
	if (!l)
		return;
	while (l->entries)
		entry_drop(l, l->entries);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static struct entry *entry_find(struct live *l, const struct id *id)
{
	struct entry *n = NULL;

	if (l->last && id_equal(&l->last->s.id, id))
		return l->last;
	HASH_FIND(hh, l->entries, id->b, sizeof(id->b), n);
	if (n)
		l->last = n;
	return n;
}

static int entry_add(struct live *l, const struct id *id, struct entry **out)
{
	if (HASH_COUNT(l->entries) >= LIVE_MAX)
		return ERR_LIMIT;
	struct entry *n = calloc(1, sizeof(*n));
	if (!n)
		return ERR_NOMEM;
	n->s.id = *id;
	HASH_ADD(hh, l->entries, s.id.b, sizeof(n->s.id.b), n);
	if (!n->hh.tbl) {
		free(n);
		return ERR_NOMEM;
	}
	*out = l->last = n;
	return 0;
}

static int text_set(char **to, const void *p, size_t n)
{
	char *text = malloc(n + 1);
	if (!text)
		return ERR_NOMEM;
	memcpy(text, p, n);
	text[n] = 0;
	free(*to);
	*to = text;
	return 0;
}

static int entry_apply(struct entry *n, const struct ring_record *rec, uint64_t lsn)
{
	int rc = 0;
	uint64_t end = rec->offset + rec->len;

	n->s.last_ns = rec->boot_ns;
	if (rec->type == RING_OPEN && !n->s.open)
		rc = text_set(&n->s.open, rec->payload, rec->len);
	if (rec->type == RING_DATA && end >= rec->offset && end > n->s.offsets[rec->stream])
		n->s.offsets[rec->stream] = end;
	if (rec->type == RING_EXIT) {
		rc = text_set(&n->s.exit, rec->payload, rec->len);
		n->s.ended = true;
		n->s.end_lsn = lsn;
	}
	return rc;
}

int live_apply(struct live *l, const struct ring_record *rec, uint64_t lsn)
{
	int rc = 0;

	/* Only these say something about a session here; audit and clock records never do. */
	if (rec->type != RING_OPEN && rec->type != RING_DATA && rec->type != RING_EXIT)
		return 0;
	pthread_mutex_lock(&l->lock);
	struct entry *n = entry_find(l, &rec->session);
	if (!n)
		rc = entry_add(l, &rec->session, &n);
	if (rc == 0)
		rc = entry_apply(n, rec, lsn);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int live_restore(struct live *l, const struct id *id, const char *open, const uint64_t offsets[STREAM_COUNT])
{
	pthread_mutex_lock(&l->lock);
	struct entry *n = entry_find(l, id);
	int rc = n ? 0 : entry_add(l, id, &n);
	if (rc == 0 && open)
		rc = text_set(&n->s.open, open, strlen(open));
	if (rc == 0)
		memcpy(n->s.offsets, offsets, sizeof(n->s.offsets));
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void live_forget_ended(struct live *l, uint64_t lsn)
{
	struct entry *n, *next;

	pthread_mutex_lock(&l->lock);
	HASH_ITER(hh, l->entries, n, next)
	{
		if (n->s.ended && n->s.end_lsn < lsn)
			entry_drop(l, n);
	}
	pthread_mutex_unlock(&l->lock);
}

static int session_copy(const struct live_session *from, struct live_session *out)
{
	struct live_session s = *from;
	s.open = from->open ? strdup(from->open) : NULL;
	s.exit = from->exit ? strdup(from->exit) : NULL;
	if ((from->open && !s.open) || (from->exit && !s.exit)) {
		live_session_finish(&s);
		return ERR_NOMEM;
	}
	*out = s;
	return 0;
}

int live_copy(struct live *l, struct live **out)
{
	struct live *to;
	struct entry *added;
	int rc = live_create(&to);
	if (rc)
		return rc;
	pthread_mutex_lock(&l->lock);
	for (struct entry *n = l->entries; rc == 0 && n; n = n->hh.next) {
		if ((rc = entry_add(to, &n->s.id, &added)) == 0)
			rc = session_copy(&n->s, &added->s);
	}
	pthread_mutex_unlock(&l->lock);
	if (rc) {
		live_destroy(to);
		return rc;
	}
	*out = to;
	return 0;
}

void live_each(struct live *l, bool (*fn)(void *arg, const struct live_session *s), void *arg)
{
	bool more = true;
	pthread_mutex_lock(&l->lock);
	for (struct entry *n = l->entries; more && n; n = n->hh.next)
		more = fn(arg, &n->s);
	pthread_mutex_unlock(&l->lock);
}

int live_get(struct live *l, const struct id *id, struct live_session *out)
{
	pthread_mutex_lock(&l->lock);
	struct entry *n = entry_find(l, id);
	int rc = n ? session_copy(&n->s, out) : ERR_NOT_FOUND;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

size_t live_count(struct live *l)
{
	pthread_mutex_lock(&l->lock);
	size_t n = HASH_COUNT(l->entries);
	pthread_mutex_unlock(&l->lock);
	return n;
}
