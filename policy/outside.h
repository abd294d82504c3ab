/*
 * outside.h - what a token of an outside issuer is worth here: the operator's words (issuers in the configuration) over
 * the claims that the checker found signed.
 *
 * The monitor asks before it signs, so that neither net, nor the checker, nor the issuer gets more than the
 * configuration names. Pure.
 */
#ifndef POLICY_OUTSIDE_H
#define POLICY_OUTSIDE_H

#include "base/json.h"
#include "policy/grant.h"

struct conf_issuer;
struct err;

struct outside_grant {
	enum grant_kind kind;
	uint32_t scopes;
	char principal[GRANT_NAME_MAX + 1];
	char agent[AGENT_NAME_MAX + 1];
};

/*
 * claims: {name: text or [text]}. agent NULL: the one that there is. scopes 0: all that there are. ERR_TOKEN_CLAIMS: a
 * claim is missing, or is none that the operator takes; ERR_FORBIDDEN: more is asked for than they give; ERR_INVAL: no
 * agent is named where there are several.
 */
int outside_map(const struct conf_issuer *x, const json_t *claims, const char *agent, uint32_t scopes,
		struct outside_grant *out, struct err *e);
/*
 * Of a token that is shown at /mcp, beside which nobody says why: by the operator's reason and task, "" where there is
 * none. ERR_REASON_REQUIRED: the issuer's tokens open nothing there. ERR_TOKEN_CLAIMS.
 */
struct outside_words {
	char reason[GRANT_REASON_MAX + 1], task[GRANT_NAME_MAX + 1];
};
int outside_words(const struct conf_issuer *x, const json_t *claims, struct outside_words *out, struct err *e);
/* The claims that both look at: a set of names. NULL: no memory. */
json_t *outside_claims(const struct conf_issuer *x);

#endif
