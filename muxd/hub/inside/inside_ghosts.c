#include "muxd/hub/inside/inside_ghosts.h"

#include "base/text.h"

#include <string.h>

void inside_ghosts_clear(struct inside_ghosts *g)
{
	memset(g, 0, sizeof(*g));
}

void inside_ghosts_add(struct inside_ghosts *g, int64_t number, const struct grant *whose, const char *task,
		       uint64_t now_ns)
{
	size_t i = 0;

	while (i < INSIDE_GHOSTS_MAX && g->rows[i].number)
		i++;
	if (i == INSIDE_GHOSTS_MAX) {
		g->lost = true;
		return;
	}
	g->rows[i].number = number;
	g->rows[i].since_ns = now_ns;
	g->rows[i].kind = whose->kind;
	text_put(g->rows[i].principal, sizeof(g->rows[i].principal), whose->principal);
	text_put(g->rows[i].agent, sizeof(g->rows[i].agent), whose->agent);
	text_put(g->rows[i].task, sizeof(g->rows[i].task), task);
}

void inside_ghosts_answered(struct inside_ghosts *g, int64_t number)
{
	for (size_t i = 0; i < INSIDE_GHOSTS_MAX; i++)
		if (g->rows[i].number == number)
			g->rows[i].number = 0;
}

bool inside_ghosts_are_of(const struct inside_ghosts *g, const struct grant *whose, const char *task)
{
	for (size_t i = 0; i < INSIDE_GHOSTS_MAX; i++)
		if (g->rows[i].number &&
		    (g->rows[i].kind != whose->kind || strcmp(g->rows[i].principal, whose->principal) != 0 ||
		     strcmp(g->rows[i].agent, whose->agent) != 0 || strcmp(g->rows[i].task, task) != 0))
			return false;
	return !g->lost;
}

bool inside_ghosts_are_due(const struct inside_ghosts *g, uint64_t now_ns)
{
	for (size_t i = 0; i < INSIDE_GHOSTS_MAX; i++)
		if (g->rows[i].number && now_ns - g->rows[i].since_ns >= INSIDE_GHOST_NS)
			return true;
	return g->lost;
}
