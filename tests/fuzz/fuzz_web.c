// tier: check
/*
 * What a browser sends: a terminal's messages, and the headers Cookie and Origin. The
 * first byte chooses. A message that is taken is within its bounds, and points into
 * what was given.
 */
#include "base/err.h"
#include "base/wire.h"
#include "muxd/doors/https/origin.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void message(const uint8_t *p, size_t n)
{
	struct web_message m;
	struct err e = {0};

	if (web_wire_parse(p, n, &m, &e)) {
		if (e.code != ERR_INVAL || !e.message[0])
			abort();
		return;
	}
	if (n == 0 || n > WIRE_CLIENT_MAX || m.p != p + 1 || m.n != n - 1)
		abort();
	if (m.type == WIRE_RESIZE && (m.cols < 1 || m.cols > WIRE_SIZE_MAX || m.rows < 1 || m.rows > WIRE_SIZE_MAX))
		abort();
	if (m.type == WIRE_WINDOW && m.stream != 1 && m.stream != 2)
		abort();
	if (m.type == WIRE_SIGNAL && (m.signal < 1 || m.signal > 64))
		abort();
}

static const uint8_t cookie_key[WEB_COOKIE_KEY_LEN] = "a key of the tests";

static void headers(const uint8_t *data, size_t n)
{
	char *text = malloc(n + 1), token[64];
	size_t len;

	if (!text)
		return;
	memcpy(text, data, n);
	text[n] = '\0';
	len = web_cookie_token(text, token, sizeof(token));
	if (len >= sizeof(token) || (len && (strlen(token) != len || strchr(token, ';'))))
		abort();
	if (len && web_cookie_unmark(cookie_key, token)) /* nobody has the key */
		abort();
	if (len && (strlen(token) > len || strchr(token, '~')))
		abort();
	/* what differs from the host by a byte is another origin */
	if (web_origin_check(&(struct web_origin){.origin = text, .host = "muxd.example"}, true, NULL) == 0 &&
	    strcasecmp(text, "https://muxd.example") != 0)
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] & 1)
		headers(data + 1, size - 1);
	else
		message(data + 1, size - 1);
	return 0;
}
