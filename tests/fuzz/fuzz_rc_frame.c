// tier: check
/*
 * What an API server may say to an exec stream. The first byte chooses: a message
 * in pieces (the second byte cuts it), a status, an answer to the upgrade, frames.
 */
#include "base/wsframe.h"
#include "control/kube/exec/rc_answer.h"
#include "control/kube/exec/rc_frame.h"
#include "control/kube/exec/rc_status.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* However it is cut, the channel is the first byte and the bytes are the others. */
static void message(const uint8_t *p, size_t n)
{
	struct rc_decoder d = {0};
	struct rc_piece piece;
	size_t step, at = 1;
	bool ended = false;

	if (n < 2)
		return;
	step = p[0] ? p[0] : 1;
	p++;
	n--;
	for (size_t i = 0; i < n; i += step) {
		size_t have = n - i < step ? n - i : step;

		if (!rc_decode(&d, p + i, have, i + have == n, &piece))
			continue;
		must(!ended && piece.channel == p[0]);
		must(at + piece.n <= n && (piece.n == 0 || memcmp(piece.p, p + at, piece.n) == 0));
		at += piece.n;
		ended = piece.end;
	}
	must(at == n && ended && !d.inside);
}

static void status(const uint8_t *p, size_t n)
{
	struct rc_exit x = {.cause = RC_LOST, .code = -7};
	struct err e = {0};
	int rc = rc_status_parse(p, n, n & 1, &x, &e);

	must(rc == 0 ? x.cause != RC_LOST && (x.cause == RC_EXITED) == (x.code >= 0) : x.code == -7 && e.code);
	must((x.err.code == 0) == (rc != 0 || x.cause == RC_EXITED));
}

static void answer(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	struct rc_answer r = {0};
	char protocol[32];

	for (int how = 0; copy && how < 4; how++) {
		memcpy(copy, p, n);
		r = (struct rc_answer){0};
		if (rc_answer_parse(copy, n, how & 1, how & 2, &r) != 1) {
			must(r.status == 0);
			continue;
		}
		must(r.status >= 100 && r.status < 1000 && r.head_len <= n && r.body >= copy &&
		     r.body + r.body_len <= copy + n);
		if (r.status == 101 && rc_answer_check(copy, r.head_len, "dGhlIHNhbXBsZSBub25jZQ==", "a, b", protocol,
						       sizeof(protocol), NULL) == 0)
			must(strlen(protocol) < sizeof(protocol));
	}
	free(copy);
}

/* However frames are cut, the same bytes come out, and the same end. */
static void wire(const uint8_t *p, size_t n, size_t step, uint64_t *sum, int *out_rc)
{
	struct wsframe w = {0};
	struct wsframe_event ev;
	ssize_t took = 0;

	*sum = 0;
	for (size_t i = 0; i < n && took >= 0; i += step) {
		size_t have = n - i < step ? n - i : step;

		for (const uint8_t *at = p + i; have > 0; at += took, have -= (size_t)took) {
			took = wsframe_decode(&w, (uint8_t *)(uintptr_t)at, have, &ev, NULL);
			if (took < 0)
				break;
			must(took > 0 && (size_t)took <= have);
			must(ev.kind != WSFRAME_DATA || ev.n == 0 || (ev.p >= at && ev.p + ev.n <= at + took));
			must(ev.kind == WSFRAME_DATA || ev.n <= WSFRAME_CONTROL_MAX);
			for (size_t k = 0; k < ev.n; k++)
				*sum = *sum * 31 + ev.p[k] + 1;
			if (ev.last)
				*sum = *sum * 31 + 7;
		}
	}
	*out_rc = took < 0 ? (int)took : 0;
}

static void frames(const uint8_t *p, size_t n)
{
	uint64_t whole, bytes;
	int rc_whole, rc_bytes;

	wire(p, n, n ? n : 1, &whole, &rc_whole);
	wire(p, n, 1, &bytes, &rc_bytes);
	must(rc_whole == rc_bytes && whole == bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 4 == 0)
		message(data + 1, size - 1);
	else if (data[0] % 4 == 1)
		status(data + 1, size - 1);
	else if (data[0] % 4 == 2)
		answer(data + 1, size - 1);
	else
		frames(data + 1, size - 1);
	return 0;
}
