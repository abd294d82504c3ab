/*
 * exec_spec.h - what is to run in a sandbox, or be transferred, or be connected to: as a door asks broker_open() for
 * it.
 *
 * Borrowed for the call alone; launch.h is what the hub keeps of it.
 */
#ifndef MUXD_HUB_SESSION_EXEC_SPEC_H
#define MUXD_HUB_SESSION_EXEC_SPEC_H

#include "base/json.h"
#include "muxd/hub/session/session.h"

struct context_use;

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

/*
 * Sessions whose place the new one takes, in shares and profiles too: they end first, and that behind all that may
 * refuse it. clear: true: nothing of them is left; false: they are told to end, and go is called once when they have,
 * with 0, or ERR_CANCELLED where the daemon stops.
 */
typedef void exec_go(void *arg, int rc, const struct err *e);
struct exec_place {
	struct id of[2]; /* nil: none */
	bool (*clear)(void *arg, exec_go *go, void *go_arg);
	void *arg;
};

/* A program to be run, a transfer or a connection. Strings are copied. */
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
	const struct exec_place *place; /* copied; NULL: it takes none */
	bool judged; /* a part of a call that the policy was asked about: it is not asked once more */
	bool part;   /* of something that was a use of the grant (grant_use.h): it is no further one */
};
#define SECRET_FD 3

#endif
