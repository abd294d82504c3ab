/*
 * tools.h - the tools that an agent is shown: each is one row that says which call of the API it is, and where each of
 * its arguments goes. What a tool does, checks, records and audits is that call's.
 *
 * A tool's name may have dots, which some models' interfaces refuse: each is called by a name with _ in place of them,
 * too. Which tools a caller is shown its grant says, mcp_tool_allowed(), and the policy, mcp_tool_judged().
 */
#ifndef MUXD_DOORS_HTTPS_MCP_TOOLS_H
#define MUXD_DOORS_HTTPS_MCP_TOOLS_H

#include "muxd/doors/https/http.h"

enum mcp_arg_kind { ARG_TEXT, ARG_INTEGER, ARG_BOOL, ARG_TEXTS, ARG_TEXT_MAP, ARG_OBJECT };

/* Where an argument goes in the call. */
enum mcp_arg_to {
	TO_BODY, /* a member */
	TO_NAME, /* a {name} of the path, in their order */
	TO_QUERY,
	TO_RANGE, /* the first byte, and how many (a pair of arguments) */
	TO_BYTES, /* the body itself; encoded as the argument `encoding` says */
	TO_ENCODING,
	TO_ALL,  /* an object, whose members are of the body */
	TO_TASK, /* is compared with the grant, and goes nowhere */
	TO_NOWHERE,
};

struct mcp_arg {
	const char *name;
	enum mcp_arg_kind kind;
	bool required;
	enum mcp_arg_to to;
	const char *as;      /* its name there; NULL: the same */
	const char *text;    /* what it is, for models */
	int64_t min, max;    /* of a number; of a text's bytes or a list's length, max 0: any */
	const char *choices; /* "a,b"; NULL: any */
};
#define MCP_ARGS_MAX 12

enum mcp_tool_flag {
	TOOL_READS = 1,      /* changes nothing */
	TOOL_DESTROYS = 2,   /* may take away what was there */
	TOOL_IDEMPOTENT = 4, /* the same once more changes nothing more */
	TOOL_ROUND = 8,      /* it is a round: its end is waited for, and it can be cancelled */
	TOOL_EXECUTION = 16, /* the same of code: /v1/executions */
	TOOL_EXEC_ID = 32,   /* a repeat of the call starts nothing anew */
	TOOL_BYTES = 64,     /* the answer is bytes */
	TOOL_NEW_ONLY = 128, /* If-None-Match: * where create_only is said */
};

struct mcp_tool {
	const char *name, *title, *text;
	uint32_t any, all; /* scopes: one of these, each of these */
	unsigned flags;
	enum http_method method;
	const char *pattern; /* of the row in the route table */
	const char *fixed;   /* members of every body, as JSON; NULL */
	const struct mcp_arg *args;
	size_t nargs;
	const char *output;                  /* the schema of what it gives, as JSON */
	json_t *(*tell)(const json_t *ours); /* NULL: as it is */
};

const struct mcp_tool *mcp_tools(size_t *out_n);
/* By its name or its alias; NULL: there is none. */
const struct mcp_tool *mcp_tool_find(const char *name);
/* May this grant be shown the tool, and call it? ERR_FORBIDDEN names what is missing. */
int mcp_tool_allowed(const struct grant *g, const struct mcp_tool *t, struct err *e);
/* Has it a row that names what the policy is asked about? A tool without one is shown to nobody. */
bool mcp_tool_has_operation(const struct mcp_tool *t);
/* Would the policy allow what it does? Such tools alone are shown; a call is asked about with what it is about. */
bool mcp_tool_judged(struct hub *h, const struct request *rq, const struct mcp_tool *t);
/* Each tool as a list has it: a tenth of a megabyte, made once. NULL: no memory. */
json_t *mcp_tools_make(void);
/* {tools: [...]} of what is allowed; made: of all. NULL: no memory. */
json_t *mcp_tools_list(struct hub *h, const struct request *rq, json_t *made);

/* The arguments are as the row has them. ERR_INVAL names the first that is not. */
int mcp_args_check(const struct mcp_tool *t, const json_t *args, struct err *e);

/* One call of the API, made of arguments that were checked: what inner_begin() wants, and what it is built of. */
struct mcp_ask {
	struct buf body;
	char query[6][160];
	size_t nquery;
	const char *names[HTTP_PARAMS_MAX];
	char range[64];
	bool only_new;
	const char *task; /* NULL: none was said */
};
/* exec_id NULL: none. Names point into args. */
int mcp_ask_make(const struct mcp_tool *t, const json_t *args, const char *exec_id, size_t max, struct mcp_ask *out,
		 struct err *e);
void mcp_ask_finish(struct mcp_ask *a);

/* tell.c: answers of the API as a tool's structured content. NULL: no memory. */
json_t *mcp_tell_round(const json_t *round);
json_t *mcp_tell_ports(const json_t *agent);
json_t *mcp_tell_execution(const json_t *execution);
json_t *mcp_tell_screen(const uint8_t *p, size_t n, const char *headers);
json_t *mcp_tell_bytes(const uint8_t *p, size_t n, bool more, const char *headers);

#endif
