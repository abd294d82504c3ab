/*
 * session_state.h - a session as the hub's parts know it; doors see session.h.
 *
 * Owner: the hub. A session belongs to one agent and is freed once it has ended, its keeping time is over and nobody is
 * attached or waiting. Its states are session.h's; beside them its end (enum session_end) goes
 * its own way, in session_end.c.
 */
#ifndef MUXD_HUB_SESSION_SESSION_STATE_H
#define MUXD_HUB_SESSION_SESSION_STATE_H

#include "base/buf.h"
#include "control/sandbox.h"
#include "muxd/hub/core/journal.h"
#include "muxd/hub/record/share.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/given.h"
#include "muxd/hub/session/keep.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/listener.h"
#include "muxd/hub/session/session.h"
#include "muxd/hub/session/stream.h"
#include "muxd/hub/session/typeahead.h"
#include "policy/grant.h"

#include <sys/queue.h>
#include <uthash.h>

struct request;
struct trail;

#define SESSION_WINDOW STREAM_RING_MAX
#define SESSION_CHUNK  (64 * 1024)
/* Of a terminal that nobody looks at: a burst at full speed, then so many bytes a second, which fill it up again. */
#define SESSION_ALONE_BURST (16 * 1024 * 1024)
#define SESSION_ALONE_RATE  (1024 * 1024)
/* A killed program that neither dies nor is reported gone: the session ends without it. */
#define SESSION_KILL_DEADLINE_NS (15 * NS_PER_SEC)

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
/* More kills for want of memory than there ever are. */
#define SESSION_NO_BASE UINT64_MAX

/* Its end, from the sandbox's word to the clients' (session_end.c); each state is left for the next one below. */
enum session_end {
	END_NOT_YET,
	END_ASKED,    /* a KILL that nobody here sent ended it: whether memory ran out is being asked */
	END_KNOWN,    /* output that waits for the record comes first, then EXIT in the ring */
	END_RECORDED, /* EXIT is in the ring: by configuration it becomes durable first */
	END_TOLD,     /* there is a result, and every client may see it */
};

#define KILL_TEXT_MAX 199

struct session {
	struct hub *hub;
	struct agent *agent;
	UT_hash_handle hh;         /* on the hub's shelf (shelf.h), by id */
	UT_hash_handle hh_channel; /* agent->channels */
	TAILQ_ENTRY(session) order;
	TAILQ_ENTRY(session) of_ended; /* there, once it has ended */
	struct id id;
	char id_text[ID_STR_LEN];
	uint32_t channel;
	enum session_kind kind;
	enum session_state state;
	const struct grant *grant; /* who opened it; shared (grant_news.h) */
	const char *door;
	char peer[64];
	struct launch launch;
	int64_t opened_wall_ns, ended_wall_ns;
	uint64_t opened_boot_ns;
	char snapshot_id[ID_STR_LEN];
	int64_t life;          /* of its agent (struct life_current) */
	struct regain *regain; /* what a restart took is being asked for: its end waits for that */
	bool regained;         /* all of that is there again, or need not be asked for */
	struct id typist;      /* the attachment whose input the record has last; nil: none, or what came by calls */
	uint64_t typist_ns;    /* boot: when the record was told */
	char *caller;          /* who sends by calls; NULL: who opened it */
	bool caller_changed;   /* and the record has another last */

