/*
 * contexts.h - code contexts: interpreters that keep their variables from one execution to the next.
 *
 * A context is one principal's, in one agent. Of Python and JavaScript its interpreter is a round of its own, which
 * listens to a socket below /tmp of the sandbox (contexts/kernel.*), and an execution is a round too, which hands its
 * code over there and says what comes of it (contexts/run.*, context_answer.h). So record, restart, output and audit
 * are those of rounds. Of bash it is a shell (shells.h) of the context's own name, and an execution a command in it.
 *
 * States: IDLE <-> BUSY with one execution, both only while its interpreter lives; ENDED with its interpreter (it died,
 * its sandbox sleeps), and a reason; a reset begins the next generation of interpreter under the same id.
 *
 * Owned by the hub; after a restart told again from the record, as exec_ids are, and forgotten as those. The values of
 * its environment are kept in memory alone. One that had ended when it was deleted may be listed as ended once more
 * after a restart. Of one principal in one agent there are CONTEXTS_PER_OWNER at most, CONTEXTS_MAX in all, and
 * CONTEXTS_SHARE of one principal and those made from it.
 */
#ifndef MUXD_HUB_SESSION_CONTEXTS_H
#define MUXD_HUB_SESSION_CONTEXTS_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define CONTEXTS_PER_OWNER 32
#define CONTEXTS_MAX       10000
#define CONTEXTS_SHARE     (CONTEXTS_MAX / 2)
/* The lines of an execution may come to so much: 1 MB of text, escaped, and 6 MiB of results. */
#define CONTEXT_OUTPUT_MAX (16 * 1024 * 1024)
#define CONTEXT_TEXT_MAX   1000000
#define CONTEXT_GRACE_MS   5000 /* from an interrupt to the interpreter's end */
#define CONTEXT_DELETED    "the context was deleted"
#define CONTEXT_VARIABLE   "MUXD_CONTEXT" /* where an interpreter finds the program around it */

struct contexts;
struct err;
struct session_result;

enum context_language { CONTEXT_PYTHON, CONTEXT_JAVASCRIPT, CONTEXT_BASH, CONTEXT_LANGUAGES };
/* The part of a round in its context. ONCE: Python, without a context; DELETION: of one in bash, the end of its shell.
 */
enum context_role { CONTEXT_NONE, CONTEXT_INTERPRETER, CONTEXT_EXECUTION, CONTEXT_ONCE, CONTEXT_DELETION };

struct context_use {
	enum context_role role;
	enum context_language language;
	struct id id; /* of the context */
	int64_t generation;
	int64_t code_bytes;
	char code_sha256[65]; /* "": there is no code */
};

/* The owner of a context; borrowed. */
struct context_owner {
	const char *agent, *principal;
};

/* One of them, for who is about to use it; valid until the next call that changes it. */
struct context_view {
	struct context_use use;  /* as its interpreter's */
	struct id session, busy; /* the interpreter's round; the execution's, nil: none */
	struct id sandbox;
	const char *cwd;        /* NULL: the workspace */
	const char *const *env; /* "K=V", NULL-ended; NULL: none */
	bool env_lost, ended;
};

const char *context_language_name(enum context_language l);
int context_language_parse(const char *s, enum context_language *out); /* ERR_INVAL */
/* The programs around the code, and how the interpreter is told to run them; NULL of bash. */
const char *context_kernel(enum context_language l);
const char *context_run(enum context_language l);

struct contexts *contexts_create(void);    /* NULL: no memory */
void contexts_destroy(struct contexts *x); /* NULL-safe */

/* ERR_NOT_FOUND: there is none, or it is another's. */
int contexts_find(struct contexts *x, const struct context_owner *o, const struct id *id, struct context_view *out,
		  struct err *e);
/* May a round of this use begin? ERR_NOT_FOUND, ERR_CONTEXT_BUSY, ERR_CONTEXT_ENDED, ERR_LIMIT; ERR_BAD_STATE: another
 * interpreter came between. Of a reset and of an end whoever asks ends first what runs. Changes nothing. */
int contexts_enter(struct contexts *x, const struct context_owner *o, const struct context_use *u, struct err *e);
/*
 * A round of it has begun, or was found in the record again: what is older changes nothing then. env: as launch has
 * it, NULL: not known; lost: it had some, and nobody knows it any more. ERR_NOMEM.
 */
struct context_begin {
	struct id session, sandbox;
	const char *cwd;
	char *const *env;
	bool env_lost;
};
int contexts_begin(struct contexts *x, const struct context_owner *o, const struct context_use *u,
		   const struct context_begin *b);
/* The round is over. */
void contexts_settle(struct contexts *x, const struct context_use *u, const struct id *session,
		     const struct session_result *r);
/* Nothing of it is left. */
void contexts_forget(struct contexts *x, const struct id *id);
/* One, and all of an owner by age; shells: which of those in bash live in the sandbox as it is now (NULL: not known) */
struct shells;
json_t *contexts_show(struct contexts *x, struct shells *shells, const struct id *sandbox, const struct id *id);
json_t *contexts_list(struct contexts *x, struct shells *shells, const struct id *sandbox,
		      const struct context_owner *o);

/* {id, role, language, generation, code_bytes, code_sha256} for the record, and back. ERR_INVAL. */
json_t *context_use_json(const struct context_use *u);
int context_use_read(const json_t *o, struct context_use *out);
/* The name of the shell that is a context in bash. */
void context_shell_name(const struct id *id, char out[64]);

#endif
