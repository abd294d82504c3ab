#include "recorder/write/live.h"

#include "base/err.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
	struct live_session s;
	struct entry *next; /* in its bucket */
};

struct live {
	pthread_mutex_t lock;
	struct entry **buckets;
	size_t nbuckets; /* power of two */
	size_t count;
	struct entry *last; /* records of one session come in rows */
};

int live_create(struct live **out)
{
	struct live *l = calloc(1, sizeof(*l));
	if (!l)
		return ERR_NOMEM;
	l->nbuckets = 256;
	l->buckets = calloc(l->nbuckets, sizeof(struct entry *));
	if (!l->buckets) {
		free(l);
		return ERR_NOMEM;
	}
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

static void entry_free(struct entry *n)
{
	live_session_finish(&n->s);
	free(n);
}

void live_destroy(struct live *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->nbuckets; i++) {
		for (struct entry *n = l->buckets[i], *next; n; n = next) {
			next = n->next;
			entry_free(n);
		}
	}
	pthread_mutex_destroy(&l->lock);
	free(l->buckets);
	free(l);
}

/* The last bytes of a UUIDv7 are random; the first are a time. */
static struct entry **bucket_of(struct live *l, const struct id *id)
{
	uint64_t h;
	memcpy(&h, id->b + 8, sizeof(h));
	h *= UINT64_C(0x9e3779b97f4a7c15);
	return &l->buckets[(h >> 32) & (l->nbuckets - 1)];
}

static struct entry *entry_find(struct live *l, const struct id *id)
{
	if (l->last && id_equal(&l->last->s.id, id))
		return l->last;
	for (struct entry *n = *bucket_of(l, id); n; n = n->next) {
		if (id_equal(&n->s.id, id))
			return l->last = n;
	}
	return NULL;
}

static void table_grow(struct live *l)
{
	size_t old = l->nbuckets;
	struct entry **from = l->buckets;
	struct entry **to = calloc(old * 2, sizeof(struct entry *));
	if (!to)
		return; /* longer chains, nothing worse */
	l->buckets = to;
	l->nbuckets = old * 2;
	for (size_t i = 0; i < old; i++) {
		for (struct entry *n = from[i], *next; n; n = next) {
			struct entry **b = bucket_of(l, &n->s.id);
			next = n->next;
			n->next = *b;
			*b = n;
		}
	}
	free(from);
}

static int entry_add(struct live *l, const struct id *id, struct entry **out)
{
	if (l->count >= LIVE_MAX)
		return ERR_LIMIT;
	struct entry *n = calloc(1, sizeof(*n));
	if (!n)
		return ERR_NOMEM;
	if (l->count > l->nbuckets)
		table_grow(l);
	struct entry **b = bucket_of(l, id);
	n->s.id = *id;
	n->next = *b;
	*b = n;
	l->count++;
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
	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->nbuckets; i++) {
		for (struct entry **at = &l->buckets[i]; *at;) {
			struct entry *n = *at;
			if (!n->s.ended || n->s.end_lsn >= lsn) {
				at = &n->next;
				continue;
			}
			*at = n->next;
			if (l->last == n)
				l->last = NULL;
			entry_free(n);
			l->count--;
		}
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
	for (size_t i = 0; rc == 0 && i < l->nbuckets; i++) {
		for (struct entry *n = l->buckets[i]; rc == 0 && n; n = n->next) {
			if ((rc = entry_add(to, &n->s.id, &added)) == 0)
				rc = session_copy(&n->s, &added->s);
		}
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
	for (size_t i = 0; more && i < l->nbuckets; i++) {
		for (struct entry *n = l->buckets[i]; more && n; n = n->next)
			more = fn(arg, &n->s);
	}
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
	size_t n = l->count;
	pthread_mutex_unlock(&l->lock);
	return n;
}
