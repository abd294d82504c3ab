#include "policy/grant_paths.h"

#include "base/err.h"
#include "base/utf8.h"

#include <string.h>

bool grant_files_limited(const struct grant_files *f)
{
	return f->read.given || f->write.given || f->size_max;
}

/* A name of it is "..", ".", or nothing. */
static bool has_bad_name(const char *p, size_t n)
{
	for (size_t from = 0, at = 0; at <= n; at++) {
		if (at < n && p[at] != '/')
			continue;
		if (at == from || (at - from == 1 && p[from] == '.') ||
		    (at - from == 2 && memcmp(p + from, "..", 2) == 0))
			return true;
		from = at + 1;
	}
	return false;
}

static int check_pattern(const char *what, const char *p, size_t n, struct err *e)
{
	if (!n || has_bad_name(p, n))
		return err_set(e, ERR_INVAL, "%s: \"%.*s\" is no path below the workspace, as src/** or out/*.csv",
			       what, (int)n, p);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f || strchr("[]{}\\", p[i]))
			return err_set(e, ERR_INVAL, "%s: \"%.*s\" has %s: of patterns there are *, ? and ** alone",
				       what, (int)n, p,
				       (unsigned char)p[i] < 0x20 || p[i] == 0x7f ? "a control" : "[]{} or \\");
	if (!utf8_valid((const uint8_t *)p, n))
		return err_set(e, ERR_INVAL, "%s: a pattern is not UTF-8", what);
	return 0;
}

static int check_list(const char *what, const struct grant_paths *p, struct err *e)
{
	unsigned count = 0;

	if (!memchr(p->text, 0, sizeof(p->text)))
		return err_set(e, ERR_INVAL, "%s is too long", what);
	for (const char *at = p->text; *at; count++) {
		size_t n = strcspn(at, "\n");
		int rc = at[n] ? check_pattern(what, at, n, e) : err_set(e, ERR_INVAL, "%s is cut off", what);

		if (rc)
			return rc;
		at += n + 1;
	}
	if (count > GRANT_PATHS_MAX)
		return err_set(e, ERR_INVAL, "%s has %u patterns, %d are allowed", what, count, GRANT_PATHS_MAX);
	return count && !p->given ? err_set(e, ERR_INVAL, "%s is not given", what) : 0;
}

int grant_files_check(const struct grant_files *f, struct err *e)
{
	int rc = check_list("read", &f->read, e);

	return rc ? rc : check_list("write", &f->write, e);
}

static int take_list(const json_t *o, const char *key, struct grant_paths *out, struct err *e)
{
	const json_t *list = json_object_get(o, key), *v;
	struct grant_paths p = {.given = true};
	size_t i, at = 0;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return err_set(e, ERR_INVAL, "%s is not a list of patterns", key);
	json_array_foreach(list, i, v)
	{
		const char *text = json_string_value(v);
		size_t n = json_string_length(v);
		int rc = text ? check_pattern(key, text, n, e) : err_set(e, ERR_INVAL, "%s holds what is no text", key);

		if (rc)
			return rc;
		if (at + n + 2 > sizeof(p.text))
			return err_set(e, ERR_TOO_LARGE, "%s has more than %d bytes of patterns", key,
				       GRANT_PATHS_TEXT - 2);
		memcpy(p.text + at, text, n);
		at += n;
		p.text[at++] = '\n';
	}
	*out = p;
	return check_list(key, out, e);
}

int grant_files_take(const json_t *o, struct grant_files *out, struct err *e)
{
	struct grant_files f = {0};
	int64_t max = 0;
	int rc = take_list(o, "read", &f.read, e);

	if (!rc)
		rc = take_list(o, "write", &f.write, e);
	if (!rc)
		rc = json_opt_int(o, "file_max", 1, INT64_MAX, &max, e);
	f.size_max = (uint64_t)max;
	if (!rc)
		*out = f;
	return rc;
}

json_t *grant_paths_json(const struct grant_paths *p)
{
	json_t *list = json_array();

	for (const char *at = p->text; *at && list; at += strcspn(at, "\n") + 1)
		json_array_append_new(list, json_stringn(at, strcspn(at, "\n")));
	return list;
}

int grant_files_put(json_t *o, const struct grant_files *f)
{
	if (f->read.given && json_object_set_new(o, "read", grant_paths_json(&f->read)))
		return ERR_NOMEM;
	if (f->write.given && json_object_set_new(o, "write", grant_paths_json(&f->write)))
		return ERR_NOMEM;
	return f->size_max && json_object_set_new(o, "file_max", json_integer((json_int_t)f->size_max)) ? ERR_NOMEM : 0;
}
