/*
 * assets.h - the pages, as they were built from webclient/ and linked in.
 *
 * webclient/build.mjs makes the table (build/web/assets.c). Every file is there once,
 * compressed (gzip, RFC 1952). A file whose name holds the digest of its content
 * never changes; the others are asked for again by their tag.
 */
#ifndef MUXD_DOORS_HTTPS_ASSETS_H
#define MUXD_DOORS_HTTPS_ASSETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct web_asset {
	const char *name; /* "index.html" */
	const char *type; /* Content-Type */
	const char *etag; /* with its quotes */
	bool immutable;
	const uint8_t *gzip;
	size_t gzip_len, len; /* len: of the content */
};

extern const struct web_asset web_assets[];
extern const size_t web_assets_count;
/* Of the one script that stands in the document itself (webclient/src/boot.js): "sha256-...", as CSP level 2 has it. */
extern const char web_boot_digest[];

#endif
