/*
 * match.h - a list in versions over HTTP: ETag says its version, If-Match the one that it has to have.
 */
#ifndef MUXD_DOORS_HTTPS_MATCH_H
#define MUXD_DOORS_HTTPS_MATCH_H

#include "base/json.h"
#include "muxd/doors/https/http.h"

/* The version that If-Match names, or the query's if_version for clients without fields; -1: neither does. ERR_INVAL.
 */
int http_match_read(const struct http_exchange *x, int64_t *out, struct err *e);
/* ETag of an answer with a version. */
void http_match_tell(struct http_exchange *x, int rc, const json_t *result);

#endif
