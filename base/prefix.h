/*
 * prefix.h - a network address and how much of it counts: 192.0.2.1, 192.0.2.0/24, 2001:db8::/48.
 *
 * Who connects is counted by its address; an IPv6 address by its /64, which is what one customer is given whole. An
 * IPv4 address in IPv6 clothes (::ffff:192.0.2.1) is the IPv4 address. Values; every byte behind the bits is 0, so
 * that they compare by memcmp.
 */
#ifndef BASE_PREFIX_H
#define BASE_PREFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct sockaddr;

struct prefix {
	uint8_t family; /* 4 or 6; 0: no network address at all, which covers only itself */
	uint8_t bits;
	uint8_t b[16];
};
#define PREFIX_STR_LEN 52

/* The whole address; 0 of anything but IPv4 and IPv6. */
void prefix_of(const struct sockaddr *sa, struct prefix *out);
/* "192.0.2.1:40123" and "[2001:db8::1]:443", as sock_name() writes them; anything else ("uid 0") is of family 0. */
void prefix_of_peer(const char *peer, struct prefix *out);
/* Of the first bits alone; what is as wide already stays. */
struct prefix prefix_wide(const struct prefix *p, unsigned bits);
/* Whom it counts for: the address, or its /64. */
struct prefix prefix_host(const struct prefix *p);
bool prefix_equal(const struct prefix *a, const struct prefix *b);
bool prefix_covers(const struct prefix *wide, const struct prefix *p);
/* "192.0.2.1", "2001:db8::/64"; "" for family 0. */
void prefix_format(const struct prefix *p, char out[PREFIX_STR_LEN]);

/* "10.0.0.5, 2001:db8::/48": addresses and prefixes with commas and any blanks; "": none. ERR_CONFIG says what is
 * wrong. */
int prefix_list_check(const char *list, struct err *e);
/* list: one that prefix_list_check() took. */
bool prefix_list_covers(const char *list, const struct prefix *p);

#endif
