#include "base/json.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define JSON_DEPTH_MAX  32
#define JSON_NESTED_MAX 64
#define LEFT_OUT        "left out: nested more than 16 levels deep"
_Static_assert(JSON_STORED_DEPTH == 16, "say so in LEFT_OUT");

struct json_cost {
	size_t values;
	bool too_deep;
};

/*
 * The cost of a text, ahead of the parser: jansson's own limit of depth (2048 levels) is compiled in, and it has none
 * of values. A comma counts in a list alone, as members of an object have a colon each.
 */
static struct json_cost json_cost_of(const char *p, size_t len, int levels)
{
	struct json_cost c = {.values = 1};
	uint64_t lists = 0; /* a bit for each open level, the innermost in bit 0 */
	bool in_string = false;
	int depth = 0;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (p[i] == '\\')
				i++;
			else if (p[i] == '"')
				in_string = false;
			continue;
		}
		switch (p[i]) {
		case '"':
			in_string = true;
			break;
		case '{':
		case '[':
			lists = lists << 1 | (p[i] == '[');
			c.values += p[i] == '[';
			c.too_deep = c.too_deep || ++depth > levels;
			break;
		case '}':
		case ']':
			lists >>= 1;
			depth--;
			break;
		case ':':
			c.values++;
			break;
		case ',':
			c.values += lists & 1;
			break;
		default:
			break;
		}
	}
	return c;
}

size_t json_count_values(const void *p, size_t len)
{
	return json_cost_of(p, len, JSON_DEPTH_MAX).values;
}

/* jansson's text quotes the input, which may hold a token; ours does not. */
static const char *json_fault(enum json_error_code code)
{
	switch (code) {
	case json_error_out_of_memory:
		return "memory ran out";
	case json_error_duplicate_key:
		return "a key stands twice in one object";
	case json_error_premature_end_of_input:
		return "it ends too early";
	case json_error_end_of_input_expected:
		return "something follows the value";
	case json_error_invalid_utf8:
		return "it is not UTF-8";
	case json_error_null_character:
	case json_error_null_byte_in_key:
		return "it holds a NUL character";
	case json_error_numeric_overflow:
		return "a number is out of range";
	default:
		return "syntax error";
	}
}

static int json_parse_bounded(const void *p, size_t len, size_t max, int levels, size_t values, json_t **out,
			      struct err *e)
{
	struct json_cost cost;
	json_error_t fault;

	if (len > max)
		return err_set(e, ERR_TOO_LARGE, "JSON of %zu bytes, %zu are allowed", len, max);
	if (len == 0)
		return err_set(e, ERR_INVAL, "not JSON: it is empty");
	cost = json_cost_of(p, len, levels);
	if (cost.too_deep)
		return err_set(e, ERR_INVAL, "JSON nested more than %d deep", levels);
	if (cost.values > values)
		return err_set(e, ERR_TOO_LARGE, "JSON of %zu values, %zu are allowed", cost.values, values);
	json_t *o = json_loadb(p, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
	if (!o) {
		enum json_error_code code = json_error_code(&fault);
		return err_set(e, code == json_error_out_of_memory ? ERR_NOMEM : ERR_INVAL,
			       "not JSON: %s (line %d, column %d)", json_fault(code), fault.line, fault.column);
	}
	*out = o;
	return 0;
}

int json_parse(const void *p, size_t len, size_t max, json_t **out, struct err *e)
{
	return json_parse_bounded(p, len, max, JSON_DEPTH_MAX, JSON_VALUES_MAX, out, e);
}

int json_parse_values(const void *p, size_t len, size_t max, size_t values, json_t **out, struct err *e)
{
	return json_parse_bounded(p, len, max, JSON_DEPTH_MAX, values, out, e);
}

int json_parse_nested(const void *p, size_t len, size_t max, json_t **out, struct err *e)
{
	return json_parse_bounded(p, len, max, JSON_NESTED_MAX, JSON_VALUES_MAX, out, e);
}

/* The value, NULL when absent or null; ERR_INVAL when o is no object. */
static int json_field(const json_t *o, const char *key, const json_t **out, struct err *e)
{
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "\"%s\" is looked for in something that is not an object", key);
	const json_t *v = json_object_get(o, key);
	*out = v && !json_is_null(v) ? v : NULL;
	return 0;
}

static int json_missing(const char *key, struct err *e)
{
	return err_set(e, ERR_INVAL, "\"%s\" is missing", key);
}

int json_opt_str(const json_t *o, const char *key, const char **out, struct err *e)
{
	const json_t *v = NULL;
	int rc = json_field(o, key, &v, e);

	if (rc < 0 || !v)
		return rc;
	if (!json_is_string(v))
		return err_set(e, ERR_INVAL, "\"%s\" is not a string", key);
	*out = json_string_value(v);
	return 0;
}

