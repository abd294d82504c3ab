#include "base/ports.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static const char *blanks(const char *s)
{
	return s + strspn(s, " \t");
}

/* A port at s; NULL: none is there. */
static const char *ports_number(const char *s, unsigned *out)
{
	size_t n = strspn(s, "0123456789");

	if (!n || n > 5)
		return NULL;
	*out = (unsigned)strtoul(s, NULL, 10);
	return *out >= 1 && *out <= UINT16_MAX ? blanks(s + n) : NULL;
}

/* One range at s, and where the next begins (NULL: there is none at s). */
static const char *range(const char *s, unsigned *out_first, unsigned *out_last)
{
	s = ports_number(blanks(s), out_first);
	*out_last = *out_first;
	if (s && *s == '-')
		s = ports_number(blanks(s + 1), out_last);
	if (!s || *out_last < *out_first || (*s && *s != ','))
		return NULL;
	return s;
}

int ports_check(const char *list, struct err *e)
{
	const char *s = blanks(list);
	unsigned first = 0, last = 0;

	while (*s) {
		const char *next = range(s, &first, &last);

		if (!next || (*next && !*blanks(next + 1)))
			return err_set(e, ERR_CONFIG, "is no list of ports and ranges, as 3000,8000-8999, at \"%.40s\"",
				       s);
		s = *next ? blanks(next + 1) : next;
	}
	return 0;
}

bool ports_allow(const char *list, uint16_t port)
{
	const char *s = blanks(list);
	unsigned first = 0, last = 0;

	while (*s && (s = range(s, &first, &last))) {
		if (port >= first && port <= last)
			return true;
		s = *s ? blanks(s + 1) : s;
	}
	return false;
}
