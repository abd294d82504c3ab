/*
 * api.h - the daemon's API as muxctl asks it: HTTP over api.sock in the state directory (docs/api.md).
 *
 * A question is one request on a connection of its own. The kernel tells each end who the other is, so there is no TLS;
 * the grants, errors and bodies are those of HTTPS.
 * A socket (struct api_socket) is a session's WebSocket: queue messages, write and read as far as nothing blocks.
 *
 * States of a socket: OPEN -> CLOSED (the daemon closed it, or the connection is gone).
 */
#ifndef MUXD_CTL_API_H
#define MUXD_CTL_API_H

#include "base/http1.h"
#include "base/wire.h"
#include "base/wsframe.h"
#include "muxd/ctl/ctl.h"

/* Each * of the path stands for the next name, which is escaped; ERR_INVAL: one that would make it another path.
 * query: an object of strings. NULL: none. */
struct api_call {
	const char *method, *path;
	const char *names[2];
	json_t *query, *body; /* stolen */
	unsigned patience_s;  /* a socket's: with its answer; 0: any */
};

/*
 * *out: the answer's object, or list. ERR_UNAVAILABLE where no daemon answers; else what the daemon says, with its
 * hint in c.
 */
int api_ask(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, json_t **out, struct err *e);

/* An answer in bytes. range: of a Range, "bytes=0-9"; NULL. */
struct api_bytes {
	const char *range;
	void (*head)(void *arg, const struct http1_head *head); /* of a good answer, before its first byte; NULL */
	int (*take)(void *arg, const void *p, size_t n, struct err *e); /* below 0: no more is wanted */
	void *arg;
};
/* The same, as the bytes come. ERR_UNAVAILABLE also where the answer was cut short. */
int api_read(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_bytes *b,
	     struct err *e);
/*
 * The same where content goes along or comes back. in_fd: read to its end, and sent as the body; -1: there is none.
 * take: is given the answer's content as it comes, and says 0 or ERR_*; NULL: the answer is JSON, to *out. ERR_EOF: the
 * answer broke off.
 */
typedef int api_take(void *arg, const void *p, size_t n, struct err *e);
struct api_flow {
	int in_fd;
	const char *type; /* of the content that goes along; NULL: none is named */
	api_take *take;
	void *arg;
};
int api_stream(struct ctl *c, const struct ctl_wish *w, const struct api_call *call, const struct api_flow *flow,
	       json_t **out, struct err *e);

#define API_OUT_MAX (2 * 1024 * 1024) /* of messages that wait for the daemon */

struct api_socket {
	int fd; /* to wait on; -1: closed */
	struct wsframe frame;
	struct buf in, message, out; /* what came, of it a message that is not whole; messages that wait to go */
};

typedef void api_message(void *arg, enum web_type type, const uint8_t *p, size_t n);

int api_socket_open(struct ctl *c, const char *token, const struct api_call *call, struct api_socket *out,
		    struct err *e);
void api_socket_close(struct api_socket *s); /* harmless when it is closed */
/* Queues one message. ERR_TOO_LARGE: API_OUT_MAX wait already. */
int api_socket_put(struct api_socket *s, enum web_type type, const void *p, size_t n);
int api_socket_put_json(struct api_socket *s, enum web_type type, const json_t *o);
/* Queues the good-bye; the daemon closes when it has read what is before it. */
void api_socket_leave(struct api_socket *s);
/* As much of what waits as goes without blocking. ERR_EOF. */
int api_socket_write(struct api_socket *s);
/*
 * The next piece that came, each whole message of it told. 1: there may be more, 0: nothing is here now, ERR_EOF: the
 * connection is over, ERR_PROTOCOL and what was wrong.
 */
int api_socket_read(struct api_socket *s, api_message *told, void *arg, struct err *e);
/* An ERROR message as an error. Returns its code. */
int api_socket_error(struct ctl *c, const uint8_t *p, size_t n, struct err *e);

#endif
