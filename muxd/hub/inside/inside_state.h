/*
 * inside_state.h - a server inside as its own files know it; others see inside.h.
 *
 * inside_wire.c: bytes to and from the program; inside_call.c: requests; inside_asking.c: what it asks in the middle of
 * them; inside_tools.c: what it offers; inside.c: its states, which calls all of these.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_STATE_H
#define MUXD_HUB_INSIDE_INSIDE_STATE_H

#include "base/buf.h"
#include "base/metric.h"
#include "control/servers/server_def.h"
#include "muxd/hub/inside/inside.h"
#include "muxd/hub/inside/inside_ghosts.h"
#include "muxd/hub/inside/inside_line.h"
#include "muxd/hub/inside/inside_question.h"
#include "muxd/hub/inside/inside_record.h"
#include "muxd/hub/session/attachment.h"

#include <sys/queue.h>
#include <uv.h>

/* Callers of one request: whoever made it, and repeats with its exec_id. */
struct inside_caller {
	TAILQ_ENTRY(inside_caller) entry;
	const struct inside_ops *ops;
	void *arg;
	unsigned declared; /* that it can answer */
};

/* Of a request that was sent to a server that may ask: one RUNS at a time. */
enum call_turn {
	TURN_RUNS,    /* its questions, where it has some, wait for others that may come with them */
	TURN_PARKED,  /* its caller was asked, and something is open */
	TURN_ANSWERED /* nothing is: it goes on as soon as no other runs */
};

struct inside_call {
	TAILQ_ENTRY(inside_call) entry; /* of its server, in the order of arrival; or of the hub's kept ones */
	struct inside *server;          /* NULL: kept */
	TAILQ_HEAD(, inside_caller) callers;
	struct request rq;
	struct grant_line grant; /* whose end is its own: of the caller who came last */
	bool judged;             /* inside_pump(): it may be sent */
	char task[GRANT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1], name[SERVER_NAME_MAX + 1];
	char *method, *params, *tool, *exec_id;
	char digest[65];
	struct inside_record record;
	int64_t number;             /* its id for the server; 0: not sent */
	bool answered;              /* by the server; one that ends without that is a ghost */
	struct id program, sandbox; /* that it was sent to */
	char sent_digest[65];       /* of the line that was sent */
	uint64_t until_ns;          /* boot */
	enum call_turn turn;
	struct inside_questions questions; /* that the server has no answer to yet */
	unsigned open, asked, refusals;
	unsigned lacks;                        /* kinds that were asked for, and that its caller did not declare */
	uint64_t window_ns;                    /* boot: when those that came are told; 0: none are to be */
	size_t questions_bytes, answers_bytes; /* of those */
	char *ahead;                           /* answers that its caller gave ahead, by key, as text; NULL */
	char *answer; /* kept: {result or error}, as text: as JSON it may need 79 times the memory */
	char round[ID_STR_LEN];
	size_t bytes; /* kept */
	bool telling; /* kept, and its callers are being told */
};
TAILQ_HEAD(inside_calls, inside_call);

/* Somebody who waits for its tools. */
struct inside_looker {
	TAILQ_ENTRY(inside_looker) entry;
	broker_json_done *done;
	void *arg;
};

/* Why its program ends, for what comes after that. */
enum inside_leave { LEAVE_CRASHED, LEAVE_FAULT, LEAVE_WANTED, LEAVE_ANEW };

struct inside {
	TAILQ_ENTRY(inside) entry;
	struct hub *hub;
	char agent[AGENT_NAME_MAX + 1], name[SERVER_NAME_MAX + 1];
	char fingerprint[SERVER_FINGERPRINT_N];
	char stored_as[AGENT_NAME_MAX + 1]; /* the agent whose catalogue it is: its own, or of a fork the first one's */
	json_t *def;                        /* the definition; server_def borrows from it */
	enum inside_state state;
	unsigned asks; /* kinds of questions that its definition opens */
	bool dropped;  /* not configured any more: it goes once nothing is under way */
	enum inside_leave leave;
	char why[320];          /* of the last failure, of being held or ended; "" */
	int why_rc;             /* ERR_* of that */
	struct request starter; /* under whose grant it was begun last, without the token */
	char task[GRANT_NAME_MAX + 1];
	struct inside_storing *storing; /* inside_tools.c */
	unsigned under_way;             /* questions to others that will call back */
	struct attachment *at;
	struct id program; /* the round; nil: none yet */
	struct inside_lines lines;
	uint64_t line_ns;  /* boot: since when a line of it has not ended; 0: none is open */
	bool line_longest; /* the open line is the longest of more than there is room for */
	struct buf out;    /* for its stdin */
	struct buf tail;
	uint64_t until_ns; /* boot: of STARTING, INITIALIZING, LISTING; when BACKING_OFF ends; 0: none */
	uint64_t ready_ns, used_ns;
	uint64_t listed_ns; /* when its tools were asked for last */
	unsigned failures, begun;
	int64_t next_number, own_number; /* own: of initialize, or of a page of tools */
	struct inside_calls calls;
	unsigned ncalls, flight;
	struct inside_ghosts ghosts; /* that were sent, and that nobody waits for */
	TAILQ_HEAD(, inside_looker) lookers;
	json_t *hello;                    /* the answer to initialize */
	json_t *approved;                 /* names of its tools, READY: as somebody approved them; NULL: not read yet */
	json_t *tools;                    /* while they are read */
	size_t tools_bytes, tools_values; /* of the pages of it so far */
	unsigned pages, again;            /* again: how often they were read anew while they changed */
	unsigned refusals;                /* of this start */
	bool start_due;                   /* in the next turn of the loop */
	bool stale;                       /* its tools are said to be others */
	uint64_t garbage_lines, garbage_bytes, refused, late;
	uint64_t flood_ns, flood_bytes; /* since when, and how much that nobody asked for */
};

