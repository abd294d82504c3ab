/* Is a grant within another? What cannot be shown to be within is refused. */
#include "policy/grant_narrow.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"

#include <string.h>

static int narrow_scopes(const struct grant *parent, const struct grant *child, struct err *e)
{
	char wider[GRANT_SCOPES_TEXT];

	if (!(child->scopes & ~parent->scopes))
		return 0;
	grant_scopes_format(child->scopes & ~parent->scopes, wider, sizeof wider);
	return err_set(e, ERR_NOT_NARROWER, "scopes: your grant has no %s to give", wider);
}

/* "/worker", "/a/b": parts that say who, so that no two names look like one. */
static bool names_below(const char *rest)
{
	while (*rest == '/') {
		size_t n = strcspn(++rest, "/");

		if (!n || strspn(rest, ".") == n)
			return false;
		rest += n;
	}
	return !*rest;
}

static int narrow_names(const struct grant *parent, const struct grant *child, struct err *e)
{
	size_t n = strlen(parent->principal);

	if (strncmp(child->principal, parent->principal, n) != 0 || !names_below(child->principal + n))
		return err_set(e, ERR_NOT_NARROWER, "principal: \"%s\" or a name below it, as \"%s/worker\"",
			       parent->principal, parent->principal);
	if (child->kind != parent->kind && (child->kind != GRANT_AGENT || parent->kind == GRANT_AUDITOR))
		return err_set(e, ERR_NOT_NARROWER, "kind: a grant of kind %s makes %s%s alone",
			       grant_kind_name(parent->kind), grant_kind_name(parent->kind),
			       parent->kind == GRANT_AUDITOR || parent->kind == GRANT_AGENT ? "" : " and agent");
	if (!grant_covers(parent->agent, child->agent))
		return err_set(e, ERR_NOT_NARROWER, "agent: your grant is for %s", parent->agent);
	if (parent->task[0] && strcmp(parent->task, child->task) != 0)
		return err_set(e, ERR_NOT_NARROWER, "task: your grant is for task %s", parent->task);
	return 0;
}

bool grant_same_root(const char *a, const char *b)
{
	size_t n = strcspn(a, "/");

	return n == strcspn(b, "/") && strncmp(a, b, n) == 0;
}

void grant_root(const char *principal, char out[GRANT_NAME_MAX + 1])
{
	size_t n = strcspn(principal, "/");

	text_put_bytes(out, GRANT_NAME_MAX + 1, principal, n);
}

/* Is each path of pattern p one of list? Only what is plainly so counts: the same text, or below a `dir/` + `**`. */
static bool pattern_within(const char *p, size_t n, const struct grant_paths *list)
{
	for (const char *at = list->text; *at; at += strcspn(at, "\n") + 1) {
		size_t len = strcspn(at, "\n");

		if (len == n && memcmp(at, p, n) == 0)
			return true;
		if (len == 2 && memcmp(at, "**", 2) == 0)
			return true;
		if (len > 3 && memcmp(at + len - 3, "/**", 3) == 0 && memchr(at, '*', len - 2) == NULL &&
		    memchr(at, '?', len) == NULL && n > len - 2 && memcmp(at, p, len - 2) == 0)
			return true;
	}
	return false;
}

static int narrow_paths(const char *what, const struct grant_paths *parent, const struct grant_paths *child,
			struct err *e)
{
	if (!parent->given)
		return 0;
	if (!child->given)
		return err_set(e, ERR_NOT_NARROWER, "%s: name paths, since your grant does", what);
	for (const char *at = child->text; *at; at += strcspn(at, "\n") + 1) {
		size_t n = strcspn(at, "\n");

		if (!pattern_within(at, n, parent))
			return err_set(e, ERR_NOT_NARROWER,
				       "%s: \"%.*s\" is neither a pattern of your grant nor below one of its "
				       "directories (dir/**)",
				       what, (int)n, at);
	}
	return 0;
}

