/*
 * broker.h - the only place with steps: authenticate, policy verdict, audit
 * event, sandbox awake, session or round created, idle timer touched.
 *
 * Every door comes through here with a `request`: a verified grant and where it
 * came from. Calls that may have to wait for a sandbox answer by callback,
 * exactly once, from the loop (also when the hub ends: ERR_CANCELLED).
 * Refusals are audited here, not in the doors.
 */
#ifndef MUXD_HUB_BROKER_H
#define MUXD_HUB_BROKER_H

#include "control/work/work.h"
#include "muxd/hub/attachment.h"
#include "muxd/hub/session.h"
#include "policy/grant.h"
#include "policy/verdict.h"

struct hub;
struct err;

/*
 * Where a call comes from, before anybody is known: each door makes it in one place. endpoint: what is asked for, as
 * the door's own table names it ("GET /v1/rounds/{id}", "exec", "password"); no part of it is the client's text.
 * Borrowed.
 */
struct origin {
	const char *door;     /* "ssh", "rest", "web", "local" (static strings) */
	const char *peer;     /* address and port, or "uid 1000" */
	const char *endpoint; /* "": none yet */
};
#define ENDPOINT_MAX 79

/* The policy's verdict that lets a request's call through, for its events; version "": there is no policy. */
struct policy_mark {
	char rule[POLICY_RULE_MAX], version[POLICY_VERSION_LEN];
};

/* Values; copied by the broker. */
struct request {
	struct grant grant;
	struct id id; /* request_id in errors and logs */
	const char *door;
	char peer[64];
	char endpoint[ENDPOINT_MAX + 1];
	struct policy_mark policy;       /* of the broker's own copies */
	struct work_ids work;            /* the lease that it is done for, where the caller knows; in every event */
	char token[GRANT_TOKEN_MAX + 1]; /* as presented: what the recorder is asked with; wipe with request_finish() */
};
void request_finish(struct request *rq);

/*
 * A request from a token: signature, times, revocation, audit of failures. token NULL: none was sent, which is refused
 * (ERR_UNAUTHENTICATED, *e as the door put it, or what it lacks) and audited like the others.
 * Synchronous. On failure *e is what the client may know.
 */
int broker_authenticate(struct hub *h, const char *token, size_t len, const struct origin *from, struct request *out,
			struct err *e);
/* The door refuses a call with this token for a reason of its own (a foreign page): audited with whose token it was. */
void broker_refuse(struct hub *h, const char *token, size_t len, const struct origin *from, const char *what,
		   const struct err *e);
/*
 * Has this grant neither ended, renewals counted, nor been revoked? For who showed it before; nothing is audited.
 * ERR_TOKEN_EXPIRED, ERR_TOKEN_REVOKED.
 */
int broker_grant_check(struct hub *h, const struct grant_line *grant, struct err *e);
/* The same for what goes on under a grant; what: its name in the audit log, which has a refusal. ERR_TOKEN_EXPIRED,
 * ERR_TOKEN_REVOKED. */
int broker_in_force(struct hub *h, const struct request *rq, const char *what, struct err *e);
/* A connection of a door has ended: what it read of the record is told of. */
void broker_client_gone(struct hub *h, const char *door, const char *peer);
/* The door refuses what this grant asks for: a verdict, as the broker's own are. Returns e's code. */
int broker_verdict(struct hub *h, const struct request *rq, const char *what, const struct err *e);
/* Another thing is asked for under the grant of a log-in. */
void request_endpoint(struct request *rq, const char *endpoint);
/*
 * Staff by public key: principal found in the configuration (conf_staff); the
 * monitor signs a grant with the configured scopes and TTL. Asynchronous.
 */
typedef void broker_grant_done(void *arg, int rc, const struct err *e, const struct request *rq);
void broker_issue_staff(struct hub *h, const char *principal, const char *agent, const char *reason,
			const struct origin *from, broker_grant_done *done, void *arg);
/*
 * Staff by a token of the cluster (kubernetes.staff): who may exec into the agent's pod there gets a grant, his name
 * the cluster's. TTL and scopes are bounded by kubernetes.staff_ttl and staff_scopes. Asynchronous. ERR_UNSUPPORTED
 * when it is not configured, ERR_UNAUTHENTICATED, ERR_FORBIDDEN, ERR_K8S*.
 */
