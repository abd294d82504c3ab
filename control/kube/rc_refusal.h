/*
 * rc_refusal.h - an HTTP answer that is not 101: its status and its body. Pure.
 *
 * Bounded by whoever fills the buffer. RFC 9112: the body ends by Content-Length,
 * by the last chunk, or with the connection.
 */
#ifndef CONTROL_KUBE_RC_REFUSAL_H
#define CONTROL_KUBE_RC_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RC_REFUSAL_MAX (64 * 1024) /* head and body; what is longer is cut */

struct rc_refusal {
	int status;
	uint8_t *body; /* inside p, chunk framing taken out in place */
	size_t body_len;
};

/*
 * p[0..n): all that came so far; eof: no more will. Returns 1 when the answer is there (out filled, p changed), 0 when
 * more is needed, ERR_PROTOCOL when it is no answer of HTTP. With eof or a full buffer what is there is the answer.
 */
int rc_refusal_parse(uint8_t *p, size_t n, bool eof, struct rc_refusal *out);

#endif
