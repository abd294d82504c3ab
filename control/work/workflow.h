/*
 * workflow.h - the definition of a workflow: versioned JSON, checked like a schema.
 *
 *	{"name", "owner", "version", "description"?, "steps": [...],
 *	 "hints"?: {"timeoutSeconds", "memoryBytes"}, "schedule"?: {"cron", "timeZone"?, "enabled"?}}
 *
 * A step has one of argv (a list), shell (a line) and code ({"language", "source"}), and may have
 * name, cwd, env, timeoutSeconds, continueOnError and artifacts (control/artifacts/artifact_wish.h). Faults name where
 *they are as a JSON pointer (RFC 6901): "/steps/2/argv/0: ...". Pure: nothing is stored here.
 */
#ifndef CONTROL_WORK_WORKFLOW_H
#define CONTROL_WORK_WORKFLOW_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define WORKFLOW_NAME_MAX  63
#define WORKFLOW_STEPS_MAX 64
#define WORKFLOW_TEXT_MAX  (128 * 1024) /* of a shell line; twice that of code */

struct workflow_limits {
	uint64_t timeout_max_s; /* of a step, and of the hint */
	uint64_t memory_max;    /* what one sandbox has; 0: not known here */
};

/*
 * ERR_INVAL, ERR_TOO_LARGE; ERR_UNSUPPORTED for what is a part of the format that this version does not run (steps
 * of tools and MCP, schedules that are enabled). The message begins with the pointer.
 */
int workflow_check(const json_t *o, const struct workflow_limits *l, struct err *e);

/* A step of a checked definition; everything is borrowed from it. */
struct workflow_step {
	const char *name; /* "": none */
	const json_t *argv, *env;
	const char *shell;
	const char *language, *source;
	const char *cwd; /* NULL: /workspace */
	uint64_t timeout_s;
	const json_t *artifacts; /* NULL: none */
	bool go_on;              /* continueOnError */
};
size_t workflow_steps(const json_t *o);
void workflow_step(const json_t *o, size_t i, struct workflow_step *out);
uint64_t workflow_timeout_s(const json_t *o); /* the hint; 0: none */
/* What runs code of that language, reading it from its input: NULL-ended. NULL: not known. */
const char *const *workflow_runner(const char *language);

/* [A-Za-z0-9] and then [A-Za-z0-9._-], up to 63. */
int workflow_name_check(const char *name, struct err *e);
/* NAME or NAME@VERSION. *out_version 0: the newest. */
int workflow_id_parse(const char *id, char out_name[WORKFLOW_NAME_MAX + 1], int64_t *out_version, struct err *e);

#endif
