/*
 * link.h - the hub's end of the framed stream to one muxlet (docs/protocol.md).
 *
 * One link per sandbox, owned by the hub's sandbox entry; it outlives its
 * streams: link_attach() gives it a connected descriptor, `down` tells that the
 * stream broke, and the next link_attach() takes up again. Everything the peer
 * says is hostile: a frame that breaks the protocol ends in `down` with
 * ERR_PROTOCOL and the link goes to LINK_CUT for good.
 *
 * States: LINK_IDLE -> LINK_HELLO -> LINK_LIST -> LINK_UP -> (LINK_IDLE | LINK_CUT).
 * Callbacks come from the loop, never from inside a link_*() call. A callback
 * may call any link_*() function but link_destroy(), which is deferred safely.
 *
 * A channel is one terminal or round, numbered by the hub (never used twice
 * in a sandbox's life) and named by the session's id.
 */
#ifndef MUXD_LINK_LINK_H
#define MUXD_LINK_LINK_H

#include "base/ids.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct uv_loop_s;
struct err;
struct link;

#define LINK_SECRET_LEN 32

enum link_state { LINK_IDLE, LINK_HELLO, LINK_LIST, LINK_UP, LINK_CUT };

enum exit_cause {
	EXIT_EXITED,
	EXIT_TIMEOUT,
	EXIT_KILLED,
	EXIT_OOM,
	EXIT_LOST,
	EXIT_UNKNOWN,
	EXIT_NOT_STARTED,
	EXIT_IDLE_TIMEOUT /* nothing came of it for link_open's idle_ms */
};

struct link_exit {
	enum exit_cause cause;
	int code;          /* exit code, or -1 */
	int signal;        /* signal number, or 0 */
	int error;         /* EXIT_NOT_STARTED: errno of chdir/exec inside, reported */
	char error_at[64]; /* "cwd", "exec", "user" ...; or the stable name of an ERR_*, which `text` explains */
	char text[192];    /* reported; "" when there is nothing to add */
	uint64_t total[3]; /* bytes consumed of input, produced of output and stderr */
};

/* What muxlet says of a channel it knows, in LIST after HELLO. */
/* Channels are counted up from 1 to this, and then from 1 again: at a thousand a second after 24 days. */
#define LINK_CHANNEL_MAX 0x7fffffffu
struct link_channel_info {
	uint32_t channel;
	struct id session;
	bool pty, exited;
	uint64_t input_consumed; /* bytes that the program's descriptor took */
	uint64_t kept_from[3];   /* first output offset still in the spool, per stream */
	uint64_t produced[3];    /* total so far */
	struct link_exit exit;   /* when exited */
};

struct link_open {
	uint32_t channel;
	struct id session;
	bool pty;
	uint16_t cols, rows;     /* pty */
	const char *const *argv; /* NULL-ended, at least one; argv[0] "" = the sandbox's shell */
	const char *const *env;  /* "K=V", NULL-ended; added to the sandbox's own */
	const char *cwd;         /* NULL = /workspace */
	uint64_t timeout_ms;     /* 0 = none; enforced inside, the hub watches as well */
	uint64_t idle_ms;        /* the same without a byte of output; 0 = none, and where not link_has_idle() */
	uint64_t grace_ms;       /* TERM to KILL */
	bool stdin_open;         /* false: /dev/null */
	bool login_shell;        /* argv[0] gets a leading dash */
	bool reserve;            /* may use the processes that are kept back, where muxlet keeps some */
	bool self;               /* the program is muxlet itself; link_has_files(), link_has_ports() first */
	bool tree;       /* with its program ends what that has begun: TERM, grace, KILL; link_has_probe() first */
	uint64_t window; /* first credit for each output stream */
};

/*
 * Where an OPEN stands in the life of a muxlet: which process that is, and how many OPENs have come to it with this
 * one. What the hub writes down ahead of an OPEN, and what LISTED says later, tell together whether that OPEN ever came
 * (docs/decisions/0029-a-start-that-never-came.md).
 */
struct link_mark {
	uint64_t life; /* 0: not known, of a muxlet that does not tell it */
	uint64_t opens;
};

/* How a terminal treats input (termios of the pty). */
enum link_echo {
	LINK_ECHO_LINES, /* ECHO, ICANON: it echoes and edits lines, as while most programs run */
	LINK_ECHO_KEYS,  /* no ICANON: a line editor or another reader of keys, which echoes by itself */
	LINK_ECHO_OFF    /* ICANON without ECHO: a password prompt */
};

struct link_ops {
	/* HELLO proven and LIST complete: what is running in there. The hub answers with link_resume or link_forget
	 * each. */
	void (*up)(void *arg, const struct link_channel_info *list, size_t n);
	void (*down)(void *arg, int rc, const char *why);
	/* Started (rc 0, pid reported) or refused (ERR_*; an exit with EXIT_NOT_STARTED follows). */
	void (*opened)(void *arg, uint32_t channel, int rc, const char *why);
	/* In order per stream, no gap, no repeat (the link drops repeats). p is valid for the call only. */
	void (*data)(void *arg, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n);
	/* The program took input up to this offset: that much more may be sent. */
	void (*input_consumed)(void *arg, uint32_t channel, uint64_t offset);
	/*
	 * What the terminal does with input has changed, for masking. LINK_ECHO_LINES until the first. After
	 * link_resume() it is told once whatever it is; until then it is not known, and no input should go.
	 */
	void (*echo)(void *arg, uint32_t channel, enum link_echo mode);
	/* After the last data of every stream. */
	void (*exited)(void *arg, uint32_t channel, const struct link_exit *x);
	/* Activity of the stream; rtt of the last PING. Optional. */
	void (*pong)(void *arg, uint64_t rtt_ns);
	/* The answer to link_clear(): everything inside has ended, or (ERR_TIMEOUT) not all of it. Optional. */
	void (*cleared)(void *arg, int rc);
	/*
	 * Before `opened`, and after a resume again: where the program began and which file it is, as muxlet saw it,
	 * bytes of any kind; "" where it could not tell. Optional; an older muxlet, and one that is played, tell
	 * nothing.
	 */
	void (*begun)(void *arg, uint32_t channel, const char *cwd, const char *program);
	/* Before `opened`: the program waits for its turn there, and why; as often as that changes. Optional. */
	void (*waits)(void *arg, uint32_t channel, const char *why);
};

