#include "base/relpath.h"

#include <string.h>

const char *relpath_check(const char *path, size_t n)
{
	size_t name = 0;

	if (!n || n > RELPATH_MAX)
		return "a path is empty or has more than 4,095 bytes";
	if (memchr(path, '\0', n))
		return "a path has a NUL in it";
	for (size_t i = 0; i <= n; i++) {
		if (i < n && path[i] != '/') {
			if (++name > RELPATH_NAME_MAX)
				return "a name has more than 255 bytes";
			continue;
		}
		if (!name)
			return "a path is absolute, ends in a slash or has two in a row";
		if (path[i - 1] == '.' && (name == 1 || (name == 2 && path[i - 2] == '.')))
			return "a path has . or .. in it";
		name = 0;
	}
	return NULL;
}
