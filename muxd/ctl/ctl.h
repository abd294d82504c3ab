/*
 * ctl.h - what the commands of muxctl share: the context, the daemon's sockets, printing.
 *
 * One struct ctl per run, owned by main(). A command returns the exit status;
 * ctl_fail() prints an error in the chosen form and gives the status for it.
 * Nothing that came from a peer reaches a terminal unescaped, except a
 * session's own output.
 */
#ifndef MUXD_CTL_CTL_H
#define MUXD_CTL_CTL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/msg.h"
#include "muxd/ctl/args.h"

struct ctl {
	const char *state_dir;
	const char *token_file; /* holds the token to use; NULL: muxctl has itself a grant made */
	bool json;
	const struct ctl_command *const *commands; /* all of them, NULL-ended */
	char hint[256];                            /* of a remote error; "" = the table's */
};

/* Every command, in tables (commands.c, NULL-ended), and muxctl itself: argv in, exit status out. */
extern const struct ctl_command *const ctl_commands[];
int ctl_main(int argc, char **argv);

/* Prints `muxctl: message`, hint and code (or {"error": ...}) on stderr; returns the exit status of e->code. */
int ctl_fail(struct ctl *c, const struct err *e);
/* The same for an {"error":{code,message,hint}} that a peer sent: fills e and the context's hint. Returns e->code. */
int ctl_remote_error(struct ctl *c, const json_t *error, struct err *e);
/* Prints o as JSON (indented). Returns the exit status. */
int ctl_print_json(struct ctl *c, const json_t *o);

struct ctl_column {
	const char *key; /* field of each row; strings, numbers, booleans; a list's strings joined */
	const char *title;
};
/* A table of objects, widths by content. */
int ctl_print_table(struct ctl *c, const json_t *rows, const struct ctl_column *columns);
/* "key  value" lines of one object; rows of the table first, then whatever else it holds. */
int ctl_print_object(struct ctl *c, const json_t *o, const struct ctl_column *columns);
/*
 * The end of a command that had an answer: its error, or o as JSON, or for people as a table of the rows under `list`,
 * or as an object where that is NULL. o is freed. Returns the exit status.
 */
int ctl_finish(struct ctl *c, int rc, const struct err *e, json_t *o, const char *list,
	       const struct ctl_column *columns);
/* The same of what a person sees by its being done: the answer is for programs alone. */
int ctl_finish_quietly(struct ctl *c, int rc, const struct err *e, json_t *o);
/* Text for a terminal by the rule of visible.h, bounded. To be freed. */
char *ctl_clean(const char *s);
/* o as JSON that a terminal may show (visible_json); flags are jansson's. To be freed; NULL: no memory. */
char *ctl_json_text(const json_t *o, size_t flags);
/* A field as text for a person, to be freed. */
char *ctl_text(const json_t *v);

/*
 * One question on admin.sock, which is freed (NULL: there was no memory for it), and its answer; ERR_UNAVAILABLE says
 * where nobody answered.
 */
int ctl_admin_ask(struct ctl *c, json_t *question, json_t **out, struct err *e);

/* A grant for what muxctl itself is about to do. scopes: "rounds"; ttl_ns 0: the daemon's default. */
struct ctl_wish {
	const char *kind, *agent, *scopes, *task, *reason;
	unsigned long long ttl_ns;
	unsigned long long work_ns; /* what is done with it may take so long; 0: unknown. Then the default, or longer */
};
/* *out_token: to be freed with grant_token_free(), which wipes it. */
int ctl_token(struct ctl *c, const struct ctl_wish *w, char **out_token, struct err *e);

/* A connection to recorder.sock. */
struct ctl_peer {
	int fd;
	struct buf in;
	size_t taken; /* size of the message that was returned last */
};
/*
 * Opened for a question, which gets a token of ours (NULL: there was no memory for it) and is still to be sent. *out is
 * closed when that fails.
 */
int ctl_peer_open(struct ctl *c, json_t *question, const struct ctl_wish *w, struct ctl_peer *out, struct err *e);
/* The same, and the question is sent: answers are to be read. */
int ctl_peer_ask(struct ctl *c, json_t *question, const struct ctl_wish *w, struct ctl_peer *out, struct err *e);
void ctl_peer_close(struct ctl_peer *p); /* harmless when it is closed */
/* Next message; its payload is valid until the next call. */
int ctl_peer_next(struct ctl_peer *p, struct msg *out, struct err *e);
/* Next JSON message, {"error"} of it turned into e. */
int ctl_peer_json(struct ctl *c, struct ctl_peer *p, json_t **out, struct err *e);
/*
 * The same of a question that is freed, and its one answer: the object under key; all of it where it has none, or where
 * key is NULL.
 */
int ctl_ask(struct ctl *c, json_t *question, const struct ctl_wish *w, const char *key, json_t **out, struct err *e);
/* A connection to one of the daemon's sockets (SOCK_STREAM, SOCK_SEQPACKET). ERR_UNAVAILABLE where nobody answers. */
int ctl_connect(struct ctl *c, const char *socket_name, int type, int *out_fd, struct err *e);
/* Path of a file in the state directory. ERR_INVAL when too long. */
int ctl_path(struct ctl *c, const char *name, char *out, size_t size, struct err *e);

#endif