	struct stream stream[STREAM_COUNT]; /* [STREAM_INPUT] unused */
	struct keep *keep;                  /* [STREAM_COUNT], of a round; NULL: it is none */
	struct trail *trails;               /* [STREAM_COUNT], of a round that has printed; NULL: none */
	struct buf backlog[STREAM_COUNT];   /* arrived, not journaled: the ring or the share was full */
	uint64_t window[STREAM_COUNT], acked[STREAM_COUNT];
	uint64_t alone_until; /* offset up to which a terminal without a client may go now; 0: it has one */
	uint64_t alone_ns;    /* boot: when that was moved last */
	bool paced;           /* that is less than a window: its program waits in between */
	struct journal_share share;
	struct share *shares[CONF_SHARE_OFS]; /* session_share.h; NULL: counted in none */
	struct journal_share *share_also;     /* the part of the ring that its agent has; NULL: it stands apart */
	bool shared, share_apart;             /* counted; not held by shares.* */
	bool share_aside;                     /* not counted, while another is asked for that takes its place */
	bool record_held;                     /* its agent's share of the record is used up */
	uint64_t record_most;                 /* bytes of a stream that the record keeps */
	uint64_t in_offset;                   /* journaled input */
	struct given *given;                  /* calls that gave it input; NULL: none */
	uint64_t given_from; /* what lies before came ahead of a restart, and whose it was is not known */
	uint64_t in_lost;    /* journaled, never delivered over a restart */
	uint64_t in_extra;   /* delivered, not journaled: the trailer of a put */
	struct buf
	    in_flight;   /* without a terminal: what the program has not taken yet, to be sent again after a break */
	uint64_t in_eof; /* 1 + offset of the end, 0 = open */
	struct buf in_queue;           /* taken, not journaled: it waits for room, or a terminal's for its mode */
	struct id in_owner;            /* the attachment that typed that; nil: none, or it came by calls */
	struct typeahead ahead;        /* of a terminal: whether it waits for its mode */
	TAILQ_ENTRY(session) of_ahead; /* in struct aheads while that is HELD */
	bool echo_off, started, killing;
	/* boot: a terminal that was resumed takes no input until its mode has been told anew, or until then; 0: told */
	uint64_t echo_due;
	enum session_end end;
	char *begun_cwd, *begun_program; /* as muxlet saw them (session_on_begun), fit to be shown; NULL: not told */
	bool begun_unsaid;               /* the record is to be told once they are */
	bool audit_due;                  /* its end is in the ring, and the audit log had no room for it */
	enum exit_cause kill_cause;
	const char *doom; /* why session_settle() is to kill it; NULL: it is not */
	enum exit_cause doom_cause;
	char *kill_text; /* KILL_TEXT_MAX; NULL: nothing is said of it */
	struct link_exit exit;
	uint64_t heard_ns;     /* boot: when output came last, or could begin to come */
	uint64_t end_asked;    /* boot ns: since when END_ASKED */
	uint64_t oom_base;     /* agent->oom.count when it began, or was found again; SESSION_NO_BASE: not known yet */
	bool kill_sent;        /* somebody here sent it a KILL: its end by that is no question */
	struct link_mark mark; /* of its OPEN, as the record has it; life 0: not known */
	uint64_t exit_position;
	struct session_result *result; /* NULL: its end is not in the ring yet */
	json_t *artifacts;             /* what came of those of a round; NULL: none was asked for */
	uint64_t kept_bytes;           /* counted on the shelf */

	struct session_size *sizes; /* of a terminal, SESSION_SIZES at most; the first is where it began */
	size_t nsizes;
	bool size_due;         /* a size that the sandbox has not heard: the link was down */
	bool size_unsure;      /* after a restart: the terminal may have another one than launch says */
	struct screen *screen; /* NULL: nobody needs one */
	unsigned screen_failures;
	uint64_t screen_failed_ns;

	struct attachment_list attachments;
	unsigned observers; /* of them */
	LIST_HEAD(, session_waiter) waiters;
	struct round_listeners listeners;
	uint64_t linger_at, forget_at, kill_deadline; /* boot ns, 0 = none */
	session_opened_fn *on_opened;                 /* who waits for `opened`; NULL: nobody */
	void *opened_arg;
	char *waits;       /* OPENING: why there is no place for it yet; NULL: nothing is said */
	uint64_t waits_ns; /* boot: when people were told last */
};
TAILQ_HEAD(session_list, session);

/* session_input.c: those of a hub whose input waits for the mode of their terminal. */
struct aheads {
	struct session_list held;
	struct uv_timer_s *timer; /* until the first of them has waited long enough */
};

/* session.c */
void session_set_state(struct session *s, enum session_state state);
void session_touch(struct session *s); /* activity of its agent, but of a program that runs inside for all */
struct log_ids session_ids(const struct session *s);             /* for a line about it */
void session_opened(struct session *s, int rc, const char *why); /* who waits for it is told, once */
/* Input or output of s cannot go on; why is a static text. The caller of what found that calls session_settle(), which
 * kills the session. */
void session_doom(struct session *s, enum exit_cause cause, const char *why);
void session_wait(struct session *s, struct session_waiter *w, session_waiter_fn *fn, void *arg);
void session_event(struct session *s, const char *event, json_t *detail); /* steals detail, may be NULL */
/* Whoever opened it, as the audit log names them. */
void session_request(const struct session *s, struct request *out);
/* Where its program began and which file it is, as muxlet tells it. `set` puts what is known into an answer, null for
 * the rest. */
void session_on_begun(struct session *s, const char *cwd, const char *program);
void session_set_begun(const struct session *s, json_t *o);
void session_forget_begun(struct session *s);
void session_note_size(struct session *s);     /* the size in its launch holds from here on */
bool session_shown(const struct session *s);   /* the end may be told: journaled, or durable by configuration */
bool session_backlog(const struct session *s); /* output that is not in the journal yet */

#endif
