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

const char *policy_op_session(enum policy_op op)
{
	switch (op) {
	case POLICY_TERMINAL_OPEN:
		return "terminal";
	case POLICY_EXEC_OPEN:
		return "exec";
	case POLICY_ROUND_START:
	case POLICY_ROUND_INPUT:
	case POLICY_CONTEXT_CREATE:
	case POLICY_CONTEXT_EXECUTE:
	case POLICY_PYTHON_EXECUTE:
		return "round";
	case POLICY_FILE_READ:
	case POLICY_FILE_WRITE:
		return "file";
	case POLICY_PORT_OPEN:
		return "port";
	case POLICY_MCP_CALL:
		return "mcp";
	default:
		return NULL;
	}
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