struct staff_wish {
	const char *token;                 /* text of a token's characters */
	const char *agent, *reason, *task; /* task NULL: "console" */
	uint32_t scopes;                   /* 0: what is allowed */
	struct grant_files files;
	uint64_t ttl_ns; /* 0: grants.ttl */
};
void broker_issue_cluster(struct hub *h, const struct staff_wish *w, const struct origin *from, broker_grant_done *done,
			  void *arg);
/*
 * Failed log-ins (wrong key, too many tries, a token that does not serve): an audit event. who: whose grant it was,
 * where a good signature says so; NULL: nobody is known.
 */
void broker_audit_refused(struct hub *h, const struct origin *from, const char *what, const struct grant *who,
			  const struct err *e);

/* Transfers of files and operations on them; file_op.h has a row for each. */
enum file_op {
	FILE_PUT,
	FILE_GET,
	FILE_STAT,
	FILE_LIST,
	FILE_READ,
	FILE_WRITE,
	FILE_APPEND,
	FILE_MKDIR,
	FILE_MOVE,
	FILE_COPY,
	FILE_DELETE,
	FILE_CHMOD,
	FILE_PATCH,
	FILE_SEARCH,
	FILE_GLOB,
	FILE_WATCH,
	FILE_TREE_GET,
	FILE_TREE_PUT,
	FILE_CHANGES,
	FILE_OPS
};
struct file_spec {
	enum file_op op;
	const char *path; /* in the sandbox; not absolute: from /workspace. Any bytes but NUL */
	/*
	 * An operation: what it asks for as muxlet takes it (muxd/muxlet/fs_ask.h), without op and path; NULL: no more.
	 * Paths below /workspace alone. Borrowed.
	 */
	const json_t *request;
	const char *to; /* of it, the other path that it names; NULL */
	int64_t mode;   /* put: permission bits; -1: as the file has that is replaced, else 0644 */
	uint64_t size;  /* put: when known, else UINT64_MAX */
	bool parents;   /* put: make missing directories */
};

/* A port inside the sandbox to be connected to, on its loopback. */
struct port_spec {
	uint16_t port;
	const char *use; /* for the record: "GET /path"; no secrets. NULL */
};

/* What to run. Strings are copied. */
struct exec_spec {
	enum session_kind kind;
	const char *agent;
	const char *task;        /* of the call; NULL */
	const char *exec_id;     /* rounds: idempotency key; NULL */
	const char *const *argv; /* NULL-ended; NULL for a terminal = login shell */
	const char *command;     /* shell string instead of argv; NULL */
	const char *const *env;  /* "K=V", NULL-ended; NULL */
	const char *cwd;
	const char *term; /* TERM of a terminal; NULL = xterm-256color */
	bool pty;
	unsigned cols, rows, xpixel, ypixel;
	const void *stdin_data; /* rounds: input given at once; NULL */
	size_t stdin_len;
	const struct file_spec
	    *file; /* SESSION_FILE, and nothing to run then: input is a put's content, output a get's */
	const struct port_spec
	    *port;           /* SESSION_PORT, and nothing to run then: input is what is sent, output what comes */
	bool stdin_open;     /* more input may follow */
	uint64_t timeout_ns; /* 0 = the configured default for rounds, none for terminals */
	uint64_t judged_ns;  /* of a context's rounds: of timeout_ns, the part that its caller has; the rest is grace */
	uint64_t idle_ns;    /* ended as by timeout_ns when nothing came of it for so long; 0 = never */
	const char *shell;   /* rounds with a command: it runs in the shell of that name (shells.h); NULL */
	bool shell_anew;     /* which begins anew */
	bool shell_end;      /* which ends: there is no command */
	/* Rounds of a code context (contexts.h), which say what they are to it. NULL */
	const struct context_use *context;
	const char *server; /* rounds: the MCP server of that name inside (inside.h), which has no time limit. NULL */
	uint16_t serves; /* of that: it listens on this port inside, and argv is muxlet's own, who speaks with it; 0 */
	/* Rounds: the service of that name inside (services.h), likewise, and the SHA-256 of its definition. NULL */
	const char *service, *definition;
	uint64_t head, tail; /* of the answer, per stream; UINT64_MAX = configured */
	/*
	 * Rounds: bytes that nothing keeps. The program finds them in a sealed memfd at SECRET_FD, which the variable
	 * MUXD_TOKEN_FD names; the record has their number alone. ERR_UNSUPPORTED where there is no muxlet.
	 */
	const void *secret;
	size_t secret_len;
	/* Rounds: what becomes an artifact at the end, a list as artifact_wishes_check() has it; scope files. NULL */
	const json_t *artifacts;
	/*
	 * In the sandbox of this sandbox_id alone, as long as it runs: none is made or woken for it, nor one that is
	 * being stopped held. ERR_LINK_LOST. NULL: in the agent's, which is made or woken.
	 */
	const struct id *only_in;
	bool judged; /* a part of a call that the policy was asked about: it is not asked once more */
	bool part;   /* of something that was a use of the grant (grant_use.h): it is no further one */
};
#define SECRET_FD 3

