/*
 * commander.h - the command stream: which commands were entered at each terminal, told in the audit log.
 *
 * One thread of its own, in the background. It plays a recording to a screen worker (drawer.h), keys and output in
 * their order; the worker says which commands it saw (muxd/screen/commands.h). They become audit events
 * `session.commands`, a batch each. Derived, from what a program wrote to a screen: an event says so, and the recording
 * stays the evidence.
 *
 * An open recording is looked at when its file grew by typing (each checkpoint, ten seconds apart), and not before
 * fifty times as long as the last look took; a sealed one once more, for what is left. Each look begins at the first
 * event: there is no state that could be lost. What was told is known by the event itself: it says `through`, the
 * offset of output up to which commands have been told, and the next look tells what stands behind that. So a crash at
 * any moment loses none and tells none twice. The last one of a session is `final`; where it is missing at a start,
 * that session is looked at again.
 *
 * Where output comes without keys for long, the first and last of it are drawn, and what switches screens in between.
 *
 * States: IDLE -> LOOKING -> IDLE.
 */
#ifndef RECORDER_DRAW_COMMANDER_H
#define RECORDER_DRAW_COMMANDER_H

#include "base/ids.h"
#include "base/json.h"

#include <stdint.h>

struct commander;
struct drawers;
struct err;

#define COMMANDER_EVENT      "session.commands"
#define COMMANDER_QUEUE_MAX  1024
#define COMMANDER_BATCH_MAX  50                     /* commands of one event */
#define COMMANDER_LOOK_MAX   1000                   /* and of one look at an open recording */
#define COMMANDER_TOLD_MAX   10000                  /* and of a session; more are counted */
#define COMMANDER_BATCH_TEXT ((size_t)48 * 1024)    /* bytes */
#define COMMANDER_HEAD       ((uint64_t)256 * 1024) /* of output behind a key, drawn */
#define COMMANDER_TAIL       ((size_t)64 * 1024)    /* and before the next */

/* What the log has of a session's commands. */
struct commander_told {
	uint64_t through, n, omitted;
	bool final;
};

struct commander_params {
	const char *dir; /* the state directory's record/ */
	struct drawers *drawers;
	/* From the commander's thread. All of what an earlier recorder wrote is in the index: 0, or ERR_AGAIN. */
	int (*ready)(void *arg);
	int (*told)(void *arg, const struct id *session, struct commander_told *out, struct err *e);
	int (*tell)(void *arg, const struct id *session, const json_t *event, struct err *e);
	/* Sealed sessions at whose end nobody has looked, at most so many. Returns how many. */
	size_t (*due)(void *arg, struct id *out, size_t max);
	void *arg;
};

int commander_create(const struct commander_params *p, struct commander **out, struct err *e);
void commander_destroy(struct commander *c); /* ends what is being looked at; NULL-safe */
/* A recording was sealed, or its file grew by what was typed. From any thread. */
void commander_want(struct commander *c, const struct id *session, bool sealed);
/* Of an audit event's detail. */
void commander_told_parse(const json_t *detail, struct commander_told *out);

#endif
