#include "base/loopback.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define PORT_HTTP 80

/* RFC 3986 has none of these in an address, nor is a fragment sent. */
static bool has_strange(const char *url)
{
	for (const char *p = url; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("\"#<>\\^`{|}", *p))
			return true;
	return false;
}

static int read_port(const char *p, size_t n, uint16_t *out)
{
	unsigned long port = 0;

	if (n == 0) {
		*out = PORT_HTTP;
		return 0;
	}
	if (*p != ':' || n < 2 || n > 6)
		return ERR_INVAL;
	for (size_t i = 1; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return ERR_INVAL;
		port = port * 10 + (unsigned long)(p[i] - '0');
	}
	*out = (uint16_t)port;
	return port > 0 && port <= UINT16_MAX ? 0 : ERR_INVAL;
}

/* The bytes of the host; 0: it is none of ours. */
static size_t read_host(const char *p, size_t n, enum loopback_family *out)
{
	static const struct {
		const char *name;
		enum loopback_family family;
	} hosts[] = {{"127.0.0.1", LOOPBACK_V4}, {"[::1]", LOOPBACK_V6}, {"localhost", LOOPBACK_EITHER}};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		size_t len = strlen(hosts[i].name);

		if (n >= len && strncasecmp(p, hosts[i].name, len) == 0 && (n == len || p[len] == ':')) {
			*out = hosts[i].family;
			return len;
		}
	}
	return 0;
}

int loopback_read(const char *url, struct loopback *out)
{
	bool tls = strncasecmp(url, "https://", 8) == 0;
	struct loopback l;
	size_t host;

	if (strlen(url) > LOOPBACK_URL_MAX || has_strange(url) || (!tls && strncasecmp(url, "http://", 7) != 0))
		return ERR_INVAL;
	l.authority = url + (tls ? 8 : 7);
	l.authority_len = strcspn(l.authority, "/?");
	l.target = l.authority + l.authority_len;
	if (!l.authority_len || *l.target == '?')
		return ERR_INVAL;
	host = read_host(l.authority, l.authority_len, &l.family);
	if (!host)
		return ERR_EGRESS;
	if (read_port(l.authority + host, l.authority_len - host, &l.port))
		return ERR_INVAL;
	if (tls)
		return ERR_UNSUPPORTED;
	*out = l;
	return 0;
}