/*
 * s and a are NULL on failure. With attachment ops: a is the caller's. seen: the round that had this exec_id and digest
 * before, NULL for a new one; when it has left memory s is NULL too and broker_round_wait() answers from the record.
 */
typedef void broker_open_done(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			      const struct id *seen);
/*
 * Terminals and exec channels (scope terminal), rounds (scope rounds), file transfers (scope files), connections to
 * ports (scope ports; router.ports has to allow it). ops NULL: nobody attaches (REST rounds).
 *
 * A connection to a port has ended well with cause exit and code 0; code is the errno of what broke it off (muxlet's
 * report: ECONNREFUSED, ECONNRESET); failed and message of its result are for its client.
 */
void broker_open(struct hub *h, const struct request *rq, const struct exec_spec *spec,
		 const struct attachment_ops *ops, void *ops_arg, broker_open_done *done, void *arg);
/*
 * The agent or pod (a target's name) that `id` in `space` means: id is an agent's name or a sandbox_id; space a
 * namespace of the cluster, "" or our own for agents. ERR_NOT_FOUND where no such sandbox runs or sleeps: nothing is
 * made. scope: what the caller is about to do asks for, one of these.
 */
typedef void broker_name_done(void *arg, int rc, const struct err *e, const char *name);
void broker_locate(struct hub *h, const struct request *rq, uint32_t scope, const char *id, const char *space,
		   broker_name_done *done, void *arg);
/*
 * A pod of others by its whole name, ns/pod/container, ahead of every question about it: policies have profiles of
 * containers, and locks and lists are kept of them. Any other name, and one that the grant does not cover, stays as it
 * is: the call itself is refused then.
 */
void broker_whole_name(struct hub *h, const struct request *rq, const char *name, broker_name_done *done, void *arg);
/*
 * Attach to a session that exists (scope drive or observe, or one's own). name:
 * session id, or "" for the newest terminal of that agent and principal.
 * Where ops has `screen`, the client of a terminal is shown the current screen first (attachment.h), else the recent
 * output (as much as the ring holds); then the live stream.
 */
/* The role of who asks for none: driver where the grant may type on it. A session that is not at hand: observer. */
enum attachment_role broker_attach_role(struct hub *h, const struct request *rq, const struct id *session);
int broker_attach(struct hub *h, const struct request *rq, const char *agent, const char *name,
		  enum attachment_role role, const struct attachment_ops *ops, void *ops_arg, struct attachment **out,
		  struct err *e);
/* End it: HUP, TERM, KILL. Own sessions: scope terminal/rounds; others': scope admin or drive. */
int broker_terminate(struct hub *h, const struct request *rq, const struct id *session, const char *reason,
		     struct err *e);

/* {version, sha256, otherwise, profiles, bytes, text} of the policy in force, or {version: null}. Scope: replay, admin.
 */
/* Would the policy allow the operation, for whatever it is about? For lists of what can be called; nothing is audited.
 */
