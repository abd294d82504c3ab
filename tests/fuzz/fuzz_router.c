// tier: check
/*
 * What the router reads: the head of a request and its body, the head of an answer and its body. The first byte is the
 * size of the pieces that bodies come in, which must change nothing. A head that is passed on must be one again, with
 * one body that ends where the first did, and without what is ours.
 */
#include "base/buf.h"
#include "base/err.h"
#include "muxd/doors/https/router/router_fields.h"
#include "muxd/doors/https/router/router_head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the body ends, fed in pieces. */
static size_t body_end(struct http1_body b, const uint8_t *p, size_t n, size_t step, int *out_rc, bool *out_done)
{
	size_t at = 0;

	*out_rc = 0;
	while (at < n && !b.done) {
		size_t take = n - at < step ? n - at : step;
		ssize_t got = http1_body_feed(&b, p + at, take);

		if (got < 0) {
			*out_rc = (int)got;
			break;
		}
		if ((size_t)got > take || ((size_t)got < take && !b.done))
			abort();
		at += (size_t)got;
	}
	*out_done = b.done;
	return at;
}

/* In runs, of which those of trailers may go: it ends at the same place. */
static size_t runs_end(struct http1_body b, const uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < n && !b.done) {
		bool trailer;
		ssize_t got = http1_body_run(&b, p + at, n - at, &trailer);

		if (got < 0)
			return SIZE_MAX;
		if (!got || (size_t)got > n - at)
			abort();
		at += (size_t)got;
	}
	return at;
}

static void bodies_agree(const struct http1_body *b, const uint8_t *p, size_t n, size_t step)
{
	int rc_a, rc_b;
	bool done_a, done_b;
	size_t a = body_end(*b, p, n, n + 1, &rc_a, &done_a), c = body_end(*b, p, n, step, &rc_b, &done_b);

	if (rc_a != rc_b || (rc_a == 0 && (a != c || done_a != done_b || runs_end(*b, p, n) != a)))
		abort();
}

static void passed_on(const struct http1_head *h, const struct router_head *r)
{
	struct http1_head again;
	struct http1_body body;
	struct buf b;

	buf_init(&b, 1024 * 1024);
	if (router_head_request(h, r, "192.0.2.1:1", &b) == 0) {
		/* with Via, X-Forwarded-For and the like there may be more fields than are taken */
		int rc = http1_request(buf_ptr(&b), buf_len(&b), &again, NULL);

		if (rc != 1 && h->nfields + 6 < HTTP1_FIELDS_MAX)
			abort();
		if (rc == 1 && (again.len != buf_len(&b) || http1_request_body(&again, &body, NULL) ||
				body.kind != r->body.kind || body.left != r->body.left))
			abort();
		if (rc == 1 && (http1_find(&again, "Authorization", NULL) || http1_find(&again, "X-Sandbox-ID", NULL)))
			abort();
	}
	buf_finish(&b);
}

/* The head that the client gets: nothing for the whole origin but what is ours. */
static void stayed_here(const struct buf *b)
{
	struct http1_head h;
	size_t cookies = 0;

	if (http1_answer(buf_ptr(b), buf_len(b), &h, NULL) != 1)
		return; /* more fields than are taken */
	for (size_t i = 0; i < h.nfields; i++) {
		cookies += http1_is_like(h.field[i].name, "Set-Cookie");
		if (router_field_stays(h.field[i].name) && !http1_is_like(h.field[i].name, "X-Muxd-Request-Id"))
			abort();
	}
	if (cookies > ROUTER_COOKIES_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct router_head r;
	struct http1_head h;
	struct http1_body body;
	struct buf b;
	size_t step;

	if (size < 2)
		return 0;
	step = data[0] % 16 + 1u;
	data++, size--;
	(void)router_asked(data, size);
	if (http1_request(data, size, &h, NULL) == 1) {
		if (h.len > size)
			abort();
		(void)router_from_own_page(&h);
		if (http1_request_check(&h, NULL) == 0 && router_head_read(&h, &r, NULL) == 0) {
			bodies_agree(&r.body, data + h.len, size - h.len, step);
			passed_on(&h, &r);
		}
	}
	if (http1_answer(data, size, &h, NULL) == 1 && http1_answer_body(&h, false, &body, NULL) == 0) {
		bodies_agree(&body, data + h.len, size - h.len, step);
		buf_init(&b, 1024 * 1024);
		if (router_head_answer(&h, &body, h.status == 101, true, "id", &b) == 0)
			stayed_here(&b);
		buf_finish(&b);
	}
	return 0;
}
