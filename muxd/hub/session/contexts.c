#include "muxd/hub/session/contexts.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/session/session.h"
#include "muxd/hub/session/shells.h"
#include "policy/grant_narrow.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

struct context {
	UT_hash_handle hh;      /* by use.id */
	struct context_use use; /* as its newest interpreter's */
	char agent[AGENT_NAME_MAX + 1], principal[GRANT_NAME_MAX + 1];
	struct id session, busy, sandbox;
	struct id last; /* its newest execution: what is older is over */
	char *cwd, **env;
	bool env_lost, ended, removed;
	char why[200];
	int64_t used_wall_ns;
	uint64_t used_ns; /* boot */
};

struct contexts {
	struct context *all;
};

static const char *const languages[] = {
    [CONTEXT_PYTHON] = "python", [CONTEXT_JAVASCRIPT] = "javascript", [CONTEXT_BASH] = "bash"};
static const char *const roles[] = {[CONTEXT_NONE] = "none",
				    [CONTEXT_INTERPRETER] = "interpreter",
				    [CONTEXT_EXECUTION] = "execution",
				    [CONTEXT_ONCE] = "once",
				    [CONTEXT_DELETION] = "deletion"};

const char *context_language_name(enum context_language l)
{
	return languages[l];
}

int context_language_parse(const char *s, enum context_language *out)
{
	for (int l = 0; l < CONTEXT_LANGUAGES; l++)
		if (strcmp(s, languages[l]) == 0) {
			*out = (enum context_language)l;
			return 0;
		}
	return ERR_INVAL;
}

void context_shell_name(const struct id *id, char out[64])
{
	char text[ID_STR_LEN];

	id_format(id, text);
	text_format(out, 64, "context-%s", text);
}

struct contexts *contexts_create(void)
{
	return calloc(1, sizeof(struct contexts));
}

static void free_env(char **env)
{
	for (char **p = env; p && *p; p++)
		free(*p);
	free(env);
}

static void contexts_drop(struct contexts *x, struct context *c)
{
	HASH_DEL(x->all, c); /* NOLINT(clang-analyzer-core.NullDereference): c is in it */
	free(c->cwd);
	free_env(c->env);
	free(c);
}

void contexts_destroy(struct contexts *x)
{
	struct context *c, *next;

	if (!x)
		return;
	HASH_ITER(hh, x->all, c, next)
	contexts_drop(x, c);
	free(x);
}

static struct context *contexts_known(struct contexts *x, const struct id *id)
{
	struct context *c = NULL;

	HASH_FIND(hh, x->all, id->b, sizeof(id->b), c);
	return c;
}

/* Of bash there is no process, so only use keeps it: as its shell, which is forgotten at the same time. */
static bool context_old(const struct context *c, uint64_t now)
{
	bool lives = !c->ended && c->use.language != CONTEXT_BASH;

	return !lives && id_is_nil(&c->busy) && now > c->used_ns && now - c->used_ns >= EXEC_IDS_KEPT_NS;
}

static bool context_is_of(const struct context *c, const struct context_owner *o)
{
	return !c->removed && strcmp(c->agent, o->agent) == 0 && strcmp(c->principal, o->principal) == 0;
}

static struct context *contexts_own(struct contexts *x, const struct context_owner *o, const struct id *id,
				    struct err *e)
{
	struct context *c = contexts_known(x, id);

	if (c && context_is_of(c, o) && !context_old(c, clock_boot_ns()))
		return c;
	err_set(e, ERR_NOT_FOUND, "you have no such context in %s", o->agent);
	return NULL;
}

int contexts_find(struct contexts *x, const struct context_owner *o, const struct id *id, struct context_view *out,
		  struct err *e)
{
	struct context *c = contexts_own(x, o, id, e);

	if (!c)
		return ERR_NOT_FOUND;
	*out = (struct context_view){.use = c->use,
				     .session = c->session,
				     .busy = c->busy,
				     .sandbox = c->sandbox,
				     .cwd = c->cwd,
				     .env = (const char *const *)c->env,
				     .env_lost = c->env_lost,
				     .ended = c->ended};
	return 0;
}

