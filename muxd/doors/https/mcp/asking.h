/*
 * asking.h - calls of the new era that wait for their caller: a server inside asked something in the middle of one,
 * which was answered by `input_required`, and goes on behind that until somebody comes back with answers.
 *
 * Who comes back names the call by its requestState: 128 random bits, which stand for it once, and only for the same
 * principal, kind, agent and task, and the same server, method and parameters. Everything else is no call's, and runs
 * nothing. Nothing of it outlives the daemon.
 *
 * A call may end while nobody is there: its server withdraws what it asked, or its time is over. What it did is done,
 * so its answer is kept for who comes back within MCP_ASKINGS_KEPT_NS, as often as he does; of one that is too long, or
 * too much beside others, the round's id.
 *
 * Owned by the stream of its call until it waits, then by the list, then by the next stream. States: with a stream ->
 * waiting -> with a stream ... -> freed; waiting ->
 * ended -> freed, by time, or for one more of the same principal's, under any of its names.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_ASKING_H
#define MUXD_DOORS_HTTPS_MCP_ASKING_H

#include "base/clock.h"
#include "base/json.h"
#include "muxd/hub/inside/broker_inside.h"

#define MCP_ASKINGS_MAX 1024 /* that wait, of everybody */
#define MCP_ASKINGS_OWN 64   /* of one principal, under all of its names */

#define MCP_ASKINGS_KEPT_NS  (300 * NS_PER_SEC)
#define MCP_ASKINGS_KEPT_ONE (1024u * 1024)     /* bytes of an answer */
#define MCP_ASKINGS_KEPT_OWN (4u * 1024 * 1024) /* of one principal's, under all of its names */
#define MCP_ASKINGS_KEPT_ALL (32u * 1024 * 1024)

struct mcp_asking;
struct mcp_askings;
int mcp_askings_create(struct mcp_askings **out); /* ERR_NOMEM */
void mcp_askings_close(struct mcp_askings *all);  /* calls that wait go on to their time, heard by nobody */

/* Binds a call to its caller. ERR_NOMEM. */
int mcp_asking_create(const struct grant *whose, const struct inside_request *w, struct mcp_asking **out);
void mcp_asking_free(struct mcp_asking *a); /* with a stream; NULL-safe */
/*
 * It waits from here on, with its job: *out is the result that says so, with what is open of `questions`. ERR_LIMIT:
 * too many do; after a failure the job is its caller's still.
 */
int mcp_asking_wait(struct mcp_askings *all, struct mcp_asking *a, struct inside_job *job,
		    const struct inside_questions *questions, json_t **out, struct err *e);
/* The one of that requestState, for who may have it; NULL: there is none. */
struct mcp_asking *mcp_asking_find(struct mcp_askings *all, const char *state, const struct grant *whose,
				   const struct inside_request *w);
/* Has its call ended meanwhile? Then how: rc with *e, or *out_answer as inside.h has it, the caller's. The asking
 * stays. */
bool mcp_asking_ended(const struct mcp_asking *a, int *out_rc, struct err *e, json_t **out_answer);
struct inside_job *mcp_asking_job(const struct mcp_asking *a);
/* The same once more, under another requestState. */
int mcp_asking_again(struct mcp_asking *a, const struct inside_questions *questions, json_t **out);
/* No longer one that waits: it is its stream's from here on, and so is the job. */
struct inside_job *mcp_asking_take(struct mcp_asking *a);

#endif
