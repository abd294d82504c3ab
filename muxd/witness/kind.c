#include "muxd/witness/kind.h"

#include "muxd/witness/home.h"

#include <string.h>

kind_send *kind_find(const char *name)
{
	static const struct {
		const char *name;
		kind_send *send;
	} kinds[] = {{"file", kind_file_send}, {"https", kind_https_send}, {"muxd", kind_muxd_send}};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].send;
	return NULL;
}

int kind_known(const struct kind_call *c, const json_t *newest, struct err *e)
{
	return home_ask(c->home, json_pack("{s:s, s:s, s:O}", "op", "known", "witness", c->conf->name, "head", newest),
			NULL, e);
}
