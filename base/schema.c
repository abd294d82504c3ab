#include "base/schema.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PATH_SIZE 200
#define KEY_MAX   64

/* Made from the end of the buffer; what has no room is left out at the front. */
static char *schema_put_char(char *p, const char *begin, char c)
{
	unsigned char u = (unsigned char)c;

	if (p > begin)
		*--p = u < 0x20 || u > 0x7e ? '?' : c;
	return p;
}

static char *put_key(char *p, const char *begin, const char *key)
{
	size_t n = strnlen(key, KEY_MAX);

	while (n--) {
		if (key[n] == '/' || key[n] == '~') {
			p = schema_put_char(p, begin, key[n] == '/' ? '1' : '0');
			p = schema_put_char(p, begin, '~');
		} else {
			p = schema_put_char(p, begin, key[n]);
		}
	}
	return p;
}

static const char *pointer(const struct schema_at *at, char buf[PATH_SIZE])
{
	char *p = buf + PATH_SIZE - 1, number[24];

	*p = '\0';
	for (; at; at = at->up) {
		snprintf(number, sizeof(number), "%zu", at->index);
		p = put_key(p, buf, at->key ? at->key : number);
		p = schema_put_char(p, buf, '/');
	}
	return *p ? p : "/";
}

int schema_fault(const struct schema *s, const struct schema_at *at, int code, const char *fmt, ...)
{
	char text[180], path[PATH_SIZE];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(s->e, code, "%s: %s", pointer(at, path), text);
}

static bool is_kind(const json_t *v, enum schema_kind k)
{
	switch (k) {
	case SCHEMA_TEXT:
		return json_is_string(v);
	case SCHEMA_INTEGER:
		return json_is_integer(v);
	case SCHEMA_BOOL:
		return json_is_boolean(v);
	case SCHEMA_LIST:
		return json_is_array(v);
	case SCHEMA_OBJECT:
		return json_is_object(v);
	default:
		return true;
	}
}

static void read_value(const struct schema *s, const struct schema_field *f, const json_t *v)
{
	void *to;

	if (!s->out || !f->to)
		return;
	to = (char *)s->out + f->to - 1;
	if (f->kind == SCHEMA_TEXT)
		*(const char **)to = json_string_value(v);
	else if (f->kind == SCHEMA_INTEGER)
		*(int64_t *)to = json_integer_value(v);
	else if (f->kind == SCHEMA_BOOL)
		*(bool *)to = json_is_true(v);
	else
		*(const json_t **)to = v;
}

static int check_bounds(const struct schema *s, const struct schema_at *at, const struct schema_field *f, int64_t n,
			const char *unit)
{
	bool number = f->kind == SCHEMA_INTEGER;

	if (n < f->min && n == 0 && !number)
		return schema_fault(s, at, ERR_INVAL, "is empty");
	if (n >= f->min && (n <= f->max || (!number && !f->max)))
		return 0;
	return schema_fault(s, at, !number && n > f->max ? ERR_TOO_LARGE : ERR_INVAL,
			    "%lld%s: from %lld to %lld are allowed", (long long)n, unit, (long long)f->min,
			    (long long)f->max);
}

int schema_value(const struct schema *s, const struct schema_at *at, const struct schema_field *f, const json_t *v)
{
	static const char *const names[] = {"a string", "an integer", "true or false", "a list", "an object"};
	int rc = 0;

	if (!is_kind(v, f->kind))
		return schema_fault(s, at, ERR_INVAL, "is not %s", names[f->kind]);
	/* JSON has U+0000; what becomes a C string has not. */
	if (f->kind == SCHEMA_TEXT && strlen(json_string_value(v)) != json_string_length(v))
		return schema_fault(s, at, ERR_INVAL, "holds a NUL character");
	if (f->kind == SCHEMA_TEXT)
		rc = check_bounds(s, at, f, (int64_t)json_string_length(v), " bytes");
	else if (f->kind == SCHEMA_INTEGER)
		rc = check_bounds(s, at, f, json_integer_value(v), "");
	else if (f->kind == SCHEMA_LIST)
		rc = check_bounds(s, at, f, (int64_t)json_array_size(v), " items");
	if (rc == 0 && f->check)
		rc = f->check(s, at, v);
	if (rc == 0)
		read_value(s, f, v);
	return rc;
}

int schema_object(const struct schema *s, const struct schema_at *at, const json_t *o,
		  const struct schema_field *fields, size_t nfields)
{
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return schema_fault(s, at, ERR_INVAL, "is not an object");
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		struct schema_at here = {.up = at, .key = key};
		size_t i = 0;
		int rc;

		while (i < nfields && strcmp(fields[i].key, key) != 0)
			i++;
		if (i == nfields)
			return schema_fault(s, &here, ERR_INVAL, "is not a field of this");
		if (json_is_null(v) && s->null_is_absent && fields[i].kind != SCHEMA_ANY)
			continue;
		if ((rc = schema_value(s, &here, &fields[i], v)))
			return rc;
	}
	for (size_t i = 0; i < nfields; i++) {
		struct schema_at here = {.up = at, .key = fields[i].key};

		if (fields[i].required && !json_object_get(o, fields[i].key))
			return schema_fault(s, &here, ERR_INVAL, "is missing");
	}
	return 0;
}

int schema_texts(const struct schema *s, const struct schema_at *at, const json_t *list, int64_t max)
{
	size_t i;
	json_t *word;

	json_array_foreach((json_t *)(uintptr_t)list, i, word)
	{
		struct schema_at here = {.up = at, .index = i};
		struct schema_field f = {.kind = SCHEMA_TEXT, .min = i == 0, .max = max};
		int rc = schema_value(s, &here, &f, word);

		if (rc)
			return rc;
	}
	return 0;
}