/* A context that has ended makes room, the one that was used longest ago first. */
static int contexts_room(struct contexts *x, const struct context_owner *o, struct err *e)
{
	struct context *c, *next, *oldest = NULL;
	uint64_t now = clock_boot_ns();
	unsigned count = 0, root = 0;

	HASH_ITER(hh, x->all, c, next)
	{
		if (c->removed || context_old(c, now)) {
			contexts_drop(x, c);
			continue;
		}
		root += grant_same_root(c->principal, o->principal);
		if (!context_is_of(c, o))
			continue;
		count++;
		if (c->ended && (!oldest || c->used_ns < oldest->used_ns))
			oldest = c;
	}
	if (count >= CONTEXTS_PER_OWNER && oldest) {
		contexts_drop(x, oldest);
		count--;
		root--;
	}
	if (count >= CONTEXTS_PER_OWNER)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.contexts_own", "principal", CONTEXTS_PER_OWNER, count, 5},
				 "you have %u contexts in %s, and there is room for %d: delete one", count, o->agent,
				 CONTEXTS_PER_OWNER);
	if (root >= CONTEXTS_SHARE)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.contexts_principal", "principal", CONTEXTS_SHARE, root, 5},
				 "%.*s, and principals made from it, have %u contexts: delete some",
				 (int)strcspn(o->principal, "/"), o->principal, root);
	return HASH_COUNT(x->all) < CONTEXTS_MAX
		   ? 0
		   : err_limit(e, ERR_LIMIT,
			       &(struct err_share){"fixed.contexts", "daemon", CONTEXTS_MAX, CONTEXTS_MAX, 5},
			       "there are %d contexts, and room for no more: delete one", CONTEXTS_MAX);
}

static int refuse_busy(const struct context *c, struct err *e)
{
	char id[ID_STR_LEN];

	if (id_is_nil(&c->busy))
		return 0;
	id_format(&c->busy, id);
	return err_set(e, ERR_CONTEXT_BUSY, "the context is busy with execution %s", id);
}

int contexts_enter(struct contexts *x, const struct context_owner *o, const struct context_use *u, struct err *e)
{
	struct context *c;
	int rc;

	if (u->role == CONTEXT_ONCE || u->role == CONTEXT_NONE)
		return 0;
	if (u->role == CONTEXT_INTERPRETER && u->generation == 1)
		return contexts_room(x, o, e);
	c = contexts_own(x, o, &u->id, e);
	if (!c)
		return ERR_NOT_FOUND;
	if (u->role == CONTEXT_INTERPRETER && u->generation != c->use.generation + 1)
		return err_set(e, ERR_BAD_STATE, "the context was reset by another call meanwhile");
	rc = u->role == CONTEXT_EXECUTION ? refuse_busy(c, e) : 0;
	if (rc || u->role != CONTEXT_EXECUTION)
		return rc;
	if (c->ended || u->generation != c->use.generation)
		return err_set(e, ERR_CONTEXT_ENDED, "the context has ended, and its variables with it: %s",
			       c->ended ? c->why : "it was reset meanwhile");
	return 0;
}

static int copy_env(char *const *env, char ***out)
{
	size_t n = 0, k = 0;
	char **copy;

	while (env && env[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++) {
		if (strncmp(env[i], CONTEXT_VARIABLE "=", sizeof(CONTEXT_VARIABLE)) == 0 ||
		    strncmp(env[i], SHELL_VARIABLE "=", sizeof(SHELL_VARIABLE)) == 0) /* added to each round anew */
			continue;
		copy[k] = strdup(env[i]);
		if (!copy[k++]) {
			free_env(copy);
			return ERR_NOMEM;
		}
	}
	*out = copy;
	return copy ? 0 : ERR_NOMEM;
}

static struct context *add_context(struct contexts *x, const struct context_owner *o, const struct context_use *u)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->use = *u;
	text_put(c->agent, sizeof(c->agent), o->agent);
	text_put(c->principal, sizeof(c->principal), o->principal);
	HASH_ADD(hh, x->all, use.id.b, sizeof(u->id.b), c);
	return c;
}

static bool is_newer(const struct id *a, const struct id *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) > 0;
}

