/*
 * rc_ws.h - one WebSocket to an API server: libwebsockets 4.1.6 as client, on sockets that we poll.
 * Internal to remotecommand: it knows messages, and nothing of channels.
 *
 * States: RC_WS_CONNECTING -> RC_WS_TLS (handshake, or a proxy's answer before it) -> RC_WS_ASKED (the request is out)
 * -> RC_WS_OPEN, or RC_WS_REFUSED (an answer that is not 101 is read by us) -> RC_WS_DEAD. A TCP connect that fails
 * goes back to RC_WS_CONNECTING for the next address.
 *
 * What libwebsockets cannot do, and what is done instead (each was seen):
 *
 * - Its libuv plug-in takes EPOLLERR for the end and throws away what is still to be read. A server that closes while
 *   stdin lies unread resets the connection behind its last words: output and exit code were lost in 260 of 300 runs.
 *   So no plug-in: we poll a duplicate of the socket, call lws_service_fd() for what is ready, and after an error
 *   read on until the end. Pausing is not reading, so its rx flow control, which holds up writing, is not needed.
 * - A write to a reset connection makes it drop what could still be read. Under TLS a BIO of ours swallows that error;
 *   without TLS we look for the hang-up before each write.
 * - A refused upgrade's body is not delivered. So the answer is looked at before libwebsockets sees it (MSG_PEEK,
 *   SSL_peek): 101 is left to it, anything else we read and parse (rc_refusal.h).
 * - It cuts the request line at 2 kB, sends SNI for Host and cuts both at a colon. So it writes a short request, which
 *   is replaced by ours where it lets headers be appended; the key alone is kept.
 * - It looks names up with getaddrinfo(): it is given numbers only. It follows redirects: it never sees them.
 * - PEM in memory: of a chain it reads the first certificate. TLS is told everything by us (rc_tls.h).
 * - Proxies: http:// with Basic only, one virtual host each.
 */
#ifndef CONTROL_KUBE_RC_WS_H
#define CONTROL_KUBE_RC_WS_H

#include "muxd/base/err.h"

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
	RC_WS_END_LOST,    /* the connection ended without one; err says how */
};

struct rc_ws_end {
	enum rc_ws_how how;
	bool asked; /* RC_WS_END_FAILED: the request was out, so the server may have begun */
	int status; /* RC_WS_END_REFUSED: HTTP status and body */
	const uint8_t *body;
	size_t body_len;
	int close_code; /* RC_WS_END_CLOSED: 0 when there was none */
	char close_reason[124];
	struct err err;
};

/* From the loop, never from inside a call of this header. */
struct rc_ws_ops {
	void (*open)(void *arg, const char *protocol); /* the one that the server chose */
	void (*message)(void *arg, const uint8_t *p, size_t n, bool last);
	void (*pong)(void *arg, const uint8_t *p, size_t n);
	/* One of rc_ws_send() and rc_ws_ping() may be called, once; for more ask with rc_ws_want_write(). */
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
/* Reading is on at first. What one read brings (RC_PIECE_MAX; at the very beginning up to RC_SERV_BUF) comes in any
 * case. */
void rc_ws_read(struct rc_ws *w, bool on);
void rc_ws_want_write(struct rc_ws *w);
/* A whole binary message: first unless it is -1, then n bytes, RC_PIECE_MAX in all. What the socket does not take waits
 * inside. */
void rc_ws_send(struct rc_ws *w, int first, const uint8_t *p, size_t n);
void rc_ws_ping(struct rc_ws *w, const uint8_t *p, size_t n);
/*
 * For how many milliseconds the other kernel has owed us an answer to bytes or window probes; 0 when it owes none.
 * A program that does not read its stdin stops a server's reading, pongs included, but not its kernel's answers.
 */
uint32_t rc_ws_silent_ms(const struct rc_ws *w);

#endif
