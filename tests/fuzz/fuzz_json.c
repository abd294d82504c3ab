// tier: check
/* Bodies and messages of peers: json_parse() and every look-up on what it lets through. */
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static void look_up(const json_t *o, const char *key)
{
	const char *s = NULL;
	int64_t n = 0;
	bool b = false;
	struct err e = {0};

	if (json_need_str(o, key, &s, &e) == 0)
		require(s && utf8_valid((const uint8_t *)s, strlen(s)));
	else
		require(e.code == ERR_INVAL && utf8_valid((const uint8_t *)e.message, strlen(e.message)));
	if (json_need_int(o, key, -5, 5, &n, &e) == 0)
		require(n >= -5 && n <= 5);
	json_opt_bool(o, key, &b, &e);
}

/* What was taken is written and taken again, the same. */
static void round_trip(const json_t *o)
{
	char *text = json_text(o);
	json_t *again = NULL;
	struct buf b;

	require(text != NULL);
	require(json_parse(text, strlen(text), SIZE_MAX, &again, NULL) == 0 && json_equal(o, again));
	buf_init(&b, 1 << 20);
	if (json_append(&b, o) == 0)
		require(buf_len(&b) == strlen(text) && memcmp(buf_ptr(&b), text, buf_len(&b)) == 0);
	buf_finish(&b);
	bool is_true = false;
	require((json_scan_true(text, strlen(text), "op", &is_true) == 0) == json_is_object(o));
	require(is_true == json_is_true(json_object_get(o, "op")));
	json_decref(again);
	free(text);
}

static void base64_round_trip(const uint8_t *data, size_t size)
{
	for (int url = 0; url < 2; url++) {
		uint8_t *bytes = NULL;
		size_t n = 0;
		if (base64_decode((const char *)data, size, url, &bytes, &n) < 0)
			continue;
		char *text = base64_encode(bytes, n, url);
		require(text && strlen(text) == size && memcmp(text, data, size) == 0);
		free(text);
		free(bytes);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = {"op", "agent", "argv", "timeout_ms", NULL};
	json_t *o = NULL, *bytes = json_object();
	struct err e = {0};
	bool is_true;

	if (json_parse(data, size, 64 * 1024, &o, &e) == 0) {
		for (size_t i = 0; keys[i]; i++)
			look_up(o, keys[i]);
		json_only_keys(o, keys, &e);
		round_trip(o);
		json_decref(o);
	}
	(void)json_scan_true(data, size, "op", &is_true);
	require(bytes && json_set_bytes(bytes, "data", "encoding", data, size) == 0);
	json_decref(bytes);
	base64_round_trip(data, size);
	return 0;
}