static int begin_interpreter(struct context *c, const struct context_use *u, const struct context_begin *b)
{
	char *cwd = b->cwd ? strdup(b->cwd) : NULL, **env = NULL;

	if ((b->cwd && !cwd) || copy_env(b->env, &env)) {
		free(cwd);
		return ERR_NOMEM;
	}
	free(c->cwd);
	free_env(c->env);
	c->cwd = cwd;
	c->env = env;
	c->env_lost = b->env_lost;
	c->use = *u;
	c->session = b->session;
	c->ended = c->removed = false;
	c->why[0] = '\0';
	return 0;
}

static void use_now(struct context *c)
{
	c->used_ns = clock_boot_ns();
	c->used_wall_ns = clock_wall_ns();
}

int contexts_begin(struct contexts *x, const struct context_owner *o, const struct context_use *u,
		   const struct context_begin *b)
{
	struct context *c = contexts_known(x, &u->id);
	int rc = 0;

	if (u->role == CONTEXT_NONE || u->role == CONTEXT_ONCE)
		return 0;
	if (!c && !(c = add_context(x, o, u)))
		return ERR_NOMEM;
	use_now(c);
	if (u->role == CONTEXT_INTERPRETER && is_newer(&b->session, &c->session))
		rc = begin_interpreter(c, u, b);
	else if (u->role != CONTEXT_INTERPRETER && is_newer(&b->session, &c->last))
		c->busy = c->last = b->session;
	c->sandbox = b->sandbox;
	return rc;
}

/* As people say it: "exit code 3", "signal KILL", "killed: the sandbox was stopped". */
static void put_why(char *out, size_t size, const struct session_result *r)
{
	if (r->message[0])
		text_format(out, size, "%s", r->message);
	else if (r->signal)
		text_format(out, size, "its interpreter ended by signal %d", r->signal);
	else if (r->code >= 0)
		text_format(out, size, "its interpreter ended with code %d", r->code);
	else
		text_format(out, size, "its interpreter ended: %s", exit_cause_name(r->cause));
}

static void interpreter_ended(struct contexts *x, struct context *c, const struct session_result *r)
{
	bool shell = c->use.language == CONTEXT_BASH, went_well = r->cause == EXIT_EXITED && r->code == 0;

	if (shell && went_well)
		return;
	if (c->use.generation == 1 && (shell || r->cause == EXIT_NOT_STARTED)) { /* nobody was told its id */
		contexts_drop(x, c);
		return;
	}
	c->ended = true;
	c->removed = strcmp(r->message, CONTEXT_DELETED) == 0;
	put_why(c->why, sizeof(c->why), r);
}

void contexts_settle(struct contexts *x, const struct context_use *u, const struct id *session,
		     const struct session_result *r)
{
	struct context *c = contexts_known(x, &u->id);

	if (!c)
		return;
	use_now(c);
	if (id_equal(&c->busy, session)) {
		c->busy = (struct id){0};
		c->removed = u->role == CONTEXT_DELETION && r->cause == EXIT_EXITED && r->code == 0;
	} else if (u->role == CONTEXT_INTERPRETER && id_equal(&c->session, session)) {
		interpreter_ended(x, c, r);
	}
}

void contexts_forget(struct contexts *x, const struct id *id)
{
	struct context *c = contexts_known(x, id);

	if (c)
		c->removed = true;
}

/* ---- as JSON */

static int64_t born_ms(const struct id *id)
{
	int64_t ms = 0; /* RFC 9562, 5.7 */

	for (int i = 0; i < 6; i++)
		ms = ms << 8 | id->b[i];
	return ms;
}

static json_t *id_json(const struct id *id)
{
	char text[ID_STR_LEN];

	if (id_is_nil(id))
		return json_null();
	id_format(id, text);
	return json_string(text);
}

/* A shell whose sandbox is another one now has ended. */
static const char *ended_why(const struct context *c, struct shells *shells, const struct id *sandbox)
{
	struct shell_owner o = {c->agent, c->principal};
	char name[64];

	if (c->ended)
		return c->why;
	if (c->use.language != CONTEXT_BASH || !sandbox || !id_is_nil(&c->busy))
		return NULL;
	context_shell_name(&c->use.id, name);
	return shells_kept_in(shells, &o, name, sandbox) ? NULL : "it ended with its sandbox";
}

