#include "muxd/hub/session/shells.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/exec_ids.h"
#include "policy/grant.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define KEY_MAX (AGENT_NAME_MAX + GRANT_NAME_MAX + SHELL_NAME_MAX + 8)

struct shell {
	UT_hash_handle hh; /* by key */
	struct id id, sandbox, session;
	int64_t kept, last; /* numbers of files: the one that counts, 0: none; the newest */
	bool removed;       /* while the record is read, older rounds in it may come yet */
	bool busy, end;     /* with session, and what that is to do */
	int64_t to;
	uint64_t used_ns; /* boot */
	int64_t used_wall_ns;
	size_t owner; /* length of the owner's part of key */
	char key[];   /* agent, principal and name, a line each */
};

struct shells {
	struct shell *all;
};

struct shells *shells_create(void)
{
	return calloc(1, sizeof(struct shells));
}

static void shells_drop(struct shells *x, struct shell *s)
{
	HASH_DEL(x->all, s); /* NOLINT(clang-analyzer-core.NullDereference): s is in it */
	free(s);
}

void shells_destroy(struct shells *x)
{
	struct shell *s, *next;

	if (!x)
		return;
	HASH_ITER(hh, x->all, s, next)
	shells_drop(x, s);
	free(x);
}

int shell_name_check(const char *what, const char *name, struct err *e)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);

	if (len && len <= SHELL_NAME_MAX && strspn(name, allowed) == len && !strchr("._-", name[0]))
		return 0;
	return err_set(e, ERR_INVAL,
		       "%s is no name of a shell: 1 to %d letters, digits, '.', '_' and '-', none of these three first",
		       what, SHELL_NAME_MAX);
}

static size_t shells_key(const struct shell_owner *o, const char *name, char out[KEY_MAX])
{
	return text_format(out, KEY_MAX, "%s\n%s\n%s", o->agent, o->principal, name);
}

static bool is_old(const struct shell *s, uint64_t now)
{
	return !s->busy && now > s->used_ns && now - s->used_ns >= EXEC_IDS_KEPT_NS;
}

static struct shell *shells_known(struct shells *x, const struct shell_owner *o, const char *name)
{
	struct shell *s = NULL;
	char key[KEY_MAX];

	shells_key(o, name, key);
	HASH_FIND_STR(x->all, key, s);
	return s;
}

static struct shell *shells_find(struct shells *x, const struct shell_owner *o, const char *name)
{
	struct shell *s = shells_known(x, o, name);

	return s && !s->removed && !is_old(s, clock_boot_ns()) ? s : NULL;
}

static bool shell_is_of(const struct shell *s, const char *owner, size_t len)
{
	return s->owner == len && memcmp(s->key, owner, len) == 0;
}

/* grant_same_root() of the principal that stands in its key, behind the agent. */
static bool shell_has_root(const struct shell *s, const char *principal)
{
	const char *at = strchr(s->key, '\n') + 1;
	size_t n = strcspn(principal, "/");

	return strncmp(at, principal, n) == 0 && (at[n] == '/' || at[n] == '\n');
}

static int shells_check_room(struct shells *x, const struct shell_owner *o, struct err *e)
{
	uint64_t now = clock_boot_ns();
	struct shell *s, *next;
	unsigned count = 0, root = 0;
	char owner[KEY_MAX];
	size_t len = shells_key(o, "", owner);

	HASH_ITER(hh, x->all, s, next)
	{
		if (s->removed || is_old(s, now)) {
			shells_drop(x, s);
			continue;
		}
		count += shell_is_of(s, owner, len);
		root += shell_has_root(s, o->principal);
	}
	if (count >= SHELLS_PER_OWNER)
		return err_limit(
		    e, ERR_LIMIT, &(struct err_share){"fixed.shells_own", "principal", SHELLS_PER_OWNER, count, 5},
		    "you have %u shells in %s, and there is room for %d: end one", count, o->agent, SHELLS_PER_OWNER);
	if (root >= SHELLS_SHARE)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.shells_principal", "principal", SHELLS_SHARE, root, 5},
				 "%.*s, and principals made from it, have %u shells: end some",
				 (int)strcspn(o->principal, "/"), o->principal, root);
	return HASH_COUNT(x->all) < SHELLS_MAX
		   ? 0
		   : err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.shells", "daemon", SHELLS_MAX, SHELLS_MAX, 5},
			       "there are %d shells, and room for no more: end one", SHELLS_MAX);
}

static int refuse_busy(const struct shell *s, const char *name, struct err *e)
{
	char id[ID_STR_LEN];

	if (!s->busy)
		return 0;
	id_format(&s->session, id);
	return err_set(e, ERR_SHELL_BUSY, "shell %s is busy with round %s", name, id);
}

static int enter_new(struct shells *x, const struct shell_owner *o, struct shell_use *u, struct err *e)
{
	int rc = u->end ? err_set(e, ERR_NOT_FOUND, "you have no shell %s in %s", u->name, o->agent)
			: shells_check_room(x, o, e);

	if (!rc && id_new(&u->id))
		rc = err_set(e, ERR_NOMEM, "no id for the shell");
	u->from = 0;
	u->to = 1;
	u->fresh = true;
	return rc;
}

int shells_enter(struct shells *x, const struct shell_owner *o, const struct id *sandbox, struct shell_use *u,
		 struct err *e)
{
	struct shell *s = shells_find(x, o, u->name);
	char was[ID_STR_LEN];
	bool elsewhere;
	int rc;

