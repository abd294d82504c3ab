/*
 * life_row.h - agents and snapshots in control.db. The SQL of lifecycle is in life_row.c alone.
 *
 * Values; the functions run inside a store_fn, those that write in a store_write().
 */
#ifndef CONTROL_LIFE_LIFE_ROW_H
#define CONTROL_LIFE_LIFE_ROW_H

#include "base/ids.h"
#include "base/resources.h"
#include "control/life/life.h"
#include "control/life/life_clock.h"

struct sqlite3;

#define LIFE_TTL_CONF     INT64_MIN /* idle_ttl_ns: as the configuration says */
#define LIFE_NEVER        INT64_MAX /* expires_ns: no end, whatever the configuration says */
#define LIFE_STEP_RESTORE "restore" /* the workspace is being made from the current snapshot */
/*
 * Of what is stopped: the same, over a workspace that is there and is one of `next`. With either step `next` is the
 * snapshot that was current before; nil: not known.
 */
#define LIFE_STEP_RESTORE_OVER "restore over"

struct life_row {
	char agent[AGENT_NAME_MAX + 1];
	enum life_state state;
	int64_t generation; /* 0: there is no row */
	char step[24], cause[200], detail[256];
	struct id sandbox;
	bool workspace; /* there, and no older than `snapshot` */
	struct id snapshot, next;
	bool read_only;
	char fork_agent[AGENT_NAME_MAX + 1]; /* "": no fork */
	struct id fork_snapshot;
	char pod_template[SANDBOX_DIGEST_LEN]; /* SHA-256 of its own, whose text is kept by that; "": none */
	char image[SANDBOX_IMAGE_MAX + 1];     /* of its next start; "": none */
	struct resources resources;            /* the same, as they were asked for */
	char app_id[DNS_LABEL_MAX + 1];        /* that it belongs to; "": none */
	int64_t idle_ttl_ns;
	int64_t expires_ns;        /* lifecycle's clock, as the next two; 0: none yet, its next start may set one */
	int64_t active_ns, due_ns; /* 0: none */
	int64_t since_wall_ns, created_wall_ns, updated_wall_ns;
};

enum snap_status { SNAP_TAKING, SNAP_READY, SNAP_FAILED, SNAP_DROPPING, SNAP_DROPPED };
const char *snap_status_name(enum snap_status s);

enum snap_quiesce { SNAP_NOT_QUIESCED, SNAP_SYNCED, SNAP_FROZEN };
const char *snap_quiesce_name(enum snap_quiesce q); /* "none", "synced", "frozen" */

struct life_snap {
	struct id id;
	char agent[AGENT_NAME_MAX + 1];
	char name[254], how[24], detail[256], cause[200];
	char digest[65];       /* as the audit log has it; "": it has none yet. Of one just taken: sandbox_snapshot's */
	uint64_t size, stored; /* stored, mtime_ns: sandbox_snapshot's, of one just taken */
	int64_t mtime_ns;
	enum snap_status status;
	struct id previous;
	enum snap_quiesce quiesced;
	int64_t created_wall_ns, ended_wall_ns;
	bool orphan; /* of an agent that was wiped, whatever has its name now: it is kept, and nobody's */
};

/* *out->generation 0: none. */
int row_agent_of(struct sqlite3 *db, const struct id *sandbox, char out[AGENT_NAME_MAX + 1], struct err *e);
int row_get(struct sqlite3 *db, const char *agent, struct life_row *out, struct err *e);
/*
 * next becomes the row if the one there has generation `was` (0: none is there); next->generation is was + 1.
 * ERR_CONFLICT when it has another.
 */
int row_swap(struct sqlite3 *db, int64_t was, const struct life_row *next, struct err *e);
int row_delete(struct sqlite3 *db, const char *agent, int64_t was, struct err *e);
/* Only these two, the generation stays; a row of another generation is left alone. */
int row_set_times(struct sqlite3 *db, const struct life_row *r, struct err *e);
/* active_ns alone, where it is later. */
int row_set_active(struct sqlite3 *db, const struct life_row *r, struct err *e);
int life_clock_put(struct sqlite3 *db, const struct life_clock *c, struct err *e);
/* Begins it from what was kept. */
int life_clock_get(struct sqlite3 *db, struct life_clock *out, struct err *e);
int row_set_told(struct sqlite3 *db, const char *agent, int64_t generation, struct err *e);

