#include "muxd/hub/inside/inside_answer.h"

#include "base/text.h"

#include <string.h>

#define ASKS_PEOPLE (-32042) /* 2025-11-25: URLElicitationRequiredError */
#define WORD_MAX    60

void inside_word(char *out, size_t size, const char *text)
{
	size_t n = text_cut(text, strlen(text), WORD_MAX);

	text_put_bytes(out, size, text, n);
}

bool inside_answer_clean(json_t *result, json_t *error, char *out, size_t size)
{
	const json_t *type = json_object_get(result, "resultType");
	char word[WORD_MAX + 4];

	if (type && (!json_is_string(type) || strcmp(json_string_value(type), "complete") != 0)) {
		inside_word(word, sizeof(word), json_is_string(type) ? json_string_value(type) : "of no text");
		text_format(out, size, "resultType %s", word);
		return false;
	}
	if (json_is_number(json_object_get(error, "code")) &&
	    json_number_value(json_object_get(error, "code")) == ASKS_PEOPLE) {
		text_format(out, size, "error %d", ASKS_PEOPLE);
		return false;
	}
	json_object_del(result, "inputRequests");
	json_object_del(result, "requestState");
	json_object_del(json_object_get(error, "data"), "elicitations");
	return true;
}

void inside_params_clean(json_t *params)
{
	json_object_del(params, "inputResponses");
	json_object_del(params, "requestState");
}
