#include "muxd/muxlet/persist.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ROOT "/workspace/.persist"

/* Its directories one after the other; the first one is the workspace. */
static void make_all(char *path)
{
	for (char *p = strchr(path + sizeof("/workspace"), '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
	(void)mkdir(path, 0755);
}

void persist_make(const char *list)
{
	char path[512];

	while (*(list += strspn(list, " \t,"))) {
		size_t n = strcspn(list, ", \t");

		if (snprintf(path, sizeof(path), ROOT "%.*s", (int)n, list) < (int)sizeof(path))
			make_all(path);
		list += n;
	}
}
