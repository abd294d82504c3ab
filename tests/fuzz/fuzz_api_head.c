// tier: check
/*
 * What is looked at before libwebsockets sees a request: heads, whole and in pieces (the first byte says how long).
 * Pieces change nothing, a head that may go on has one Host, one length, its end where it says, and a path without
 * what libwebsockets folds.
 */
#include "base/err.h"
#include "muxd/doors/https/api_head.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decoded at once, and looked at as a whole. */
static void is_straight(struct http1_text target)
{
	char path[API_HEAD_MAX + 2] = "";
	size_t len = 0;

	for (size_t i = 0; i < target.n && target.p[i] != '?'; i++) {
		char c = target.p[i], digits[3] = "";

		if (strchr("+&;", c))
			abort();
		if (c == '%') {
			memcpy(digits, target.p + i + 1, 2);
			c = (char)strtoul(digits, NULL, 16);
			i += 2;
		}
		path[len++] = c;
	}
	if (strstr(path, "//") || strstr(path, "/./") || strstr(path, "/../") || strstr(path, "/..?"))
		abort();
	if ((len > 1 && memcmp(path + len - 2, "/.", 2) == 0) || (len > 2 && memcmp(path + len - 3, "/..", 3) == 0))
		abort();
}

static void is_fit(const uint8_t *data, size_t size, const struct api_head *head)
{
	const struct http1_field *host;
	struct http1_head h;

	if (head->len > size || head->unfit || http1_request(data, head->len, &h, NULL) != 1 || h.len != head->len)
		abort();
	host = http1_find(&h, "Host", NULL);
	if ((h.minor && !host) || (host && http1_find(&h, "Host", host)))
		abort();
	if (http1_find(&h, "Content-Length", NULL) && http1_find(&h, "Transfer-Encoding", NULL))
		abort();
	if (head->routed)
		return;
	if (head->len > API_HEAD_MAX || *h.target.p != '/' || memchr(data, 0, head->len))
		abort();
	is_straight(h.target);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_head whole, part;
	size_t step, seen = 0;
	int rc, got = 0;

	if (size < 2)
		return 0;
	const char *serves = data[0] & 1 ? "8888" : NULL;
	step = data[0] + 1u;
	data++, size--;
	rc = api_head_read(data, size, 0, serves, &whole, NULL);
	if (rc == 1)
		is_fit(data, size, &whole);
	for (size_t n = step < size ? step : size; got == 0 && seen < size; n = n + step < size ? n + step : size) {
		got = api_head_read(data, n, seen, serves, &part, NULL);
		seen = n;
		if (got == 0 && part.unfit) /* somebody else reads on */
			return 0;
	}
	/* an Upgrade with something behind it is refused when that came with it */
	if (rc == 1 &&
	    (got != 1 || part.len != whole.len || part.routed != whole.routed || part.served != whole.served))
		abort();
	if (got == 1)
		is_fit(data, size, &part);
	return 0;
}
