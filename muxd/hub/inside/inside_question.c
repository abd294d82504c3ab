#include "muxd/hub/inside/inside_question.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	enum question_kind kind;
	const char *name, *method;
} kinds[] = {{QUESTION_ELICITATION, "elicitation", "elicitation/create"},
	     {QUESTION_SAMPLING, "sampling", "sampling/createMessage"},
	     {QUESTION_ROOTS, "roots", "roots/list"}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *question_name(enum question_kind k)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].kind == k)
			return kinds[i].name;
	return "";
}

const char *question_method(enum question_kind k)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].kind == k)
			return kinds[i].method;
	return "";
}

enum question_kind question_kind_of(const char *method)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(kinds[i].method, method) == 0)
			return kinds[i].kind;
	return 0;
}

unsigned question_kinds(const json_t *names)
{
	unsigned bits = 0;
	const json_t *v;
	size_t i;

	json_array_foreach(names, i,
			   v) for (size_t k = 0; k < KINDS;
				   k++) if (json_is_string(v) && strcmp(json_string_value(v), kinds[k].name) == 0)
	    bits |= (unsigned)kinds[k].kind;
	return bits;
}

/* Without members elicitation is that by forms; else `form` says it. */
static bool takes_forms(const json_t *v)
{
	return json_object_size(v) == 0 || json_object_get(v, "form");
}

unsigned question_declared(const json_t *capabilities)
{
	unsigned bits = 0;

	for (size_t k = 0; k < KINDS; k++) {
		const json_t *v = json_object_get(capabilities, kinds[k].name);

		if (json_is_object(v) && (kinds[k].kind != QUESTION_ELICITATION || takes_forms(v)))
			bits |= (unsigned)kinds[k].kind;
	}
	return bits;
}

json_t *question_capabilities(unsigned bits)
{
	json_t *o = json_object();

	for (size_t k = 0; o && k < KINDS; k++)
		if (bits & (unsigned)kinds[k].kind)
			json_object_set_new(o, kinds[k].name, json_object());
	return o;
}

/* ---- one */

static const char *fault_of(enum question_kind k, const json_t *params)
{
	const json_t *mode = json_object_get(params, "mode");

	if (k == QUESTION_ELICITATION && mode &&
	    (!json_is_string(mode) || strcmp(json_string_value(mode), "form") != 0))
		return "only forms can be asked for: people are sent to no address";
	if (k == QUESTION_SAMPLING && (json_object_get(params, "tools") || json_object_get(params, "toolChoice")))
		return "a model is asked without tools";
	return NULL;
}

static bool is_key(const char *key)
{
	size_t n = strlen(key);

	return n && n <= QUESTION_KEY_MAX &&
	       strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n;
}

/* Without _meta. NULL: no memory. */
static char *params_text(const json_t *params)
{
	json_t *o = params ? json_copy((json_t *)(uintptr_t)params) : json_object();
	char *text;

	json_object_del(o, "_meta");
	text = o ? json_text(o) : NULL;
	json_decref(o);
	return text;
}

struct inside_question *question_read(enum question_kind k, const json_t *id, const json_t *params, const char **why)
{
	const char *key = json_get_text(json_object_get(params, "_meta"), QUESTION_KEY);
	struct inside_question *q;

	*why = fault_of(k, params);
	if (*why)
		return NULL;
	*why = "no memory for a question";
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->kind = k;
	q->id = json_deep_copy(id);
	q->params = params_text(params);
	if (!q->id || !q->params) {
		question_free(q);
		return NULL;
	}
	q->bytes = sizeof(*q) + strlen(q->params) + json_string_length(q->id);
	if (json_count_values(q->params, strlen(q->params)) > QUESTION_VALUES) {
		*why = "it has more than 2000 values";
		question_free(q);
		return NULL;
	}
	if (is_key(key)) {
		text_put(q->key, sizeof(q->key), key);
		q->named = true;
	}
	return q;
}

void question_free(struct inside_question *q)
{
	if (!q)
		return;
	json_decref(q->id);
	free(q->params);
	free(q->answer);
	free(q);
}

json_t *question_params(const struct inside_question *q)
{
	json_t *o = NULL;

	return json_parse(q->params, strlen(q->params), SIZE_MAX, &o, NULL) ? NULL : o;
}

bool question_answer_fits(const json_t *answer)
{
	const json_t *result = json_object_get(answer, "result"), *error = json_object_get(answer, "error");

	if (!result == !error)
		return false;
	return result ? json_is_object(result)
		      : json_is_integer(json_object_get(error, "code")) &&
			    json_is_string(json_object_get(error, "message"));
}
