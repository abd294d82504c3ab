/*
 * A time-stamping authority (RFC 3161, over HTTP or HTTPS): it signs that the entry which the head covers was there.
 * The carrier sees to it that the answer is to its question; who signed it the recorder checks, which keeps it.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/timestamp.h"
#include "muxd/witness/https.h"
#include "muxd/witness/kind.h"

#include <stdlib.h>
#include <string.h>

static int hash_of(const json_t *head, uint8_t out[TIMESTAMP_HASH], struct err *e)
{
	const char *text = NULL;
	int rc = json_need_str(head, "hash", &text, e);

	if (rc == 0 && (strlen(text) != 2 * TIMESTAMP_HASH || strspn(text, "0123456789abcdef") != 2 * TIMESTAMP_HASH))
		rc = err_set(e, ERR_PROTOCOL, "the head's hash is malformed");
	for (size_t i = 0; rc == 0 && i < TIMESTAMP_HASH; i++) {
		const char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
		out[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return rc;
}

static int exchange(const struct kind_call *c, const uint8_t *ask, size_t ask_n, struct buf *answer, struct err *e)
{
	const struct https_call call = {.url = c->conf->url,
					.token = c->token,
					.ca = c->ca,
					.bytes = ask,
					.bytes_n = ask_n,
					.type = "application/timestamp-query",
					.plain = true,
					.timeout_ns = c->conf->timeout_ns};
	long status = 0;
	int rc = https_bytes(&call, &status, answer, e);

	if (rc == 0 && status != 200)
		rc = err_set(e, ERR_UNAVAILABLE, "%s answered %ld", c->conf->url, status);
	return rc;
}

int kind_timestamp_send(const struct kind_call *c, json_t **out, struct err *e)
{
	uint8_t hash[TIMESTAMP_HASH], *ask = NULL;
	char *text = NULL;
	size_t ask_n = 0;
	struct buf answer;
	int rc = hash_of(c->head, hash, e);

	buf_init(&answer, TIMESTAMP_MAX);
	if (rc == 0)
		rc = timestamp_ask(hash, &ask, &ask_n, e);
	if (rc == 0)
		rc = exchange(c, ask, ask_n, &answer, e);
	if (rc == 0)
		rc = timestamp_answers(ask, ask_n, buf_ptr(&answer), buf_len(&answer), e);
	if (rc == 0)
		text = base64_encode(buf_ptr(&answer), buf_len(&answer), false);
	if (rc == 0 &&
	    (!text || !(*out = json_pack("{s:s, s:I}", "tsr", text, "witness_wall_ns", (json_int_t)clock_wall_ns()))))
		rc = err_set(e, ERR_NOMEM, "no memory for a receipt");
	free(text);
	free(ask);
	buf_finish(&answer);
	return rc;
}
