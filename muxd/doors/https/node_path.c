#include "muxd/doors/https/node_path.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* checkpoint leaves a container's memory on the node, where its secrets can be read. */
static const char *const named[] = {"run", "exec", "attach", "portforward", "checkpoint"};

static size_t step_len(const char *step)
{
	return strcspn(step, "/");
}

static bool step_is(const char *step, const char *word)
{
	return step_len(step) == strlen(word) && strncasecmp(step, word, strlen(word)) == 0;
}

static const char *next_step(const char *step)
{
	step += step_len(step);
	return *step ? step + 1 : step;
}

/* Does everybody read it alike? */
static bool is_straight(const char *path)
{
	for (const char *p = path; *p; p++)
		if (*p <= ' ' || *p > '~' || strchr("%\\;", *p))
			return false;
	if (strstr(path, "//"))
		return false;
	for (const char *step = path; *step; step = next_step(step))
		if (step_is(step, ".") || step_is(step, ".."))
			return false;
	return true;
}

static enum node_way into(const char *ns, char out_ns[NODE_PATH_NS_MAX + 1])
{
	size_t n = step_len(ns);

	if (n == 0 || n > NODE_PATH_NS_MAX || !*next_step(ns))
		return NODE_PATH_UNCLEAR;
	for (size_t i = 0; i < n; i++)
		out_ns[i] = (char)tolower((unsigned char)ns[i]);
	out_ns[n] = '\0';
	return NODE_PATH_ENTERS;
}

enum node_way node_path_read(const char *path, char out_ns[NODE_PATH_NS_MAX + 1])
{
	out_ns[0] = '\0';
	if (!is_straight(path))
		return NODE_PATH_UNCLEAR;
	path += *path == '/';
	if (step_is(path, "cri"))
		return NODE_PATH_UNCLEAR;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		if (step_is(path, named[i]))
			return into(next_step(path), out_ns);
	return NODE_PATH_OTHER;
}
