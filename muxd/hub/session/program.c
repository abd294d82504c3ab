#include "muxd/hub/session/program.h"

#include <stdio.h>
#include <stdlib.h>

void program_argv(const json_t *list, const char **out, size_t max)
{
	size_t i = 0;
	json_t *v;

	json_array_foreach(list, i, v) if (i + 1 < max) out[i] = json_string_value(v);
	i = json_array_size(list) < max ? json_array_size(list) : max - 1;
	out[i] = NULL;
}

char **program_env(const json_t *env)
{
	char **out = calloc(json_object_size(env) + 1, sizeof(*out));
	const char *key;
	json_t *v;
	size_t n = 0;

	json_object_foreach((json_t *)(uintptr_t)env, key, v)
	{
		if (!out || asprintf(&out[n], "%s=%s", key, json_string_value(v)) < 0)
			break;
		n++;
	}
	return out;
}

void program_env_free(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}
