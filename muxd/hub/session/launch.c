/* What a client asked to run: checked, copied, and given a digest that tells one exec_id's uses apart. */
#include "muxd/hub/session/launch.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "muxd/hub/core/hub.h"
#include "muxd/hub/session/port.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX    1024
#define COMMAND_MAX (128 * 1024)

void launch_forget_secret(struct launch *l)
{
	if (l->secret)
		explicit_bzero(l->secret, l->secret_len);
	free(l->secret);
	l->secret = NULL;
}

int launch_leased(struct launch *l, const struct work_ids *ids)
{
	if (!ids || !ids->lease[0])
		return 0;
	l->work = malloc(sizeof(*l->work));
	if (!l->work)
		return ERR_NOMEM;
	*l->work = *ids;
	return 0;
}

void launch_finish(struct launch *l)
{
	for (char **p = l->argv; p && *p; p++)
		free(*p);
	for (char **p = l->env; p && *p; p++)
		free(*p);
	free(l->argv);
	free(l->env);
	free(l->command);
	free(l->cwd);
	free(l->exec_id);
	free(l->port_use);
	free(l->stdin_data);
	launch_forget_secret(l);
	transfer_destroy(l->transfer);
	json_decref(l->artifacts);
	free(l->record);
	free(l->work);
	memset(l, 0, sizeof(*l));
}

static size_t launch_count(const char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static char **copy_list(const char *const *v, const char *extra)
{
	size_t n = launch_count(v);
	char **out = calloc(n + 2, sizeof(*out));

	for (size_t i = 0; out && i < n; i++)
		if (!(out[i] = strdup(v[i])))
			goto fail;
	if (out && extra && !(out[n] = strdup(extra)))
		goto fail;
	return out;
fail:
	for (size_t i = 0; out && i < n; i++)
		free(out[i]);
	free(out);
	return NULL;
}

static int check_sizes(const struct hub *h, const struct exec_spec *spec, struct err *e)
{
	size_t n = launch_count(spec->argv), m = launch_count(spec->env),
	       bytes = spec->command ? strlen(spec->command) : 0;
	uint64_t max = hub_conf(h)->round_argv_max;

	if (spec->argv && (n == 0 || !spec->argv[0][0]))
		return err_set(e, ERR_INVAL, "argv is empty: name a program");
	if (spec->secret_len && (spec->kind != SESSION_ROUND || spec->pty))
		return err_set(e, ERR_INVAL, "a secret goes to a round");
	if (spec->artifacts && spec->kind != SESSION_ROUND)
		return err_set(e, ERR_INVAL, "artifacts are made of a round");
	if (spec->shell && (spec->argv || spec->kind != SESSION_ROUND))
		return err_set(e, ERR_INVAL, "what runs in a shell is a command of a round");
	if (spec->argv && spec->command)
		return err_set(e, ERR_INVAL, "argv and command are both given: use one");
	if (spec->command && !spec->command[0])
		return err_set(e, ERR_INVAL, "command is empty");
	if (!spec->argv && !spec->command && !spec->shell_end && !spec->file && !spec->port &&
	    spec->kind != SESSION_TERMINAL)
		return err_set(e, ERR_INVAL, "argv or command is missing");
	if (n > ARGS_MAX || m > ARGS_MAX)
		return err_set(e, ERR_TOO_LARGE, "more than %d arguments or variables", ARGS_MAX);
	for (size_t i = 0; spec->argv && i < n; i++)
		bytes += strlen(spec->argv[i]) + 1;
	for (size_t i = 0; spec->env && i < m; i++) {
		bytes += strlen(spec->env[i]) + 1;
		if (!strchr(spec->env[i], '=') || spec->env[i][0] == '=')
			return err_set(e, ERR_INVAL, "env[%zu] is not NAME=VALUE", i);
		if (spec->shell && strncmp(spec->env[i], SHELL_VARIABLE "=", sizeof(SHELL_VARIABLE)) == 0)
			return err_set(e, ERR_INVAL, "env/" SHELL_VARIABLE " is the shell's own");
		if (spec->context && strncmp(spec->env[i], CONTEXT_VARIABLE "=", sizeof(CONTEXT_VARIABLE)) == 0)
			return err_set(e, ERR_INVAL, "env/" CONTEXT_VARIABLE " is the context's own");
	}
	if (bytes > max)
		return err_set(e, ERR_TOO_LARGE, "argv and environment hold %zu bytes; rounds.argv_max is %llu", bytes,
			       (unsigned long long)max);
	if (spec->cwd && (spec->cwd[0] != '/' || strlen(spec->cwd) > 4095))
		return err_set(e, ERR_INVAL, "cwd is not an absolute path: %.100s", spec->cwd);
	return 0;
}

static int check_limits(const struct hub *h, const struct exec_spec *spec, struct err *e)
{
	const struct conf *c = hub_conf(h);

	if (spec->kind == SESSION_ROUND && spec->timeout_ns > c->round_timeout_max_ns)
		return err_set(e, ERR_INVAL, "timeout_ms is over the limit of %llu s (rounds.timeout_max)",
			       (unsigned long long)(c->round_timeout_max_ns / 1000000000u));
	if (spec->idle_ns > c->round_timeout_max_ns)
		return err_set(e, ERR_INVAL, "idle_timeout_ms is over the limit of %llu s (rounds.timeout_max)",
			       (unsigned long long)(c->round_timeout_max_ns / 1000000000u));
	if (spec->kind == SESSION_FILE && spec->timeout_ns > c->file_timeout_max_ns)
		return err_set(e, ERR_INVAL, "timeout_ms is over the limit of %llu s (files.timeout_max)",
			       (unsigned long long)(c->file_timeout_max_ns / 1000000000u));
	if (spec->pty && (spec->cols < 1 || spec->rows < 1 || spec->cols > 4096 || spec->rows > 4096))
		return err_set(e, ERR_INVAL, "a terminal of %ux%u cells: 1 to 4096 each", spec->cols, spec->rows);
	if (spec->head != UINT64_MAX && spec->head > c->round_head)
		return err_set(e, ERR_INVAL, "limits.head_bytes is over %llu", (unsigned long long)c->round_head);
	if (spec->tail != UINT64_MAX && spec->tail > c->round_tail)
		return err_set(e, ERR_INVAL, "limits.tail_bytes is over %llu", (unsigned long long)c->round_tail);
	if (spec->shell && shell_name_check("shell", spec->shell, e))
		return ERR_INVAL;
	return spec->exec_id ? token_name_check("exec_id", spec->exec_id, e) : 0;
}

static void digest_str(EVP_MD_CTX *md, const char *tag, const char *s)
{
	EVP_DigestUpdate(md, tag, strlen(tag) + 1);
	if (s)
		EVP_DigestUpdate(md, s, strlen(s) + 1);
}

static int digest_json(EVP_MD_CTX *md, const char *tag, const json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);

	if (!text)
		return ERR_NOMEM;
	digest_str(md, tag, text);
	free(text);
	return 0;
}

