#include "muxd/doors/https/match.h"

#include "base/err.h"
#include "muxd/doors/https/route.h"

#include <stdlib.h>
#include <string.h>

int http_match_read(const struct http_exchange *x, int64_t *out, struct err *e)
{
	size_t n = strlen(x->if_match), digits = n > 2 ? strspn(x->if_match + 1, "0123456789") : 0;

	*out = -1;
	if (!n || strcmp(x->if_match, "*") == 0)
		return http_query_int(x, "if_version", 0, INT64_MAX, out, e);
	if (n > 20 || x->if_match[0] != '"' || x->if_match[n - 1] != '"' || digits != n - 2)
		return err_set(e, ERR_INVAL, "If-Match of a list is the number of its version in quotes");
	*out = strtoll(x->if_match + 1, NULL, 10);
	return http_query_int(x, "if_version", 0, INT64_MAX, out, e);
}

void http_match_tell(struct http_exchange *x, int rc, const json_t *result)
{
	if (!rc)
		(void)buf_printf(&x->headers, "ETag: \"%lld\"\r\n",
				 (long long)json_integer_value(json_object_get(result, "version")));
}
