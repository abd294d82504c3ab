#include "base/clock.h"
#include "base/text.h"
#include "muxd/doors/https/body.h"
#include "muxd/doors/https/handlers.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/core/hub.h"

#include <stdio.h>
#include <stdlib.h>

/* A round has ended when it says how. */
static bool round_ended(const json_t *round)
{
	const json_t *exit = json_object_get(round, "exit");

	return exit && !json_is_null(exit);
}

static void round_waited(void *arg, int rc, const struct err *e, json_t *round)
{
	struct http_exchange *x = arg;
	const char *id = rc ? NULL : json_string_value(json_object_get(round, "round_id"));
	bool ended = rc == 0 && round_ended(round);

	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	if (!ended && id)
		text_format(x->location, sizeof(x->location), "/v1/rounds/%s", id);
	http_reply_json(x, ended || x->method != HTTP_POST ? 200 : 202, round);
}

static void round_opened(void *arg, int rc, const struct err *e, struct session *s, struct attachment *a,
			 const struct id *seen)
{
	struct http_exchange *x = arg;
	struct id id;

	(void)a; /* nobody attaches: no ops were given */
	if (rc) {
		http_reply_error(x, rc, e);
		return;
	}
	x->repeated = seen != NULL;
	id = seen ? *seen : *session_id(s); /* the same round, seen again: answered like a new one */
	x->waits = id;
	broker_round_wait(x->hub, &x->rq, &id, x->wait_ns, round_waited, x);
}

void rest_round_open(struct http_exchange *x, broker_open_done *then)
{
	struct round_limits limits;
	struct round_body body;
	struct err e = {0};
	int rc;

	round_limits_from_conf(hub_conf(x->hub), &limits);
	rc = round_body_parse(buf_ptr(&x->body), buf_len(&x->body), &limits, &body, &e);
	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	body.spec.agent = x->params[0];
	x->wait_ns = body.wait_ns;
	broker_open(x->hub, &x->rq, &body.spec, NULL, NULL, then, x);
	round_body_finish(&body);
}

void rest_round_start(struct http_exchange *x)
{
	rest_round_open(x, round_opened);
}

uint64_t rest_wait_ns(const struct http_exchange *x, int64_t wait_ms)
{
	struct round_limits l;
	uint64_t ns = (uint64_t)wait_ms * NS_PER_MS;

	round_limits_from_conf(hub_conf(x->hub), &l);
	if (wait_ms < 0)
		return l.wait_default_ns;
	return ns < l.wait_max_ns ? ns : l.wait_max_ns;
}

void rest_round_show(struct http_exchange *x)
{
	int64_t most = INT64_C(365) * 24 * 3600 * 1000, wait_ms = 0;
	struct err e = {0};
	int rc = http_query_int(x, "wait_ms", 0, most, &wait_ms, &e);

	if (rc == 0 && http_query_str(x, "wait_ms") && http_query_str(x, "yield_ms"))
		rc = err_set(&e, ERR_INVAL, "query parameters wait_ms and yield_ms are one: send one of them");
	if (rc == 0)
		rc = http_query_int(x, "yield_ms", 0, most, &wait_ms, &e);

	if (rc) {
		http_reply_error(x, rc, &e);
		return;
	}
	x->wait_ns = rest_wait_ns(x, wait_ms);
	x->waits = x->object;
	broker_round_wait(x->hub, &x->rq, &x->object, x->wait_ns, round_waited, x);
}

/* What a stdin call asks for; `owned` when the bytes were decoded. */
struct stdin_write {
	const uint8_t *p;
	size_t n;
	uint8_t *owned;
	uint64_t offset;
	bool eof;
};

static int stdin_parse(const json_t *o, struct stdin_write *w, struct err *e)
{
	const json_t *data = json_object_get(o, "data");
	const char *encoding = NULL;
	int64_t offset = -1;
	int rc = json_opt_str(o, "encoding", &encoding, e);

	if (rc == 0)
		rc = json_opt_int(o, "offset", 0, INT64_MAX, &offset, e);
	if (rc == 0)
		rc = json_opt_bool(o, "eof", &w->eof, e);
	if (rc)
		return rc;
	w->offset = offset < 0 ? UINT64_MAX : (uint64_t)offset;
	if (!data || json_is_null(data))
		return w->eof ? 0 : err_set(e, ERR_INVAL, "give data, or eof: true");
	if (!json_is_string(data))
		return err_set(e, ERR_INVAL, "data must be a string");
	return body_bytes("stdin", json_string_value(data), json_string_length(data), encoding, &w->p, &w->n, &w->owned,
			  e);
}

static void stdin_reply(struct http_exchange *x, const struct stdin_write *w, size_t taken)
{
	json_t *o = json_pack("{s:s,s:I,s:b}", "round_id", x->params[0], "taken", (json_int_t)taken, "eof",
			      w->eof && taken == w->n);

	http_reply_result(x, 0, NULL, o);
	json_decref(o);
}

/* Of a conflict the offset is told where its caller may go on. */
static void stdin_refuse(struct http_exchange *x, int rc, const struct err *e)
{
	uint64_t end;
	json_t *details = NULL;

	if (rc == ERR_CONFLICT && broker_round_stdin_end(x->hub, &x->rq, &x->object, &end, NULL) == 0)
		details = json_pack("{s:I}", "offset", (json_int_t)end);
	http_reply_error_with(x, rc, e, details);
	json_decref(details);
}

void rest_round_stdin(struct http_exchange *x)
{
	static const char *const keys[] = {"data", "encoding", "offset", "eof", NULL};
	struct stdin_write w = {0};
	json_t *o = NULL;
	struct err e = {0};
	size_t taken = 0;
	int rc = rest_body_object(x, keys, true, &o, &e);

	if (rc == 0)
		rc = stdin_parse(o, &w, &e);
	if (rc == 0)
		rc = broker_round_stdin(x->hub, &x->rq, &x->object, w.offset, w.p, w.n, w.eof, &taken, &e);
	if (rc)
		stdin_refuse(x, rc, &e);
	else
		stdin_reply(x, &w, taken);
	free(w.owned);
	json_decref(o);
}

/* "INT", "SIGINT" or a number. */
static int signal_of(const json_t *o, int *out, struct err *e)
{
	const json_t *v = json_object_get(o, "signal");
	char text[24];

	if (json_is_integer(v))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(v));
	else if (!json_is_string(v))
		return err_set(e, ERR_INVAL, "signal must be a name (\"INT\") or a number");
	return signal_parse(json_is_string(v) ? json_string_value(v) : text, out, e);
}

void rest_round_signal(struct http_exchange *x)
{
	static const char *const keys[] = {"signal", NULL};
	json_t *o = NULL, *result = NULL;
	struct err e = {0};
	int signum = 0;
	int rc = rest_body_object(x, keys, true, &o, &e);

	if (rc == 0)
		rc = signal_of(o, &signum, &e);
	if (rc == 0)
		rc = broker_round_signal(x->hub, &x->rq, &x->object, signum, &e);
	if (rc == 0)
		result = json_pack("{s:s,s:s}", "round_id", x->params[0], "signal", signal_name(signum));
	http_reply_result(x, rc, &e, result);
	json_decref(result);
	json_decref(o);
}
