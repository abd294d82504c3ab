// tier: check
/*
 * The text of a policy, and behind a line of "---8<---" a call. One that is refused says where and is none; whatever is
 * taken says the same of the same call twice, names its rule, and allows nothing that no profile names.
 */
#include "base/err.h"
#include "policy/call.h"
#include "policy/profile.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void ask(const struct policy *p, const struct policy_question *q)
{
	struct verdict v = policy_verdict(p, q), again = policy_verdict(p, q);
	char rule[POLICY_RULE_MAX], message[256], hint[200];

	must(v.allowed == again.allowed && v.why == again.why && v.profile == again.profile);
	must(!v.allowed || !v.profile || v.profile->rules[q->op].named);
	must(v.profile || v.allowed != p->otherwise_deny);
	verdict_rule(&v, q, rule);
	verdict_message(&v, q, message, sizeof(message));
	verdict_hint(&v, q, hint, sizeof(hint));
	must(*rule && *message && (v.allowed || *hint));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char cut[] = "\n---8<---\n";
	const uint8_t *at = memmem(data, size, cut, sizeof(cut) - 1);
	size_t n = at ? (size_t)(at - data) : size, left = at ? size - n - (sizeof(cut) - 1) : 0;
	char text[POLICY_CALL_MAX + 1] = "";
	struct policy *p = NULL;
	struct policy_call call;
	struct err e = {0};
	int rc = policy_parse((const char *)data, n, "p", &p, &e);

	must(rc == 0 ? p != NULL : !p && e.code == rc && e.message[0]);
	if (rc)
		return 0;
	for (size_t i = 0; i < POLICY_OPS; i++)
		ask(p, &(struct policy_question){
			   .op = (enum policy_op)i, .principal = "a", .task = "x", .path = "src/a", .server = "s"});
	if (left && left <= POLICY_CALL_MAX && !memchr(at + sizeof(cut) - 1, 0, left)) {
		memcpy(text, at + sizeof(cut) - 1, left);
		if (policy_call_parse(text, &call, &e) == 0)
			ask(p, &call.q);
	}
	policy_destroy(p);
	return 0;
}
