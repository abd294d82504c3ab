/*
 * page.h - the routes of the pages; each answers its exchange exactly once.
 */
#ifndef MUXD_DOORS_HTTPS_PAGE_H
#define MUXD_DOORS_HTTPS_PAGE_H

#include "muxd/doors/https/http.h"

void web_page(struct http_exchange *x); /* the document, for every page's address */
void web_file(struct http_exchange *x); /* /ui/{file} */
/* /v1/web/session: the cookie of the grant that the request carries is made, shown, ended. */
void web_session_create(struct http_exchange *x);
void web_session_show(struct http_exchange *x);
void web_session_end(struct http_exchange *x);

#endif