/* Adds the patterns of `from` that are within `of` to *out. One that has no room is left out: that is narrower. */
static void paths_within(const struct grant_paths *from, const struct grant_paths *of, struct grant_paths *out)
{
	size_t used = strlen(out->text), count = 0;

	for (const char *at = out->text; *at; at += strcspn(at, "\n") + 1)
		count++;
	for (const char *at = from->text; *at && count < GRANT_PATHS_MAX; at += strcspn(at, "\n") + 1) {
		size_t n = strcspn(at, "\n");

		if (!pattern_within(at, n, of) || pattern_within(at, n, out) || used + n + 2 > sizeof out->text)
			continue;
		memcpy(out->text + used, at, n + 1);
		used += n + 1;
		out->text[used] = '\0';
		count++;
	}
}

static void paths_meet(const struct grant_paths *a, const struct grant_paths *b, struct grant_paths *out)
{
	if (!a->given || !b->given) {
		*out = a->given ? *a : *b;
		return;
	}
	*out = (struct grant_paths){.given = true};
	paths_within(a, b, out);
	paths_within(b, a, out);
}

void grant_files_meet(const struct grant_files *a, const struct grant_files *b, struct grant_files *out)
{
	struct grant_files f = {.size_max = a->size_max};

	paths_meet(&a->read, &b->read, &f.read);
	paths_meet(&a->write, &b->write, &f.write);
	if (!f.size_max || (b->size_max && b->size_max < f.size_max))
		f.size_max = b->size_max;
	*out = f;
}

static int narrow_files(const struct grant_files *parent, const struct grant_files *child, struct err *e)
{
	int rc = narrow_paths("read", &parent->read, &child->read, e);

	if (rc == 0)
		rc = narrow_paths("write", &parent->write, &child->write, e);
	if (rc == 0 && parent->size_max && (!child->size_max || child->size_max > parent->size_max))
		rc = err_set(e, ERR_NOT_NARROWER, "file_max: at most %llu, as in your grant",
			     (unsigned long long)parent->size_max);
	return rc;
}

static int narrow_times(const struct grant *parent, int64_t ends_ns, const struct grant *child, struct err *e)
{
	char ends[32];

	if (child->not_before_ns < parent->not_before_ns)
		return err_set(e, ERR_NOT_NARROWER, "a grant begins before the one that it is made from");
	if (child->expires_ns <= ends_ns)
		return 0;
	clock_format_utc(ends_ns, ends, sizeof ends);
	return err_set(e, ERR_NOT_NARROWER, "ttl: your grant ends at %s, and nothing made from it later", ends);
}

int grant_narrow(const struct grant *parent, int64_t ends_ns, const struct grant *child, struct err *e)
{
	int rc;

	if (!(parent->scopes & SCOPE_GRANT))
		return err_set(e, ERR_FORBIDDEN, "the grant lacks scope grant");
	if ((rc = narrow_scopes(parent, child, e)) || (rc = narrow_names(parent, child, e)) ||
	    (rc = narrow_files(&parent->files, &child->files, e)) ||
	    (rc = grant_bounds_narrow(&parent->bounds, &child->bounds, e)))
		return rc;
	return narrow_times(parent, ends_ns, child, e);
}

int grant_narrow_kin(const struct grant *parent, struct grant_kin *out, struct err *e)
{
	struct grant_line l = grant_line(parent);
	struct grant_kin k = {.depth = l.kin.depth + 1, .task_asked = !grant_has_task(parent)};

	if (k.depth > GRANT_DEPTH_MAX)
		return err_set(e, ERR_NOT_NARROWER, "%d grants stand above yours already, and no more are allowed",
			       GRANT_DEPTH_MAX);
	k.above[0] = *grant_line_first(&l);
	for (unsigned i = 1; i < k.depth; i++)
		k.above[i] = l.kin.above[i - 1];
	*out = k;
	return 0;
}
