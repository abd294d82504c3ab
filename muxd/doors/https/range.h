/*
 * range.h - the Range header of a request (RFC 9110, 14.2): one range of bytes.
 *
 * Pure. A unit that is not bytes is passed over, as the RFC has it; several ranges at once are refused, since what asks
 * for them would have to understand multipart/byteranges.
 */
#ifndef MUXD_DOORS_HTTPS_RANGE_H
#define MUXD_DOORS_HTTPS_RANGE_H

#include <stdbool.h>
#include <stdint.h>

struct err;

struct range {
	bool given;
	uint64_t first, last; /* last UINT64_MAX: to the end */
	uint64_t suffix;      /* not 0: so many bytes before the end, instead */
};

/* text: "" where there is none. ERR_INVAL: it is malformed, or of several ranges. */
int range_parse(const char *text, struct range *out, struct err *e);

#endif
