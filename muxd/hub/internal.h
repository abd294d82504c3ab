/*
 * internal.h - the structs of the hub, for muxd/hub/ alone.
 *
 * Ownership: hub owns agents and sessions; an agent owns its link; a session
 * belongs to one agent and is freed once it has ended, its keeping time is over
 * and nobody is attached or waiting; an attachment is the door's until detach.
 * Doors see the functions of hub.h, broker.h, session.h and attachment.h only.
 */
#ifndef MUXD_HUB_INTERNAL_H
#define MUXD_HUB_INTERNAL_H

#include "base/buf.h"
#include "base/memory.h"
#include "base/metric.h"
#include "control/life/life.h"
#include "control/sandbox.h"
#include "muxd/hub/broker.h"
#include "muxd/hub/exec_ids.h"
#include "muxd/hub/failures.h"
#include "muxd/hub/hub.h"
#include "muxd/hub/journal.h"
#include "muxd/hub/keep.h"
#include "muxd/hub/setup.h"
#include "muxd/hub/stream.h"
#include "muxd/hub/transfer.h"
#include "muxd/hub/typeahead.h"
#include "policy/revocation.h"
#include "policy/time_floor.h"

#include <sys/queue.h>
#include <uthash.h>
#include <uv.h>

#define SESSION_WINDOW STREAM_RING_MAX
#define SESSION_CHUNK  (64 * 1024)
/* A killed program that neither dies nor is reported gone: the session ends without it. */
#define SESSION_KILL_DEADLINE_NS (15 * NS_PER_SEC)

enum wake {
	WAKE_READABLE = 1,
	WAKE_WRITABLE = 2,
	WAKE_ENDED = 4,
	WAKE_CUT = 8,
	WAKE_NOTICE = 16,
	WAKE_SKIPPED = 32,
	WAKE_RESIZED = 64
};

enum screening { SCREENING_NO, SCREENING_WANTED, SCREENING_ASKED };

struct attachment {
	struct session *session;
	TAILQ_ENTRY(attachment) of_session;
	TAILQ_ENTRY(attachment) pending; /* in hub->pending while wakes != 0 */
	TAILQ_ENTRY(attachment) of_hub;
	TAILQ_ENTRY(attachment) of_screen; /* in session->screen->want while screening */
	TAILQ_ENTRY(attachment) of_paced;  /* an observer, in hub->paced while paced */
	bool paced;
	size_t share; /* bytes that an observer may still be shown of what it was given at share_ms (uv_now) */
	uint64_t share_ms;
	enum screening screening;        /* nothing is peeked until its screen is there */
	uint64_t screen_from, screen_by; /* an offset; boot ns */
	uint32_t screen_tag;
	bool screen_missed; /* none came in time */
	const struct attachment_ops *ops;
	void *arg;
	enum attachment_role role;
	struct id id, request; /* its own; of who asked for it */
	struct id grant;
	enum grant_kind kind; /* of the principal */
	int64_t expires_ns;
	char principal[GRANT_NAME_MAX + 1];
	char reason[GRANT_REASON_MAX + 1];
	uint64_t since_ns; /* boot */
	uint64_t typed;    /* bytes of input */
	const char *door;
	char peer[64];
	uint64_t cursor[STREAM_COUNT];
	unsigned wakes, held_wakes;
	bool held;          /* its door has not heard of it yet: no callbacks */
	bool armed;         /* the door has seen everything and waits for `readable` */
	bool input_blocked; /* ... and for `writable` */
	bool warned, over;  /* over: ended or cut was said */
	enum cut_cause cut_cause;
	char text[256]; /* of a notice or cut */
	bool notice_over;
};
TAILQ_HEAD(attachment_list, attachment);
const char *attachment_role_name(enum attachment_role role);

