/*
 * life_run.h - a run: one thing that is done for an agent, as a table of steps.
 *
 * Owner: its agent, which has one run at most (life_agent.run). A run stands in one step. A step asks one question, of
 * the provider, the hub or the store, and its answer names the next step; the tables in life_start.c, life_stop.c,
 * life_wipe.c, life_snapshot.c, life_restore.c, life_drop.c and life_check.c read from top to bottom like the pictures
 * in docs/lifecycle.md. A run ends by life_run_end(), or by life_run_break() where the row stays as it is: then the
 * agent's next turn tries again. A provider that has no place for a question ends nothing: it is put again. An answer
 * that comes when its run is over finds nobody and is dropped; a snapshot that became ready is still noted. Rows change
 * through life_commit.c alone.
 */
#ifndef CONTROL_LIFE_LIFE_RUN_H
#define CONTROL_LIFE_LIFE_RUN_H

#include "base/err.h"
#include "control/life/life.h"
#include "control/life/life_row.h"

#include <sys/queue.h>

struct life_agent;
struct life_waiter;

#define RUN_OVER  (-1) /* in place of a step: the run has ended */
#define RUN_ASKED 1    /* of run_step.ask: the answer comes later, by life_run_answer() */

enum run_writes {
	WRITES_NOTHING, /* a question: ERR_CANCELLED breaks the run, other errors are the step's */
	WRITES_ROW,     /* swaps the agent's row: every error breaks the run */
	WRITES_MARK,    /* of a snapshot that is to go: errors are the step's */
};

struct run_step {
	const char *name; /* in the log, at level debug */
	/*
	 * Puts the question: RUN_ASKED; or 0, ERR_* with e: the answer, which was known at once. A function of the
	 * kind's own file, whomever that asks; or life_commit_next(), of a row that an earlier step has decided.
	 */
	int (*ask)(struct life_agent *a, struct err *e);
	/*
	 * The step that is next, or RUN_OVER. rc: 0, ERR_*, or above 0 what the one asked says beside "done". NULL: it
	 * is `then`, whatever the answer.
	 */
	int (*answered)(struct life_agent *a, int rc, const struct err *e);
	int then;
	int undo; /* where the run is taken back: the step in place of this one; 0: nobody is asked */
	enum run_writes writes;
};

struct run_kind {
	const char *name;
	const struct run_step *steps;
	/* A row was found in a state between two others: true when a run was begun that goes on from there. */
	bool (*again)(struct life_agent *a);
	bool (*turned)(struct life_agent *a); /* ahead of a step with an undo: is it taken back? */
	/* Somebody came while it is under way, or waits still. NULL: the run goes on whoever comes. */
	void (*heard)(struct life_agent *a, const struct life_waiter *w);
	/* Needs this waiter no more than a stream, now? NULL: nobody does. One that found nothing there is not asked
	 * about. */
	bool (*beside)(const struct life_agent *a, const struct life_waiter *w);
};
extern const struct run_kind life_start_kind, life_stop_kind, life_end_kind, life_wipe_kind, life_snapshot_kind,
    life_restore_kind, life_drop_kind, life_check_kind;

enum stop_for {
	STOP_FOR_IDLE,    /* the timer: anybody who comes takes it back */
	STOP_FOR_ASKER,   /* a resume takes it back, and work once its snapshot is late */
	STOP_FOR_END,     /* gives way to nobody */
	STOP_FOR_RESTORE, /* gives way to nobody; a snapshot that fails ends it, the sandbox runs on */
	STOP_FOUND,       /* after a crash: nobody waits for it any more */
};

enum run_course { RUN_GOES_ON, RUN_TURNS_BACK, RUN_NO_WAY_BACK };

struct life_run {
	const struct run_kind *kind;
	int step, from; /* from: the step before */
	uint64_t id;
	enum run_course course;
	enum stop_for stop_for;
	char cause[160], detail[256]; /* detail: of the row that the next step writes, where that differs */
	uint64_t began, step_began;   /* boot ns */
	uint64_t again_at;            /* boot ns: the step's question had no place, and is put again; 0: it is out */
	unsigned refused;             /* how often, of this step */
	bool again;                   /* of a restore: the daemon before had asked for it */
	bool unasked;                 /* of the step before: no answer to it comes, its question found no place */
	bool empty;                   /* of a start: its workspace is lost, which was told */
	char *own_template;           /* of a start: from now on, "": none; NULL: as it is */
	bool frozen, held;            /* its programs may stand still for it; nothing begins in the sandbox */
	bool runs, has_workspace;     /* as the provider said */
	size_t at;                    /* of list */
	int refers;                   /* recordings that name the snapshot which goes; negative: not known */
	enum snap_status was;         /* of that snapshot, before it was to go */
	struct err failed;            /* what went wrong on the way, for the row's detail */
	struct life_snap snap;
	uint64_t looked; /* boot ns: what ended before is in the copy */
	struct id *list; /* snapshots that go with it; of a stop: outdated copies */
	size_t nlist;
	struct sandbox_info info; /* of the last answer */
	struct sandbox_snapshot copy;
	int fd;
	struct life_row next;   /* of a step that writes what an earlier one decided */
	struct life_row before; /* to be gone back to */
};

/* One question that is out, of a run or of nobody's. */
struct life_call {
	LIST_ENTRY(life_call) entry;
	struct life *life; /* NULL: gone */
	char agent[AGENT_NAME_MAX + 1];
	uint64_t run;
	bool take; /* the question is a copy: of this snapshot */
	struct id snapshot;
	struct life_waiter *w; /* of a connect: its own */
};
struct life_call *life_call(struct life_agent *a, struct err *e); /* NULL: no memory, e says so */
struct life_agent *life_called(struct life_call *c);              /* freed; NULL: its run is over */

/* NULL: no memory, which every waiter was told. */
struct life_run *life_run_begin(struct life_agent *a, const struct run_kind *kind, const char *cause);
void life_run_go(struct life_agent *a, int step);                        /* the run may be over afterwards */
void life_run_answer(struct life_agent *a, int rc, const struct err *e); /* of the question that is out */
/* Of a question to the provider: one that had no place there (ERR_AGAIN) is put again later, by life_run_put_again().
 */
void life_run_provided(struct life_agent *a, int rc, const struct err *e);
void life_run_put_again(struct life_agent *a, uint64_t now);           /* from the timer, once it has an again_at */
int life_run_end(struct life_agent *a);                                /* RUN_OVER; the agent is due */
int life_run_break(struct life_agent *a, int rc, const struct err *e); /* RUN_OVER; tried again in a second */
int life_run_over(struct life_agent *a, int rc, const struct err *e);  /* an answered(): ends, whatever rc */
void life_run_free(struct life_run *r);                                /* and what it holds; of a daemon's end */
/* The store has something of it: the run is not turned before the answer. */
static inline bool life_run_writes(const struct life_run *r)
{
	return r->kind->steps[r->step].writes != WRITES_NOTHING;
}

/* What the programs of the sandbox were told for the run. */
void life_hold(struct life_agent *a); /* nothing begins in it, until life_thaw() or its end */
void life_thaw(struct life_agent *a); /* all goes on, but where the sandbox is about to be ended */

#endif
