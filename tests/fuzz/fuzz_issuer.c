// tier: check
/*
 * What outside issuers send: the document of their keys, and tokens. The input is tried as each, and as the claims of a
 * token whose header is good, as if it were signed. What the claims are worth is never more than the configuration
 * names, whatever they say.
 */
#include "base/conf.h"
#include "base/err.h"
#include "muxd/issuer/jwt.h"
#include "policy/outside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1800000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char conf_text[] =
    "issuers:\n"
    "  - {name: x, issuer: \"https://issuer\", audience: muxd, principal: \"x/{sub}\", require: \"repo=org/*\",\n"
    "     kinds: \"agent,service\", kind_claim: kind, agents: [\"ci-*\", demo], agents_claim: agents,\n"
    "     scopes: \"rounds,files\", scopes_claim: scope,\n"
    "     reason: \"MCP of {sub} by {client_id}\", task: \"mcp-{client_id}\"}\n";

static const struct conf *configured(void)
{
	static struct conf *c;

	if (!c && conf_parse(conf_text, sizeof(conf_text) - 1, "fuzz", &c, NULL))
		abort();
	return c;
}

static void worth(const json_t *claims, const char *agent)
{
	const struct conf_issuer *x = &configured()->issuers[0];
	struct outside_words w;
	struct outside_grant g;

	if (outside_words(x, claims, &w, NULL) == 0 &&
	    (strncmp(w.reason, "MCP of ", 7) != 0 || strncmp(w.task, "mcp-", 4) != 0 || strchr(w.task, '/')))
		abort();
	if (outside_map(x, claims, agent, 0, &g, NULL))
		return;
	if (g.scopes & ~(uint32_t)(SCOPE_ROUNDS | SCOPE_FILES) || !g.scopes ||
	    (g.kind != GRANT_AGENT && g.kind != GRANT_SERVICE) || strncmp(g.principal, "x/", 2) != 0 ||
	    strchr(g.principal + 2, '/') || (!grant_covers("ci-*", g.agent) && strcmp(g.agent, "demo") != 0))
		abort();
}

static void try_token(const char *token, size_t len)
{
	static const struct jwt_wanted wanted = {
	    .issuer = "https://issuer", .audience = "muxd", .now = NOW, .skew = 30, .lifetime = 86400};
	json_t *names = outside_claims(&configured()->issuers[0]), *answer;
	struct jwt j;

	if (jwt_parse(token, len, NULL, &j, NULL) == 0) {
		if (jwt_claims(&j, &wanted, NULL) == 0) {
			answer = jwt_answer(&j, "x", names);
			if (!answer)
				abort();
			worth(json_object_get(answer, "claims"), NULL);
			worth(json_object_get(answer, "claims"), "ci-a");
			json_decref(answer);
		}
		jwt_finish(&j);
	}
	json_decref(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char header[] = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ"; /* {"alg":"ES256","kid":"a"} */
	struct jwk_set set;
	char *payload, *token = NULL;
	int n;

	if (jwk_set_parse(data, size, &set, NULL) == 0) {
		if (!set.usable || set.usable > set.n || set.n > JWK_KEYS_MAX)
			abort();
		jwk_set_finish(&set);
	}
	try_token((const char *)data, size);
	payload = base64_encode(data, size, true);
	n = payload ? asprintf(&token, "%s.%s.AAAA", header, payload) : -1;
	if (n > 0)
		try_token(token, (size_t)n);
	free(payload);
	free(token);
	return 0;
}
