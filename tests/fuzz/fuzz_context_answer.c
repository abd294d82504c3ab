// tier: check
/*
 * The lines of an execution, which are a stranger's. An answer comes of anything, it is within its bounds, and it can
 * be written as JSON; the same bytes as text of an answer's own line come back as they went in.
 */
#include "base/buf.h"
#include "muxd/hub/broker/context_answer.h"
#include "muxd/hub/session/contexts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t held(const json_t *o, const char *stream)
{
	const json_t *s = json_object_get(o, stream), *data = json_object_get(s, "data");
	size_t n = json_string_length(data);

	if (strcmp(json_get_text(s, "encoding"), "base64") == 0)
		n = n / 4 * 3;
	if (json_integer_value(json_object_get(s, "total_bytes")) < 0)
		abort();
	return n;
}

static void check_answer(const json_t *o)
{
	const json_t *results = json_object_get(o, "results"), *error = json_object_get(o, "error");
	char *text = json_text(o);

	if (!text || held(o, "stdout") + held(o, "stderr") > CONTEXT_TEXT_MAX + 4 ||
	    json_array_size(results) > CONTEXT_RESULTS_MAX ||
	    json_array_size(json_object_get(error, "frames")) > CONTEXT_FRAMES_MAX ||
	    json_string_length(json_object_get(error, "traceback")) > CONTEXT_TRACEBACK_MAX)
		abort();
	free(text);
}

/* Bytes that an interpreter tells of honestly. */
static void check_honest(const uint8_t *data, size_t size)
{
	char *code = base64_encode(data, size, false), *back;
	json_t *line = code ? json_pack("{s:s,s:s}", "type", "stdout", "base64", code) : NULL;
	const json_t *out;
	struct buf b;
	json_t *o;

	buf_init(&b, SIZE_MAX);
	if (!line || json_append(&b, line) || buf_append_str(&b, "\n"))
		abort();
	o = context_answer(buf_ptr(&b), buf_len(&b));
	out = json_object_get(o, "stdout");
	back = strcmp(json_get_text(out, "encoding"), "base64") == 0
		   ? strdup(json_get_text(out, "data"))
		   : base64_encode(json_get_text(out, "data"), json_string_length(json_object_get(out, "data")), false);
	if (size <= CONTEXT_TEXT_MAX && strcmp(back, code) != 0)
		abort();
	free(back);
	free(code);
	json_decref(o);
	json_decref(line);
	buf_finish(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *o = context_answer(data, size);

	if (!o)
		abort();
	check_answer(o);
	json_decref(o);
	check_honest(data, size);
	return 0;
}
