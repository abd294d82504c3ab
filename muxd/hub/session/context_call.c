#include "muxd/hub/session/context_call.h"

#include "base/text.h"

#include <stdio.h>

/*
 * A file in the directory where Python begins is not to stand for a part of Python while the program is read, and is to
 * be found by the code later. The programs' name keeps their frames apart from those of the code.
 */
#define PYTHON_BEGIN                                                                                                   \
	"import sys;sys.path.pop(0);import os;exec(compile(os.environ.pop('" CONTEXT_VARIABLE                          \
	"'),'muxd-context','exec'),{'__name__':'muxd_context'})"
#define PYTHON_RUN "import os;exec(os.environ.pop('" CONTEXT_VARIABLE "'))"
#define NODE_BEGIN                                                                                                     \
	"const p=process.env." CONTEXT_VARIABLE ";delete process.env." CONTEXT_VARIABLE                                \
	";require('vm').runInThisContext('(function(require,program){'+p+'\\n})',{filename:'muxd-context'})(require,"  \
	"p)"

static const char **put_begin(const char **v, const struct context_use *u)
{
	bool node = u->language == CONTEXT_JAVASCRIPT, run = u->role == CONTEXT_EXECUTION;

	*v++ = node ? "node" : "python3";
	if (run && !node) {
		*v++ = "-I";
		*v++ = "-S";
	}
	*v++ = node ? "-e" : "-c";
	*v++ = node ? NODE_BEGIN : run ? PYTHON_RUN : PYTHON_BEGIN;
	return v;
}

const char *context_kernel(enum context_language l)
{
	return l == CONTEXT_PYTHON ? context_kernel_py : l == CONTEXT_JAVASCRIPT ? context_kernel_js : NULL;
}

const char *context_run(enum context_language l)
{
	return l == CONTEXT_PYTHON ? context_run_py : l == CONTEXT_JAVASCRIPT ? context_run_js : NULL;
}

void context_call(const struct context_use *u, int64_t timeout_ms, struct context_call *out)
{
	struct context_call *c = out;
	const char **v = put_begin(c->argv, u);
	char id[ID_STR_LEN];

	id_format(&u->id, id);
	text_format(c->socket, sizeof(c->socket), "/tmp/.muxd-context-%s-%lld", id, (long long)u->generation);
	*v++ = u->role == CONTEXT_ONCE ? "-" : c->socket;
	snprintf(c->numbers[0], sizeof(c->numbers[0]), "%lld", (long long)timeout_ms);
	snprintf(c->numbers[1], sizeof(c->numbers[1]), "%lld", (long long)u->code_bytes);
	snprintf(c->numbers[2], sizeof(c->numbers[2]), "%d", CONTEXT_TEXT_MAX);
	if (u->role == CONTEXT_EXECUTION) {
		snprintf(c->grace, sizeof(c->grace), "%d", CONTEXT_GRACE_MS);
		*v++ = c->numbers[0];
		*v++ = c->grace;
	}
	if (u->role != CONTEXT_INTERPRETER) {
		*v++ = c->numbers[1];
		*v++ = c->numbers[2];
	}
	*v = NULL;
}
