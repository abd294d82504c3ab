/*
 * address.h - what the SSH door remembers of each client address: how many
 * connections it holds, how many of them are not logged in yet, and how many log-ins
 * failed lately.
 *
 * Owned by the door. Bounded: when full, the entry that has been quiet longest is
 * given up; entries with connections stay. An IPv6 address counts by its /64, which
 * is what one customer has. Failures are forgotten one per SSH_ADDRESS_FORGET_NS.
 */
#ifndef MUXD_DOORS_SSH_ADDRESS_H
#define MUXD_DOORS_SSH_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ssh_address;
struct ssh_address_table;

#define SSH_ADDRESS_MAX       4096
#define SSH_ADDRESS_FORGET_NS UINT64_C(10000000000)
/* This many recent failures are a person's; from here on each new connection has to wait. */
#define SSH_ADDRESS_PATIENCE 10
/* And from here on none is taken. */
#define SSH_ADDRESS_REFUSE 30

int ssh_address_table_create(struct ssh_address_table **out);
void ssh_address_table_destroy(struct ssh_address_table *t); /* NULL-safe */

/*
 * A connection from sa begins: counted, until ssh_address_leave(), and as a log-in until
 * ssh_address_settled(). ERR_LIMIT over max_live or max_logins, ERR_RATE_LIMITED after too many failures, ERR_NOMEM.
 * *out_first: the first refusal since the last connection that was taken, so that a flood is audited once.
 */
int ssh_address_enter(struct ssh_address_table *t, const struct sockaddr *sa, uint32_t max_live, uint32_t max_logins,
		      uint64_t now_ns, struct ssh_address **out, bool *out_first);
void ssh_address_settled(struct ssh_address *a); /* its log-in is over, well or not; once, before it leaves */
void ssh_address_leave(struct ssh_address *a, uint64_t now_ns);
void ssh_address_failed(struct ssh_address *a, uint64_t now_ns);
/* How long the next log-in from there has to wait: 0, or 1 to 8 s. */
uint64_t ssh_address_delay_ns(struct ssh_address *a, uint64_t now_ns);

#endif
