/* shares.weights: agents and what their sandboxes weigh. */
#include "base/conf_table.h"

#include <stdlib.h>
#include <string.h>

bool conf_weight_next(const char **io, char *agent, size_t size, unsigned *out_weight)
{
	size_t len = strcspn(*io, "=,"), digits;
	const char *number = *io + len + 1;
	unsigned long weight;

	if (!len || len >= size || (*io)[len] != '=' || memchr(*io, ' ', len))
		return false;
	digits = strspn(number, "0123456789");
	weight = digits && digits < 6 ? strtoul(number, NULL, 10) : 0;
	if (!weight || weight > CONF_WEIGHT_MAX || (number[digits] && number[digits] != ',') ||
	    (number[digits] == ',' && !number[digits + 1]))
		return false;
	memcpy(agent, *io, len);
	agent[len] = '\0';
	*out_weight = (unsigned)weight;
	*io = number + digits + (number[digits] == ',');
	return true;
}

/* A name, or the beginning of names and "*". */
static bool weight_fits(const char *pattern, const char *agent)
{
	size_t n = strlen(pattern);

	return pattern[n - 1] == '*' ? strncmp(pattern, agent, n - 1) == 0 : strcmp(pattern, agent) == 0;
}

unsigned conf_weight(const char *weights, const char *agent)
{
	const char *p = weights;
	char pattern[128];
	unsigned weight;

	while (p && *p && conf_weight_next(&p, pattern, sizeof(pattern), &weight))
		if (weight_fits(pattern, agent))
			return weight;
	return CONF_WEIGHT;
}
