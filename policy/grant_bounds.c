#include "policy/grant_bounds.h"

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define NAME_MAX_LEN 64
#define ALL_KNOWN    (((uint64_t)1 << POLICY_OPS) - 1)

_Static_assert(POLICY_OPS < 64, "the operations of a grant are bits of one number");

int grant_bounds_check(const struct grant_bounds *b, struct err *e)
{
	if (b->uses > GRANT_USES_MAX)
		return err_set(e, ERR_INVAL, "uses is %u, at most %d", (unsigned)b->uses, GRANT_USES_MAX);
	if (b->operations & ~ALL_KNOWN)
		return err_set(e, ERR_INVAL, "operations hold one that is not known");
	return 0;
}

static int operation_take(const char *text, size_t n, uint64_t *io, struct err *e)
{
	char name[NAME_MAX_LEN];
	const char *near;
	enum policy_op op;

	text_put_bytes(name, sizeof(name), text, n);
	op = n < sizeof(name) ? policy_op_find(name) : POLICY_OPS;
	if (op != POLICY_OPS) {
		*io |= (uint64_t)1 << op;
		return 0;
	}
	near = policy_op_nearest(name);
	return err_set(e, ERR_INVAL, "operations: \"%.40s\" is none%s%s%s (muxctl policy operations lists them)", name,
		       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int grant_operations_parse(const char *text, uint64_t *out, struct err *e)
{
	uint64_t all = 0;
	int rc = 0;

	for (const char *at = text; rc == 0; at += strcspn(at, ",") + 1) {
		rc = operation_take(at, strcspn(at, ","), &all, e);
		if (rc == 0 && !at[strcspn(at, ",")])
			break;
	}
	if (rc == 0)
		*out = all;
	return rc;
}

int grant_bounds_take(const json_t *o, struct grant_bounds *out, struct err *e)
{
	struct grant_bounds b = {0};
	const char *operations = NULL;
	int64_t uses = 0;
	int rc = json_opt_int(o, "uses", 1, GRANT_USES_MAX, &uses, e);

	if (rc == 0)
		rc = json_opt_str(o, "operations", &operations, e);
	if (rc == 0 && operations)
		rc = grant_operations_parse(operations, &b.operations, e);
	b.uses = (uint32_t)uses;
	if (rc == 0)
		*out = b;
	return rc;
}

static json_t *operations_json(uint64_t operations)
{
	char text[POLICY_OPS * NAME_MAX_LEN] = "";
	size_t at = 0;

	for (unsigned op = 0; op < POLICY_OPS; op++) {
		const char *name = policy_op_name((enum policy_op)op);

		if (!(operations & (uint64_t)1 << op))
			continue;
		if (at)
			text[at++] = ',';
		text_put(text + at, sizeof(text) - at, name);
		at += strlen(text + at);
	}
	return json_string(text);
}

int grant_bounds_put(json_t *o, const struct grant_bounds *b)
{
	if (b->uses && json_object_set_new(o, "uses", json_integer(b->uses)))
		return ERR_NOMEM;
	return b->operations && json_object_set_new(o, "operations", operations_json(b->operations)) ? ERR_NOMEM : 0;
}

int grant_bounds_allow(const struct grant_bounds *b, enum policy_op op, struct err *e)
{
	if (!b->operations || b->operations & (uint64_t)1 << op)
		return 0;
	return err_set(e, ERR_FORBIDDEN, "your grant does not name operation %s (operations)", policy_op_name(op));
}

static const char *first_beyond(uint64_t operations)
{
	unsigned op = 0;

	while (op < POLICY_OPS && !(operations & (uint64_t)1 << op))
		op++;
	return policy_op_name((enum policy_op)op);
}

int grant_bounds_narrow(const struct grant_bounds *parent, const struct grant_bounds *child, struct err *e)
{
	if (parent->uses && (!child->uses || child->uses > parent->uses))
		return err_set(e, ERR_NOT_NARROWER, "uses: at most %u, as in your grant", (unsigned)parent->uses);
	if (!parent->operations)
		return 0;
	if (!child->operations)
		return err_set(e, ERR_NOT_NARROWER, "operations: name some, since your grant does");
	if (child->operations & ~parent->operations)
		return err_set(e, ERR_NOT_NARROWER, "operations: your grant has no %s to give",
			       first_beyond(child->operations & ~parent->operations));
	return 0;
}
