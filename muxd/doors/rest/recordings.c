/* GET /v1/recordings: sessions live and past, from the record. */
#include "muxd/doors/rest/handlers.h"
#include "muxd/hub/hub.h"

#define LIST_DEFAULT 100
#define LIST_MAX     1000

static void on_list(void *arg, int rc, const struct err *e, json_t *result)
{
	struct http_exchange *x = arg;

	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_json(x, 200, result);
}

static int read_filter(const struct http_exchange *x, struct recording_filter *f, struct err *e)
{
	static const char *const keys[] = {"agent", "principal", "kind", "state", "before", "limit", NULL};
	const char *before = http_query_str(x, "before");
	int64_t limit = LIST_DEFAULT;
	int rc = http_query_only(x, keys, e);

	f->agent = http_query_str(x, "agent");
	f->principal = http_query_str(x, "principal");
	f->kind = http_query_str(x, "kind");
	f->state = http_query_str(x, "state");
	if (!rc && before && id_parse(before, &f->before))
		rc = err_set(e, ERR_INVAL, "query parameter before is no session id");
	if (!rc && f->agent)
		rc = target_name_check(f->agent, e);
	if (!rc)
		rc = http_query_int(x, "limit", 1, LIST_MAX, &limit, e);
	f->limit = (size_t)limit;
	return rc;
}

void rest_recording_list(struct http_exchange *x)
{
	struct recording_filter f = {0};
	struct err e = {0};
	int rc = read_filter(x, &f, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_recordings(x->hub, &x->rq, &f, on_list, x);
}