/* What the client asked for, owned. */
struct launch {
	char **argv, **env; /* NULL-ended */
	char *command, *cwd, *exec_id;
	struct transfer *transfer; /* SESSION_FILE, but for one from before a restart */
	uint16_t port;             /* SESSION_PORT: inside, on the loopback */
	char *port_use;            /* ... and what for; NULL */
	char task[GRANT_NAME_MAX + 1];
	char digest[65];
	bool pty, stdin_open, login;
	unsigned cols, rows, xpixel, ypixel;
	uint8_t *stdin_data;
	size_t stdin_len;
	uint8_t *secret; /* until OPEN is sent; wiped */
	size_t secret_len;
	char lease[ID_STR_LEN], run[GRANT_NAME_MAX + 1]; /* of the request */
	uint64_t timeout_ns, head, tail;
};

typedef void session_waiter_fn(void *arg, struct session *s);
/* rc 0: it was opened, or is shown while it waits for its place; else it never will be, and why says it. */
typedef void session_opened_fn(void *arg, struct session *s, int rc, const char *why);
struct session_waiter {
	LIST_ENTRY(session_waiter) entry;
	session_waiter_fn *fn; /* once, after the end (or when the hub goes) */
	void *arg;
};

/* The size of a terminal from an offset of its output on. */
struct session_size {
	uint64_t offset;
	uint16_t cols, rows;
};
#define SESSION_SIZES 64

/* Its end, from the sandbox's word to the clients' (session_end.c); each state is left for the next one below. */
enum session_end {
	END_NOT_YET,
	END_ASKED,    /* a KILL that nobody here sent ended it: whether memory ran out is being asked */
	END_KNOWN,    /* output that waits for the record comes first, then EXIT in the ring */
	END_RECORDED, /* EXIT is in the ring: by configuration it becomes durable first */
	END_TOLD,     /* there is a result, and every client may see it */
};

struct session {
	struct hub *hub;
	struct agent *agent;
	UT_hash_handle hh;         /* hub->sessions by id */
	UT_hash_handle hh_channel; /* agent->channels */
	TAILQ_ENTRY(session) order;
	TAILQ_ENTRY(session) of_ended; /* hub->ended once it has ended */
	struct id id;
	char id_text[ID_STR_LEN];
	uint32_t channel;
	enum session_kind kind;
	enum session_state state;
	struct grant grant; /* who opened it */
	const char *door;
	char peer[64];
	struct launch launch;
	int64_t opened_wall_ns, ended_wall_ns;
	uint64_t opened_boot_ns;
	char snapshot_id[ID_STR_LEN];
	struct regain *regain; /* what a restart took is being asked for: its end waits for that */
	bool regained;         /* ... or need not be asked for */
	struct id typist;      /* the attachment whose input the record has last; nil: none, or what came by calls */
	uint64_t typist_ns;    /* boot: when the record was told */

	struct stream stream[STREAM_COUNT]; /* [STREAM_INPUT] unused */
	struct keep keep[STREAM_COUNT];     /* rounds */
	struct buf backlog[STREAM_COUNT];   /* arrived, not journaled: the ring or the share was full */
	uint64_t window[STREAM_COUNT], acked[STREAM_COUNT];
	struct journal_share share;
	uint64_t in_offset; /* journaled input */
	uint64_t in_lost;   /* journaled, never delivered over a restart */
	uint64_t in_extra;  /* delivered, not journaled: the trailer of a put */
	struct buf
	    in_flight;   /* without a terminal: what the program has not taken yet, to be sent again after a break */
	uint64_t in_eof; /* 1 + offset of the end, 0 = open */
	struct buf in_queue;           /* taken, not journaled: it waits for room, or a terminal's for its mode */
	struct id in_owner;            /* the attachment that typed that; nil: none, or it came by calls */
	struct typeahead ahead;        /* of a terminal: whether it waits for its mode */
	TAILQ_ENTRY(session) of_ahead; /* in hub->ahead while that is HELD */
	bool echo_off, started, killing;
	enum session_end end;
	char *begun_cwd, *begun_program; /* as muxlet saw them (begun.c), fit to be shown; NULL: not told */
	bool begun_unsaid;               /* the record is to be told once they are */
	bool audit_due;                  /* its end is in the ring, and the audit log had no room for it */
	enum exit_cause kill_cause;
	const char *doom; /* why session_settle() is to kill it; NULL: it is not */
	enum exit_cause doom_cause;
	char kill_text[200];
	struct link_exit exit;
	uint64_t end_asked; /* boot ns: since when END_ASKED */
	uint64_t exit_position;
	struct session_result result;
	uint64_t kept_bytes; /* counted in hub->ended_bytes */

