/*
 * peers.h - what is remembered of the addresses that clients come from.
 *
 * Counts open connections of an address (of a /64 for IPv6), how fast they come, and
 * tokens that were refused lately. A slot lives while one of the three matters; the
 * table belongs to the door. Nobody is shut out for wrong tokens (many people share
 * an address, and a signature cannot be guessed): the answers only get slower.
 */
#ifndef MUXD_DOORS_REST_PEERS_H
#define MUXD_DOORS_REST_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;
struct peers;
struct peer;

int peers_create(struct peers **out);
void peers_destroy(struct peers *p); /* NULL-safe */
/*
 * One more connection: ERR_LIMIT at max open ones, ERR_RATE_LIMITED when more than rate came in a second (twice as many
 * at once are let in after a quiet time), ERR_NOMEM.
 */
int peers_enter(struct peers *p, const struct sockaddr *sa, uint32_t max, uint32_t rate, uint64_t now_ns,
		struct peer **out);
void peers_leave(struct peers *p, struct peer *peer, uint64_t now_ns);
/* A token was refused; true: hold the answer back. */
bool peers_failed(struct peer *peer, uint64_t now_ns);
/* Forget old failures; called now and then. */
void peers_prune(struct peers *p, uint64_t now_ns);
size_t peers_count(const struct peers *p);

#endif