static int make_digest(struct launch *l, const struct exec_spec *spec)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t sum[32];
	int rc = ERR_NOMEM;

	if (!md || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1)
		goto out;
	for (size_t i = 0; spec->argv && spec->argv[i]; i++)
		digest_str(md, "argv", spec->argv[i]);
	digest_str(md, "command", spec->command);
	for (size_t i = 0; spec->env && spec->env[i]; i++)
		digest_str(md, "env", spec->env[i]);
	digest_str(md, "cwd", spec->cwd);
	digest_str(md, "task", l->task);
	digest_str(md, "stdin", NULL);
	EVP_DigestUpdate(md, spec->stdin_data ? spec->stdin_data : "", spec->stdin_len);
	digest_str(md, spec->pty ? "pty" : "pipe", NULL);
	if (spec->artifacts && digest_json(md, "artifacts", spec->artifacts))
		goto out;
	if (spec->shell)
		digest_str(md, spec->shell_end ? "end" : spec->shell_anew ? "anew" : "shell", spec->shell);
	if (EVP_DigestFinal_ex(md, sum, NULL) != 1)
		goto out;
	for (int i = 0; i < 32; i++)
		snprintf(l->digest + (size_t)(2 * i), 3, "%02x", sum[i]);
	rc = 0;
out:
	EVP_MD_CTX_free(md);
	return rc;
}

static int copy_argv(const struct hub *h, const struct exec_spec *spec, struct launch *out)
{
	const char *shell = hub_conf(h)->sandbox_shell; /* "": the one that muxlet finds inside */
	const char *by_shell[] = {shell, "-c", spec->command, NULL};
	const char *login[] = {shell, NULL};
	char port[8];

	if (out->transfer) {
		out->argv = transfer_argv(out->transfer);
		return out->argv ? 0 : ERR_NOMEM;
	}
	if (out->port) {
		snprintf(port, sizeof(port), "%u", out->port);
		out->argv = copy_list((const char *const[]){"muxlet", "--dial", port, NULL}, NULL);
		return out->argv ? 0 : ERR_NOMEM;
	}
	out->login = !spec->argv && !spec->command && !spec->shell;
	out->argv = copy_list(spec->argv ? spec->argv : spec->command ? by_shell : login, NULL);
	return out->argv ? 0 : ERR_NOMEM;
}