	if (!s)
		return enter_new(x, o, u, e);
	rc = refuse_busy(s, u->name, e);
	if (rc)
		return rc;
	elsewhere = s->kept && !id_equal(&s->sandbox, sandbox);
	if (elsewhere && !u->anew) {
		id_format(&s->sandbox, was);
		return err_set(e, ERR_SHELL_ENDED,
			       "shell %s has ended with its sandbox (%s), and its directory and variables with it",
			       u->name, was);
	}
	u->id = s->id;
	u->from = elsewhere ? 0 : s->kept;
	u->to = s->last + 1;
	u->fresh = u->anew || !u->from;
	return 0;
}

static struct shell *add_shell(struct shells *x, const struct shell_owner *o, const char *name)
{
	char key[KEY_MAX];
	size_t len = shells_key(o, name, key);
	struct shell *s = calloc(1, sizeof(*s) + len + 1);

	if (!s)
		return NULL;
	memcpy(s->key, key, len + 1);
	s->owner = len - strlen(name);
	HASH_ADD_STR(x->all, key, s);
	return s;
}

static void use_now(struct shell *s)
{
	s->used_ns = clock_boot_ns();
	s->used_wall_ns = clock_wall_ns();
}

int shells_begin(struct shells *x, const struct shell_owner *o, const struct id *sandbox, const struct shell_use *u,
		 const struct id *session)
{
	struct shell *s = shells_known(x, o, u->name);

	if (s && memcmp(session->b, s->session.b, sizeof(session->b)) <= 0)
		return 0;
	if (!s && !(s = add_shell(x, o, u->name)))
		return ERR_NOMEM;
	s->id = u->id;
	s->sandbox = *sandbox;
	s->session = *session;
	s->kept = u->from;
	s->last = s->to = u->to;
	s->busy = true;
	s->removed = false;
	s->end = u->end;
	use_now(s);
	return 0;
}

void shells_settle(struct shells *x, const struct shell_owner *o, const char *name, const struct id *session, bool kept)
{
	struct shell *s = shells_find(x, o, name);

	if (!s || !s->busy || !id_equal(&s->session, session))
		return;
	s->busy = false;
	use_now(s);
	if (kept && s->end)
		s->removed = true;
	else if (kept)
		s->kept = s->to;
}

int shells_forget(struct shells *x, const struct shell_owner *o, const char *name, struct err *e)
{
	struct shell *s = shells_find(x, o, name);
	int rc = s ? refuse_busy(s, name, e) : err_set(e, ERR_NOT_FOUND, "you have no shell %s in %s", name, o->agent);

	if (!rc)
		shells_drop(x, s);
	return rc;
}

bool shells_kept_in(struct shells *x, const struct shell_owner *o, const char *name, const struct id *sandbox)
{
	const struct shell *s = shells_find(x, o, name);

	return s && s->kept && id_equal(&s->sandbox, sandbox);
}

static json_t *shell_json(const struct shell *s, const struct id *sandbox)
{
	char round[ID_STR_LEN], box[ID_STR_LEN], used[40];

	id_format(&s->session, round);
	id_format(&s->sandbox, box);
	clock_format_utc(s->used_wall_ns, used, sizeof(used));
	return json_pack("{s:s,s:s,s:s,s:s,s:s}", "name", s->key + s->owner, "state",
			 s->busy                                      ? "busy"
			 : !s->kept                                   ? "fresh"
			 : sandbox && !id_equal(&s->sandbox, sandbox) ? "ended"
								      : "kept",
			 "round_id", round, "sandbox_id", box, "last_used_at", used);
}

static int shells_by_name(const void *a, const void *b)
{
	const struct shell *const *l = a, *const *r = b;

	return strcmp((*l)->key, (*r)->key);
}

json_t *shells_list(struct shells *x, const struct shell_owner *o, const struct id *sandbox)
{
	struct shell *found[SHELLS_PER_OWNER], *s, *next;
	uint64_t now = clock_boot_ns();
	json_t *list = json_array();
	size_t n = 0, len;
	char owner[KEY_MAX];

	len = shells_key(o, "", owner);
	HASH_ITER(hh, x->all, s, next)
	if (n < SHELLS_PER_OWNER && shell_is_of(s, owner, len) && !s->removed && !is_old(s, now))
		found[n++] = s;
	qsort(found, n, sizeof(found[0]), shells_by_name);
	for (size_t i = 0; list && i < n; i++)
		json_array_append_new(list, shell_json(found[i], sandbox));
	return list;
}

json_t *shell_use_json(const struct shell_use *u)
{
	char id[ID_STR_LEN];

	id_format(&u->id, id);
	return json_pack("{s:s,s:s,s:I,s:I,s:b,s:b,s:b}", "name", u->name, "id", id, "from", (json_int_t)u->from, "to",
			 (json_int_t)u->to, "fresh", u->fresh, "anew", u->anew, "end", u->end);
}

int shell_use_read(const json_t *o, struct shell_use *out)
{
	const char *name = NULL, *id = NULL;
	struct shell_use u = {0};

	if (json_need_str(o, "name", &name, NULL) || json_need_str(o, "id", &id, NULL) || id_parse(id, &u.id) ||
	    shell_name_check("it", name, NULL) || json_need_int(o, "from", 0, INT64_MAX, &u.from, NULL) ||
	    json_need_int(o, "to", 1, INT64_MAX, &u.to, NULL) || json_opt_bool(o, "fresh", &u.fresh, NULL) ||
	    json_opt_bool(o, "anew", &u.anew, NULL) || json_opt_bool(o, "end", &u.end, NULL))
		return ERR_INVAL;
	text_put(u.name, sizeof(u.name), name);
	*out = u;
	return 0;
}
