/*
 * server_def.h - one MCP server of an agent, as its configuration names it, and the list of them. Pure.
 *
 * A `command` server is a program inside the sandbox that speaks the protocol's stdio transport; a `url` server listens
 * on the sandbox's own loopback (base/loopback.h) and speaks Streamable HTTP: muxlet talks to it from inside. Servers
 * of scope `platform` stay outside and are refused by name, and so is every other address, which needs a way out of the
 * sandbox. What it has in common with other programs is program_def.h's. A list is JSON that was checked here; views
 * borrow from it.
 */
#ifndef CONTROL_SERVERS_SERVER_DEF_H
#define CONTROL_SERVERS_SERVER_DEF_H

#include "base/json.h"
#include "control/servers/program_def.h"

#include <stdint.h>

struct err;

#define SERVER_NAME_MAX      PROGRAM_NAME_MAX
#define SERVER_START_MS      30000 /* until a server has to have answered `initialize` */
#define SERVER_START_MS_MAX  300000
#define SERVER_FINGERPRINT_N 65

struct server_def {
	const char *name, *scope, *cwd; /* cwd NULL: the workspace */
	const char *url;                /* in place of a command, an environment and a directory; NULL */
	const json_t *command, *env;    /* texts; NULL: none */
	const json_t *asks;             /* of its client: "elicitation", "roots", "sampling"; NULL: nothing */
	int64_t start_timeout_ms;
	char fingerprint[SERVER_FINGERPRINT_N]; /* SHA-256 of the definition: another one is another server */
};

/*
 * A list as a client sends it, [{name, command or url, env, cwd, scope, start_timeout_ms, asks}]: *out is a copy with
 * nothing but these. ERR_INVAL, ERR_TOO_LARGE, ERR_CONFLICT (a name twice), ERR_PLATFORM_SERVER, ERR_EGRESS,
 * ERR_SECRET_REFUSED; the message has the place.
 */
int server_list_check(const json_t *list, json_t **out, struct err *e);
/* The server of that name in a list that was checked. ERR_NOT_FOUND, ERR_NOMEM. */
int server_list_find(const json_t *list, const char *name, struct server_def *out, struct err *e);
json_t *server_def_json(const struct server_def *d); /* an entry of a list; NULL: no memory */
/* a-z A-Z 0-9 . _ -, 1 to 64. */
int server_name_check(const char *name, struct err *e);

#endif