struct link_params {
	uint8_t secret[LINK_SECRET_LEN];
	uint64_t epoch;   /* higher than any before for this sandbox; muxlet cuts older streams */
	const char *name; /* for logs: the agent */
};

int link_create(struct uv_loop_s *loop, const struct link_params *p, const struct link_ops *ops, void *arg,
		struct link **out);
void link_destroy(struct link *l); /* closes the stream; programs inside live on */
/*
 * fd: connected, non-blocking or not; becomes the link's. ERR_BAD_STATE when one is attached. An epoch that is not
 * above what muxlet has said it took is raised, so that after a clock was set back the second stream is taken.
 */
int link_attach(struct link *l, int fd, uint64_t epoch);
enum link_state link_state(const struct link *l);
/* UP, and its muxlet moves files (muxd/muxlet/file.h). One from before an upgrade may not. */
bool link_has_files(const struct link *l);
bool link_has_fs(const struct link *l);        /* does operations on files (muxd/muxlet/fs.h) */
bool link_has_survey(const struct link *l);    /* muxlet --survey */
bool link_has_changes(const struct link *l);   /* muxlet --fs with patches of changes, and lists of paths */
bool link_has_sync(const struct link *l);      /* muxlet --sync */
bool link_has_freeze(const struct link *l);    /* muxlet --freeze */
bool link_has_clear(const struct link *l);     /* ends everything inside, and keeps a reserve of processes */
bool link_has_idle(const struct link *l);      /* watches for silence itself: idle_ms of OPEN */
bool link_has_filespace(const struct link *l); /* muxlet --fs of a filespace */
bool link_has_probe(const struct link *l);     /* muxlet --probe */
bool link_has_ports(const struct link *l);     /* and connects to ports in the sandbox (muxd/muxlet/dial.h) */

int link_open(struct link *l, const struct link_open *o, struct err *e); /* ERR_BAD_STATE unless UP; ERR_TOO_LARGE */
/* Of the OPEN that was sent last; the next one has one more. All 0 unless UP. */
struct link_mark link_mark(const struct link *l);
/*
 * An OPEN was written down as `start`, and muxlet says `now`: it never came, and no longer can, as the stream that it
 * was written to is closed. False: it came, or muxlet is another one, or nobody can tell.
 */
bool link_mark_never_came(const struct link_mark *start, const struct link_mark *now);
/* Muxlet has that channel, or had it in this stream and may speak of it still. */
bool link_knows(const struct link *l, uint32_t channel);
/* After `up`: go on with a channel; the next data is at have[stream]. ERR_INVAL when the spool no longer reaches back.
 */
int link_resume(struct link *l, uint32_t channel, const uint64_t have[3], uint64_t window);
/* n bytes of input at offset. Returns bytes taken (0 = wait for input_consumed: at most LINK_INPUT_WINDOW in flight).
 */
ssize_t link_input(struct link *l, uint32_t channel, uint64_t offset, const void *p, size_t n);
size_t link_input_room(const struct link *l, uint32_t channel, uint64_t offset);
int link_input_eof(struct link *l, uint32_t channel, uint64_t offset);
int link_resize(struct link *l, uint32_t channel, uint16_t cols, uint16_t rows, uint16_t xpixel, uint16_t ypixel);
int link_signal(struct link *l, uint32_t channel, int signum);          /* to the foreground group (pty) or the group */
int link_kill(struct link *l, uint32_t channel, enum exit_cause cause); /* HUP(pty), TERM, grace, KILL, descendants */
/*
 * Everything inside ends at once, whatever it is and however it hides; no process has to be made for it. Each channel
 * tells its exit as after link_kill(); `cleared` comes once. ERR_UNSUPPORTED: this muxlet cannot; ERR_CONFLICT: asked
 * already.
 */
int link_clear(struct link *l);
/* Absolute offset up to which the peer may send. */
int link_window(struct link *l, uint32_t channel, int stream, uint64_t until);
/* What is safe with us: muxlet frees its spool up to there. */
int link_ack(struct link *l, uint32_t channel, int stream, uint64_t offset);
/* The exit is safe with us: muxlet forgets the channel. A living one is ended first, and nothing more is told of it. */
int link_forget(struct link *l, uint32_t channel);
/* Secret bytes into a memfd of the next OPEN on this channel, at descriptor number fd_number inside. */
int link_secret(struct link *l, uint32_t channel, int fd_number, const void *p, size_t n);
/* Bytes queued towards the peer; over LINK_OUT_HIGH the hub stops reading its clients. */
size_t link_queued(const struct link *l);

#define LINK_INPUT_WINDOW (256 * 1024)
#define LINK_OUT_HIGH     (1024 * 1024)
#define LINK_SPOOL_MAX    (4 * 1024 * 1024) /* unacknowledged bytes muxlet keeps per channel and stream */

const char *exit_cause_name(enum exit_cause c); /* exit timeout killed oom lost unknown not_started idle_timeout */
/* Its code in the table of errors; NULL: it is no failure of muxd's. */
const char *exit_cause_error(enum exit_cause c);
int exit_cause_parse(const char *s, enum exit_cause *out);

#endif
