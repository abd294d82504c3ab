#include "muxd/doors/https/multipart.h"
#include "base/err.h"
#include "base/hex.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define BOUNDARY_MAX 70 /* RFC 2046, 5.1.1 */

struct span {
	const char *p;
	size_t n;
};

static struct span span_from(struct span s, size_t at)
{
	return (struct span){.p = s.p + at, .n = s.n - at};
}

static bool span_begins(struct span s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && strncasecmp(s.p, with, n) == 0;
}

/* ---- parameters of a field: ; name="value" */

/*
 * The next parameter of *rest, which goes on behind it. A value in quotes is without them; a backslash in it stands for
 * itself but before a quote, as browsers write names of files.
 */
static bool next_parameter(struct span *rest, struct span *out_name, char *out, size_t size, size_t *out_len)
{
	const char *p = rest->p, *end = rest->p + rest->n, *name;
	size_t n = 0;

	while (p < end && (*p == ';' || *p == ' ' || *p == '\t'))
		p++;
	for (name = p; p < end && *p != '=' && *p != ';'; p++)
		;
	*out_name = (struct span){.p = name, .n = (size_t)(p - name)};
	if (p == end || *p != '=')
		return false;
	bool quoted = ++p < end && *p == '"';
	for (p += quoted; p < end && (quoted ? *p != '"' : *p != ';' && *p != ' '); p++) {
		if (quoted && *p == '\\' && p + 1 < end && p[1] == '"')
			p++;
		if (n + 1 >= size)
			return false;
		out[n++] = *p;
	}
	if (quoted && p++ == end)
		return false;
	out[n] = '\0';
	*out_len = n;
	*rest = (struct span){.p = p, .n = (size_t)(end - p)};
	return true;
}

/* %XX as its byte: each, or those alone that stand for what a quoted name may not hold. */
static void unescape(char *s, bool all)
{
	char *to = s;

	for (const char *p = s; *p; p++) {
		int high = *p == '%' ? hex_value(p[1]) : -1, low = high >= 0 ? hex_value(p[2]) : -1;
		char c = (char)(high * 16 + low);

		if (low < 0 || c == '\0' || !(all || c == '"' || c == '\r' || c == '\n')) {
			*to++ = *p;
			continue;
		}
		*to++ = c;
		p += 2;
	}
	*to = '\0';
}

static int read_boundary(const char *type, char *out, size_t size, struct err *e)
{
	struct span rest = {.p = type, .n = strlen(type)}, name;
	size_t n = strcspn(type, ";"), len;

	if (!span_begins(rest, "multipart/form-data") || strspn(type + 19, " \t;") == 0)
		return err_set(e, ERR_INVAL, "Content-Type must be multipart/form-data, with its boundary");
	for (rest = span_from(rest, n); rest.n && next_parameter(&rest, &name, out, size, &len);)
		if (name.n == 8 && strncasecmp(name.p, "boundary", 8) == 0 && len)
			return 0;
	return err_set(e, ERR_INVAL, "Content-Type has no boundary of at most %d characters", BOUNDARY_MAX);
}

/* ---- parts */

/* Content-Disposition says which part this is, and whose file. True: it is the one. */
static bool is_the_file(struct span value, const char *part, struct multipart_file *out)
{
	char text[MULTIPART_NAME_MAX + 1];
	struct span name;
	bool ours = false, extended = false;
	size_t n;

	if (!span_begins(value, "form-data"))
		return false;
	out->name[0] = '\0';
	for (value = span_from(value, 9); value.n && next_parameter(&value, &name, text, sizeof(text), &n);) {
		if (strlen(text) != n)
			return false;
		if (name.n == 4 && strncasecmp(name.p, "name", 4) == 0) {
			ours = strcmp(text, part) == 0;
		} else if (name.n == 9 && strncasecmp(name.p, "filename*", 9) == 0) {
			char *at = strncasecmp(text, "utf-8'", 6) == 0 ? strchr(text + 6, '\'') : NULL;

			if (!at)
				return false;
			unescape(at + 1, true);
			memcpy(out->name, at + 1, strlen(at + 1) + 1);
			extended = true;
		} else if (name.n == 8 && strncasecmp(name.p, "filename", 8) == 0 && !extended) {
			unescape(text, false);
			memcpy(out->name, text, strlen(text) + 1);
		}
	}
	return ours && out->name[0];
}

/* The fields of a part, up to its empty line; *out_len is behind that. 1: it is the one, 0: another, ERR_INVAL. */
static int read_fields(struct span s, const char *part, struct multipart_file *out, size_t *out_len)
{
	static const char disposition[] = "Content-Disposition:";
	int found = 0;

	for (size_t at = 0; at < s.n && at < MULTIPART_HEAD_MAX;) {
		const char *line = s.p + at, *end = memmem(line, s.n - at, "\r\n", 2);
		struct span field = {.p = line, .n = end ? (size_t)(end - line) : 0};

		if (!end)
			return ERR_INVAL;
		at = (size_t)(end - s.p) + 2;
		if (!field.n) {
			*out_len = at;
			return found;
		}
		if (!span_begins(field, disposition))
			continue;
		field = span_from(field, sizeof(disposition) - 1);
		while (field.n && (*field.p == ' ' || *field.p == '\t'))
			field = span_from(field, 1);
		found = is_the_file(field, part, out);
	}
	return ERR_INVAL;
}

int multipart_find(const char *type, const void *p, size_t n, const char *part, struct multipart_file *out,
		   struct err *e)
{
	char boundary[BOUNDARY_MAX + 1], between[BOUNDARY_MAX + 5];
	struct span rest = {.p = p, .n = n};
	int rc = read_boundary(type, boundary, sizeof(boundary), e);
	size_t len;

	if (rc)
		return rc;
	len = (size_t)snprintf(between, sizeof(between), "\r\n--%s", boundary);
	if (rest.n < len || memcmp(rest.p, between + 2, len - 2) != 0)
		return err_set(e, ERR_INVAL, "the form does not begin with its boundary");
	rest = span_from(rest, len - 2);
	while (span_begins(rest, "\r\n")) {
		size_t head = 0;
		int found = read_fields(span_from(rest, 2), part, out, &head);
		const char *end;

		if (found < 0)
			return err_set(e, ERR_INVAL,
				       "the fields of a part of the form have no end, or are over %d bytes",
				       MULTIPART_HEAD_MAX);
		/* of a part without content the boundary follows the fields at once: their last line end is its */
		rest = span_from(rest, head);
		end = memmem(rest.p, rest.n, between, len);
		if (!end)
			return err_set(e, ERR_INVAL, "the form broke off inside a part");
		out->content = rest.p + 2;
		out->len = end > rest.p ? (size_t)(end - rest.p) - 2 : 0;
		if (found)
			return 0;
		rest = span_from(rest, (size_t)(end - rest.p) + len);
	}
	if (!span_begins(rest, "--"))
		return err_set(e, ERR_INVAL, "the form broke off behind a part");
	return err_set(e, ERR_INVAL, "the form has no file in a part called \"%s\"", part);
}
