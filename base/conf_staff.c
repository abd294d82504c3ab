/* Values of staff, and of what else is said in scopes. */
#include "base/conf_table.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

/* Which scopes exist is policy's; here only what cannot be a list of them is refused. */
int conf_check_scopes(const char *text, struct err *e)
{
	size_t len = strlen(text);

	if (len == 0 || len > CONF_SCOPES_MAX || strspn(text, "abcdefghijklmnopqrstuvwxyz,") != len || text[0] == ',' ||
	    text[len - 1] == ',' || strstr(text, ",,"))
		return err_set(e, ERR_CONFIG, "is not a list of scopes such as terminal,observe");
	return 0;
}

static void strings_free(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static void staff_finish(struct conf_staff *s)
{
	free(s->principal);
	free(s->scopes);
	strings_free(s->keys, s->nkeys);
	strings_free(s->agents, s->nagents);
}

void conf_staff_clear(struct conf *c)
{
	for (size_t i = 0; i < c->nstaff; i++)
		staff_finish(&c->staff[i]);
	free(c->staff);
	c->staff = NULL;
	c->nstaff = 0;
}
