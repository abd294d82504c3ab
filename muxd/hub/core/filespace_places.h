/*
 * filespace_places.h - how many syncs run at once: as many as have room in FILESPACE_MEMORY, each with the longest
 * lists and the largest content that the configuration allows, and one whatever it says. The others wait in the order
 * in which they came, pulls ahead of pushes, since whoever begins in a sandbox waits for its pull.
 *
 * States of a place: OUT -> WAITING -> TAKEN -> OUT, or OUT -> TAKEN where there is room. Owned by the agent's
 * filespace (filespace.c); the places by the hub.
 */
#ifndef MUXD_HUB_CORE_FILESPACE_PLACES_H
#define MUXD_HUB_CORE_FILESPACE_PLACES_H

#include "base/conf.h"

#include <stdbool.h>
#include <sys/queue.h>

#define FILESPACE_MEMORY      (1024ull * 1024 * 1024) /* of all */
#define FILESPACE_BATCH_BYTES (4u * 1024 * 1024)      /* of contents that travel together; or one file */

enum filespace_place_state { PLACE_OUT, PLACE_WAITING, PLACE_TAKEN };

struct filespace_place {
	enum filespace_place_state state;
	bool pull;
	TAILQ_ENTRY(filespace_place) entry;
};

struct filespace_places {
	unsigned taken;
	TAILQ_HEAD(, filespace_place) waiting[2]; /* pushes, pulls */
};

void filespace_places_init(struct filespace_places *all);
/* Bytes of the list of one workspace, as its sandbox or the store may tell it: 1 KiB a file, 64 MiB at the most. */
size_t filespace_list_bytes(const struct conf *c);
/* Bytes that one sync holds at the most, about: three lists, and a batch in the forms that it passes through. */
uint64_t filespace_sync_bytes(const struct conf *c);
/* True: it is taken. False: it waits; asked again, with another `pull` too, it keeps its turn among its kind. */
bool filespace_place_take(struct filespace_places *all, struct filespace_place *p, bool pull, const struct conf *c);
void filespace_place_leave(struct filespace_places *all, struct filespace_place *p); /* from any state */
bool filespace_places_wanted(const struct filespace_places *all);                    /* somebody waits */

#endif
