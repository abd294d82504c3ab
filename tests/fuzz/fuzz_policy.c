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

static bool is_listed(const struct policy_images *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->list[i].name, name) == 0)
			return true;
	return !m->limited || (!*name && m->none);
}

/* A sandbox that is made is within its profile, whoever chose what it is made with. */
static void ask_shape(const struct verdict *v, const struct policy_question *q)
{
	const struct policy_profile *p = v->profile;
	struct policy_shape s;

	verdict_shape(v, q, &s);
	must(s.image != NULL);
	if (!p)
		return;
	must(is_listed(&p->images, s.image));
	must(!p->resources.most.memory || s.resources.memory <= p->resources.most.memory);
	must(!p->resources.most.cpu_milli || s.resources.cpu_milli <= p->resources.most.cpu_milli);
	must(!p->resources.most.pids || s.resources.pids <= p->resources.most.pids);
}

static void ask(const struct policy *p, const struct policy_question *q)
{
	struct verdict v = policy_verdict(p, q), again = policy_verdict(p, q);
	char rule[POLICY_RULE_MAX], message[256], hint[200];

	if (v.allowed && q->makes)
		ask_shape(&v, q);
	must(v.allowed == again.allowed && v.why == again.why && v.profile == again.profile);
	must(!v.allowed || !v.profile || q->judged || v.profile->rules[q->op].named);
	must(v.profile || q->judged || v.allowed != p->otherwise_deny);
	verdict_rule(&v, q, rule);
	verdict_message(&v, q, message, sizeof(message));
	verdict_hint(&v, q, hint, sizeof(hint));
	must(*rule && *message && (v.allowed || *hint));
}

/* With a size and an image from before, for each way in which the file may look at them. */
static void ask_made(const struct policy *p, struct policy_question q)
{
	static const char *const images[] = {NULL, "", "python", "b"};

	q.makes = true;
	for (unsigned i = 0; i < 32; i++) {
		q.image = images[i & 3];
		q.kept_image = images[i >> 2 & 3];
		q.judged = i & 16;
		q.kept = (struct resources){UINT64_C(1) << 33, 100000, 100000};
		ask(p, &q);
	}
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
	ask_made(p, (struct policy_question){.op = POLICY_SANDBOX_WAKE, .principal = "a", .task = "x"});
	for (size_t i = 0; i < POLICY_OPS; i++)
		ask(p, &(struct policy_question){
			   .op = (enum policy_op)i, .principal = "a", .task = "x", .path = "src/a", .server = "s"});
	if (left && left <= POLICY_CALL_MAX && !memchr(at + sizeof(cut) - 1, 0, left)) {
		memcpy(text, at + sizeof(cut) - 1, left);
		if (policy_call_parse(text, &call, &e) == 0) {
			ask(p, &call.q);
			ask_made(p, call.q);
		}
	}
	policy_destroy(p);
	return 0;
}
