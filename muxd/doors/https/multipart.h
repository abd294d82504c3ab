/*
 * multipart.h - a file in a form, as browsers and HTTP libraries upload it (RFC 7578, multipart/form-data).
 *
 * Pure: it looks at bytes that are there as a whole and keeps nothing; what it finds points into them. Of the names of
 * files those of RFC 2183 and of HTML are understood (quotes and line ends as %22, %0D, %0A), and filename* of RFC
 * 8187.
 */
#ifndef MUXD_DOORS_HTTPS_MULTIPART_H
#define MUXD_DOORS_HTTPS_MULTIPART_H

#include <stddef.h>

struct err;

#define MULTIPART_NAME_MAX 4095 /* bytes of a file's name */
#define MULTIPART_HEAD_MAX 8192 /* of the fields of one part */

struct multipart_file {
	char name[MULTIPART_NAME_MAX + 1]; /* any bytes but NUL; never "" */
	const char *content;
	size_t len;
};

/*
 * The first part that is called `part` and is a file. type: the field Content-Type. ERR_INVAL says what is wrong: it is
 * no such form, it is broken, or it has no such part.
 */
int multipart_find(const char *type, const void *p, size_t n, const char *part, struct multipart_file *out,
		   struct err *e);

#endif
