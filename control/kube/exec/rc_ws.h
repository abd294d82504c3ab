/*
 * rc_ws.h - one WebSocket to an API server: socket, proxy, TLS, upgrade, messages.
 * Internal to remotecommand: it knows messages, and nothing of channels.
 *
 * States: RC_WS_CONNECTING -> (RC_WS_PROXY: its answer to CONNECT) -> RC_WS_TLS -> RC_WS_ASKED (the request is out) ->
 * RC_WS_OPEN -> RC_WS_DEAD. A connect that fails goes back to RC_WS_CONNECTING for the next address.
 *
 * A server that closes while stdin lies unread resets the connection behind its last words. They count: after an error
 * nothing is written any more, and what there is is read until its end.
 */
#ifndef CONTROL_KUBE_EXEC_RC_WS_H
#define CONTROL_KUBE_EXEC_RC_WS_H

#include "base/err.h"
#include "base/wsframe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kube_endpoint;
struct rc_client;
struct rc_ws;

enum rc_ws_how {
	RC_WS_END_FAILED,  /* never opened; err says why */
	RC_WS_END_REFUSED, /* the server answered, not with 101; err is not set */
	RC_WS_END_CLOSED,  /* by a close frame */
	RC_WS_END_LOST,    /* the connection ended without one, or the server broke the protocol; err says which */
};

struct rc_ws_end {
	enum rc_ws_how how;
	bool asked; /* RC_WS_END_FAILED: the request was out, so the server may have begun */
	int status; /* RC_WS_END_REFUSED: HTTP status and body */
	const uint8_t *body;
	size_t body_len;
	int close_code; /* RC_WS_END_CLOSED: 0 when there was none */
	char close_reason[WSFRAME_CONTROL_MAX];
	struct err err;
};

/* From the loop, never from inside a call of this header. */
struct rc_ws_ops {
	void (*open)(void *arg, const char *protocol); /* the one that the server chose */
	void (*message)(void *arg, const uint8_t *p, size_t n, bool last);
	void (*pong)(void *arg, const uint8_t *p, size_t n);
	/* All is out. One call of rc_ws_send() may follow; for more ask with rc_ws_want_write() again. */
	void (*writable)(void *arg);
	/* Once; body is valid for the call. rc_ws_close() is still due. */
	void (*end)(void *arg, const struct rc_ws_end *end);
};

/*
 * ERR_* of rc_open(). Everything is copied. protocols: the offer, "a, b"; after a 403 without any words, which is what
 * an old server says to a protocol it does not know, its last one is offered alone.
 */
int rc_ws_open(struct rc_client *c, const struct kube_endpoint *ep, const char *target, const char *protocols,
	       uint32_t connect_ms, const struct rc_ws_ops *ops, void *arg, struct rc_ws **out, struct err *e);
/* Cuts it. NULL-safe; no call back afterwards. Memory goes when the loop has turned. */
void rc_ws_close(struct rc_ws *w);
/* Reading is on at first. What a turn had taken already (RC_READ at most) comes in any case. */
void rc_ws_read(struct rc_ws *w, bool on);
void rc_ws_want_write(struct rc_ws *w);
/* A whole message or ping: `first` unless it is -1, then n bytes, RC_MESSAGE_MAX in all. */
void rc_ws_send(struct rc_ws *w, enum wsframe_opcode op, int first, const uint8_t *p, size_t n);
/*
 * For how many milliseconds the other kernel has owed us an answer to bytes or window probes; 0 when it owes none.
 * A program that does not read its stdin stops a server's reading, pongs included, but not its kernel's answers.
 */
uint32_t rc_ws_silent_ms(const struct rc_ws *w);

#endif
