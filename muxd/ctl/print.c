/* Errors, JSON and tables of muxctl; declared in ctl.h. */
#include "base/ids.h"
#include "base/text.h"
#include "base/visible.h"
#include "muxd/ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 16
#define TEXT_MAX    (256 * 1024)

char *ctl_clean(const char *s)
{
	return visible_dup(s, strlen(s), 0, 0);
}

char *ctl_json_text(const json_t *o, size_t flags)
{
	char *text = json_dumps(o, flags | JSON_ENCODE_ANY), *shown = text ? visible_json(text) : NULL;

	if (text)
		explicit_bzero(text, strlen(text)); /* it may hold a token */
	free(text);
	return shown;
}

static int fail_json(const struct err *e, const char *hint)
{
	const char *key = e->begun.round ? "round_id" : "session_id";
	json_t *begun = e->begun.id[0] ? json_pack("{s:s}", key, e->begun.id) : NULL;
	json_t *o = json_pack("{s:{s:s,s:s,s:s,s:o*}}", "error", "code", err_name(e->code), "message", e->message,
			      "hint", hint, "details", begun);
	char *text = o ? ctl_json_text(o, JSON_COMPACT) : NULL;

	fprintf(stderr, "%s\n", text ? text : "{\"error\":{\"code\":\"out_of_memory\"}}");
	free(text);
	json_decref(o);
	return err_exit_code(e->code);
}

int ctl_fail(struct ctl *c, const struct err *e)
{
	const char *hint = c->hint[0] ? c->hint : err_hint(e->code);
	char *clean_hint = ctl_clean(hint), *message = ctl_clean(e->message);

	fflush(stdout);
	if (c->json)
		fail_json(e, clean_hint ? clean_hint : "");
	else
		fprintf(stderr, "muxctl: %s\n  hint: %s [%s]\n", message && *message ? message : err_name(e->code),
			clean_hint ? clean_hint : "", err_name(e->code));
	if (!c->json && e->begun.id[0])
		fprintf(stderr, "  %s: %s\n", e->begun.round ? "round" : "session", e->begun.id);
	free(message);
	free(clean_hint);
	return err_exit_code(e->code);
}

/* An id alone: it goes to a terminal as it is. */
static void take_begun(const json_t *details, struct err *e)
{
	const char *round = json_get_text(details, "round_id"), *session = json_get_text(details, "session_id");
	struct id id;

	if (id_parse(*round ? round : session, &id) == 0)
		err_set_begun(e, *round ? round : session, *round);
}

int ctl_remote_error(struct ctl *c, const json_t *error, struct err *e)
{
	const char *code = "internal", *message = "", *hint = "";

	json_opt_str(error, "code", &code, NULL);
	json_opt_str(error, "message", &message, NULL);
	json_opt_str(error, "hint", &hint, NULL);
	int rc = err_by_name(code);
	text_put(c->hint, sizeof(c->hint), hint);
	if (rc)
		err_set(e, rc, "%s", message);
	else
		rc = err_set(e, ERR_INTERNAL, "%s (%s)", message, code);
	take_begun(json_object_get(error, "details"), e);
	return rc;
}

int ctl_print_json(struct ctl *c, const json_t *o)
{
	char *text = ctl_json_text(o, JSON_INDENT(2));
	struct err e = {0};

	if (!text) {
		err_set(&e, ERR_NOMEM, "no memory for the result");
		return ctl_fail(c, &e);
	}
	bool bad = printf("%s\n", text) < 0 || fflush(stdout) != 0;
	/* What was printed may be a token. */
	explicit_bzero(text, strlen(text));
	free(text);
	if (bad) {
		err_set(&e, ERR_SYS, "the result could not be written");
		return ctl_fail(c, &e);
	}
	return 0;
}

static char *list_text(const json_t *v)
{
	struct buf b;
	size_t i;
	json_t *item;

	buf_init(&b, TEXT_MAX);
	json_array_foreach((json_t *)(uintptr_t)v, i, item)
	{
		char *s = ctl_text(item);
		/* A program without a name is the sandbox's own shell (docs/protocol.md, OPEN). */
		buf_printf(&b, "%s%s", i ? " " : "", s && (*s || i) ? s : "$SHELL");
		free(s);
	}
	const char *s = buf_cstr(&b);
	char *out = s ? strdup(s) : NULL;
	buf_finish(&b);
	return out;
}

