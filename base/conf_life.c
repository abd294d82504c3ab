/* Values of the section lifecycle. */
#include "base/conf_table.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int conf_check_cpu_counts(const char *value, struct err *e)
{
	if (strcmp(value, "true") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "on") == 0)
		return err_set(
		    e, ERR_CONFIG,
		    "is true, which is not supported: processor time inside does not reset the idle timer. Run "
		    "what must not be stopped as a round, which holds it");
	return 0;
}

void conf_life_agent_finish(struct conf_life_agent *a)
{
	free(a->agent);
	free(a->ttl_action);
	free(a->at_rest);
}

int conf_life_agent_add(struct conf *c, const struct conf_life_agent *a)
{
	struct conf_life_agent *list = realloc(c->life_agents, (c->life_nagents + 1) * sizeof(*list));

	if (!list)
		return ERR_NOMEM;
	c->life_agents = list;
	list[c->life_nagents++] = *a;
	return 0;
}

void conf_life_agents_clear(struct conf *c)
{
	for (size_t i = 0; i < c->life_nagents; i++)
		conf_life_agent_finish(&c->life_agents[i]);
	free(c->life_agents);
	c->life_agents = NULL;
	c->life_nagents = 0;
}
