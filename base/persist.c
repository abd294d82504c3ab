#include "base/persist.h"

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define PATH_LONGEST 200
#define PATH_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+@"

const char *persist_next(const char *list, size_t *at, char *out, size_t size)
{
	const char *p = list + *at;
	size_t n;

	p += strspn(p, " \t,");
	if (!*p)
		return NULL;
	n = strcspn(p, ",");
	*at = (size_t)(p - list) + n;
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	text_put_bytes(out, size, p, n);
	return out;
}

/* b is a, or below it. */
static bool is_within(const char *a, const char *b)
{
	size_t n = strlen(a);

	return strncmp(a, b, n) == 0 && (b[n] == '\0' || b[n] == '/');
}

static bool is_clean(const char *path)
{
	size_t n = strlen(path);

	return path[0] == '/' && n > 1 && path[n - 1] != '/' && strspn(path, PATH_CHARS) == n && !strstr(path, "//") &&
	       !strstr(path, "/./") && !strstr(path, "/../") && strcmp(path + n - (n > 1 ? 2 : 1), "/.") != 0 &&
	       (n < 3 || strcmp(path + n - 3, "/..") != 0);
}

/* A place of muxd's, the host's or the kernel's inside does not become a link. */
static bool may_persist(const char *path)
{
	static const char *const below[] = {"/home", "/opt", "/srv", "/var", "/root", "/tmp", "/run"};
	static const char *const itself[] = {"/opt", "/srv", "/root"};
	static const char *const never[] = {"/var/run", "/var/lock", "/run/lock"};

	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (is_within(never[i], path))
			return false;
	if (strcmp(path, "/var/tmp") == 0)
		return false;
	for (size_t i = 0; i < sizeof(itself) / sizeof(itself[0]); i++)
		if (strcmp(path, itself[i]) == 0)
			return true;
	for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
		if (is_within(below[i], path) && strcmp(path, below[i]) != 0)
			return true;
	return false;
}

static int persist_check_path(const char *list, size_t before, const char *path, struct err *e)
{
	char other[PATH_LONGEST + 2];
	size_t at = 0;

	if (strlen(path) > PATH_LONGEST)
		return err_set(e, ERR_CONFIG, "a path is longer than %d bytes", PATH_LONGEST);
	if (!is_clean(path))
		return err_set(e, ERR_CONFIG,
			       "\"%.60s\" is no plain absolute path of letters, digits and . _ - + @, without .. in it",
			       path);
	if (!may_persist(path))
		return err_set(e, ERR_CONFIG,
			       "\"%.60s\" cannot persist: name what is below /home, /opt, /srv, /var, /root, /tmp or "
			       "/run; /workspace does by itself",
			       path);
	while (at < before && persist_next(list, &at, other, sizeof(other)) && at < before)
		if (is_within(other, path) || is_within(path, other))
			return err_set(e, ERR_CONFIG, "\"%.60s\" and \"%.60s\" are within each other", other, path);
	return 0;
}

int persist_check(const char *list, struct err *e)
{
	char path[PATH_LONGEST + 2];
	size_t at = 0, n = 0;
	int rc = 0;

	while (!rc && persist_next(list, &at, path, sizeof(path))) {
		if (++n > PERSIST_MAX)
			return err_set(e, ERR_CONFIG, "more than %d paths", PERSIST_MAX);
		rc = persist_check_path(list, at, path, e);
	}
	return rc;
}
