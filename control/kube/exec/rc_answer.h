/*
 * rc_answer.h - the HTTP answer to an upgrade, or to a proxy's CONNECT. Pure.
 *
 * Bounded by whoever fills the buffer. RFC 9112: the body of a refusal ends by Content-Length, by the last chunk, or
 * with the connection; a 101, and a 2xx to CONNECT, have none.
 */
#ifndef CONTROL_KUBE_EXEC_RC_ANSWER_H
#define CONTROL_KUBE_EXEC_RC_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define RC_ANSWER_MAX (64 * 1024) /* head and body; what is longer is cut */

struct rc_answer {
	int status;
	size_t head_len; /* with the empty line: what is behind it in a 101 is WebSocket already */
	uint8_t *body;   /* inside p, chunk framing taken out in place */
	size_t body_len;
};

/*
 * p[0..n): all that came so far; eof: no more will. Returns 1 when the answer is there (out filled, p changed), 0 when
 * more is needed, ERR_PROTOCOL when it is no answer of HTTP. With eof or a full buffer what is there is the answer,
 * but for a 101 or 2xx whose head has no end: that is ERR_PROTOCOL. connect: a 2xx ends with its head.
 */
int rc_answer_parse(uint8_t *p, size_t n, bool eof, bool connect, struct rc_answer *out);

/*
 * RFC 6455, 4.1: is the 101 whose head is p[0..n) one to our key, with one protocol of the offer ("a, b")? Fills
 * protocol. ERR_PROTOCOL and what is wrong.
 */
int rc_answer_check(const uint8_t *p, size_t n, const char *key, const char *offer, char *protocol, size_t size,
		    struct err *e);

#endif
