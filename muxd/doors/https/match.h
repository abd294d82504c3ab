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
/*
 * That and the body {"MEMBER": list} of a call that sets a list; *out_list: a member of *out_body, which is the
 * caller's also after an error. ERR_INVAL.
 */
int http_match_body(struct http_exchange *x, const char *member, int64_t *out_version, json_t **out_body,
		    const json_t **out_list, struct err *e);
/* ETag of an answer with a version. */
void http_match_tell(struct http_exchange *x, int rc, const json_t *result);

#endif
