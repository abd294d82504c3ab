/*
 * loopback.h - an address of HTTP on the loopback of whoever reads it, told from every other one. Pure.
 *
 * Hosts are 127.0.0.1, [::1] and localhost, spelled so (localhost in any case): no name is looked up anywhere, and no
 * other spelling of the same address is taken, as two readers may differ about those.
 */
#ifndef BASE_LOOPBACK_H
#define BASE_LOOPBACK_H

#include <stddef.h>
#include <stdint.h>

#define LOOPBACK_URL_MAX 2048

enum loopback_family { LOOPBACK_EITHER, LOOPBACK_V4, LOOPBACK_V6 }; /* EITHER: 127.0.0.1, then ::1 */

struct loopback {
	enum loopback_family family;
	uint16_t port;
	const char *authority; /* host and port as they were said, in the URL */
	size_t authority_len;
	const char *target; /* path and query, in the URL; "": / */
};

/* ERR_EGRESS: it is elsewhere; ERR_UNSUPPORTED: on the loopback, but https; ERR_INVAL: no address of HTTP. */
int loopback_read(const char *url, struct loopback *out);

#endif
