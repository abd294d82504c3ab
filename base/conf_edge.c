/* Values of the section edge. */
#include "base/conf_table.h"

#include "base/err.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

int conf_check_https_url(const char *value, struct err *e)
{
	if (*value && (strncmp(value, "https://", 8) != 0 || !value[8] || strpbrk(value, " \t\r\n\"@#?")))
		return err_set(e, ERR_CONFIG, "is no URL that begins with https://, without a user in it");
	return 0;
}

int conf_edge_add(struct conf *c, const struct conf_edge *x)
{
	for (size_t i = 0; i < c->nedges; i++)
		if (strcmp(c->edges[i].name, x->name) == 0 || strcmp(c->edges[i].id, x->id) == 0 ||
		    strcmp(c->edges[i].key, x->key) == 0)
			return ERR_CONFLICT;
	return c->nedges < CONF_EDGES_MAX ? list_append(&c->edges, &c->nedges, x, sizeof(*x)) : ERR_LIMIT;
}

void conf_edge_finish(struct conf_edge *x)
{
	free(x->name);
	free(x->id);
	free(x->key);
	*x = (struct conf_edge){0};
}

void conf_edges_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nedges; i++)
		conf_edge_finish(&c->edges[i]);
	free(c->edges);
	c->edges = NULL;
	c->nedges = 0;
}
