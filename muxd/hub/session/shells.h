/*
 * shells.h - named shells, whose directory, variables and functions go on from round to round.
 *
 * A shell is one principal's, in one agent. Each command is a round of its own, run by bash with a script of ours
 * around it (shell_script.c) that writes what is to go on into a file below /tmp of the sandbox: a new one each time,
 * which counts once the round has ended by itself. So one that was killed or timed out leaves its shell as it was.
 *
 * States: FRESH (nothing is kept yet) -> KEPT (in that sandbox). Beside that it is busy with one round, or none. What
 * is kept goes with its sandbox; nobody is let into a shell whose sandbox is another one now, until it is begun anew.
 *
 * Owned by the hub; after a restart told again from the record, as exec_ids are, and forgotten as those
 * (EXEC_IDS_KEPT_NS behind the last round's end). Of one principal in one agent there are SHELLS_PER_OWNER at most,
 * SHELLS_MAX in all, and SHELLS_SHARE of one principal and those made from it.
 */
#ifndef MUXD_HUB_SESSION_SHELLS_H
#define MUXD_HUB_SESSION_SHELLS_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define SHELL_NAME_MAX   64
#define SHELLS_PER_OWNER 32
#define SHELLS_MAX       10000
#define SHELLS_SHARE     (SHELLS_MAX / 2)

struct shells;
struct err;

/* The owner of a shell; borrowed. */
struct shell_owner {
	const char *agent, *principal;
};

/* A round's use of a shell. name "": it is in none. */
struct shell_use {
	char name[SHELL_NAME_MAX + 1];
	bool anew;    /* asked for: whatever was kept counts no more */
	bool end;     /* the shell's last round: it removes what is kept */
	bool fresh;   /* nothing goes on from before */
	struct id id; /* of the shell: its files are called by it */
	int64_t from; /* the file that counts, 0: none */
	int64_t to;   /* the file that this round writes */
};

extern const char shell_script[];
#define SHELL_VARIABLE "MUXD_SHELL" /* where bash finds it */

struct shells *shells_create(void);    /* NULL: no memory */
void shells_destroy(struct shells *x); /* NULL-safe */

/* Letters, digits, '.', '_' and '-', a letter or digit first. ERR_INVAL. */
int shell_name_check(const char *what, const char *name, struct err *e);
/*
 * May a round begin there, in the sandbox as it is now? Fills the rest of u (name, anew and end are given); nothing is
 * changed. ERR_SHELL_BUSY, ERR_SHELL_ENDED, ERR_LIMIT; for an end ERR_NOT_FOUND.
 */
int shells_enter(struct shells *x, const struct shell_owner *o, const struct id *sandbox, struct shell_use *u,
		 struct err *e);
/* The round has begun, or has been found in the record again: what is older changes nothing then. ERR_NOMEM. */
int shells_begin(struct shells *x, const struct shell_owner *o, const struct id *sandbox, const struct shell_use *u,
		 const struct id *session);
/* The round is over. kept: it ended by itself, and its file counts now. */
void shells_settle(struct shells *x, const struct shell_owner *o, const char *name, const struct id *session,
		   bool kept);
/* The state is gone with its sandbox and is not asked for again. ERR_NOT_FOUND, ERR_SHELL_BUSY. */
int shells_forget(struct shells *x, const struct shell_owner *o, const char *name, struct err *e);
/* Is something kept of it in that sandbox? */
bool shells_kept_in(struct shells *x, const struct shell_owner *o, const char *name, const struct id *sandbox);
/* [{name, state, round_id, sandbox_id, last_used_at}] by name; sandbox: that of the agent now, NULL: it is not known.
 */
json_t *shells_list(struct shells *x, const struct shell_owner *o, const struct id *sandbox);

/* {name, id, from, to, fresh, anew, end} for the record, and back. ERR_INVAL. */
json_t *shell_use_json(const struct shell_use *u);
int shell_use_read(const json_t *o, struct shell_use *out);

#endif
