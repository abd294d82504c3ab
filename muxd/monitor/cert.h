/*
 * cert.h - the TLS key and certificate made at first start.
 *
 * Self-signed, ECDSA P-256, 825 days, for localhost, 127.0.0.1, ::1 and the
 * host that is listened on. Files that somebody else put there are used as they
 * are and never replaced; ours are made again once they have expired.
 * Files that the configuration names are read, through links, and never written.
 */
#ifndef MUXD_MONITOR_CERT_H
#define MUXD_MONITOR_CERT_H

#include "muxd/monitor/file.h"

#include <stdint.h>

struct err;

#define CERT_FINGERPRINT_MAX 96 /* 32 bytes as "AB:CD:...", the form that openssl and browsers show */

struct cert_status {
	char fingerprint_sha256[CERT_FINGERPRINT_MAX];
	bool made;        /* now: at first start, or because the old one had expired */
	bool expired;     /* somebody else's, expired, kept */
	bool covers_host; /* a client that connects to the listen address can verify the name */
};

/* host: of the HTTPS listener, without port. Files: key 0600 and certificate 0644, for owner. */
/* Ours, beside the state. ERR_CONFIG: a key without its certificate, or the other way round. */
int cert_ensure(const char *key_path, const char *cert_path, const char *host, int64_t now_s, struct file_owner owner,
		struct cert_status *out, struct err *e);
/* The operator's own. ERR_NOT_FOUND, ERR_CORRUPT, or ERR_CONFIG where the two do not belong together. */
int cert_check(const char *key_path, const char *cert_path, const char *host, int64_t now_s, struct cert_status *out,
	       struct err *e);

#endif
