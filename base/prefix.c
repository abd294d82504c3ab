#include "base/prefix.h"

#include "base/err.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static unsigned whole(const struct prefix *p)
{
	return p->family == 4 ? 32 : p->family == 6 ? 128 : 0;
}

static void from_v6(const struct in6_addr *a, struct prefix *out)
{
	memset(out, 0, sizeof(*out));
	if (IN6_IS_ADDR_V4MAPPED(a)) {
		out->family = 4;
		out->bits = 32;
		memcpy(out->b, a->s6_addr + 12, 4);
	} else {
		out->family = 6;
		out->bits = 128;
		memcpy(out->b, a->s6_addr, 16);
	}
}

void prefix_of(const struct sockaddr *sa, struct prefix *out)
{
	memset(out, 0, sizeof(*out));
	if (sa->sa_family == AF_INET) {
		out->family = 4;
		out->bits = 32;
		memcpy(out->b, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		from_v6(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, out);
	}
}

/* An address without port; false: it is none. */
static bool parse_address(const char *text, struct prefix *out)
{
	struct in6_addr v6;

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, text, out->b) == 1) {
		out->family = 4;
		out->bits = 32;
		return true;
	}
	if (inet_pton(AF_INET6, text, &v6) != 1)
		return false;
	from_v6(&v6, out);
	return true;
}

void prefix_of_peer(const char *peer, struct prefix *out)
{
	bool brackets = peer[0] == '[';
	const char *end = brackets ? strchr(peer, ']') : strrchr(peer, ':');
	char text[INET6_ADDRSTRLEN];
	size_t n;

	memset(out, 0, sizeof(*out));
	peer += brackets;
	if (!end || (brackets && end[1] != ':'))
		return;
	n = (size_t)(end - peer);
	if (n >= sizeof(text))
		return;
	memcpy(text, peer, n);
	text[n] = '\0';
	if (!parse_address(text, out))
		memset(out, 0, sizeof(*out));
}

struct prefix prefix_wide(const struct prefix *p, unsigned bits)
{
	struct prefix out = *p;

	if (bits >= p->bits)
		return out;
	out.bits = (uint8_t)bits;
	for (unsigned i = 0; i < sizeof(out.b); i++)
		if (i * 8 >= bits)
			out.b[i] = 0;
		else if (i * 8 + 8 > bits)
			out.b[i] &= (uint8_t)(0xff << (8 - bits % 8));
	return out;
}

struct prefix prefix_host(const struct prefix *p)
{
	return p->family == 6 ? prefix_wide(p, 64) : *p;
}

bool prefix_equal(const struct prefix *a, const struct prefix *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

bool prefix_covers(const struct prefix *wide, const struct prefix *p)
{
	struct prefix same = prefix_wide(p, wide->bits);

	return wide->family == p->family && wide->bits <= p->bits && prefix_equal(wide, &same);
}

void prefix_format(const struct prefix *p, char out[PREFIX_STR_LEN])
{
	char text[INET6_ADDRSTRLEN] = "";

	if (p->family)
		inet_ntop(p->family == 4 ? AF_INET : AF_INET6, p->b, text, sizeof(text));
	if (p->bits == whole(p))
		text_put(out, PREFIX_STR_LEN, text);
	else
		text_format(out, PREFIX_STR_LEN, "%s/%u", text, p->bits);
}

/* ---- lists */

static const char *skip(const char *s)
{
	return s + strspn(s, " \t");
}

/* "ADDRESS" or "ADDRESS/BITS" of n bytes; false: it is neither, or has bits set behind its prefix. */
static bool parse_prefix(const char *s, size_t n, struct prefix *out)
{
	char text[PREFIX_STR_LEN], *slash;
	struct prefix address;
	unsigned long bits;

	if (n == 0 || n >= sizeof(text))
		return false;
	memcpy(text, s, n);
	text[n] = '\0';
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	if (!parse_address(text, &address))
		return false;
	*out = address;
	if (!slash)
		return true;
	if (strspn(slash, "0123456789") != strlen(slash) || !*slash || strlen(slash) > 3)
		return false;
	bits = strtoul(slash, NULL, 10);
	if (bits > address.bits)
		return false;
	*out = prefix_wide(&address, (unsigned)bits);
	return memcmp(out->b, address.b, sizeof(out->b)) == 0;
}

/* One entry at s and where the next begins; NULL: what is there is none. */
static const char *entry(const char *s, struct prefix *out)
{
	size_t n;

	s = skip(s);
	n = strcspn(s, ", \t");
	if (!parse_prefix(s, n, out))
		return NULL;
	s = skip(s + n);
	if (!*s)
		return s;
	return *s == ',' && *skip(s + 1) ? s + 1 : NULL;
}

int prefix_list_check(const char *list, struct err *e)
{
	struct prefix p;

	for (const char *s = skip(list), *next; *s; s = next) {
		next = entry(s, &p);
		if (!next)
			return err_set(e, ERR_CONFIG,
				       "is no list of addresses and prefixes, as 10.0.0.5,2001:db8::/48, at \"%.40s\"",
				       skip(s));
	}
	return 0;
}

bool prefix_list_covers(const char *list, const struct prefix *p)
{
	struct prefix one;

	for (const char *s = skip(list); s && *s;) {
		s = entry(s, &one);
		if (s && prefix_covers(&one, p))
			return true;
	}
	return false;
}