/* The text of an agent's own pod template, by its digest; free() it. ERR_NOT_FOUND. */
int template_get(struct sqlite3 *db, const char *digest, char **out, struct err *e);
int template_put(struct sqlite3 *db, const char *digest, const char *text, struct err *e);
int template_forget(struct sqlite3 *db, const char *digest, struct err *e); /* where no agent has it any more */

int snap_get(struct sqlite3 *db, const struct id *id, struct life_snap *out, struct err *e); /* ERR_NOT_FOUND */
/* All but the digest, and whether it is an orphan: that comes with the end of its agent's row. */
int snap_put(struct sqlite3 *db, const struct life_snap *s, struct err *e);
int snap_set_digest(struct sqlite3 *db, const struct id *id, const char *digest, struct err *e);
/* The first ready one behind `after` that has no digest and could have one. */
int snap_unhashed(struct sqlite3 *db, const struct id *after, struct life_snap *out, bool *out_found, struct err *e);

/* Calls each() with rows until it returns false. */
typedef bool row_each(void *arg, const struct life_row *r);
typedef bool snap_each(void *arg, const struct life_snap *s);
int rows_due(struct sqlite3 *db, int64_t now, row_each *each, void *arg, struct err *e);
int rows_next_due(struct sqlite3 *db, int64_t *out, struct err *e); /* INT64_MAX: nobody is ever */
/* Rows of sandboxes that are not stopped. */
int rows_awake(struct sqlite3 *db, row_each *each, void *arg, struct err *e);
/* Stopped, and their restore was begun: after a crash these go on, too. */
int rows_restoring(struct sqlite3 *db, row_each *each, void *arg, struct err *e);
/* Forks that pass (struct life_fork); the row of an agent takes its own along. */
int row_set_passing(struct sqlite3 *db, const char *agent, struct err *e);
int rows_passing(struct sqlite3 *db, row_each *each, void *arg, struct err *e);
/* Of an agent that began with what was no snapshot (struct life_fork); its row takes that along, too. */
int row_set_beginning(struct sqlite3 *db, const char *agent, const char *workspace, const char *sha256, struct err *e);
/* {"workspace", "sha256"}; NULL: nothing, or a snapshot. */
int row_beginning(struct sqlite3 *db, const char *agent, json_t **out, struct err *e);
int rows_untold(struct sqlite3 *db, row_each *each, void *arg, struct err *e);
int rows_list(struct sqlite3 *db, const struct life_filter *f, row_each *each, void *arg, struct err *e);
/* Copies of that agent whose names muxd made (agent_make_name()). */
int rows_forks(struct sqlite3 *db, const char *of, int64_t *out, struct err *e);
int rows_count(struct sqlite3 *db, int64_t out[7], struct err *e);                              /* by state */
int snaps_of(struct sqlite3 *db, const char *agent, snap_each *each, void *arg, struct err *e); /* newest first */
int snaps_open(struct sqlite3 *db, snap_each *each, void *arg, struct err *e); /* TAKING, DROPPING; of all */
/*
 * Agents with a ready or failed one, not current, that is older than oldest_wall_ns (0: any age), with more of either
 * than most, without a row, or with an orphan: by name from the one behind `after` on, a few at a time. *after: where
 * to go on; "": they are through.
 */
#define SNAP_AGENTS 32
int snaps_surplus(struct sqlite3 *db, int64_t oldest_wall_ns, unsigned most, char after[AGENT_NAME_MAX + 1],
		  char out[SNAP_AGENTS][AGENT_NAME_MAX + 1], size_t *out_n, struct err *e);
int snaps_forget(struct sqlite3 *db, int64_t before_wall_ns, struct err *e); /* those dropped by then */
/* Is it somebody's current one, other than `besides`' (NULL)? Or a fork's that has no copy of it yet, or is
 * read-only and so never has one of its own, or that it was made for alone (row_set_beginning()). */
int snap_needed(struct sqlite3 *db, const struct id *id, const char *besides, bool *out, struct err *e);

#endif