static json_t *context_json(const struct context *c, struct shells *shells, const struct id *sandbox)
{
	const char *why = ended_why(c, shells, sandbox);
	char created[40], used[40];

	clock_format_utc(born_ms(&c->use.id) * NS_PER_MS, created, sizeof(created));
	clock_format_utc(c->used_wall_ns, used, sizeof(used));
	return json_pack("{s:o,s:s,s:s,s:s,s:s*,s:I,s:o,s:o,s:o,s:s?,s:s,s:s}", "context_id", id_json(&c->use.id),
			 "agent", c->agent, "language", context_language_name(c->use.language), "state",
			 why                   ? "ended"
			 : id_is_nil(&c->busy) ? "idle"
					       : "busy",
			 "reason", why, "generation", (json_int_t)c->use.generation, "round_id", id_json(&c->session),
			 "execution_id", id_json(&c->busy), "sandbox_id", id_json(&c->sandbox), "cwd", c->cwd,
			 "created_at", created, "last_used_at", used);
}

json_t *contexts_show(struct contexts *x, struct shells *shells, const struct id *sandbox, const struct id *id)
{
	struct context *c = contexts_known(x, id);

	return c ? context_json(c, shells, sandbox) : NULL;
}

static int by_age(const void *a, const void *b)
{
	const struct context *const *l = a, *const *r = b;

	return memcmp((*l)->use.id.b, (*r)->use.id.b, sizeof((*l)->use.id.b));
}

json_t *contexts_list(struct contexts *x, struct shells *shells, const struct id *sandbox,
		      const struct context_owner *o)
{
	struct context *found[CONTEXTS_PER_OWNER], *c, *next;
	uint64_t now = clock_boot_ns();
	json_t *list = json_array();
	size_t n = 0;

	HASH_ITER(hh, x->all, c, next)
	if (n < CONTEXTS_PER_OWNER && context_is_of(c, o) && !context_old(c, now))
		found[n++] = c;
	qsort(found, n, sizeof(found[0]), by_age);
	for (size_t i = 0; list && i < n; i++)
		json_array_append_new(list, context_json(found[i], shells, sandbox));
	return list;
}

json_t *context_use_json(const struct context_use *u)
{
	json_t *o = json_pack("{s:s,s:s,s:o*}", "role", roles[u->role], "language", languages[u->language], "id",
			      u->role == CONTEXT_ONCE ? NULL : id_json(&u->id));

	if (o && u->role != CONTEXT_ONCE)
		json_object_set_new(o, "generation", json_integer((json_int_t)u->generation));
	if (o && u->code_sha256[0]) {
		json_object_set_new(o, "code_bytes", json_integer((json_int_t)u->code_bytes));
		json_object_set_new(o, "code_sha256", json_string(u->code_sha256));
	}
	return o;
}

int context_use_read(const json_t *o, struct context_use *out)
{
	const char *role = NULL, *language = NULL, *id = NULL, *sum = "";
	struct context_use u = {0};

	if (json_need_str(o, "role", &role, NULL) || json_need_str(o, "language", &language, NULL) ||
	    context_language_parse(language, &u.language) || json_opt_str(o, "id", &id, NULL) ||
	    json_opt_int(o, "generation", 1, INT64_MAX, &u.generation, NULL) ||
	    json_opt_int(o, "code_bytes", 0, INT64_MAX, &u.code_bytes, NULL) ||
	    json_opt_str(o, "code_sha256", &sum, NULL))
		return ERR_INVAL;
	for (size_t i = CONTEXT_INTERPRETER; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (strcmp(role, roles[i]) == 0)
			u.role = (enum context_role)i;
	if (u.role == CONTEXT_NONE || (u.role != CONTEXT_ONCE && (!id || id_parse(id, &u.id) || !u.generation)))
		return ERR_INVAL;
	text_put(u.code_sha256, sizeof(u.code_sha256), sum);
	*out = u;
	return 0;
}
