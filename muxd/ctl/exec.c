/* muxctl exec, run, tail and attach: a round or a terminal, mirrored by relay.h. */
#include "muxd/ctl/exec.h"
#include "base/clock.h"
#include "base/ids.h"
#include "muxd/ctl/escape.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/relay.h"
#include "muxd/ctl/terminal.h"
#include "policy/grant.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct ctl_option exec_options[] = {
    {"task", 0, "ID", "Task that the round belongs to (default: console)."},
    {"timeout", 0, "DURATION", "End it with all its processes after this time; muxctl exits with 124."},
    {"idle-timeout", 0, "DURATION", "The same when nothing comes of it for this time."},
    {"cwd", 0, "DIR", "Working directory in the sandbox (default: /workspace)."},
    {"env", 'e', "K=V", "Add to its environment; may be given many times."},
    {"command", 'c', "TEXT", "A shell command line instead of an argument list."},
    {"interactive", 'i', NULL, "Pass the standard input on (always so, unless -n)."},
    {"tty", 't', NULL, "Make it a terminal; without a command: a login shell."},
    {"detach", 'd', NULL, "Start it, print its round id, and leave; without -i its input is empty."},
    {"no-stdin", 'n', NULL, "Give it an empty standard input."},
    {"escape", 0, "KEY", "Escape key of a terminal, as ^] (default), or none."},
    {"exec-id", 0, "ID", "Idempotency key: the same id and command is started once."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl exec)."},
    {"ttl", 0, "DURATION", "How long the grant behind it lasts."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option run_options[] = {
    {"interactive", 'i', NULL, "Pass the standard input on; else its input is empty."},
    {"tty", 't', NULL, "Make it a terminal, which passes keys on; without a command: a login shell."},
    {"detach", 'd', NULL, "Start it, print its round id, and leave."},
    {"workdir", 'w', "DIR", "Working directory in the sandbox (default: /workspace)."},
    {"env", 'e', "K=V", "Add to its environment; may be given many times."},
    {"command", 'c', "TEXT", "A shell command line instead of an argument list."},
    {"timeout", 0, "DURATION", "End it with all its processes after this time; muxctl exits with 124."},
    {"exec-id", 0, "ID", "Idempotency key: the same id and command is started once."},
    {"task", 0, "ID", "Task that the round belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl run)."},
    {"ttl", 0, "DURATION", "How long the grant behind it lasts."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option attach_options[] = {
    {"observe", 0, NULL, "Watch only: what draws is shown."},
    {"raw", 0, NULL, "With --observe: the bytes as they are; what they say to a terminal, yours obeys."},
    {"escape", 0, "KEY", "Escape key, as ^] (default), or none."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl attach)."},
    {"ttl", 0, "DURATION", "How long the grant behind it lasts."},
    {NULL, 0, NULL, NULL},
};

static int argv_json(const struct ctl_args *a, json_t *out, struct err *e)
{
	for (size_t i = 1; i < a->noperands; i++)
		if (json_array_append_new(out, json_string(a->operands[i])) < 0)
			return err_set(e, ERR_NOMEM, "no memory for the question");
	return 0;
}

static void exec_set_text(json_t *o, const char *key, const char *value)
{
	if (value)
		json_object_set_new(o, key, json_string(value));
}

static json_t *pty_json(void)
{
	const char *term = getenv("TERM");
	unsigned cols, rows, x, y;

	terminal_size(isatty(0) ? 0 : 1, &cols, &rows, &x, &y);
	return json_pack("{s:i,s:i,s:i,s:i,s:s*}", "cols", (int)cols, "rows", (int)rows, "xpixel", (int)x, "ypixel",
			 (int)y, "term", term && *term ? term : NULL);
}

static void set_size(json_t *query)
{
	unsigned cols, rows, x, y;
	char text[16];

	terminal_size(isatty(0) ? 0 : 1, &cols, &rows, &x, &y);
	snprintf(text, sizeof(text), "%u", cols);
	json_object_set_new(query, "cols", json_string(text));
	snprintf(text, sizeof(text), "%u", rows);
	json_object_set_new(query, "rows", json_string(text));
}

static void exec_set_ms(json_t *o, const char *key, unsigned long long ns)
{
	if (ns)
		json_object_set_new(o, key, json_integer((json_int_t)((ns + NS_PER_MS - 1) / NS_PER_MS)));
}

/* exec always passes its input on, and run as docker does, where it is asked to: a loop of runs eats no list. */
static bool has_input(const struct ctl_args *a)
{
	return a->command->runs ? args_has(a, "interactive") || args_has(a, "tty") : !args_has(a, "no-stdin");
}

static int exec_question(const struct ctl_args *a, bool tty, unsigned long long timeout_ns, json_t **out, struct err *e)
{
	const char *command = args_get(a, "command");
	json_t *o = json_pack("{s:b,s:{}}", "stdin_open", (int)has_input(a), "env");
	json_t *argv = json_array();
	unsigned long long idle_ns = 0;
	int rc = o && argv ? args_duration(a, "idle-timeout", &idle_ns, e)
			   : err_set(e, ERR_NOMEM, "no memory for the question");

	if (rc == 0)
		rc = args_env(a, json_object_get(o, "env"), e);
	if (rc == 0)
		rc = argv_json(a, argv, e);
	if (rc == 0 && command && json_array_size(argv))
		rc = err_set(e, ERR_INVAL, "--command and an argument list exclude each other");
	if (rc == 0 && !tty && !command && json_array_size(argv) == 0)
		rc = err_set(e, ERR_INVAL, "no command given: muxctl %s AGENT -- COMMAND, or -it for a shell",
			     a->command->name);
	if (rc < 0) {
		json_decref(argv);
		json_decref(o);
		return rc;
	}
	exec_set_text(o, "command", command);
	exec_set_text(o, "task_id", args_get(a, "task"));
	exec_set_text(o, "cwd", args_get(a, a->command->runs ? "workdir" : "cwd"));
	exec_set_text(o, "exec_id", args_get(a, "exec-id"));
	if (json_array_size(argv))
		json_object_set(o, "argv", argv);
	json_decref(argv);
	exec_set_ms(o, "timeout_ms", timeout_ns);
	exec_set_ms(o, "idle_timeout_ms", idle_ns);
	if (tty)
		json_object_set_new(o, "pty", pty_json());
	*out = o;
	return 0;
}

static int escape_option(const struct ctl_args *a, int *out, struct err *e)
{
	const char *key = args_get(a, "escape");

	*out = key ? escape_key_parse(key) : ESCAPE_KEY_DEFAULT;
	return *out == -2 ? err_set(e, ERR_INVAL, "--escape is \"%.20s\": write ^] or none", key) : 0;
}

/* Token, connection, and of an exec what is to run; then everything is the relay's. start: stolen, NULL: none. */
static int converse(struct ctl *c, const struct api_call *call, json_t *start, const struct ctl_wish *w,
		    struct relay_options *o)
{
	struct api_socket socket = {.fd = -1};
	struct err e = {0};
	char *token = NULL;
	int rc = ctl_token(c, w, &token, &e);

	if (rc == 0)
		rc = api_socket_open(c, token, call, &socket, &e);
	else
		json_decref(call->query);
	if (rc == 0 && start && (rc = api_socket_put_json(&socket, WIRE_START, start)))
		err_set(&e, rc, "the command line is longer than a message can be");
	o->token = o->terminal ? token : NULL;
	int status = rc < 0 ? ctl_fail(c, &e) : relay_run(c, &socket, o);
	api_socket_close(&socket);
	grant_token_free(token);
	json_decref(start);
	return status;
}

/* As a round that nobody waits for: muxctl round events, output, keys and screen know it by its id. */
static int exec_detached(struct ctl *c, const struct ctl_args *a, json_t *question, struct ctl_wish *w)
{
	struct api_call call = {
	    .method = "POST", .path = "/v1/agents/*/rounds", .names = {a->operands[0]}, .body = question};
	json_t *pty = json_object_get(question, "pty"), *answer = NULL;
	struct err e = {0};
	int rc;

	json_object_del(pty, "xpixel");
	json_object_del(pty, "ypixel");
	json_object_set_new(question, "stdin_open", json_boolean(args_has(a, "interactive")));
	json_object_set_new(question, "wait_ms", json_integer(0));
	w->scopes = pty ? "rounds,terminal" : "rounds";
	rc = api_ask(c, w, &call, &answer, &e);
	if (rc || c->json)
		return ctl_finish(c, rc, &e, answer, NULL, NULL);
	printf("%s\n", json_get_text(answer, "round_id"));
	json_decref(answer);
	return fflush(stdout) == 0 ? 0 : err_exit_code(ERR_SYS);
}

static int exec_run(struct ctl *c, const struct ctl_args *a)
{
	bool tty = args_has(a, "tty");
	unsigned long long timeout = 0, ttl = 0;
	struct relay_options o = {.input = has_input(a), .terminal = tty, .collect = c->json && !tty};
	struct err e = {0};
	json_t *question = NULL;
	int rc = args_duration(a, "timeout", &timeout, &e);

	if (rc == 0)
		rc = args_duration(a, "ttl", &ttl, &e);
	if (rc == 0)
		rc = escape_option(a, &o.escape_key, &e);
	if (rc == 0)
		rc = target_name_check(a->operands[0], &e);
	if (rc == 0)
		rc = exec_question(a, tty, timeout, &question, &e);
	if (rc == 0 && args_has(a, "detach") && !json_object_get(question, "argv") &&
	    !json_object_get(question, "command"))
		rc = err_set(&e, ERR_INVAL, "--detach needs a command: what would the shell be told?");
	if (rc < 0) {
		json_decref(question);
		return ctl_fail(c, &e);
	}
	o.timeout_ns = timeout;
	struct ctl_wish w = {.kind = "staff",
			     .agent = a->operands[0],
			     .scopes = tty ? "terminal" : "rounds",
			     .task = args_get(a, "task"),
			     .reason = args_get_or(a, "reason", a->command->runs ? "muxctl run" : "muxctl exec"),
			     .ttl_ns = ttl,
			     .work_ns = timeout};
	if (args_has(a, "detach"))
		return exec_detached(c, a, question, &w);
	return converse(c, &(struct api_call){.path = "/v1/agents/*/exec", .names = {a->operands[0]}}, question, &w,
			&o);
}

int exec_program(struct ctl *c, const struct ctl_args *a, const char *agent, json_t *argv, const char *reason)
{
	struct relay_options o = {
	    .collect = c->json, .escape_key = -1, .tame = !c->json && isatty(STDOUT_FILENO) && !args_has(a, "raw")};
	struct ctl_wish w = {
	    .kind = "staff", .agent = agent, .scopes = "rounds", .task = args_get(a, "task"), .reason = reason};
	struct api_call call = {.path = "/v1/agents/*/exec", .names = {agent}};
	json_t *question = json_pack("{s:o,s:b,s:s*}", "argv", argv, "stdin_open", 0, "task_id", args_get(a, "task"));
	struct err e = {0};
	int rc = question ? target_name_check(agent, &e) : err_set(&e, ERR_NOMEM, "no memory for the question");

	if (rc == 0)
		return converse(c, &call, question, &w, &o);
	json_decref(question);
	return ctl_fail(c, &e);
}

static int attach_run(struct ctl *c, const struct ctl_args *a)
{
	bool observe = args_has(a, "observe");
	unsigned long long ttl = 0;
	struct relay_options o = {
	    .input = true, .terminal = true, .observer = observe, .tame = observe && !args_has(a, "raw")};
	struct err e = {0};
	struct id id;
	int rc = args_duration(a, "ttl", &ttl, &e);

	if (rc == 0)
		rc = escape_option(a, &o.escape_key, &e);
	if (rc == 0 && id_parse(a->operands[0], &id) < 0)
		rc = err_set(&e, ERR_INVAL, "\"%.60s\" is not a session id", a->operands[0]);
	if (rc < 0)
		return ctl_fail(c, &e);
	json_t *query = json_pack("{s:s,s:s}", "role", observe ? "observer" : "driver", "screen",
				  isatty(STDOUT_FILENO) ? "true" : "false");
	if (!observe)
		set_size(query);
	/* Which agent a session is of, the hub knows. */
	struct ctl_wish w = {.kind = "staff",
			     .agent = "*",
			     .scopes = observe ? "observe,admin" : "terminal,observe,drive,admin",
			     .reason = args_get_or(a, "reason", "muxctl attach"),
			     .ttl_ns = ttl};
	return converse(c,
			&(struct api_call){.path = "/v1/sessions/*/attach", .names = {a->operands[0]}, .query = query},
			NULL, &w, &o);
}

const struct ctl_command exec_commands[] = {
    {"exec", "AGENT [--] COMMAND...", 1, -1,
     "Run a command in an agent's sandbox with its input, output and exit status.", exec_options, .run = exec_run,
     .more = "The exit status is the command's, 128+n after signal n, 124 after a timeout.\n"
	     "In a terminal (-it), Ctrl-] d detaches; the session runs on until\n"
	     "muxctl attach. Ctrl-] ? lists the keys, Ctrl-] Ctrl-] sends a Ctrl-].\n"},
    {"run", "AGENT [--] COMMAND...", 1, -1, "Run one command in an agent's sandbox, as docker run has it.", run_options,
     .run = exec_run,
     .more = "What stands behind AGENT and the options is the command's, with or without --. The sandbox is\n"
	     "made or woken when it is not there, and stays (run start, run show ...: runs of workflows; an agent\n"
	     "of such a name stands behind --). The exit status is as that of muxctl exec.\n",
     .runs = true},
    {"attach", "SESSION", 1, 1, "Reattach to a terminal session, or watch it.", attach_options, .run = attach_run,
     .more = "Ctrl-] d detaches again; the session runs on.\n"},
    {0},
};
