#include "muxd/doors/https/match.h"

#include "base/err.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
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

int http_match_body(struct http_exchange *x, const char *member, int64_t *out_version, json_t **out_body,
		    const json_t **out_list, struct err *e)
{
	int rc = http_match_read(x, out_version, e);

	if (!rc)
		rc = rest_body_any(x, out_body, e);
	if (!rc && !json_is_object(*out_body))
		rc = err_set(e, ERR_INVAL, "the body is no object with %s", member);
	if (!rc)
		rc = json_only_keys(*out_body, (const char *const[]){member, NULL}, e);
	if (!rc && !(*out_list = json_object_get(*out_body, member)))
		rc = err_set(e, ERR_INVAL, "/%s: is missing", member);
	return rc;
}

void http_match_tell(struct http_exchange *x, int rc, const json_t *result)
{
	if (!rc)
		(void)buf_printf(&x->headers, "ETag: \"%lld\"\r\n",
				 (long long)json_integer_value(json_object_get(result, "version")));
}