int json_opt_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	const json_t *v = NULL;
	int rc = json_field(o, key, &v, e);

	if (rc < 0 || !v)
		return rc;
	if (!json_is_integer(v))
		return err_set(e, ERR_INVAL, "\"%s\" is not a whole number", key);
	int64_t n = json_integer_value(v);
	if (n < min || n > max)
		return err_set(e, ERR_INVAL, "\"%s\" is %lld, %lld to %lld is allowed", key, (long long)n,
			       (long long)min, (long long)max);
	*out = n;
	return 0;
}

int json_opt_bool(const json_t *o, const char *key, bool *out, struct err *e)
{
	const json_t *v = NULL;
	int rc = json_field(o, key, &v, e);

	if (rc < 0 || !v)
		return rc;
	if (!json_is_boolean(v))
		return err_set(e, ERR_INVAL, "\"%s\" is neither true nor false", key);
	*out = json_is_true(v);
	return 0;
}

const char *json_get_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

int json_need_str(const json_t *o, const char *key, const char **out, struct err *e)
{
	const char *s = NULL;
	int rc = json_opt_str(o, key, &s, e);

	if (rc < 0)
		return rc;
	if (!s)
		return json_missing(key, e);
	*out = s;
	return 0;
}

int json_need_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *out, struct err *e)
{
	const json_t *v = NULL;
	int rc = json_field(o, key, &v, e);

	if (rc < 0)
		return rc;
	return v ? json_opt_int(o, key, min, max, out, e) : json_missing(key, e);
}

int json_only_keys(const json_t *o, const char *const *keys, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "an object is expected");
	/* jansson iterates a mutable object, and does not change it. */
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		size_t i = 0;
		while (keys[i] && strcmp(keys[i], key) != 0)
			i++;
		if (!keys[i])
			return err_set(e, ERR_INVAL, "\"%.64s\" is not a known field", key);
	}
	return 0;
}

char *json_text(const json_t *o)
{
	return json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY);
}

/* A copy whose objects and lists below that many levels are left out. NULL: no memory. */
static json_t *json_cut(const json_t *o, unsigned levels)
{
	bool object = json_is_object(o);
	json_t *cut, *v;
	const char *key;
	size_t i;
	int rc = 0;

	if (!object && !json_is_array(o))
		return json_incref((json_t *)(uintptr_t)o);
	if (!levels)
		return json_string(LEFT_OUT);
	cut = object ? json_object() : json_array();
	json_object_foreach((json_t *)(uintptr_t)o, key, v) rc |=
	    json_object_set_new(cut, key, json_cut(v, levels - 1));
	json_array_foreach((json_t *)(uintptr_t)o, i, v) rc |= json_array_append_new(cut, json_cut(v, levels - 1));
	if (!rc)
		return cut;
	json_decref(cut);
	return NULL;
}

char *json_text_shallow(const json_t *o)
{
	char *text = json_text(o);
	json_t *cut;

	if (!text || !json_cost_of(text, strlen(text), JSON_STORED_DEPTH).too_deep)
		return text;
	free(text);
	cut = json_cut(o, JSON_STORED_DEPTH);
	text = cut ? json_text(cut) : NULL;
	json_decref(cut);
	return text;
}

static int json_to_buf(const char *p, size_t n, void *arg)
{
	return buf_append(arg, p, n) < 0 ? -1 : 0;
}

int json_append(struct buf *b, const json_t *o)
{
	size_t before = buf_len(b);

	if (!o)
		return ERR_INVAL;
	if (json_dump_callback(o, json_to_buf, b, JSON_COMPACT | JSON_ENCODE_ANY) == 0)
		return 0;
	b->len = before;
	return json_dumpb(o, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > buf_room(b) ? ERR_TOO_LARGE : ERR_NOMEM;
}

int json_set_bytes(json_t *o, const char *data_key, const char *encoding_key, const uint8_t *p, size_t n)
{
	bool text = n == 0 || (!memchr(p, '\0', n) && utf8_valid(p, n));
	char *b64 = text ? NULL : base64_encode(p, n, false);

	if (!text && !b64)
		return ERR_NOMEM;
	json_t *data = text ? json_stringn_nocheck(n ? (const char *)p : "", n) : json_string_nocheck(b64);
	free(b64);
	if (json_object_set_new(o, data_key, data) < 0 ||
	    json_object_set_new(o, encoding_key, json_string(text ? "utf-8" : "base64")) < 0)
		return ERR_NOMEM;
	return 0;
}

json_t *json_text_or_base64(const char *s)
{
	size_t n = strlen(s);
	json_t *v;
	char *b64;

	if (utf8_valid((const uint8_t *)s, n))
		return json_stringn(s, n);
	b64 = base64_encode(s, n, false);
	v = b64 ? json_pack("{s:s}", "base64", b64) : NULL;
	free(b64);
	return v;
}
