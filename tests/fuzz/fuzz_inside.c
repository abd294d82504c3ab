// tier: check
/*
 * Output of an MCP server inside a sandbox, and the list that configures one: both are strangers'. Lines come out the
 * same in whatever pieces they came, a message has the members that its kind promises, tools have fingerprints that do
 * not depend on the order of members, and a list that is taken is taken again as it is.
 */
#include "base/err.h"
#include "control/servers/catalogue.h"
#include "control/servers/server_def.h"
#include "muxd/hub/inside/inside_line.h"
#include "muxd/hub/inside/inside_question.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tools(const json_t *result)
{
	json_t *tools = json_object_get(result, "tools"), *seen = NULL, *again = NULL, *changes;
	struct err e = {0};

	if (!json_is_array(tools) || catalogue_fingerprints(tools, &seen, &e))
		return;
	if (json_object_size(seen) != json_array_size(tools) || catalogue_fingerprints(tools, &again, &e) ||
	    !json_equal(seen, again))
		abort();
	changes = catalogue_changes(seen, again);
	if (json_array_size(changes))
		abort();
	json_decref(changes);
	json_decref(seen);
	json_decref(again);
}

/* A request that is a question becomes one whole, or says why not. */
static void check_question(const struct inside_line *l)
{
	enum question_kind k = l->kind == INSIDE_REQUEST ? question_kind_of(l->method) : 0;
	struct inside_question *q;
	const char *why = NULL;
	json_t *params;

	if (!k)
		return;
	if (strcmp(question_method(k), l->method) != 0 || !question_name(k)[0])
		abort();
	q = question_read(k, l->id, l->params, &why);
	if (!q && !why)
		abort();
	params = q ? question_params(q) : NULL;
	if (q && (!json_equal(q->id, l->id) || !json_is_object(params) || json_object_get(params, "_meta") ||
		  q->named != (q->key[0] != '\0') || strlen(q->key) > QUESTION_KEY_MAX))
		abort();
	json_decref(params);
	question_free(q);
	(void)question_answer_fits(l->params);
}

static void check_line(const uint8_t *p, size_t n)
{
	struct inside_line l;

	inside_line_read(p, n, &l);
	switch (l.kind) {
	case INSIDE_GARBAGE:
		if (l.root || l.id || l.method)
			abort();
		break;
	case INSIDE_RESULT:
	case INSIDE_ERROR:
		if (!l.id || l.method || (l.result != NULL) == (l.error != NULL) || l.number < 0)
			abort();
		check_tools(l.result);
		break;
	case INSIDE_REQUEST:
	case INSIDE_NOTIFICATION:
		if (!l.method || (l.id != NULL) != (l.kind == INSIDE_REQUEST) ||
		    (l.params && !json_is_object(l.params)))
			abort();
		check_question(&l);
		break;
	}
	inside_line_finish(&l);
}

/* A digest of all lines, fed in pieces of so many bytes. */
static uint64_t feed(const uint8_t *data, size_t size, size_t piece, bool check)
{
	struct inside_lines l;
	const uint8_t *p;
	uint64_t sum = 1469598103934665603u;
	size_t n;

	inside_lines_init(&l);
	for (size_t at = 0; at < size; at += piece) {
		if (inside_lines_feed(&l, data + at, size - at < piece ? size - at : piece))
			break;
		while (inside_lines_next(&l, &p, &n)) {
			if (memchr(p, '\n', n))
				abort();
			for (size_t i = 0; i <= n; i++)
				sum = (sum ^ (i < n ? p[i] : '\n')) * 1099511628211u;
			if (check)
				check_line(p, n);
		}
	}
	inside_lines_finish(&l);
	return sum;
}

static void check_list(const uint8_t *data, size_t size)
{
	json_t *list = NULL, *taken = NULL, *again = NULL;
	struct server_def d;
	struct err e = {0};

	if (json_parse(data, size, PROGRAM_LIST_MAX, &list, NULL))
		return;
	if (server_list_check(list, &taken, &e) == 0) {
		const char *first = json_get_text(json_array_get(taken, 0), "name");

		if (server_list_check(taken, &again, &e) || !json_equal(taken, again) ||
		    (*first && server_list_find(taken, first, &d, &e)))
			abort();
	} else if (!e.code || !e.message[0]) {
		abort();
	}
	json_decref(again);
	json_decref(taken);
	json_decref(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece = size ? data[0] % 32 + 1u : 1;

	if (feed(data, size, size ? size : 1, true) != feed(data, size, piece, false))
		abort();
	check_line(data, size);
	check_list(data, size);
	return 0;
}
