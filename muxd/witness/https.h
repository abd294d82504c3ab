/*
 * https.h - one exchange with a witness: JSON there, an object back; bounded in time and size. Blocking.
 *
 * TLS 1.2 at least, the name of the certificate checked, no redirects, no proxy of the environment, nothing but https.
 */
#ifndef MUXD_WITNESS_HTTPS_H
#define MUXD_WITNESS_HTTPS_H

#include "base/json.h"

struct buf;
struct err;

#define HTTPS_ANSWER_MAX (1024 * 1024)
#define HTTPS_HEADER_MAX 256

/* A field of the answer's head that the caller wants; value "" where there is none, or none so short. */
struct https_header {
	const char *name;
	char value[HTTPS_HEADER_MAX];
};

struct https_call {
	const char *url;
	const char *token;  /* bearer; NULL */
	const char *ca;     /* PEM text; NULL: the system's */
	const json_t *body; /* POST; NULL: GET, or bytes */
	const char *method; /* PUT or HEAD; NULL: GET or POST */
	const void *bytes;  /* POST or PUT of those; NULL: none */
	size_t bytes_n;
	const char *type;           /* of the bytes */
	const char *sigv4;          /* "aws:amz:REGION:s3": signed that way, by `user`; NULL: not */
	const char *user;           /* "ID:SECRET"; NULL */
	const char *const *headers; /* more of them, NULL-terminated; NULL: none */
	struct https_header *want;  /* NULL: none */
	size_t nwant;
	bool plain; /* http will do as well: what comes back is signed */
	uint64_t timeout_ns;
};

/* Once per process, before threads. */
int https_setup(struct err *e);
/* *out: the answer's object, NULL when it is none; the caller's. A status is no error here. */
int https_do(const struct https_call *c, long *out_status, json_t **out, struct err *e);
/* The same with whatever comes back, into out, whose limit counts. */
int https_bytes(const struct https_call *c, long *out_status, struct buf *out, struct err *e);
/* The answer's words about why the head was not taken. ERR_UNAVAILABLE. */
int https_refused(const char *url, long status, const json_t *answer, struct err *e);

#endif
