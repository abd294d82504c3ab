/*
 * program_def.h - what programs that muxd keeps running inside a sandbox have in common, MCP servers and services: a
 * name, a command, an environment by name, and a place in a list of them. Pure.
 *
 * The product puts no secret into a sandbox: a variable, an argument or a value that is one, or looks like one, is
 * refused by name. A list is JSON that was checked here.
 */
#ifndef CONTROL_SERVERS_PROGRAM_DEF_H
#define CONTROL_SERVERS_PROGRAM_DEF_H

#include "base/json.h"
#include "base/schema.h"

#define PROGRAMS_MAX     32 /* of one agent, of each kind */
#define PROGRAM_NAME_MAX 64
#define PROGRAM_LIST_MAX (64 * 1024) /* bytes of a list */

/* For tables of fields. ERR_INVAL, ERR_TOO_LARGE, ERR_SECRET_REFUSED. */
int program_check_env(const struct schema *s, const struct schema_at *at, const json_t *env);
int program_check_command(const struct schema *s, const struct schema_at *at, const json_t *list);
int program_check_secret(const struct schema *s, const struct schema_at *at, const json_t *v); /* of a text */
int program_check_name(const struct schema *s, const struct schema_at *at, const json_t *v);

/* a-z A-Z 0-9 . _ -, 1 to 64. what: "server". ERR_INVAL. */
int program_name_check(const char *name, const char *what, struct err *e);

struct program_list {
	const char *member; /* "servers": its name in bodies and messages */
	/* One entry, checked; *out a copy with nothing but what is known, and a name. */
	int (*read)(const struct schema_at *at, const json_t *o, json_t **out, struct err *e);
};
/* A list as a client sends it; *out is the copy. ERR_INVAL, ERR_TOO_LARGE, ERR_CONFLICT (a name twice), and read's. */
int program_list_check(const struct program_list *k, const json_t *list, json_t **out, struct err *e);
/* The entry of that name, borrowed. NULL: there is none. */
const json_t *program_list_find(const json_t *list, const char *name);

#endif