	struct session_size sizes[SESSION_SIZES]; /* of a terminal; the first is where it began */
	size_t nsizes;
	bool size_due;         /* a size that the sandbox has not heard: the link was down */
	bool size_unsure;      /* after a restart: the terminal may have another one than launch says */
	struct screen *screen; /* NULL: nobody needs one */
	unsigned screen_failures;
	uint64_t screen_failed_ns;

	struct attachment_list attachments;
	unsigned observers; /* of them */
	LIST_HEAD(, session_waiter) waiters;
	uint64_t linger_at, forget_at, kill_deadline; /* boot ns, 0 = none */
	session_opened_fn *on_opened;                 /* who waits for `opened`; NULL: nobody */
	void *opened_arg;
	char waits[200];   /* OPENING: why there is no place for it yet; "": nothing is said */
	uint64_t waits_ns; /* boot: when people were told last */
};
TAILQ_HEAD(session_list, session);

enum agent_state { AGENT_COLD, AGENT_WAKING, AGENT_UP, AGENT_LOST };

typedef void agent_ready_fn(void *arg, int rc, const struct err *e);
struct agent_waiter {
	STAILQ_ENTRY(agent_waiter) entry;
	agent_ready_fn *fn;
	void *arg;
};

struct agent {
	struct hub *hub;
	UT_hash_handle hh; /* hub->agents by name */
	char name[AGENT_NAME_MAX + 1];
	enum agent_state state;
	struct sandbox_info info;
	struct link *link;
	struct id linked; /* sandbox_id the link's channels belong to */
	uint32_t next_channel;
	struct session *channels; /* hash by channel */
	STAILQ_HEAD(, agent_waiter) waiters;
	int64_t last_activity_wall_ns;
	uint64_t last_activity_boot_ns, last_exit_boot_ns;
	struct clearing *clearing; /* clear.c: everything inside is being ended */
	struct quiesce *quiesce;   /* life waits for its disk to be written, or holds its programs frozen */
	uint64_t retry_at;         /* boot ns, 0 = none */
	unsigned retry_ms;
	uint64_t adrift_since; /* boot ns: sessions run there, and nobody looks for its stream; 0: not so */
	unsigned silent_tries; /* since silent_since; by time alone a daemon that stood still would blame it */
	uint64_t silent_since; /* boot ns: its incarnation was given a stream, and no link came of that yet; 0 */
	char unable[160];      /* why its muxlet cannot serve; "": it does, or nobody knows yet */
	uint32_t oom_seen;
	bool stopping;           /* life ends it: what is to begin in it waits for that, or for its being taken back */
	bool cut;                /* broke the protocol: this incarnation is not spoken to again */
	struct agent_ask *ask;   /* the provider works on it */
	struct agent_want *want; /* lifecycle was told that somebody waits for it */
};