static char **shell_argv(const struct launch *l)
{
	static const char run_script[] = "eval \"$" SHELL_VARIABLE "\"";
	const struct shell_use *u = &l->shell;
	char id[ID_STR_LEN], base[ID_STR_LEN + 24], from[24], to[24];
	const char *fixed[] = {"bash",
			       "-c",
			       run_script,
			       "muxd-shell",
			       base,
			       from,
			       to,
			       u->end     ? "end"
			       : u->fresh ? "fresh"
					  : "known",
			       l->cwd ? "stay" : "go",
			       l->command ?: ""};
	const size_t n = sizeof(fixed) / sizeof(fixed[0]);
	const char **v = calloc(n + launch_count((const char *const *)l->env) + 1, sizeof(*v));
	char **argv;

	id_format(&u->id, id);
	text_format(base, sizeof(base), "/tmp/.muxd-shell-%s", id);
	snprintf(from, sizeof(from), "%lld", (long long)u->from);
	snprintf(to, sizeof(to), "%lld", (long long)u->to);
	if (!v)
		return NULL;
	memcpy(v, fixed, sizeof(fixed));
	memcpy(v + n, l->env, launch_count((const char *const *)l->env) * sizeof(*v)); /* cut to their names below */
	argv = copy_list(v, NULL);
	for (size_t i = n; argv && argv[i]; i++)
		argv[i][strcspn(argv[i], "=")] = '\0';
	free(v);
	return argv;
}

int launch_record_by(struct launch *l, const struct record_rule *r)
{
	free(l->record);
	l->record = r->given ? malloc(sizeof(*l->record)) : NULL;
	if (l->record)
		*l->record = *r;
	return r->given && !l->record ? ERR_NOMEM : 0;
}

int launch_enter_shell(struct launch *l)
{
	char **argv = shell_argv(l), **env, *script = NULL;
	size_t n = launch_count((const char *const *)l->env);

	env = argv ? calloc(n + 2, sizeof(*env)) : NULL;
	if (!env || asprintf(&script, SHELL_VARIABLE "=%s", shell_script) < 0) {
		for (char **p = argv; p && *p; p++)
			free(*p);
		free(argv);
		free(env);
		return ERR_NOMEM;
	}
	memcpy(env, l->env, n * sizeof(*env));
	env[n] = script;
	free(l->env);
	l->env = env;
	for (char **p = l->argv; p && *p; p++)
		free(*p);
	free(l->argv);
	l->argv = argv;
	return 0;
}

static int add_env(struct launch *l, const char *name, const char *value)
{
	size_t n = launch_count((const char *const *)l->env);
	char **env = realloc(l->env, (n + 2) * sizeof(*env));

	if (!env)
		return ERR_NOMEM;
	l->env = env;
	env[n + 1] = NULL;
	if (asprintf(&env[n], "%s=%s", name, value) >= 0)
		return 0;
	env[n] = NULL;
	return ERR_NOMEM;
}

/* The program around the code is no argument: the record and lists of processes show those. */
static int copy_context(const struct exec_spec *spec, struct launch *out)
{
	const struct context_use *u = spec->context;
	const char *program;

	if (!u)
		return 0;
	out->context = *u;
	if (u->language == CONTEXT_BASH)
		return 0;
	program = u->role == CONTEXT_EXECUTION ? context_run(u->language) : context_kernel(u->language);
	if (u->role == CONTEXT_INTERPRETER) {
		out->timeout_ns = 0;
	} else { /* all of its lines are its answer */
		out->head = CONTEXT_OUTPUT_MAX;
		out->tail = 0;
	}
	return add_env(out, CONTEXT_VARIABLE, program);
}

/* A restart knows shells and contexts by the rounds in them, and those by their exec_ids: so each has one. */
static int copy_shell(const struct exec_spec *spec, struct launch *out)
{
	char text[ID_STR_LEN];
	struct id id;

	if (spec->shell) {
		text_put(out->shell.name, sizeof(out->shell.name), spec->shell);
		out->shell.anew = spec->shell_anew;
		out->shell.end = spec->shell_end;
	}
	if (out->exec_id || (!spec->shell && !spec->context))
		return 0;
	if (id_new(&id))
		return ERR_NOMEM;
	id_format(&id, text);
	out->exec_id = strdup(text);
	return out->exec_id ? 0 : ERR_NOMEM;
}

static int copy_secret(const struct exec_spec *spec, struct launch *out)
{
	out->secret = malloc(spec->secret_len);
	if (!out->secret)
		return ERR_NOMEM;
	memcpy(out->secret, spec->secret, spec->secret_len);
	out->secret_len = spec->secret_len;
	return 0;
}

