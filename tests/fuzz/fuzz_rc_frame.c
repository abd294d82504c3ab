/*
 * What an API server may say to an exec stream. The first byte chooses: a message
 * in pieces (the second byte cuts it), a status, an answer to the upgrade.
 */
#include "control/kube/rc_frame.h"
#include "control/kube/rc_refusal.h"
#include "control/kube/rc_status.h"

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
	struct rc_refusal r = {0};

	for (int eof = 0; copy && eof < 2; eof++) {
		memcpy(copy, p, n);
		if (rc_refusal_parse(copy, n, eof, &r) == 1)
			must(r.status >= 100 && r.status < 1000 && r.body >= copy && r.body_len <= n &&
			     r.body + r.body_len <= copy + n);
		else
			must(r.status == 0);
	}
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] % 3 == 0)
		message(data + 1, size - 1);
	else if (data[0] % 3 == 1)
		status(data + 1, size - 1);
	else
		answer(data + 1, size - 1);
	return 0;
}
