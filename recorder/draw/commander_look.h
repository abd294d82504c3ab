/*
 * commander_look.h - one look at one recording: which commands were entered, and told in batches. For commander.c
 * alone.
 */
#ifndef RECORDER_DRAW_COMMANDER_LOOK_H
#define RECORDER_DRAW_COMMANDER_LOOK_H

#include "recorder/draw/commander.h"

struct look_params {
	const char *dir;
	struct drawers *drawers;
	const struct id *session;
	int (*tell)(void *arg, const struct id *session, const json_t *event, struct err *e);
	bool (*stopping)(void *arg);
	void *arg;
};

/*
 * What stands behind told->through is told, and *told moves on with each batch. *out_more: there was more than one look
 * tells. ERR_NOT_FOUND: no recording; ERR_UNAVAILABLE, ERR_LIMIT: again later; ERR_CANCELLED; others are for good.
 */
int look_run(const struct look_params *p, struct commander_told *told, bool *out_more, struct err *e);

#endif