struct hub {
	uv_loop_t *loop;
	struct hub_params p;
	struct conf *conf;
	struct journal *journal;
	struct grant_public_key *keys;
	struct grant_keyset keyset;
	struct revocations *revoked;
	struct failures *failures, *verdicts;
	json_t *alarms;  /* of the record; NULL: none */
	int failures_fd; /* muxd/hub/failures_file.h; -1: none */
	struct time_floor floor;
	struct agent *agents;
	struct session *sessions;
	struct session_list order; /* newest first */
	struct session_list ended; /* at hand still, oldest first: at most conf->round_keep_max, round_keep_size */
	size_t ended_count;
	uint64_t ended_bytes;
	struct exec_ids *exec_ids;
	struct attachment_list attachments, pending, paced;
	TAILQ_HEAD(, screen) screens;
	unsigned nscreens;
	struct recorder_client *recorder;
	json_t *witnesses;             /* as the recorder said last; NULL: none */
	uint64_t witnesses_ns;         /* when it was asked */
	struct reader_client *readers; /* who has read the record and is still connected */
	uint64_t recovered_ns;
	TAILQ_HEAD(gate_list, gate_wait) gate, later; /* in the order in which they came, all for the same time */
	struct recovery *recovery;                    /* waits for the recorder to say how it is */
	uv_timer_t *second;
	uv_idle_t *idle;
	uv_timer_t *pace, *ahead_timer;
	struct session_list ahead; /* whose input waits */
	bool flushing, recovered, stopping;
	bool paused;        /* the record cannot be written */
	uint64_t paused_at; /* since then */
	bool pause_told;    /* people were told of the pause */
	struct hub_stats stats;
	struct metric_times round_times;
	struct memory_rest rest; /* sessions that went */
	unsigned reviews;        /* tokens of the cluster that are out */
};

/* session_*.c */
void session_set_state(struct session *s, enum session_state state);
int session_create(struct agent *a, const struct request *rq, enum session_kind kind, struct launch *launch,
		   struct session **out, struct err *e); /* takes launch's content on success */
int session_intend(struct session *s, struct err *e);    /* journals the intent */
int session_start(struct session *s, struct err *e);     /* OPEN to the sandbox; a failure ends the session */
void session_free(struct session *s);
void session_on_data(struct session *s, int stream, uint64_t offset, const uint8_t *p, size_t n);
void session_output(struct session *s, int stream, uint64_t offset, const uint8_t *p, size_t n); /* may doom it */
void session_pump_output(struct session *s);           /* what was not journaled yet */
void session_show(struct session *s);                  /* what is durable may be seen */
void session_shrink(struct session *s);                /* nobody is at it: less of its output is kept in memory */
void session_pass_over(struct session *s, int stream); /* what its clients have not seen of it is not for them */
void session_pump(struct session *s);                  /* backlog, queued stdin, windows, pending exit */
bool session_backlog(const struct session *s);         /* output that is not in the journal yet */
void session_update_window(struct session *s);
void session_note_size(struct session *s); /* the size in its launch holds from here on */
bool session_has_driver(const struct session *s);
void session_ack(struct session *s, bool all);
void session_on_opened(struct session *s, int rc, const char *why);
/* Its sandbox has no place for it yet, and says why: people are shown that, and may give up. */
void session_on_waits(struct session *s, const char *why);
bool session_gives_up(struct session *s, const void *p, size_t n); /* Ctrl-C of one who waits ended it */
void session_on_exit(struct session *s, const struct link_exit *x);
void session_on_consumed(struct session *s, uint64_t offset);
void session_finish(struct session *s, enum exit_cause cause, int code, int signum, const char *message);
void session_audit_end(struct session *s);
/* Whoever opened it, as the audit log names them. */
void session_request(const struct session *s, struct request *out);
/* begun.c: where its program began and which file it is. `set` puts what is known into an answer, null for the rest. */
void session_on_begun(struct session *s, const char *cwd, const char *program);
void session_set_begun(const struct session *s, json_t *o);
void session_forget_begun(struct session *s);
void session_sweep(struct session *s, uint64_t now); /* an end that is known does not wait for ever */
void session_kill(struct session *s, enum exit_cause cause, const char *why);
/* Input or output of s cannot go on; why is a static text. The caller of what found that calls session_settle(), which
 * kills the session. */
void session_doom(struct session *s, enum exit_cause cause, const char *why);
void session_settle(struct session *s);
/* The same, but for the word to its sandbox: that is the caller's. False: there is none to be said now. */
bool session_condemn(struct session *s, enum exit_cause cause, const char *why);
void session_suspend(struct session *s);
void session_resume(struct session *s, const struct link_channel_info *info);
void session_wait(struct session *s, struct session_waiter *w, session_waiter_fn *fn, void *arg);
void session_event(struct session *s, const char *event, json_t *detail); /* steals detail, may be NULL */
/* All input of a session goes in one order: what was taken and cannot go on stands in its one queue, and what comes
 * then, an end too, goes behind it. by: whose it is. */
