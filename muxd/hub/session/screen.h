/*
 * screen.h - a session's current screen, drawn by a worker process beside the live path. For muxd/hub/ alone.
 *
 * Made when an attachment first wants a screen, owned by its session. It is fed from the session's stream where that
 * still holds everything, else from the record first, with the right of the client who asked; sizes at their offsets.
 * It is fed when somebody wants a screen or when it has fallen behind, never before bytes may be shown, and nobody
 * waits for it: what is not there SCREEN_WAIT_NS after it was wanted comes as recent output instead. A worker that dies
 * is forgotten with its screen; the next who wants one gets another. A program that writes faster than the record is
 * read, or than the worker draws, is drawn from the stream alone, inexactly, until somebody comes who may read the
 * record: then the worker is a new one.
 *
 *   STARTING (the monitor was asked) -> FILLING (from the record) <-> LIVE (from the stream) -> CLOSED
 */
#ifndef MUXD_HUB_SESSION_SCREEN_H
#define MUXD_HUB_SESSION_SCREEN_H

#include "base/buf.h"
#include "muxd/hub/session/attachment_state.h"

#include <uv.h>

struct hub;
struct request;
struct session;

#define SCREEN_WAIT_NS       (500 * NS_PER_MS)
#define SCREEN_WAIT_EMPTY_NS (3 * NS_PER_SEC)      /* where there is nothing else to show */
#define SCREEN_PACE_MS       40                    /* between two shots */
#define SCREENS_MAX          64                    /* workers at a time */
#define SCREEN_IDLE_NS       (60 * NS_PER_SEC)     /* so long a worker stays that nobody needs */
#define SCREEN_LAG           (STREAM_RING_MAX / 4) /* it is fed without being asked when it is that far behind */

struct picture;
struct screen_list;
struct screen_look;
/* Once. rc 0: what the screen shows at that offset of the output, valid during the call; exact: as of a shot. */
typedef void screen_looked(void *arg, int rc, uint64_t offset, bool exact, const struct picture *pic);

enum screen_state { SCREEN_STARTING, SCREEN_FILLING, SCREEN_LIVE, SCREEN_CLOSED };

struct screen {
	struct hub *hub;
	struct session *session; /* NULL once closed */
	TAILQ_ENTRY(screen) of_hub;
	enum screen_state state;
	uv_pipe_t pipe;
	uv_timer_t timer;
	unsigned held; /* handles, questions and writes that still name it */
	bool has_pipe, asking;
	struct buf in;
	uint64_t offset;     /* fed so far */
	size_t size_at;      /* the session's sizes up to this one are told */
	unsigned cols, rows; /* as told */
	bool exact;
	bool jumped;          /* left out what the record has */
	uint64_t gap, gap_ns; /* between what it was fed and the stream, and when that was measured (boot) */
	uint32_t tag;
	uint64_t shot_ms;            /* when one was last asked for (uv_now); 0: never */
	uint64_t page_from;          /* of the question to the recorder */
	struct request *asker;       /* under whose grant it is filled, meanwhile; owned */
	struct attachment_list want; /* of_screen */
	TAILQ_HEAD(, screen_look) looks;
	uint64_t needed_ns; /* boot; when somebody last wanted it */
};

/* a waits for a screen from now on (a->screening). rq: who may read the record, NULL when there is none. False: there
 * is none to be had. */
bool screen_want(struct attachment *a, const struct request *rq);
/* The same as values, for who is no client: ERR_TIMEOUT, ERR_TOO_LARGE, ERR_UNAVAILABLE. ERR_NOMEM: it is not asked. */
int screen_look(struct session *s, const struct request *rq, screen_looked *done, void *arg);
void screen_unwant(struct attachment *a); /* it goes, or goes on without */
void screen_moved(struct session *s);     /* more became visible of one that has a screen */
void screen_tick(struct session *s, uint64_t now);
bool screens_rest(const struct hub *h);            /* there is none */
struct screen_list *screen_list_create(void);      /* those of a hub, the hub's; NULL: no memory */
void screen_list_destroy(struct screen_list *all); /* NULL-safe; behind the sessions */
void screen_close(struct session *s);              /* NULL-safe */

#endif
