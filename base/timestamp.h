/*
 * timestamp.h - an RFC 3161 timestamp of a SHA-256: asked for, read, checked. Pure but for the answer's DER.
 *
 * What is stamped is the hash of an entry of the log, as it stands: `openssl ts -verify -digest HASH` says the same.
 */
#ifndef BASE_TIMESTAMP_H
#define BASE_TIMESTAMP_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define TIMESTAMP_HASH 32
#define TIMESTAMP_MAX  (24 * 1024) /* bytes of an answer, with its certificates */

struct timestamp {
	int64_t wall_ns; /* as the authority has it, to the second */
	char by[200];    /* subject of who signed it, "" if that does not stand in it */
	char serial[72]; /* hexadecimal */
};

/* What is sent: with a nonce, asking for the certificates. DER, to be freed. */
int timestamp_ask(const uint8_t hash[TIMESTAMP_HASH], uint8_t **out, size_t *out_n, struct err *e);
/*
 * Does the answer grant what that asked, of that hash, with that nonce? Nobody's signature is looked at.
 * ERR_UNAVAILABLE: refused, as the authority says; ERR_PROTOCOL: garbage; ERR_CONFLICT: for something else.
 */
int timestamp_answers(const uint8_t *asked, size_t asked_n, const uint8_t *p, size_t n, struct err *e);
/*
 * Of that hash, signed by who may sign timestamps and hangs on one of the certificates (PEM text) at the time that it
 * says, and at now_ns too where that is not 0. ca NULL: the signature is not checked. out may be NULL.
 * ERR_CONFIG: ca holds no certificate; ERR_PROTOCOL; ERR_CONFLICT: for another hash; ERR_FORBIDDEN:
 * whoever signed it does not hang on ca, or was not in force; ERR_TOKEN_FORGED.
 */
int timestamp_check(const uint8_t *p, size_t n, const uint8_t hash[TIMESTAMP_HASH], const char *ca, int64_t now_ns,
		    struct timestamp *out, struct err *e);

#endif
