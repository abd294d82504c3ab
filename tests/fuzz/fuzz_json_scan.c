// tier: check
/*
 * Long answers of a sandbox, which are passed on without a tree: what the scanner accepts json_parse() accepts, as an
 * object whose own keys are none of ours, and it is read so behind our members as well.
 */
#include "base/json.h"
#include "base/json_scan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

static const char *const own[] = {"op", "session", NULL};

/* As the door does it. */
static void with_ours(const uint8_t *data, size_t len, const json_t *read)
{
	static const char ours[] = "\"op\":\"list\",\"session\":\"7\"}";
	char *text = malloc(len + sizeof(ours));
	json_t *both = NULL;
	size_t n;

	require(text != NULL);
	memcpy(text, data, len - 1);
	n = len - 1;
	if (len > 2)
		text[n++] = ',';
	memcpy(text + n, ours, sizeof(ours) - 1);
	n += sizeof(ours) - 1;
	require(json_parse(text, n, SIZE_MAX, &both, NULL) == 0);
	require(json_object_size(both) == json_object_size(read) + 2);
	require(strcmp(json_get_text(both, "session"), "7") == 0);
	json_object_del(both, "op");
	json_object_del(both, "session");
	require(json_equal(both, (json_t *)(uintptr_t)read));
	json_decref(both);
	free(text);
}

/* A member that the scanner finds in a whole object is the one that the parser finds. */
static void check_member(const uint8_t *data, size_t size, const char *key)
{
	struct json_scan_span v = {NULL, 0};
	json_t *read = NULL, *alone = NULL;
	char *boxed;

	if (!json_scan_member(data, size, key, &v))
		return;
	require(v.p >= (const char *)data && v.n && v.p + v.n < (const char *)data + size);
	if (json_parse(data, size, SIZE_MAX, &read, NULL))
		return;
	boxed = malloc(v.n + 2);
	require(boxed != NULL);
	boxed[0] = '[';
	memcpy(boxed + 1, v.p, v.n);
	boxed[v.n + 1] = ']';
	require(json_parse(boxed, v.n + 2, SIZE_MAX, &alone, NULL) == 0 && json_array_size(alone) == 1);
	require(json_equal(json_array_get(alone, 0), json_object_get(read, key)));
	json_decref(alone);
	json_decref(read);
	free(boxed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *read = NULL;
	size_t len = 0;

	check_member(data, size, "id");
	check_member(data, size, "result");
	if (!json_scan_object(data, size, own, &len))
		return 0;
	require(len >= 2 && (len == size || (len + 1 == size && data[len] == '\n')));
	require(json_parse(data, size, SIZE_MAX, &read, NULL) == 0 && json_is_object(read));
	for (size_t i = 0; own[i]; i++)
		require(!json_object_get(read, own[i]));
	with_ours(data, len, read);
	json_decref(read);
	return 0;
}