struct inside_due;
struct inside_discovery;
struct insides {
	TAILQ_HEAD(, inside) all;
	struct inside_calls kept; /* answers, for who asks again; the newest last */
	size_t kept_bytes;
	STAILQ_HEAD(, inside_due) due;              /* inside_record.c */
	TAILQ_HEAD(, inside_discovery) discoveries; /* inside_discovery.c */
	uv_timer_t *turn;                           /* what is not done inside the call that asks for it */
	uv_timer_cb on_turn;
	uv_timer_t *window;         /* questions are told */
	uint64_t questions;         /* so far */
	size_t questions_bytes;     /* that those hold that no server has an answer to yet, with their answers */
	struct metric_times times;  /* from a request to its end */
	uint64_t failures;          /* servers that failed and were held down */
	inside_updated_fn *updated; /* NULL: nobody listens */
	void *updated_arg;
};

/* inside_wire.c. A fault is told by x->why and ERR_*; the caller ends the program. */
int inside_send(struct inside *x, json_t *message); /* stolen. ERR_LIMIT: it does not read; ERR_NOMEM */
int inside_flush(struct inside *x);
void inside_tail_add(struct inside *x, const char *head, const void *p, size_t n);
typedef int inside_line_fn(struct inside *x, struct inside_line *l, size_t bytes); /* ERR_*: a fault */
int inside_read(struct inside *x, inside_line_fn *on_line);
void inside_watch_lines(struct inside *x); /* half a line of it has grown */
/* A line that does not end: ERR_MCP_SERVER once it was waited for too long, or takes the room of others. */
int inside_line_due(struct inside *x, uint64_t now); /* all that there is */
int inside_flood(struct inside *x, size_t n);        /* bytes that answer no request in flight */
void insides_turn(struct hub *h);                    /* the next turn of the loop begins servers, sends and answers */
void inside_drain(struct inside *x);                 /* the same, thrown away: it is in the record */
__attribute__((format(printf, 2, 3))) int inside_fault(struct inside *x, const char *fmt, ...);

/* inside_call.c */
int inside_call_create(struct inside *x, const struct inside_ask *ask, struct inside_call **out, struct err *e);
int inside_call_send(struct inside *x, struct inside_call *c);
/* The end of one: its callers are told, the record too. answer: stolen, {result} or {error}, NULL with rc. */
void inside_call_end(struct inside_call *c, int rc, const char *message, json_t *answer);
struct inside_call *inside_call_by_number(struct inside *x, int64_t number);
/* All of them, or those that were sent alone. */
void inside_calls_end(struct inside *x, bool sent_only, int rc, const char *message);
void inside_calls_progress(struct inside *x, const json_t *params);
/* The same call of the same exec_id, under way or kept (server NULL); NULL: none. Joined, its end is told; of a kept
 * one that is in the next turn of the loop, by inside_call_again(). */
struct inside_call *inside_call_by_exec_id(struct inside *x, const struct inside_ask *ask);
int inside_call_join(struct inside_call *c, const struct inside_ask *ask);
void inside_call_again(struct inside_call *c);
void inside_call_forget(struct inside_call *c, void *arg, bool *out_last);
void inside_kept_trim(struct hub *h, size_t most);

/* inside_asking.c */
/* A question of a kind that is opened: told, or refused. ERR_*: of the sending. */
int inside_asked(struct inside *x, enum question_kind k, const struct inside_line *l, size_t bytes);
bool inside_turn_is_free(struct inside *x, const struct inside_call *c); /* may that one be sent now? */
int inside_asking_resume(struct inside *x); /* answers go to the server where it is their call's turn */
void inside_asking_drop(struct inside_call *c);
void inside_asking_joined(struct inside_call *c); /* by one more caller, who hears what is open */
void inside_asking_left(struct inside_call *c);   /* by a caller: what nobody can answer is answered so */
void inside_asking_withdraw(struct inside *x, const json_t *id);
void inside_asking_log(struct inside *x, const json_t *params);
void insides_on_window(uv_timer_t *t);

/* inside_tools.c */
/* The answer to initialize, in a line of so many bytes. */
int inside_hello(struct inside *x, const json_t *result, size_t bytes, bool *out_tools);
int inside_tools_ask(struct inside *x, const char *cursor);
int inside_tools_page(struct inside *x, const struct inside_line *l, size_t bytes, bool *out_whole);
/* Stores what was read; `then` with rc, and what the store has (catalogue_get()). */
typedef void inside_stored_fn(struct inside *x, int rc, const char *message, json_t *stored);
int inside_tools_store(struct inside *x, inside_stored_fn *then);
void inside_tools_leave(struct inside *x); /* the list that is being stored is told nobody */

#endif
