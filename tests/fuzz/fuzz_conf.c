// tier: check
/* The configuration file: whatever stands in it, a whole conf or a named place. */
#include "base/conf.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int truth)
{
	if (!truth)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf *c = NULL;
	struct err e = {0};
	int rc = conf_parse((const char *)data, size, "fuzz.yaml", &c, &e);

	if (rc < 0) {
		require(!c && rc == ERR_CONFIG && strncmp(e.message, "fuzz.yaml:", 10) == 0);
		return 0;
	}
	const struct conf_rule *last = &c->rules[c->nrules - 1];
	require(strcmp(last->kind, "*") == 0 && strcmp(last->session, "*") == 0);
	require(c->grant_ttl_ns <= c->grant_ttl_max_ns && c->round_timeout_ns <= c->round_timeout_max_ns);
	for (size_t i = 0; i < c->nstaff; i++)
		require(c->staff[i].principal && c->staff[i].nkeys && c->staff[i].nagents && c->staff[i].scopes &&
			c->staff[i].ttl_ns && c->staff[i].ttl_ns <= c->grant_ttl_max_ns);
	conf_destroy(c);
	return 0;
}
