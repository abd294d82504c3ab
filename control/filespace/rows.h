/*
 * rows.h - what the two sides of a filespace last agreed on, in control.db: a row for each path, and one for the agent.
 *
 * A row is written once the copy that it tells of is whole. Until then a crash finds both sides alike, and nothing is
 * copied again. The marker ties the rows to one workspace: its text stands there in a file, and where that is not the
 * one of the row, an older snapshot say, the rows are another workspace's and do not count. The next marker is in the
 * row before it is in the workspace: a kill between the two leaves a workspace that is known.
 */
#ifndef CONTROL_FILESPACE_ROWS_H
#define CONTROL_FILESPACE_ROWS_H

#include "base/ids.h"
#include "control/filespace/filelist.h"

struct err;
struct store;

struct filespace_state {
	char marker[FILESPACE_KEY_LEN + 1]; /* key of its file; "": there was no sync yet */
	char next[FILESPACE_KEY_LEN + 1];   /* of the one that is being written; "": none. Either is the workspace's */
	char sandbox[ID_STR_LEN];           /* that the last pull was for */
	int64_t synced_wall_ns;             /* of the last sync that ended well; 0: none */
};
/* At once. No row: zeros. */
int filespace_rows_state(struct store *s, const char *agent, struct filespace_state *out, struct err *e);
/* Sorted. */
int filespace_rows_load(struct store *s, const char *agent, struct filespace_list *out, struct err *e);

struct filespace_change {
	char agent[64];
	struct filespace_list rows; /* as they are from now on; neither key nor deletion: the row goes */
	bool forget;                /* all rows before them */
	struct filespace_state state;
	bool has_state;
};
/* One transaction; done in the loop. The change is taken over, and freed. */
typedef void filespace_rows_done(void *arg, int rc, const struct err *e);
void filespace_rows_put(struct store *s, struct filespace_change *c, filespace_rows_done *done, void *arg);

#endif
