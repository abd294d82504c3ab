/*
 * api_head.h - whether a request's head may go on to libwebsockets.
 *
 * libwebsockets 4.1.6 reads heads as kindly as browsers once wanted it: it overlooks a Content-Length with a blank
 * before its colon and takes the body for the next request, reads an encoded line end as a line end, answers an
 * unknown Upgrade twice. So the strict reader (base/http1.h) decides first, over every head, and what two
 * readers could take for two things is refused. What it lets pass libwebsockets understands in the same way.
 *
 * Pure: it looks at bytes and keeps nothing. A head for the router (X-Sandbox-ID) has the rules that both share and
 * no others; libwebsockets never sees it.
 */
#ifndef MUXD_DOORS_HTTPS_API_HEAD_H
#define MUXD_DOORS_HTTPS_API_HEAD_H

#include "base/http1.h"

struct err;

#define API_HEAD_MAX   (12 * 1024) /* bytes of a head */
#define API_FIELDS_MAX 64
#define API_ARGS_MAX   16 /* parameters of a query, before the API's own limit */

struct api_head {
	bool routed;            /* for the router */
	bool served;            /* for the runtime: X-Sandbox-ID, and the port that is answered here */
	bool unfit;             /* not whole, and libwebsockets would answer what is there: collect it without */
	size_t len;             /* with the empty line */
	struct http1_body body; /* where it ends */
	int status;             /* refused: what to answer */
};

/*
 * The n bytes that came of a head and what is behind it, of which the first `seen` were looked at before. serves: the
 * port whose requests the runtime answers (runtime.h), as text; NULL: none, all are routed.
 * 1: *out is whole and may go on, 0: more is needed, ERR_INVAL, ERR_TOO_LARGE, ERR_UNSUPPORTED: answer out->status,
 * and nothing that comes behind it.
 */
int api_head_read(const void *p, size_t n, size_t seen, const char *serves, struct api_head *out, struct err *e);

#endif