static int copy_spec(const struct hub *h, const struct exec_spec *spec, struct launch *out)
{
	const struct conf *c = hub_conf(h);
	char term[80], token_fd[32];

	snprintf(token_fd, sizeof(token_fd), "MUXD_TOKEN_FD=%d", SECRET_FD);
	text_format(term, sizeof(term), "TERM=%.64s", spec->term && spec->term[0] ? spec->term : "xterm-256color");
	if (copy_argv(h, spec, out) || !(out->env = copy_list(spec->env, spec->pty          ? term
									 : spec->secret_len ? token_fd
											    : NULL)))
		return ERR_NOMEM;
	if (spec->secret_len && copy_secret(spec, out))
		return ERR_NOMEM;
	if ((spec->cwd && !(out->cwd = strdup(spec->cwd))) ||
	    (spec->exec_id && !(out->exec_id = strdup(spec->exec_id))) ||
	    (spec->port && spec->port->use && !(out->port_use = strdup(spec->port->use))) ||
	    (spec->command && !(out->command = strdup(spec->command))))
		return ERR_NOMEM;
	if ((spec->artifacts && !(out->artifacts = json_deep_copy(spec->artifacts))) || copy_shell(spec, out))
		return ERR_NOMEM;
	if (spec->stdin_len) {
		out->stdin_data = malloc(spec->stdin_len);
		if (!out->stdin_data)
			return ERR_NOMEM;
		memcpy(out->stdin_data, spec->stdin_data, spec->stdin_len);
		out->stdin_len = spec->stdin_len;
	}
	out->pty = spec->pty;
	out->stdin_open = spec->stdin_open;
	out->cols = spec->cols, out->rows = spec->rows, out->xpixel = spec->xpixel, out->ypixel = spec->ypixel;
	out->timeout_ns = spec->timeout_ns;
	out->judged_ns = spec->judged_ns;
	out->idle_ns = spec->idle_ns;
	if (!out->timeout_ns && spec->kind == SESSION_ROUND)
		out->timeout_ns = c->round_timeout_ns;
	if (!out->timeout_ns && spec->kind == SESSION_FILE && !out->transfer->row->lasts)
		out->timeout_ns = c->file_timeout_ns;
	out->head = spec->head == UINT64_MAX ? c->round_head : spec->head;
	out->tail = spec->tail == UINT64_MAX ? c->round_tail : spec->tail;
	text_put(out->server, sizeof(out->server), spec->server ? spec->server : "");
	out->serves = spec->serves;
	text_put(out->service, sizeof(out->service), spec->service ? spec->service : "");
	text_put(out->definition, sizeof(out->definition), spec->service ? spec->definition : "");
	if (spec->server || spec->service)
		out->timeout_ns = 0;
	return copy_context(spec, out);
}

/* Off unless configuration and grant open it: by scope terminal, which stands for terminals elsewhere too. */
static int check_pty(const struct hub *h, const struct grant *g, const struct exec_spec *spec, struct err *e)
{
	if (spec->kind != SESSION_ROUND || !spec->pty)
		return 0;
	if (!hub_conf(h)->round_pty)
		return err_set(e, ERR_PTY_DENIED, "rounds have no terminals here: rounds.pty is off");
	if (!(g->scopes & SCOPE_TERMINAL))
		return err_set(e, ERR_FORBIDDEN,
			       "your grant lacks the scope terminal, which a round with a terminal needs");
	return 0;
}

int launch_from_spec(struct hub *h, const struct grant *g, const struct exec_spec *spec, struct launch *out,
		     struct err *e)
{
	struct launch l = {0};
	const char *task;
	int rc = grant_task(g, spec->task, &task, e);

	if (rc || (rc = token_name_check("task_id", task, e)) || (rc = check_pty(h, g, spec, e)) ||
	    (rc = check_sizes(h, spec, e)) || (rc = check_limits(h, spec, e)))
		return rc;
	if (spec->kind == SESSION_FILE && (rc = transfer_create(spec->file, &g->files, &l.transfer, e)))
		return rc;
	if (spec->kind == SESSION_PORT && (rc = port_allowed(h, spec->port->port, e)))
		return rc;
	l.port = spec->kind == SESSION_PORT ? spec->port->port : 0;
	text_put(l.task, sizeof(l.task), task);
	rc = copy_spec(h, spec, &l);
	if (!rc)
		rc = make_digest(&l, spec);
	if (rc) {
		launch_finish(&l);
		return err_set(e, rc, "no memory for the call");
	}
	*out = l;
	return 0;
}