bool broker_policy_may(struct hub *h, const struct request *rq, enum policy_op op);
int broker_policy_show(struct hub *h, const struct request *rq, json_t **out, struct err *e);
typedef void broker_json_done(void *arg, int rc, const struct err *e, json_t *result);
/* {agent, state, backend, sandbox_id, last_activity_at ...} as it is now; scope: any on that agent. */
void broker_agent(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
/*
 * {agents: [...], more}: by name, what there is that the grant covers. f (control/life/life.h) is copied; NULL: all
 * there is room for. more: ask again with `after` the last one's name.
 */
struct life_filter;
#define BROKER_AGENTS_MAX 1000
void broker_agents(struct hub *h, const struct request *rq, const struct life_filter *f, broker_json_done *done,
		   void *arg);
/* deploy_or_resume: makes or finds the sandbox. Scope: terminal, rounds or lifecycle. */
void broker_resume(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
/*
 * Ends the sandbox and what runs in it, with wipe its workspace too; none there is no error. Scope: lifecycle or admin;
 * a reason is needed.
 */
void broker_destroy(struct hub *h, const struct request *rq, const char *agent, const char *reason, bool wipe,
		    broker_json_done *done, void *arg);

/* Sessions at hand that the grant may see, newest first. */
struct session_filter {
	const char *agent, *state, *kind; /* NULL = any */
	bool live;                        /* none that has ended */
	struct id only;                   /* this one; nil: any */
	size_t limit;
};
int broker_sessions(struct hub *h, const struct request *rq, const struct session_filter *f, json_t **out,
		    struct err *e);

/* Sessions of the record, newest first: {recordings: [...]}. Scope: replay, as the recorder judges. */
struct recording_filter {
	const char *agent, *principal, *kind, *state; /* NULL = any */
	struct id before;                             /* older than this session; nil: from the newest */
	size_t limit;
};
void broker_recordings(struct hub *h, const struct request *rq, const struct recording_filter *f,
		       broker_json_done *done, void *arg);
/*
 * Retention and legal holds: the recorder's own questions (recorder/serve/service_keep.c), as it judges them. q:
 * stolen, NULL: no memory. list: the answer is a list under that name (static); NULL: it is one object.
 */
void broker_keeping(struct hub *h, const struct request *rq, json_t *q, const char *list, broker_json_done *done,
		    void *arg);

/*
 * A session that has ended and left memory, for who comes back to it: {agent, kind, principal, cols, rows, exit}, exit
 * as EXIT of the browser door has it. role: enum attachment_role, -1: what the grant allows. ERR_NOT_FOUND: there is
 * none, or it is not for this grant.
 */
void broker_past(struct hub *h, const struct request *rq, const struct id *session, int role, broker_json_done *done,
		 void *arg);

/*
 * Rounds by id: the grant must cover the agent and be the same principal, or have scope observe (while it runs) or
 * replay. Calls done once when the round has ended or wait_ns passed, with the round's JSON. Also finds rounds of the
 * record.
 */
void broker_round_wait(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
		       broker_json_done *done, void *arg);
/* Without what it printed, while it is in memory: of its streams length and digest. asker: as below. */
void broker_round_wait_brief(struct hub *h, const struct request *rq, const struct id *round, uint64_t wait_ns,
			     broker_json_done *done, void *arg, const void *asker);
/*
 * Whoever asked (`arg` of broker_round_wait() or broker_execution()) has left: done is told at once, ERR_CANCELLED.
 * Nothing where nobody waits so.
 */
void broker_round_left(struct hub *h, const struct id *round, const void *asker);
/*
 * Up to limit (1 MiB at most) bytes of a stream, whole where it is kept (rounds.output_keep), else as the record has
 * it: {offset, next_offset, total_bytes, data, encoding, eof, gaps}.
 */
struct round_read {
	int stream;
	uint64_t offset, limit;
	uint64_t tail;  /* not 0: so many bytes before the end, instead of the offset */
	uint32_t lines; /* not 0: so many lines before the end; ERR_UNSUPPORTED where it is not kept whole */
	bool now;       /* what is there already will do: nothing is waited for, and there may be no byte */
	bool missing;   /* a page is to tell what is missing of the whole */
};
#define ROUND_LINES_MAX 10000
void broker_round_output(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
			 broker_json_done *done, void *arg);
/*
 * {shells: [...]} of the caller (shells.h), and the end of one: {name, round_id}, the round that removed what it had
 * kept, null where nothing was. Scope: rounds. ERR_NOT_FOUND, ERR_SHELL_BUSY.
 */
void broker_shells(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done, void *arg);
void broker_shell_end(struct hub *h, const struct request *rq, const char *agent, const char *name, const char *task,
		      broker_json_done *done, void *arg);
/* Lines of a stream in which something is found, from an offset on. */
struct round_grep {
	int stream;
	uint64_t offset;
	const char *pattern; /* at most 1 KiB */
	bool regex, ignore_case;
	uint32_t matches; /* at most; 1 to 1000 */
};
/* {matches: [{offset, line, bytes, data, encoding, cut}], next_offset, total_bytes, eof, gaps}. line: counted from 1
 * where the look began at 0, else null. */
void broker_round_grep(struct hub *h, const struct request *rq, const struct id *round, const struct round_grep *what,
		       broker_json_done *done, void *arg);
/* The same as bytes, for who reads on and on. */
struct round_page {
	uint64_t offset;  /* of the first byte: behind what was asked for where bytes are missing */
	uint64_t total;   /* bytes that the stream has had so far */
	bool ended, eof;  /* total is final; nothing comes behind these bytes */
	bool behind;      /* the round has ended, and what is kept of it is not there to the end yet: ask again */
	const uint8_t *p; /* valid during the call, as all of it */
	size_t n;
	struct buf *bytes;     /* which holds these, and may be taken by who is told: NULL: there are none */
	const json_t *missing; /* [{offset, bytes}], NULL: not asked for, or not known */
};
typedef void broker_page_read(void *arg, int rc, const struct err *e, const struct round_page *page);
void broker_round_read(struct hub *h, const struct request *rq, const struct id *round, const struct round_read *how,
		       broker_page_read *done, void *arg);
/*
 * Output of a round as it passes, for who listens to it (listener.h): from the journal, which has the newest of it, so
 * that neither the recorder is asked nor the program held back. broker_round_follow() comes first: that the caller
 * reads is in the audit log then. rc ERR_NOT_FOUND: the bytes from offset on are not at hand, or not for the caller;
 * broker_round_read() has them, or says why not. It may be told from inside the call.
 */
typedef void broker_followed(void *arg, int rc, const struct err *e);
void broker_round_follow(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			 broker_followed *done, void *arg);
/*
 * At most max bytes from offset on, to `to`. Returns their count; 0: none, `moved` tells of more; ERR_AGAIN: some,
 * which may not be shown yet, `moved` may not tell; ERR_EOF: the round has ended there; ERR_NOT_FOUND as above.
 */
ssize_t broker_round_live(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			  uint8_t *to, size_t max);
/* n bytes from offset on were given so: for the same audit event. */
void broker_round_given(struct hub *h, const struct request *rq, const struct id *round, int stream, uint64_t offset,
			uint64_t n);
/*
 * The same for any session, as bytes: p and n are of stream from offset on (behind what truncation left out), valid
 * during the call. For who may read it in the record, as the recorder judges.
 */
typedef void broker_bytes_done(void *arg, int rc, const struct err *e, uint64_t offset, const uint8_t *p, size_t n);
void broker_output_bytes(struct hub *h, const struct request *rq, const struct id *session, int stream, uint64_t offset,
			 uint64_t limit, broker_bytes_done *done, void *arg);
/*
 * One recording and its events, for scope replay. A page: events after a sequence (0: those from from_ns on), encoded
 * as in recorder/format/event.h, each alone; end: {more, ended, next_seq}. p is valid during the call.
 */
void broker_recording(struct hub *h, const struct request *rq, const struct id *session, broker_json_done *done,
		      void *arg);
typedef void broker_page_done(void *arg, int rc, const struct err *e, const uint8_t *p, size_t n, const json_t *end);
/* The screen at or before a moment: {found, waits, at_ns, seq, cols, rows, data (base64)}; waits: it is being made. */
void broker_recording_screen(struct hub *h, const struct request *rq, const struct id *session, uint64_t at_ns,
			     broker_json_done *done, void *arg);
void broker_recording_page(struct hub *h, const struct request *rq, const struct id *session, uint64_t from_ns,
			   uint64_t after_seq, uint64_t limit, broker_page_done *done, void *arg);
/* The audit log from behind a sequence on, for scope replay: {events, after, more}, 1 MiB at once. */
struct audit_filter {
	const char *agent, *principal, *event, *session, *lease, *run, *client_request; /* NULL: any */
	uint64_t after;
	size_t limit;
};
void broker_audit(struct hub *h, const struct request *rq, const struct audit_filter *f, broker_json_done *done,
		  void *arg);
/* {head}: the newest, signed now; for scope replay. */
void broker_head(struct hub *h, const struct request *rq, broker_json_done *done, void *arg);
/* As a witness of other daemons (recorder/serve/keeper.h). question: borrowed. */
void broker_witness_keep(struct hub *h, json_t *question, broker_json_done *done, void *arg);
void broker_witness_heads(struct hub *h, const char *log_id, size_t limit, broker_json_done *done, void *arg);
/* Bytes at offset (UINT64_MAX = the end; else repeats are dropped, gaps refused; ERR_CONFLICT: another writer's input
 * stands there). *out_taken may be short. eof closes stdin. */
int broker_round_stdin(struct hub *h, const struct request *rq, const struct id *round, uint64_t offset, const void *p,
		       size_t n, bool eof, size_t *out_taken, struct err *e);
/* The offset behind all input that was taken. */
int broker_round_stdin_end(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out,
			   struct err *e);
/* All of these bytes or none: ERR_AGAIN where there is no room for them now. */
int broker_round_type(struct hub *h, const struct request *rq, const struct id *round, const void *p, size_t n,
		      struct err *e);
/*
 * Of a round with a terminal (ERR_BAD_STATE for others): its size, for who may type into it; and what it shows, for who
 * may look at it, as ERR_ENDED once it has ended. pic (muxd/screen/picture.h) is valid during the call; exact: false
 * where a part of the output was missing to it.
 */
int broker_round_resize(struct hub *h, const struct request *rq, const struct id *round, unsigned cols, unsigned rows,
			struct err *e);
/* May this grant type into it, and is there a terminal to type at? *out_offset: of its output so far. */
int broker_round_typable(struct hub *h, const struct request *rq, const struct id *round, uint64_t *out_offset,
			 struct err *e);
/* wait_ns at most, until its output has gone past an offset and come to a rest. */
struct round_wait {
	uint64_t after, wait_ns;
};
struct picture;
typedef void broker_screen_done(void *arg, int rc, const struct err *e, uint64_t offset, bool exact,
				const struct picture *pic);
/* For who may type into it: what keys its program wants now (pic->flags). Nothing is shown, and nothing is told. */
void broker_round_mode(struct hub *h, const struct request *rq, const struct id *round, broker_screen_done *done,
		       void *arg);
/* wait NULL: at once. */
void broker_round_screen(struct hub *h, const struct request *rq, const struct id *round, const struct round_wait *wait,
			 broker_screen_done *done, void *arg);
int broker_round_signal(struct hub *h, const struct request *rq, const struct id *round, int signum, struct err *e);

/*
 * The lease that a call is about, for its line in the log: by an agent (NULL), by a session at hand (nil: none), or by
 * what of the lease out has already. What is not known stays.
 */
void broker_about(struct hub *h, const char *agent, const struct id *session, struct work_ids *out);

/*
 * Leases, runs, workflows, the pool (control/work/work.h). call: "lease.create", ... (work_call_name); id: of a
 * lease, a run or a workflow, or NULL; body: an object or NULL, whose secrets are wiped. Scope: lifecycle on every
 * agent ("*"), and rounds to begin a run.
 */
void broker_work(struct hub *h, const struct request *rq, const char *call, const char *id, json_t *body,
		 broker_json_done *done, void *arg);

/* "INT", "SIGINT" or 2; ERR_INVAL names what is known. */
int signal_parse(const char *s, int *out, struct err *e);
const char *signal_name(int signum); /* "INT" */

#endif
