/* JSON that is built: no content makes it fail, so NULL means that there was no memory. */
#include "base/json.h"
#include "base/text.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* The macros of json.h stand for these functions elsewhere; in here jansson's own are meant. */
#undef json_string
#undef json_stringn
#undef json_pack
#undef json_object_set_new
#undef json_object_set

/* n bytes as a C string of UTF-8, malloc'd. */
static char *repaired(const char *s, size_t n)
{
	char *copy = malloc(n + 1);

	if (copy)
		text_put_bytes(copy, n + 1, s, n);
	return copy;
}

json_t *json_stringn_utf8(const char *s, size_t n)
{
	char *copy;
	json_t *v;

	if (!s)
		return NULL;
	if (utf8_valid((const uint8_t *)s, n))
		return json_stringn_nocheck(s, n);
	copy = repaired(s, n);
	v = copy ? json_string_nocheck(copy) : NULL;
	free(copy);
	return v;
}

json_t *json_string_utf8(const char *s)
{
	return s ? json_stringn_utf8(s, strlen(s)) : NULL;
}

int json_object_set_new_utf8(json_t *o, const char *key, json_t *v)
{
	size_t n = key ? strlen(key) : 0;
	char *copy;
	int rc;

	if (!key || utf8_valid((const uint8_t *)key, n))
		return json_object_set_new_nocheck(o, key, v);
	copy = repaired(key, n);
	rc = json_object_set_new_nocheck(o, copy, v); /* takes v whatever comes of it, and no key is a failure */
	free(copy);
	return rc;
}

int json_object_set_utf8(json_t *o, const char *key, json_t *v)
{
	return json_object_set_new_utf8(o, key, json_incref(v));
}

/* A format on its way: what is not there any more because of a failure is still taken from the arguments and freed. */
struct pack {
	const char *at;
	va_list ap;
	bool failed;
};

static json_t *pack_value(struct pack *p, bool *out_left_out);

/* The next letter of the format; spaces, commas and colons are for its reader. */
static char pack_next(struct pack *p)
{
	while (*p->at && strchr(" \t\n,:", *p->at))
		p->at++;
	return *p->at;
}

static bool pack_take(struct pack *p, char mark)
{
	if (*p->at != mark)
		return false;
	p->at++;
	return true;
}

/* s, s#, s%: a text that is NULL is null, so that nothing else is lost with it; s* leaves its key out. */
static json_t *pack_string(struct pack *p, bool *out_left_out)
{
	const char *s = va_arg(p->ap, const char *);
	size_t n = 0;

	if (pack_take(p, '%'))
		n = va_arg(p->ap, size_t);
	else if (pack_take(p, '#'))
		n = (size_t)va_arg(p->ap, int);
	else
		n = s ? strlen(s) : 0;
	if (pack_take(p, '*') && !s)
		*out_left_out = true;
	else
		(void)pack_take(p, '?');
	return s ? json_stringn_utf8(s, n) : json_null();
}

/* o, O: a value that is not there is a failure, but o? is null, and o* leaves its key out. */
static json_t *pack_ready(struct pack *p, bool keep, bool *out_left_out)
{
	json_t *v = va_arg(p->ap, json_t *);

	if (keep)
		json_incref(v);
	if (pack_take(p, '?'))
		return v ? v : json_null();
	if (pack_take(p, '*') && !v) {
		*out_left_out = true;
		return json_null();
	}
	return v;
}

static json_t *pack_object(struct pack *p)
{
	json_t *o = json_object();

	while (pack_next(p) != '}') {
		const char *key = pack_next(p) == 's' ? va_arg(p->ap, const char *) : NULL;
		bool left_out = false;
		if (!key)
			goto fail;
		p->at++;
		json_t *v = pack_value(p, &left_out);
		if (left_out)
			json_decref(v);
		else if (json_object_set_new_utf8(o, key, v) < 0)
			p->failed = true;
		if (!*p->at)
			goto fail;
	}
	p->at++;
	return o;
fail:
	p->failed = true;
	p->at = "";
	return o;
}

static json_t *pack_array(struct pack *p)
{
	json_t *a = json_array();

	while (pack_next(p) != ']') {
		bool left_out = false;
		if (!*p->at) {
			p->failed = true;
			return a;
		}
		json_t *v = pack_value(p, &left_out);
		if (left_out)
			json_decref(v);
		else if (json_array_append_new(a, v) < 0)
			p->failed = true;
	}
	p->at++;
	return a;
}

static json_t *pack_value(struct pack *p, bool *out_left_out)
{
	json_t *v = NULL;
	char letter = pack_next(p);

	if (letter)
		p->at++;
	switch (letter) {
	case '{':
		v = pack_object(p);
		break;
	case '[':
		v = pack_array(p);
		break;
	case 's':
		v = pack_string(p, out_left_out);
		break;
	case 'o':
	case 'O':
		v = pack_ready(p, letter == 'O', out_left_out);
		break;
	case 'n':
		v = json_null();
		break;
	case 'b':
		v = json_boolean(va_arg(p->ap, int));
		break;
	case 'i':
		v = json_integer(va_arg(p->ap, int));
		break;
	case 'I':
		v = json_integer(va_arg(p->ap, json_int_t));
		break;
	case 'f':
		v = json_real(va_arg(p->ap, double));
		break;
	default:
		p->at = "";
		break;
	}
	if (!v)
		p->failed = true;
	return v;
}

json_t *json_pack_utf8(const char *fmt, ...)
{
	struct pack p = {.at = fmt};
	bool left_out = false;

	va_start(p.ap, fmt);
	json_t *v = pack_value(&p, &left_out);
	va_end(p.ap);
	if (p.failed || pack_next(&p)) {
		json_decref(v);
		return NULL;
	}
	return v;
}
