#include "control/sandbox.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

#define WHY_ROOM 160 /* of a message with many names, for the first one's reason */

const char *sandbox_state_name(enum sandbox_state s)
{
	switch (s) {
	case SANDBOX_ABSENT:
		return "absent";
	case SANDBOX_RUNNING:
		return "running";
	case SANDBOX_STOPPED:
		return "stopped";
	case SANDBOX_ERROR:
		return "error";
	}
	return "error";
}

const char *sandbox_backend_name(enum sandbox_backend b)
{
	static const char *const names[] = {"local", "link", "plain"};

	return names[b];
}

static size_t names_of(const struct err *e)
{
	const char *end = strstr(e->message, " stays");

	return end ? (size_t)(end - e->message) : 0;
}

void sandbox_kept_add(struct err *all, const struct err *one)
{
	static const char more[] = "others, ";
	size_t n = names_of(one);

	if (!all->code)
		*all = *one;
	else if (n && n + names_of(all) + WHY_ROOM < sizeof(all->message))
		err_set(all, all->code, "%.*s, %s", (int)n, one->message, all->message);
	else if (strncmp(all->message, more, sizeof(more) - 1) != 0)
		err_set(all, all->code, "%s%s", more, all->message);
}