ssize_t session_input(struct session *s, struct attachment *by, const void *p, size_t n);
/* What of the input the program had not taken when the link broke; from where input goes on. */
uint64_t session_input_settle(struct session *s, const struct link_channel_info *info);
void session_input_landed(struct session *s, uint64_t consumed); /* so much of it the program took */
void session_input_again(struct session *s, uint64_t from);      /* after the channel is resumed */
void session_pump_input(struct session *s);                      /* what is queued, then the end if it is wanted */
void session_wake_input(struct session *s);                      /* who waits for room is told, if there is some */
int session_queue_input(struct session *s, const void *p, size_t n, size_t *out_taken); /* by calls */
void session_queue_room(struct session *s, size_t n); /* the queue may hold that much more than it does */
int session_input_eof(struct session *s);
/* Input typed ahead (typeahead.h): the mode of the terminal, and what came out of it; what waits goes now, for a
 * reason that does not wait; or never. */
void session_on_echo(struct session *s, enum link_echo mode);
void session_ahead_output(struct session *s, const void *p, size_t n);
void session_ahead_flush(struct session *s);
void session_input_forget(struct session *s);
int ahead_create(struct hub *h); /* 0 or ERR_NOMEM */
void ahead_destroy(struct hub *h);
bool session_shown(const struct session *s); /* the end may be told: journaled, or durable by configuration */
json_t *session_open_json(const struct session *s);
struct session *session_restore_alloc(struct agent *a, const struct id *id, enum session_kind kind, uint32_t channel,
				      const uint64_t at[STREAM_COUNT]);
int session_restore(struct hub *h, const json_t *entry, struct err *e); /* one entry of the recorder's `recover` */
void session_restore_or_end(struct hub *h, const json_t *entry, bool *out_taken); /* what cannot be one: ends there */
void session_tick(struct session *s, uint64_t now);
void sessions_trim(struct hub *h); /* the oldest ended ones go, until the rest is within bounds */

void session_opened(struct session *s, int rc, const char *why); /* who waits for it is told, once */

/* recall.c: the answer of a round that has left memory, from the record. */
json_t *recall_stream(const json_t *exit, int stream, const json_t *page); /* one stream of it */
void round_recall(struct hub *h, const struct request *rq, const struct id *round, broker_json_done *done, void *arg);

/* attachment.c */
int attachment_create(struct session *s, const struct request *rq, enum attachment_role role,
		      const struct attachment_ops *ops, void *arg, bool held, struct attachment **out);

/* wake.c */
void attachment_wake(struct attachment *a, unsigned wakes);
void attachment_check_end(struct attachment *a);
void attachment_release(struct attachment *a); /* its door knows it now */
void attachment_cut(struct attachment *a, enum cut_cause cause, const char *text);
bool attachment_leaves(const struct attachment *a); /* cut, though its door may not have heard of it */
void attachment_notice(struct attachment *a, const char *text, bool over);
void session_wake_all(struct session *s, unsigned wakes);
void hub_flush(struct hub *h); /* runs queued callbacks; harmless inside itself */

/* agent.c */
#define AGENT_RETRY_MIN_MS 50
void agent_set_state(struct agent *a, enum agent_state s);
const char *agent_state_name(enum agent_state s);
struct agent *agent_get(struct hub *h, const char *name); /* made when missing; NULL = no memory */
void agent_need(struct agent *a, agent_ready_fn *fn, void *arg);
void agent_reconnect(struct agent *a);
void agent_touch(struct agent *a);
/*
 * Its muxlet does not do what it is for. It is shown so, and who asks for the sandbox next has it ended and begun anew:
 * its programs end, its workspace stays (agent_may_end(); else it is only told).
 */
