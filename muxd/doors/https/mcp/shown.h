/*
 * shown.h - clients of MCP that come with a token of an outside issuer in a grant's place: how they find the issuer
 * (RFC 9728, OAuth 2.0 Protected Resource Metadata), and how the token becomes a grant
 * (muxd/hub/broker/broker_shown.h).
 *
 * The document names the issuers whose tokens open this door and no others, so that no client is led to a token that is
 * then refused; where there is none of them it is not there, and no 401 names it.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_SHOWN_H
#define MUXD_DOORS_HTTPS_MCP_SHOWN_H

#include "muxd/doors/https/http.h"

/* True: the request has no grant yet. It gets one and is handled anew, or is answered. */
bool mcp_shown_waits(struct http_exchange *x);

#endif
