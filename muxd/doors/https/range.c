#include "muxd/doors/https/range.h"

#include "base/err.h"

#include <string.h>
#include <strings.h>

/* Digits at *p, which is moved behind them. False: none, or more than there are bytes in the world. */
static bool range_take_number(const char **p, uint64_t *out)
{
	uint64_t n = 0;
	const char *at = *p;

	for (; *at >= '0' && *at <= '9'; at++) {
		if (n > (uint64_t)INT64_MAX / 10 - 1)
			return false;
		n = n * 10 + (uint64_t)(*at - '0');
	}
	if (at == *p)
		return false;
	*p = at;
	*out = n;
	return true;
}

static int take_spec(const char *p, struct range *out)
{
	struct range r = {.given = true, .last = UINT64_MAX};

	if (*p == '-') {
		p++;
		if (!range_take_number(&p, &r.suffix) || *p)
			return ERR_INVAL;
		if (!r.suffix) { /* satisfied by nothing */
			r.first = UINT64_MAX;
		}
		*out = r;
		return 0;
	}
	if (!range_take_number(&p, &r.first) || *p++ != '-')
		return ERR_INVAL;
	if (*p && (!range_take_number(&p, &r.last) || *p || r.last < r.first))
		return ERR_INVAL;
	*out = r;
	return 0;
}

int range_parse(const char *text, struct range *out, struct err *e)
{
	static const char unit[] = "bytes=";

	*out = (struct range){.last = UINT64_MAX};
	if (*text != '?' && strncasecmp(text, unit, sizeof(unit) - 1) != 0)
		return 0;
	if (*text == '?' || take_spec(text + sizeof(unit) - 1, out))
		return err_set(e, ERR_INVAL,
			       "Range must be one range of bytes, as bytes=0-1023, bytes=4096- or bytes=-500");
	return 0;
}
