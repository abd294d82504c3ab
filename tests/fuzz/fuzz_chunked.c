// tier: check
/*
 * The framing of chunked bodies. The first byte is the size of the pieces it is
 * fed in; the result must not depend on it, nor pass the buffer's limit.
 */
#include "base/buf.h"
#include "base/err.h"
#include "muxd/doors/https/chunked.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX 1024

static int feed(const uint8_t *p, size_t n, size_t step, struct buf *out, bool *out_done)
{
	struct chunked c = {0};
	int rc = 0;

	buf_init(out, MAX);
	while (n && rc == 0) {
		size_t take = n < step ? n : step;

		rc = chunked_feed(&c, p, take, out);
		p += take;
		n -= take;
	}
	*out_done = chunked_done(&c);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, pieces;
	bool done_whole, done_pieces;
	int a, b;

	if (size < 2)
		return 0;
	a = feed(data + 1, size - 1, size, &whole, &done_whole);
	b = feed(data + 1, size - 1, data[0] % 16 + 1u, &pieces, &done_pieces);
	if (buf_len(&whole) > MAX || buf_len(&pieces) > MAX || done_whole != done_pieces)
		abort();
	/* a chunk that is too large for the buffer may have come in part when it comes in pieces */
	if (a != b ||
	    (a == 0 && (buf_len(&whole) != buf_len(&pieces) ||
			(buf_len(&whole) && memcmp(buf_ptr(&whole), buf_ptr(&pieces), buf_len(&whole)) != 0))))
		abort();
	buf_finish(&whole);
	buf_finish(&pieces);
	return 0;
}
