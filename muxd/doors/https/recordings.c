/* Recordings: listed, looked at, and read event by event, as the page's player does. */
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_record.h"
#include "muxd/hub/core/hub.h"

#define LIST_DEFAULT 100
#define LIST_MAX     1000
#define PAGE_DEFAULT (256 * 1024)
#define PAGE_MAX     (1024 * 1024)

static int read_filter(const struct http_exchange *x, struct recording_filter *f, struct err *e)
{
	const char *before = http_query_str(x, "before");
	int64_t limit = LIST_DEFAULT;
	int rc = 0;

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
		broker_recordings(x->hub, &x->rq, &f, http_reply_result, x);
}

void rest_recording_show(struct http_exchange *x)
{
	broker_recording(x->hub, &x->rq, &x->object, http_reply_result, x);
}

static void reply_page(void *arg, int rc, const struct err *e, const uint8_t *p, size_t n, const json_t *end)
{
	struct http_exchange *x = arg;
	const char *behind = json_is_true(json_object_get(end, "more"))    ? "more"
			     : json_is_true(json_object_get(end, "ended")) ? "end"
									   : "live";

	if (!rc)
		rc = buf_printf(&x->headers, "Muxd-Page: %s\r\n", behind);
	if (rc)
		http_reply_error(x, rc, e);
	else
		http_reply_text(x, 200, "application/vnd.muxd.events", n ? (const char *)p : "", n);
}

void rest_recording_events(struct http_exchange *x)
{
	int64_t from = 0, seq = 0, limit = PAGE_DEFAULT;
	struct err e = {0};
	int rc = http_query_int(x, "from_ns", 0, INT64_MAX, &from, &e);

	if (rc == 0)
		rc = http_query_int(x, "after_seq", 0, INT64_MAX, &seq, &e);
	if (rc == 0)
		rc = http_query_int(x, "limit", 1, PAGE_MAX, &limit, &e);
	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_recording_page(x->hub, &x->rq, &x->object, (uint64_t)from, (uint64_t)seq, (uint64_t)limit,
				      reply_page, x);
}

void rest_recording_screen(struct http_exchange *x)
{
	int64_t at = 0;
	struct err e = {0};
	int rc = http_query_int(x, "at_ns", 0, INT64_MAX, &at, &e);

	if (rc)
		http_reply_error(x, rc, &e);
	else
		broker_recording_screen(x->hub, &x->rq, &x->object, (uint64_t)at, http_reply_result, x);
}
