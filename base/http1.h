/*
 * http1.h - heads of HTTP/1.x messages and where their bodies end (RFC 9112), for what passes them on.
 *
 * Nothing is copied: a head points into the text it was read from. Strict where
 * two readers could differ: no folded lines, no blank before a colon, no control
 * characters, no bare CR; one length, or chunks, never both. Request lines and
 * fields end with CR LF; answers may end them with LF alone, as some servers do.
 */
#ifndef BASE_HTTP1_H
#define BASE_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define HTTP1_FIELDS_MAX 128

struct http1_text {
	const char *p;
	size_t n;
};

struct http1_field {
	struct http1_text name, value; /* value without the blanks around it */
};

struct http1_head {
	struct http1_text method, target; /* requests */
	int status;                       /* answers */
	struct http1_text reason;
	unsigned minor; /* HTTP/1.0 or 1.1 */
	struct http1_field field[HTTP1_FIELDS_MAX];
	size_t nfields;
	size_t len; /* with the empty line */
};

/* 1: *out is whole, 0: more bytes are needed, ERR_INVAL (requests), ERR_PROTOCOL (answers): never will be;
 * ERR_TOO_LARGE (requests): a line is too long, or there are too many fields. */
int http1_request(const void *p, size_t n, struct http1_head *out, struct err *e);
/* Nobody may guess about a request: one Host, a target on this server, one length. ERR_INVAL says which. */
int http1_request_check(const struct http1_head *h, struct err *e);
/*
 * The path and query of a request's target. What a proxy sends (RFC 9112, 3.2.2: http://AUTHORITY/...) is on this
 * server when Host names the same authority; *out is what stands behind it, which may lack the first "/". ERR_INVAL.
 */
int http1_request_path(const struct http1_head *h, struct http1_text *out, struct err *e);
/* Can the n bytes be the beginning of a line of a request's head? For heads that come in pieces. */
bool http1_line_begins(const void *p, size_t n);
int http1_answer(const void *p, size_t n, struct http1_head *out, struct err *e);

/* The field after `after` (NULL: the first) of that name, in any case; NULL: none. */
const struct http1_field *http1_find(const struct http1_head *h, const char *name, const struct http1_field *after);
/* Is word one of the comma-separated ones of the fields of that name? In any case. */
bool http1_lists(const struct http1_head *h, const char *name, const char *word);
struct http1_text http1_trim(struct http1_text t);      /* without the blanks around it */
bool http1_is(struct http1_text t, const char *s);      /* exactly */
bool http1_is_like(struct http1_text t, const char *s); /* in any case */

enum http1_kind { HTTP1_NONE, HTTP1_LENGTH, HTTP1_CHUNKED, HTTP1_TO_THE_END };

struct http1_body {
	enum http1_kind kind;
	bool done;
	uint64_t left; /* of the length, of the chunk */
	unsigned state, digits;
	size_t extra; /* bytes of extensions and trailers */
};

/* How the body is told from what follows. ERR_INVAL. */
int http1_request_body(const struct http1_head *h, struct http1_body *out, struct err *e);
/* The answer to a request of that method. ERR_PROTOCOL. */
int http1_answer_body(const struct http1_head *h, bool head_request, struct http1_body *out, struct err *e);
/* How many of the n bytes are the body's, framing included; all of them unless it ends. ERR_INVAL: broken chunks. */
ssize_t http1_body_feed(struct http1_body *b, const uint8_t *p, size_t n);
/*
 * The same as far as one run of bytes reaches that are passed on together, or that are lines of a trailer section,
 * which whoever passes a body on may leave out (RFC 9110, 6.5.1): without them it is whole still.
 */
ssize_t http1_body_run(struct http1_body *b, const uint8_t *p, size_t n, bool *out_trailer);
/* As far as one run of content reaches, which is *out, in p; without a byte where there was framing alone. */
ssize_t http1_body_next(struct http1_body *b, const uint8_t *p, size_t n, struct http1_text *out);

#endif
