/*
 * admit.h - who may hold a connection to a door, and who has to go when it is full.
 *
 * One table a door, owned by it; no clock, no socket: the door tells what happens and when. Each connection has a
 * place in it, which points to its address (an IPv6 one: its /64), that to its /24 or /48, and that to its /16 or /32.
 *
 * States of a place: SILENT (it has proved nothing: no handshake done) -> SPOKE (handshake done, nobody known) <-> IN
 * (a valid credential). OVER: its address has had its share, or the door is full of people who are in; it is there for
 * a moment so that it can be told, or show a credential. ENDING: told to make room, counted no more.
 *
 * - Strangers (SILENT, SPOKE) hold three quarters of a door at most, and never a place that somebody who is in needs.
 *   A sixteenth is for staff and auditors alone, and they hold as much beyond the share of their address: agents with
 *   valid tokens can neither fill a door nor shut out the people behind the same NAT.
 * - When strangers fill what is theirs, a newcomer is let in and another one goes: of the widest prefix that holds
 * most, within it of the next, then of the address that holds most; there the one that never spoke, then the one that
 * has been quiet longest. So who floods pays for it, and a person whose address holds one connection is not hit as long
 *   as some address holds two. Random early drop, as in sshd, would hit the person as often as the flood, per
 *   connection; the oldest alone could be pushed out by whoever connects fastest.
 * - The share of one address, and how fast it may come, shrink from half full on. Over it, what has been silent for
 *   two seconds goes first; with none of these the newcomer is OVER.
 *
 * Also kept of an address: failed log-ins of late, one forgotten every ADMIT_FORGET_NS. Bounded: addresses without
 * connections are given up when ADMIT_ADDRESSES_MAX of them are remembered, the quietest first.
 */
#ifndef MUXD_DOORS_ADMIT_H
#define MUXD_DOORS_ADMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct admit_place;
struct sockaddr;

#define ADMIT_ADDRESSES_MAX 4096
#define ADMIT_FORGET_NS     UINT64_C(10000000000)
#define ADMIT_SHARE_MIN     4
#define ADMIT_RATE_MIN      4
#define ADMIT_SILENT_NS     UINT64_C(2000000000)

enum admit_state { ADMIT_SILENT, ADMIT_SPOKE, ADMIT_IN, ADMIT_OVER, ADMIT_ENDING, ADMIT_STATES };

/* The limits of the configuration as it is now. */
struct admit_rules {
	uint32_t max;          /* connections at once */
	uint32_t per_address;  /* of one address */
	uint32_t rate;         /* new ones a second of one address, twice as many after a quiet time */
	const char *gateways;  /* prefix_list: many people come from each of these addresses */
	uint32_t gateway_max;  /* connections of each of them; its rate is as much larger */
	uint32_t failures_max; /* failed log-ins of late after which an address is turned away; 0: never */
	bool tells;            /* who is over the share of its address can be told so after a handshake */
};

int admit_create(struct admit **out);
void admit_destroy(struct admit *a); /* NULL-safe; places that have not left go with it */

/*
 * A connection. *out is its place, SILENT or OVER; *out_victim the owner of another one that has to end now, or NULL.
 * ERR_LIMIT, ERR_RATE_LIMITED, ERR_NOMEM: it is to be closed.
 */
int admit_enter(struct admit *a, const struct admit_rules *r, const struct sockaddr *sa, uint64_t now_ns,
		struct admit_place **out, void **out_victim);
void admit_own(struct admit_place *p, void *owner); /* at once: whom it is of, when it has to end */
/* The owner of one that has to end because something else ran out (descriptors), or NULL. */
void *admit_victim(struct admit *a);
/* The connection did its handshake, or asks again: a sign of life. Nobody who is in loses that. */
void admit_spoke(struct admit_place *p, uint64_t now_ns);
/* A valid credential; staff: of staff or an auditor. False: there is no room for one more who is in, tell it. */
bool admit_in(struct admit_place *p, const struct admit_rules *r, bool staff, uint64_t now_ns);
/* The credential that was shown last is not valid (any more): a stranger again. */
void admit_out(struct admit_place *p, uint64_t now_ns);
void admit_leave(struct admit_place *p);
enum admit_state admit_state(const struct admit_place *p);
size_t admit_count(const struct admit *a, enum admit_state s);
size_t admit_addresses(const struct admit *a); /* that are remembered */

/* A failed log-in of its address; how many there are of late. Behind a gateway sixteen are as one. */
uint32_t admit_failed(struct admit_place *p, uint64_t now_ns);
uint32_t admit_failures(struct admit_place *p, uint64_t now_ns);
/* Forget addresses that nothing is to be known of; now and then. */
void admit_prune(struct admit *a, uint64_t now_ns);

#endif