void agent_unable(struct agent *a, const char *why);
uint64_t agent_patience(const struct agent *a); /* ns that its sandbox may take to answer who waits for a start */
/* The agent's sessions end with that cause and words, its link is closed. */
void agent_leave(struct agent *a, enum exit_cause cause, const char *why);
void agent_set_cold(struct agent *a, const char *why);
void agent_stopping(struct agent *a, bool on);
void agent_gone(void *hub, const char *name, const struct id *sandbox, const char *why); /* a sandbox_gone */
void agent_tick(struct agent *a, uint64_t now);
void agent_destroy(struct agent *a);

/*
 * clear.c: everything inside ends, and nothing has to be made inside for that. What returns a text: why its muxlet is
 * not who ends it, so that the caller ends the sandbox from outside; NULL: there is nothing to do.
 */
struct clearing;
/* *ended: how many sessions. ERR_CONFLICT while it is being done; ERR_CANCELLED when the hub goes. */
typedef void clear_done(void *arg, int rc, const struct err *e, unsigned ended);
const char *clear_begin(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg);
const char *clear_link_up(struct agent *a);
void clear_link_down(struct agent *a);
void clear_gone(struct agent *a); /* nothing is there, so nothing is inside */
const char *clear_answered(struct agent *a, int rc);
const char *clear_tick(const struct agent *a, uint64_t now);
void clear_cancel(struct agent *a);
struct clearing *clear_outside(struct agent *a); /* the provider ends it now; lives until clear_ended() */
struct agent *clear_ended(struct clearing *k);   /* it did; NULL: the agent is gone meanwhile, and k too */
const char *clear_why(const struct agent *a);    /* while it is being done */
void clear_answer(struct agent *a, int rc, const struct err *e);
/*
 * The same, with all that belongs to it. Who does not answer for as long as timeout_ns is ended from outside where that
 * costs no workspace (ERR_TIMEOUT, elsewhere).
 */
void agent_clear(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg);
/* Ended from outside, so that the next one can serve: its workspace stays. False: that would cost it. */
bool agent_may_end(const struct agent *a);
/* agent_json.c: what the hub knows of it, and the provider (info; NULL: what it said last). */
json_t *agent_describe(struct hub *h, const char *name, const struct sandbox_info *info);
/* broker_list.c: the same with the row that life keeps of it (NULL: none), which knows better. */
json_t *agent_show(struct hub *h, const char *name, const struct sandbox_info *info, const json_t *row);
json_t *agent_row(struct hub *h, const char *name);      /* NULL: none, or no life here */
json_t *agent_show_now(struct hub *h, const char *name); /* with the row as it is now */
/* The whole name of a target (ns/pod becomes ns/pod/container): at once, or when the provider has said. */
void hub_resolve(struct hub *h, const char *name, sandbox_done *done, void *arg);

/*
 * moment.c: snapshot_id and next_snapshot_id into o, of something opened then, with that snapshot ("": none). seen: an
 * object that one list shares, so that the store is asked once for each agent.
 */
void moment_add(struct hub *h, json_t *o, const char *agent, int64_t opened_wall_ns, const char *snapshot,
		json_t *seen);

void recovery_check(struct hub *h);

/* lifecycle.c: the hub as life sees it */
void lifecycle_begin(struct hub *h);

/* quiesce.c: done is called once, unless this fails (ERR_UNSUPPORTED); with LIFE_FROZEN when programs are frozen. */
int quiesce_begin(struct agent *a, uint64_t timeout_ns, uint64_t hold_ns, life_host_done *done, void *arg);
bool quiesce_holds(const struct agent *a); /* its programs are frozen */
bool quiesce_end(struct agent *a);         /* they go on; false: nothing was asked for */
/* True: the channel was one of its own. */
bool quiesce_exited(struct agent *a, uint32_t channel, const struct link_exit *x);
bool quiesce_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n);
void quiesce_link_up(struct agent *a);
void quiesce_link_down(struct agent *a); /* or none came */
void quiesce_tick(struct agent *a, uint64_t now);

