/* The rules for the name of an artifact. */
#include "base/err.h"
#include "base/visible.h"
#include "control/artifacts/artifacts.h"

#include <string.h>

int artifact_name_check(const char *name, struct err *e)
{
	size_t n = name ? strlen(name) : 0, at = 0;

	if (!n)
		return err_set(e, ERR_INVAL, "the name of an artifact is empty");
	if (n > ARTIFACT_NAME_MAX)
		return err_set(e, ERR_INVAL, "the name of an artifact has %zu bytes, %d are allowed", n,
			       ARTIFACT_NAME_MAX);
	if (!visible_check(name, n, &at))
		return err_set(
		    e, ERR_INVAL,
		    "the name of an artifact has a byte at %zu that is no UTF-8, or a character that cannot be seen",
		    at + 1);
	if (strpbrk(name, "/\\"))
		return err_set(e, ERR_INVAL, "the name of an artifact, \"%s\", has a slash: it is one name, no path",
			       name);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || name[0] == ' ' || name[n - 1] == ' ')
		return err_set(e, ERR_INVAL, "\"%s\" is not the name of an artifact: choose another", name);
	return 0;
}

bool artifact_sha256_check(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}