char *ctl_text(const json_t *v)
{
	char number[40];

	if (!v || json_is_null(v))
		return strdup("");
	if (json_is_string(v))
		return ctl_clean(json_string_value(v));
	if (json_is_boolean(v))
		return strdup(json_is_true(v) ? "yes" : "no");
	if (json_is_integer(v)) {
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
		return strdup(number);
	}
	if (json_is_array(v))
		return list_text(v);
	char *text = json_text(v), *clean = text ? ctl_clean(text) : NULL;
	free(text);
	return clean;
}

/* Characters, not bytes; wide ones count as one, which only costs alignment. */
static size_t text_width(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void print_cell(const char *s, size_t width, bool last)
{
	size_t w = text_width(s);

	fputs(s, stdout);
	for (; !last && w < width + 2; w++)
		putchar(' ');
}

static void print_row(char *const *cells, const size_t *widths, size_t n)
{
	for (size_t i = 0; i < n; i++)
		print_cell(cells[i] ? cells[i] : "", widths[i], i == n - 1);
	putchar('\n');
}

int ctl_print_table(struct ctl *c, const json_t *rows, const struct ctl_column *columns)
{
	size_t n = 0, count = json_array_size(rows), widths[COLUMNS_MAX] = {0};
	char *titles[COLUMNS_MAX];

	while (columns[n].key && n < COLUMNS_MAX) {
		titles[n] = (char *)(uintptr_t)columns[n].title;
		widths[n] = text_width(columns[n].title);
		n++;
	}
	char **cells = calloc(count * n + 1, sizeof(*cells));
	struct err e = {0};
	if (!cells) {
		err_set(&e, ERR_NOMEM, "no memory for the table");
		return ctl_fail(c, &e);
	}
	for (size_t r = 0; r < count; r++)
		for (size_t i = 0; i < n; i++) {
			char *s = ctl_text(json_object_get(json_array_get(rows, r), columns[i].key));
			cells[r * n + i] = s;
			if (s && text_width(s) > widths[i])
				widths[i] = text_width(s);
		}
	print_row(titles, widths, n);
	for (size_t r = 0; r < count; r++)
		print_row(cells + r * n, widths, n);
	for (size_t i = 0; i < count * n; i++)
		free(cells[i]);
	free(cells);
	return 0;
}

static const struct ctl_column *column_of(const struct ctl_column *columns, const char *key)
{
	for (; columns && columns->key; columns++)
		if (strcmp(columns->key, key) == 0)
			return columns;
	return NULL;
}

static void print_pair(const char *title, const json_t *v)
{
	char *s = ctl_text(v);

	if (s && *s)
		printf("%-22s %s\n", title, s);
	free(s);
}

int ctl_print_object(struct ctl *c, const json_t *o, const struct ctl_column *columns)
{
	const char *key;
	json_t *v;

	(void)c;
	for (const struct ctl_column *k = columns; k && k->key; k++)
		print_pair(k->title, json_object_get(o, k->key));
	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		char *name = column_of(columns, key) ? NULL : ctl_clean(key);
		if (name)
			print_pair(name, v);
		free(name);
	}
	return 0;
}

int ctl_finish(struct ctl *c, int rc, const struct err *e, json_t *o, const char *list,
	       const struct ctl_column *columns)
{
	int status = rc < 0    ? ctl_fail(c, e)
		     : c->json ? ctl_print_json(c, o)
		     : list    ? ctl_print_table(c, json_object_get(o, list), columns)
			       : ctl_print_object(c, o, columns);

	json_decref(o);
	return status;
}

int ctl_finish_quietly(struct ctl *c, int rc, const struct err *e, json_t *o)
{
	if (rc < 0 || c->json)
		return ctl_finish(c, rc, e, o, NULL, NULL);
	json_decref(o);
	return 0;
}