/* launch.c */
int launch_from_spec(struct hub *h, const struct grant *g, const struct exec_spec *spec, struct launch *out,
		     struct err *e);
void launch_finish(struct launch *l);
void launch_forget_secret(struct launch *l); /* its length stays */

/* port.c */
#define PORT_CLOSED "closed from its client's side" /* the kill of a connection that was let go: it ended well */
int port_allowed(const struct hub *h, uint16_t port, struct err *e); /* ERR_PORT_DENIED */
json_t *port_json(const struct launch *l);
int port_result(const struct session *s, const struct session_result *r, struct err *e); /* 0, or for its client */

uint32_t scope_of(enum session_kind k);
uint32_t attach_scope(enum attachment_role role, bool own);
int broker_check(struct hub *h, const struct request *rq, const char *agent, uint32_t scopes, const char *what,
		 struct err *e); /* grant in force and wide enough; refusals are audited */

/* A refusal by policy is an event with what was asked for; agent NULL: no certain one. Returns e->code. */
int broker_refused(struct hub *h, const struct request *rq, const char *agent, const char *what, const struct err *e);
/* The same as broker_check() with one of the scopes `any`. */
int broker_check_any(struct hub *h, const struct request *rq, const char *agent, uint32_t any, const char *what,
		     struct err *e);
/* After broker_check(): what the agent holds, too? A sandbox of the pool is entered by its lease's principal alone. */
int broker_check_enter(struct hub *h, const struct request *rq, const char *agent, const char *what, struct err *e);
/* A round by its id. scope: what its own principal needs to act on it, 0: to look at it. Another's is acted on with
 * drive. ERR_NOT_FOUND: there is none, or none that this grant may know of. */
int broker_find_round(struct hub *h, const struct request *rq, const struct id *round, uint32_t scope, const char *what,
		      struct session **out, struct err *e);
bool broker_may_see(const struct request *rq, const struct session *s);
/* A session that this grant may not know of is answered as absent, ERR_NOT_FOUND; the audit log has whose it was. */
void broker_hide(struct hub *h, const struct request *rq, const struct session *s, const char *what);
void request_begin(struct request *rq, const struct origin *from); /* without a grant yet */
int broker_in_force(struct hub *h, const struct request *rq, const char *what,
		    struct err *e); /* not ended, not revoked */

/* audit.c: failed log-ins, of which a flood is few events. */
int audit_failures_begin(struct hub *h, struct err *e);
void audit_failure(struct hub *h, const struct request *rq, const char *what, const struct err *e);
/* A valid grant was refused; detail (stolen): what, message and more. The same again is counted for a minute. */
void audit_verdict(struct hub *h, const struct request *rq, const char *agent, const char *outcome, json_t *detail);
void audit_failures_tick(struct hub *h, bool all);
void audit_failures_end(struct hub *h);
/* audit.c: one event into the journal, about a request (NULL), with detail (stolen, NULL). */
int audit_event(struct hub *h, const char *event, const struct request *rq, const char *agent, const char *outcome,
		json_t *detail);

/* grants.c */
void grants_tick(struct hub *h);
/* witnesses.c: each second */
void hub_witnesses_tick(struct hub *h);
int hub_writable(struct hub *h, struct err *e); /* 0, ERR_RECORD_UNAVAILABLE, ERR_DISK_FULL */

/* gate.c: go is called once, at once where it can be told now: rc 0, or hub_writable()'s after 5 s of a record that
 * starts, or broker_in_force()'s after a wait. rq stays as it is until then. */
typedef void gate_go(void *arg, int rc, const struct err *e);
void gate_pass(struct hub *h, const struct request *rq, gate_go *go, void *arg);
/* The same at the next tick of the hub, whatever the record is like; rc is 0, or ERR_CANCELLED. ERR_NOMEM: not called.
 */
int gate_later(struct hub *h, gate_go *go, void *arg);
void gate_tick(struct hub *h);
void gate_tick_later(struct hub *h);
void gate_close(struct hub *h); /* ERR_CANCELLED to all who wait */

#endif
