/*
 * Another muxd. It countersigns what was proven to extend the head that it has: it says behind which entry it wants
 * more, and is sent the entries, a batch at a time, until it gets to the head.
 */
#include "base/err.h"
#include "muxd/witness/home.h"
#include "muxd/witness/https.h"
#include "muxd/witness/kind.h"

#include <stdio.h>
#include <string.h>

#define BATCHES_MAX 100000

static int post(const struct kind_call *c, const json_t *body, json_t **out, struct err *e)
{
	char url[1024];
	struct https_call call = {
	    .url = url, .token = c->token, .ca = c->ca, .body = body, .timeout_ns = c->conf->timeout_ns};
	const char *base = c->conf->url, *slash = base[strlen(base) - 1] == '/' ? "" : "/";
	long status = 0;
	int rc;

	if ((size_t)snprintf(url, sizeof url, "%s%sv1/witness/heads", base, slash) >= sizeof url)
		return err_set(e, ERR_INVAL, "the witness's URL is too long");
	rc = https_do(&call, &status, out, e);
	if (rc == 0 && !json_object_get(*out, "state")) {
		rc = https_refused(url, status, *out, e);
		json_decref(*out);
	}
	return rc;
}

/* The head and what is behind `after`. */
static int next_body(const struct kind_call *c, int64_t after, json_t **out, struct err *e)
{
	json_t *batch = NULL;
	int rc = home_ask(
	    c->home,
	    json_pack("{s:s, s:I, s:I}", "op", "entries", "after", (json_int_t)after, "until", (json_int_t)c->seq),
	    &batch, e);

	if (rc)
		return rc;
	(void)json_object_del(batch, "end");
	if (json_object_set(batch, "head", (json_t *)(uintptr_t)c->head)) {
		json_decref(batch);
		return err_set(e, ERR_NOMEM, "no memory for entries");
	}
	*out = batch;
	return 0;
}

/* 1: once more, with *body. */
static int kind_muxd_judge(const struct kind_call *c, const json_t *answer, int64_t *at, json_t **body, json_t **out,
			   struct err *e)
{
	const char *state = json_string_value(json_object_get(answer, "state"));
	int64_t after = 0;
	int rc;

	if (state && strcmp(state, "kept") == 0) {
		*out = json_incref(json_object_get(answer, "receipt"));
		return json_is_object(*out) ? 0 : err_set(e, ERR_PROTOCOL, "the witness sent no receipt");
	}
	if (state && strcmp(state, "more") == 0) {
		rc = json_need_int(answer, "after", 0, INT64_MAX - 1, &after, e);
		if (rc == 0 && (after <= *at || after >= c->seq))
			rc = err_set(e, ERR_PROTOCOL, "the witness asks for the same entries again");
		*at = after;
		if (rc == 0)
			rc = next_body(c, after, body, e);
		return rc ? rc : 1;
	}
	rc = home_known(c->home, c->conf->name, json_object_get(answer, "newest"), e);
	return rc ? rc : err_set(e, ERR_CONFLICT, "the witness refused the head (%.20s)", state ? state : "no state");
}

int kind_muxd_send(const struct kind_call *c, json_t **out, struct err *e)
{
	json_t *body = json_pack("{s:O}", "head", c->head), *answer = NULL;
	int64_t at = -1;
	int rc = body ? 1 : err_set(e, ERR_NOMEM, "no memory for a head");

	for (int i = 0; rc == 1 && i < BATCHES_MAX; i++) {
		rc = post(c, body, &answer, e);
		json_decref(body);
		body = NULL;
		if (rc == 0) {
			rc = kind_muxd_judge(c, answer, &at, &body, out, e);
			json_decref(answer);
			answer = NULL;
		}
	}
	json_decref(body);
	return rc == 1 ? err_set(e, ERR_TOO_LARGE, "the witness wants too many entries") : rc;
}
