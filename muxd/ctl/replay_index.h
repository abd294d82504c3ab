/*
 * replay_index.h - from where a screen must be drawn again to show a moment.
 *
 * Filled once by a pass over the recording. A terminal cannot be turned back, so a
 * jump sends output again: all of it when that is little, else from the last place
 * where the program cleared the screen, else the last REPLAY_PUSH_MAX bytes.
 * Bounded: entries are thinned out when there are too many. Pure.
 */
#ifndef MUXD_CTL_REPLAY_INDEX_H
#define MUXD_CTL_REPLAY_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_PUSH_MAX (UINT64_C(4) * 1024 * 1024)

struct replay_entry {
	uint64_t moment; /* of the event */
	uint64_t bytes;  /* of output before it */
	bool clear;      /* its output clears the screen */
	uint16_t cols, rows;
};

struct replay_index {
	struct replay_entry *entries;
	size_t n, cap;
	uint64_t first, last, bytes, events;
	uint64_t spacing;    /* bytes between two entries */
	uint16_t cols, rows; /* of what is added next */
	unsigned matched;    /* of a clearing sequence cut at an event's end */
	char partial[8];
};

void replay_index_init(struct replay_index *x);
void replay_index_finish(struct replay_index *x);
void replay_index_resize(struct replay_index *x, unsigned cols, unsigned rows); /* from the next event on */
/* One event in order; p/n: its output, NULL when it has none. ERR_NOMEM. */
int replay_index_add(struct replay_index *x, uint64_t moment, const uint8_t *p, size_t n);
/* The moment from which everything up to `to` is to be sent, after a reset of the terminal. */
uint64_t replay_index_from(const struct replay_index *x, uint64_t to);
/* The recorded terminal at such a moment. */
void replay_index_size(const struct replay_index *x, uint64_t from, unsigned *out_cols, unsigned *out_rows);

#endif
