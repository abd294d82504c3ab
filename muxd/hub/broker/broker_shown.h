/*
 * broker_shown.h - access tokens of outside issuers that a client shows at /mcp with each request, and the grants that
 * stand for them (docs/mcp.md, docs/issuers.md).
 *
 * The first request with a token has it exchanged by the monitor, as any exchange, with the reason and the task that
 * the issuer's entry makes of its claims; others with it wait for that. From then on its SHA-256 stands for the grant,
 * whose own token is what everything else is asked with: so it ends, is revoked, counted and narrowed as any grant.
 * Nothing of it is on a disk: behind a restart the token is exchanged anew, as often as `exchanges` of its issuer says.
 *
 *   (unknown) -> ASKED -> HELD -> (gone: its grant has ended)
 *                  |       +-> HELD, revoked: stays for as long as a token of any issuer may last, and opens nothing;
 *                  |           where it gave way the monitor refuses the token
 *                  +-> (gone: refused)
 *
 * Owned by the hub. One loop.
 */
#ifndef MUXD_HUB_BROKER_BROKER_SHOWN_H
#define MUXD_HUB_BROKER_BROKER_SHOWN_H

#include "muxd/hub/broker/broker.h"

/*
 * Tokens that stand for grants at a time: of all issuers, each of which has as large a part of it, and of a principal.
 * Where a part is full its own oldest gives way.
 */
#define SHOWN_MAX    4096
#define SHOWN_OF_ONE 32
/* Tokens that are being exchanged, and bytes that the requests with them hold: more than half of these the small ones.
 */
#define SHOWN_ASKED_MAX   1024
#define SHOWN_WAITING_MAX ((size_t)16 << 20)
#define SHOWN_SMALL       ((size_t)8 << 10)

/* The token of the grant that stands for it, to be authenticated as one that was sent; borrowed. NULL: not known. */
const char *broker_shown_find(struct hub *h, const char *token);
/*
 * Exchanges it, or waits for who does. held: bytes that the caller keeps for that. done: once, with a request under the
 * grant; also when the hub ends (ERR_CANCELLED). ERR_LIMIT: SHOWN_ASKED_MAX, SHOWN_WAITING_MAX; else as
 * broker_exchange().
 */
void broker_shown_enter(struct hub *h, const char *token, size_t held, const struct origin *from,
			broker_grant_done *done, void *arg);
void broker_shown_finish(struct hub *h); /* with the hub */

#endif
