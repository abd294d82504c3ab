#include "muxd/hub/core/filespace_places.h"

#define LIST_LEAST (4u * 1024 * 1024)
#define LIST_MOST  (64u * 1024 * 1024)
#define LIST_FILE  1024 /* a record with its path, on average at the most */
#define LISTS      3    /* the workspace's, the store's, what was agreed on */
#define FORMS      6 /* of a content: as muxlet sends it, alone, as base64, in a tree, as the body's text, in flight */

void filespace_places_init(struct filespace_places *all)
{
	all->taken = 0;
	TAILQ_INIT(&all->waiting[0]);
	TAILQ_INIT(&all->waiting[1]);
}

size_t filespace_list_bytes(const struct conf *c)
{
	size_t n = (size_t)c->filespace_max_files * LIST_FILE;

	return n < LIST_LEAST ? LIST_LEAST : n > LIST_MOST ? LIST_MOST : n;
}

uint64_t filespace_sync_bytes(const struct conf *c)
{
	uint64_t batch = c->filespace_max_file_size;

	if (batch < FILESPACE_BATCH_BYTES)
		batch = FILESPACE_BATCH_BYTES;
	return LISTS * (uint64_t)filespace_list_bytes(c) + FORMS * batch;
}

static bool has_room(const struct filespace_places *all, const struct conf *c)
{
	return !all->taken || (all->taken + 1) * filespace_sync_bytes(c) <= FILESPACE_MEMORY;
}

static bool is_next(const struct filespace_places *all, const struct filespace_place *p, bool pull)
{
	const struct filespace_place *first = TAILQ_FIRST(&all->waiting[1]);

	if (!first && !pull)
		first = TAILQ_FIRST(&all->waiting[0]);
	return !first || first == p;
}

bool filespace_place_take(struct filespace_places *all, struct filespace_place *p, bool pull, const struct conf *c)
{
	if (p->state == PLACE_TAKEN)
		return true;
	if (p->state == PLACE_WAITING && p->pull != pull)
		filespace_place_leave(all, p);
	if (has_room(all, c) && is_next(all, p, pull)) {
		filespace_place_leave(all, p);
		p->state = PLACE_TAKEN;
		all->taken++;
		return true;
	}
	if (p->state == PLACE_OUT) {
		p->state = PLACE_WAITING;
		p->pull = pull;
		TAILQ_INSERT_TAIL(&all->waiting[pull], p, entry);
	}
	return false;
}

void filespace_place_leave(struct filespace_places *all, struct filespace_place *p)
{
	if (p->state == PLACE_TAKEN)
		all->taken--;
	else if (p->state == PLACE_WAITING)
		TAILQ_REMOVE(&all->waiting[p->pull], p, entry);
	p->state = PLACE_OUT;
}

bool filespace_places_wanted(const struct filespace_places *all)
{
	return !TAILQ_EMPTY(&all->waiting[0]) || !TAILQ_EMPTY(&all->waiting[1]);
}
