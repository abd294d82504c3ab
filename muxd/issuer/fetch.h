/*
 * fetch.h - documents of issuers by HTTPS: libcurl's multi interface, several at once, each bounded in time and size.
 *
 * TLS 1.2 at least, the certificate's name checked, no redirects, no proxy of the environment, nothing but https; http
 * where the caller says so. Only fetch.c knows libcurl.
 */
#ifndef MUXD_ISSUER_FETCH_H
#define MUXD_ISSUER_FETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct fetcher;

/* p: the document, borrowed; NULL where rc is ERR_ISSUER and e says what went wrong. Called once, in fetcher_wait(). */
typedef void fetch_done(void *arg, int rc, const struct err *e, const void *p, size_t n);
struct fetch_ask {
	const char *url;
	const char *ca; /* PEM text, copied; NULL: the system's */
	bool plain;     /* http:// will do */
	uint64_t timeout_ns;
	size_t max;
	fetch_done *done;
	void *arg;
};

int fetcher_create(struct fetcher **out, struct err *e);
/* ERR_NOMEM: then done() is not called. */
int fetch_start(struct fetcher *f, const struct fetch_ask *ask, struct err *e);
/* Goes on with all of them until fd can be read (*out_readable) or the time is over. */
int fetcher_wait(struct fetcher *f, int fd, int timeout_ms, bool *out_readable, struct err *e);

#endif
