#include "policy/operation.h"

#include "base/conf_table.h"

#include <string.h>

static const struct {
	const char *name, *help;
	unsigned options;
} operations[POLICY_OPS] = {
#define POLICY_OP_ROW_(id, text, opts, about) [POLICY_##id] = {text, about, opts},
    POLICY_OPERATIONS(POLICY_OP_ROW_)
#undef POLICY_OP_ROW_
};

/* "a|b|c", for the word that was meant. */
static const char op_names[] =
#define POLICY_OP_TEXT_(id, text, opts, about) text "|"
    POLICY_OPERATIONS(POLICY_OP_TEXT_)
#undef POLICY_OP_TEXT_
	"*";

const char *policy_op_name(enum policy_op op)
{
	return (size_t)op < POLICY_OPS ? operations[op].name : "unknown";
}

const char *policy_op_help(enum policy_op op)
{
	return (size_t)op < POLICY_OPS ? operations[op].help : "";
}

unsigned policy_op_options(enum policy_op op)
{
	return (size_t)op < POLICY_OPS ? operations[op].options : 0;
}

enum policy_op policy_op_find(const char *name)
{
	for (size_t i = 0; i < POLICY_OPS; i++)
		if (strcmp(name, operations[i].name) == 0)
			return (enum policy_op)i;
	return POLICY_OPS;
}

const char *policy_op_nearest(const char *name)
{
	size_t len = 0;
	const char *near = conf_choice_nearest(op_names, name, &len);

	for (size_t i = 0; near && i < POLICY_OPS; i++)
		if (strlen(operations[i].name) == len && memcmp(operations[i].name, near, len) == 0)
			return operations[i].name;
	return NULL;
}
