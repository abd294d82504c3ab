/*
 * The log of grants, and what it says in memory: each line that is written, read again, applied and left out.
 *
 * One noun of more than a thousand lines: a grant, its revocation, its renewal and its uses are lines of one log and
 * change the same list and the same tally, when they are asked for as when the log is read.
 */
#include "muxd/monitor/grants.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/slurp.h"
#include "base/text.h"
#include "muxd/monitor/file.h"
#include "muxd/monitor/tally.h"
#include "policy/edge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192
#define LOG_MAX_BYTES  (UINT64_C(1) << 30)
#define COMPACT_DEAD   1000 /* dead lines before a running daemon writes the log anew */

/* Sources of the tally: of grants there are as many as there are grants; a key more than that is not kept. */
#define OF_GRANTS "grant"
#define OF_KEYS   "exec_id"
#define KEYS_MAX  50000

/* In the tally so often: a grant of that token was revoked. More than any token may be used. */
#define SHUT_OUT (INT64_C(1) << 30)

struct entry {
	struct grant grant;
	char via[16], by[48];
	struct grants_token token; /* that it was exchanged for; nil: for none */
	bool revoked;
	bool alone;   /* revoked, but not what else has its line */
	bool along;   /* revoked with another of its token, and nobody was told yet */
	bool pending; /* a renewal that is not journaled yet: in force for nobody, and after a restart never */
	struct grants_owed owed;
	bool taken; /* the event that is owed is on its way into the record */
};

/* One that was made from another or renews one. Apart, and small: a revocation looks at each of them, not at each
 * grant. */
struct came {
	struct id id;
	struct grant_kin kin;
};

/* Sorted by id, which is by creation. */
struct grants {
	char path[PATH_MAX];
	int fd;
	off_t size;    /* of the good part */
	bool together; /* lines wait for grants_together_end() to be synced */
	bool broken;   /* a failed append could not be taken back: nothing more may be written behind it */
	bool nameless; /* the log was written anew, and its name may not be on the disk yet */
	struct entry *list;
	size_t n, cap;
	struct came *came; /* of the list, in no order */
	size_t ncame, came_cap;
	struct tally tally;
	size_t dead; /* lines of the log that no entry needs any more */
	size_t owed; /* events that nobody has taken yet */
};

json_t *grant_describe(const struct grant *g)
{
	char id[ID_STR_LEN], scopes[128], issued[32], begins[32], ends[32];
	json_t *o;

	id_format(&g->id, id);
	grant_scopes_format(g->scopes, scopes, sizeof scopes);
	clock_format_utc(g->issued_ns, issued, sizeof issued);
	clock_format_utc(g->not_before_ns, begins, sizeof begins);
	clock_format_utc(g->expires_ns, ends, sizeof ends);
	o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "id", id, "principal", g->principal, "kind",
		      grant_kind_name(g->kind), "agent", g->agent, "scopes", scopes, "task", g->task, "reason",
		      g->reason, "issued_at", issued, "not_before", begins, "expires_at", ends);
	if (o && (grant_files_put(o, &g->files) || grant_bounds_put(o, &g->bounds) || grant_kin_put(o, &g->kin) ||
		  (g->edge[0] && json_object_set_new(o, "edge", json_string(g->edge))))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

json_t *renewed_message(const struct grant *g)
{
	char first[ID_STR_LEN], id[ID_STR_LEN];

	id_format(&g->kin.first, first);
	id_format(&g->id, id);
	return json_pack("{s:s, s:s, s:s, s:I}", "op", "grant.renewed", "first", first, "id", id, "expires_ns",
			 (json_int_t)g->expires_ns);
}

/* In the line of create: what stands for the token, and until when. */
static int token_put(json_t *o, const struct grants_token *t)
{
	char id[ID_STR_LEN];

	if (id_is_nil(&t->id))
		return 0;
	id_format(&t->id, id);
	return json_object_set_new(o, "token_seen", json_string(id)) ||
		       json_object_set_new(o, "token_until_ns", json_integer(t->until_ns)) ||
		       (t->shown && json_object_set_new(o, "token_shown", json_true()))
		   ? ERR_NOMEM
		   : 0;
}

/* The line of the log: the public face, exact times, and who asked. */
static json_t *create_line(const struct entry *en)
{
	json_t *o = grant_describe(&en->grant);

	if (!o)
		return NULL;
	if (json_object_set_new(o, "op", json_string("create")) ||
	    json_object_set_new(o, "issuer", json_string(en->grant.issuer)) ||
	    json_object_set_new(o, "issued_ns", json_integer(en->grant.issued_ns)) ||
	    json_object_set_new(o, "not_before_ns", json_integer(en->grant.not_before_ns)) ||
	    json_object_set_new(o, "expires_ns", json_integer(en->grant.expires_ns)) ||
	    (en->grant.since_ns && json_object_set_new(o, "since_ns", json_integer(en->grant.since_ns))) ||
	    (en->pending && json_object_set_new(o, "pending", json_true())) || token_put(o, &en->token) ||
	    json_object_set_new(o, "via", json_string(en->via)) || json_object_set_new(o, "by", json_string(en->by))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static int owed_put(json_t *o, const struct grants_owed *owed)
{
	char event[ID_STR_LEN];

	id_format(&owed->event, event);
	return json_object_set_new(o, "via", json_string(owed->via)) ||
		       json_object_set_new(o, "event_id", json_string(event))
		   ? ERR_NOMEM
		   : 0;
}

/* who: without an event, that of before is in the record. */
static json_t *revoke_line(const struct grant *g, enum grants_reach reach, const struct grants_owed *who)
{
	char id[ID_STR_LEN];
	json_t *o;

	id_format(&g->id, id);
	o = json_pack("{s:s, s:s, s:I, s:I, s:s}", "op", "revoke", "id", id, "expires_ns", (json_int_t)g->expires_ns,
		      "at_ns", (json_int_t)who->at_ns, "by", who->by);
	if (o && ((reach == GRANTS_ALONE && json_object_set_new(o, "alone", json_true())) ||
		  (!id_is_nil(&who->event) && owed_put(o, who)))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* The record has its event. To a muxd that does not know `told`, it is the same revocation once more. */
static json_t *told_line(const struct entry *en)
{
	char id[ID_STR_LEN], event[ID_STR_LEN];

	id_format(&en->grant.id, id);
	id_format(&en->owed.event, event);
	return json_pack("{s:s, s:s, s:s, s:b, s:b}", "op", "revoke", "id", id, "event_id", event, "alone", 1, "told",
			 1);
}

static json_t *use_line(const struct id *of, int64_t n, int64_t until_ns, const char *by)
{
	char id[ID_STR_LEN];

	id_format(of, id);
	return json_pack("{s:s, s:s, s:I, s:I, s:s}", "op", "use", "id", id, "n", (json_int_t)n, "until_ns",
			 (json_int_t)until_ns, "by", by);
}

static size_t lower_bound(const struct grants *g, const struct id *id)
{
	size_t lo = 0, hi = g->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (memcmp(g->list[mid].grant.id.b, id->b, sizeof id->b) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct entry *grants_find(const struct grants *g, const struct id *id)
{
	size_t at = lower_bound(g, id);

	return at < g->n && id_equal(&g->list[at].grant.id, id) ? &g->list[at] : NULL;
}

static bool renews(const struct came *c, const struct id *first)
{
	return id_equal(&c->kin.first, first);
}

/* Does it stand below that one, or renew it? */
static bool came_from(const struct came *c, const struct id *of)
{
	for (unsigned i = 0; i < c->kin.depth; i++)
		if (id_equal(&c->kin.above[i], of))
			return true;
	return renews(c, of);
}

/* One that is over already stands in the line of what renews it: of its first renewal that is there. */
static struct entry *grants_find_line(const struct grants *g, const struct id *id)
{
	const struct came *found = NULL;
	struct entry *en = grants_find(g, id);

	for (size_t i = 0; !en && i < g->ncame; i++)
		if (renews(&g->came[i], id) && (!found || memcmp(g->came[i].id.b, found->id.b, sizeof id->b) < 0))
			found = &g->came[i];
	return found ? grants_find(g, &found->id) : en;
}

static int reserve(void **list, size_t n, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 64;
	void *p;

	if (n < *cap)
		return 0;
	p = reallocarray(*list, more, size);
	if (!p)
		return ERR_NOMEM;
	*list = p;
	*cap = more;
	return 0;
}

static int reserve_one(struct grants *g)
{
	int rc = reserve((void **)&g->list, g->n, &g->cap, sizeof *g->list);

	return rc ? rc : reserve((void **)&g->came, g->ncame, &g->came_cap, sizeof *g->came);
}

static bool has_kin(const struct grant *g)
{
	return g->kin.depth || !id_is_nil(&g->kin.first);
}

/* Room was reserved. */
static void insert(struct grants *g, const struct entry *en)
{
	size_t at = lower_bound(g, &en->grant.id);

	memmove(g->list + at + 1, g->list + at, (g->n - at) * sizeof *g->list);
	g->list[at] = *en;
	g->n++;
	if (has_kin(&en->grant))
		g->came[g->ncame++] = (struct came){en->grant.id, en->grant.kin};
}

static int copy_str(const json_t *o, const char *key, char *out, size_t size, struct err *e)
{
	const char *s = NULL;
	int rc = json_need_str(o, key, &s, e);

	if (rc == 0 && strlen(s) >= size)
		rc = err_set(e, ERR_INVAL, "%s is too long", key);
	if (rc == 0)
		memcpy(out, s, strlen(s) + 1);
	return rc;
}

static int token_take(const json_t *o, struct grants_token *out, struct err *e)
{
	char id[ID_STR_LEN];
	int rc;

	if (!json_object_get(o, "token_seen"))
		return 0;
	if ((rc = copy_str(o, "token_seen", id, sizeof id, e)) || (rc = id_parse(id, &out->id)) ||
	    (rc = json_opt_bool(o, "token_shown", &out->shown, e)))
		return rc;
	return json_need_int(o, "token_until_ns", 1, INT64_MAX, &out->until_ns, e);
}

static int read_create(const json_t *o, struct entry *out, struct err *e)
{
	char id[ID_STR_LEN], kind[16], scopes[128];
	struct grant *g = &out->grant;
	int rc;

	if ((rc = copy_str(o, "id", id, sizeof id, e)) || (rc = id_parse(id, &g->id)) ||
	    (rc = copy_str(o, "kind", kind, sizeof kind, e)) || (rc = grant_kind_parse(kind, &g->kind, e)) ||
	    (rc = copy_str(o, "scopes", scopes, sizeof scopes, e)) ||
	    (rc = grant_scopes_parse(scopes, &g->scopes, e)) ||
	    (rc = copy_str(o, "issuer", g->issuer, sizeof g->issuer, e)) ||
	    (rc = copy_str(o, "principal", g->principal, sizeof g->principal, e)) ||
	    (rc = copy_str(o, "agent", g->agent, sizeof g->agent, e)) ||
	    (rc = copy_str(o, "task", g->task, sizeof g->task, e)) ||
	    (rc = copy_str(o, "reason", g->reason, sizeof g->reason, e)) ||
	    (rc = copy_str(o, "via", out->via, sizeof out->via, e)) ||
	    (rc = copy_str(o, "by", out->by, sizeof out->by, e)) ||
	    (rc = json_need_int(o, "issued_ns", 1, INT64_MAX, &g->issued_ns, e)) ||
	    (rc = json_need_int(o, "not_before_ns", 1, INT64_MAX, &g->not_before_ns, e)) ||
	    (rc = json_need_int(o, "expires_ns", 1, INT64_MAX, &g->expires_ns, e)) ||
	    (rc = json_opt_int(o, "since_ns", 1, INT64_MAX, &g->since_ns, e)) ||
	    (rc = json_opt_bool(o, "pending", &out->pending, e)) || (rc = grant_kin_take(o, &g->kin, e)) ||
	    (rc = grant_files_take(o, &g->files, e)) || (rc = grant_bounds_take(o, &g->bounds, e)) ||
	    (rc = token_take(o, &out->token, e)) ||
	    (json_object_get(o, "edge") && (rc = copy_str(o, "edge", g->edge, sizeof g->edge, e))))
		return rc;
	return grant_check(g, e);
}

static void reach_one(struct entry *en, bool again, struct grants_revoked *out)
{
	if (!en)
		return;
	en->revoked |= !again;
	en->alone &= again;
	if (en->grant.expires_ns > out->until_ns)
		out->until_ns = en->grant.expires_ns;
}

/* Marks the grant, what renews it and what was made from it. */
static void mark_line(struct grants *g, struct entry *en, enum grants_reach reach, struct grants_revoked *out)
{
	struct grant_line l = grant_line(&en->grant);
	bool again = en->revoked && !en->alone; /* whoever the log has as revoked then, and nobody else */

	en->alone = reach == GRANTS_ALONE && !again;
	en->revoked = true;
	*out = (struct grants_revoked){
	    .grant = en->grant, .id = reach == GRANTS_ALONE ? l.id : *grant_line_first(&l), .until_ns = l.expires_ns};
	if (reach == GRANTS_ALONE)
		return;
	reach_one(grants_find(g, &out->id), again, out);
	for (size_t i = 0; i < g->ncame; i++)
		if (came_from(&g->came[i], &out->id))
			reach_one(grants_find(g, &g->came[i].id), again, out);
}

/* Does it stand for the token that the other one was exchanged for? */
static bool stands_beside(const struct entry *en, const struct entry *other)
{
	return other->token.shown && other != en && !id_is_nil(&en->token.id) &&
	       id_equal(&en->token.id, &other->token.id);
}

/* A newer revocation's event takes the place of one that is owed still. */
static void owe(struct grants *g, struct entry *en, const struct grants_owed *what)
{
	if (id_is_nil(&what->event)) /* the line of an earlier muxd, or of one whose event is in the record */
		return;
	g->owed += id_is_nil(&en->owed.event) || en->taken;
	en->owed = *what;
	en->taken = false;
}

static void owe_no_more(struct grants *g, struct entry *en)
{
	g->owed -= !id_is_nil(&en->owed.event) && !en->taken;
	en->owed = (struct grants_owed){.at_ns = 0};
	en->taken = false;
}

/* One line revokes several, and each has an event of its own, with the same id whenever the line is read. */
static void owe_beside(struct grants *g, struct entry *other, const struct grants_owed *what)
{
	struct grants_owed own = *what;

	for (size_t i = 10; i < sizeof own.event.b && !id_is_nil(&what->event); i++)
		own.event.b[i] ^= other->grant.id.b[i];
	owe(g, other, &own);
}

/*
 * Marks all that a revocation reaches. A token may be spelled in several ways (ECDSA), and be asked for a grant beside
 * that: what stands for it where it is shown ends with any of them, by the same line of the log.
 */
static void mark_revoked(struct grants *g, struct entry *en, enum grants_reach reach, const struct grants_owed *owed,
			 struct grants_revoked *out)
{
	struct grants_revoked ignored;

	mark_line(g, en, reach, out);
	owe(g, en, owed);
	for (size_t i = 0; reach == GRANTS_WITH_ALL && !id_is_nil(&en->token.id) && i < g->n; i++) {
		struct entry *other = &g->list[i];

		if (!stands_beside(en, other))
			continue;
		if (!other->revoked)
			owe_beside(g, other, owed);
		other->along |= !other->revoked;
		mark_line(g, other, reach, &ignored);
	}
}

static int owed_take(const json_t *o, struct grants_owed *out, struct err *e)
{
	char event[ID_STR_LEN];
	int rc;

	if (!json_object_get(o, "event_id"))
		return 0;
	if ((rc = copy_str(o, "event_id", event, sizeof event, e)) || (rc = id_parse(event, &out->event)) ||
	    (rc = copy_str(o, "via", out->via, sizeof out->via, e)) ||
	    (rc = copy_str(o, "by", out->by, sizeof out->by, e)))
		return rc;
	return json_need_int(o, "at_ns", 1, INT64_MAX, &out->at_ns, e);
}

static int apply_told(struct grants *g, const json_t *o, struct entry *en, struct err *e)
{
	char text[ID_STR_LEN];
	struct id event;
	int rc;

	if ((rc = copy_str(o, "event_id", text, sizeof text, e)) || (rc = id_parse(text, &event)))
		return rc;
	if (id_equal(&en->owed.event, &event))
		owe_no_more(g, en);
	g->dead++;
	return 0;
}

static int apply_revoke(struct grants *g, const json_t *o, struct err *e)
{
	struct grants_owed owed = {.at_ns = 0};
	struct grants_revoked ignored;
	char text[ID_STR_LEN];
	bool alone = false, told = false;
	struct id id;
	struct entry *en;
	int rc;

	if ((rc = copy_str(o, "id", text, sizeof text, e)) || (rc = id_parse(text, &id)) ||
	    (rc = json_opt_bool(o, "alone", &alone, e)) || (rc = json_opt_bool(o, "told", &told, e)) ||
	    (!told && (rc = owed_take(o, &owed, e))))
		return rc;
	en = grants_find_line(g, &id);
	if (!en)
		return err_set(e, ERR_INVAL, "a revocation of a grant that was never made");
	if (told)
		return apply_told(g, o, en, e);
	mark_revoked(g, en, alone ? GRANTS_ALONE : GRANTS_WITH_ALL, &owed, &ignored);
	return alone || id_is_nil(&en->token.id)
		   ? 0
		   : tally_gather(&g->tally, &en->token.id, en->by, en->token.until_ns, SHUT_OUT);
}

static int apply_renewed(struct grants *g, const json_t *o, struct err *e)
{
	char text[ID_STR_LEN];
	struct entry *en;
	struct id id;
	int rc;

	if ((rc = copy_str(o, "id", text, sizeof text, e)) || (rc = id_parse(text, &id)))
		return rc;
	en = grants_find(g, &id);
	if (!en)
		return err_set(e, ERR_INVAL, "a renewal that was never made");
	en->pending = false;
	return 0;
}

/* Renewals that nobody was told of: the daemon ended before they were journaled. */
static void drop_pending(struct grants *g)
{
	for (size_t i = 0; i < g->n; i++) {
		if (!g->list[i].pending || g->list[i].revoked)
			continue;
		g->list[i].revoked = g->list[i].alone = true;
	}
}

static int gather_id(struct grants *g, const json_t *text, const char *by, int64_t until_ns, int64_t n, struct err *e)
{
	struct id id;

	if (!json_is_string(text) || id_parse(json_string_value(text), &id))
		return err_set(e, ERR_INVAL, "a use is of something that is no id");
	return tally_gather(&g->tally, &id, by, until_ns, n);
}

/* Beside its grant a use counts for those above, and has a key by which it is known. */
static int apply_use_more(struct grants *g, const json_t *o, int64_t until_ns, int64_t n, struct err *e)
{
	const json_t *above = json_object_get(o, "above"), *key = json_object_get(o, "key"), *one;
	int64_t key_until = until_ns;
	size_t i;
	int rc = json_opt_int(o, "key_until_ns", 1, INT64_MAX, &key_until, e);

	json_array_foreach(above, i, one) rc = rc ? rc : gather_id(g, one, OF_GRANTS, until_ns, n, e);
	return rc || !key ? rc : gather_id(g, key, OF_KEYS, key_until, 1, e);
}

/* Uses that the log has were counted: here no bound refuses one, and those that are over go when all is read. */
static int apply_use(struct grants *g, const json_t *o, struct err *e)
{
	const char *by = "";
	int64_t n, until_ns;
	char text[ID_STR_LEN];
	struct id id;
	int rc;

	if ((rc = copy_str(o, "id", text, sizeof text, e)) || (rc = id_parse(text, &id)) ||
	    (rc = json_need_int(o, "n", 1, INT32_MAX, &n, e)) ||
	    (rc = json_need_int(o, "until_ns", 1, INT64_MAX, &until_ns, e)) || (rc = json_opt_str(o, "by", &by, e)))
		return rc;
	rc = tally_gather(&g->tally, &id, by, until_ns, n);
	return rc ? rc : apply_use_more(g, o, until_ns, n, e);
}

static int apply_line(struct grants *g, const char *line, size_t len, struct err *e)
{
	struct entry en = {0};
	const char *op = NULL;
	json_t *o = NULL;
	int rc = json_parse(line, len, LINE_MAX_BYTES, &o, e);

	if (rc == 0)
		rc = json_need_str(o, "op", &op, e);
	if (rc == 0 && strcmp(op, "create") == 0) {
		rc = read_create(o, &en, e);
		if (rc == 0 && grants_find(g, &en.grant.id))
			rc = err_set(e, ERR_INVAL, "a grant that was made twice");
		if (rc == 0)
			rc = reserve_one(g);
		if (rc == 0)
			insert(g, &en);
	} else if (rc == 0 && strcmp(op, "revoke") == 0) {
		rc = apply_revoke(g, o, e);
	} else if (rc == 0 && strcmp(op, "renewed") == 0) {
		rc = apply_renewed(g, o, e);
	} else if (rc == 0 && strcmp(op, "use") == 0) {
		rc = apply_use(g, o, e);
	} else if (rc == 0) {
		rc = err_set(e, ERR_VERSION, "unknown entry '%.20s'", op);
	}
	json_decref(o);
	return rc;
}

/* *out_good: bytes up to the end of the last whole line. */
static int apply_all(struct grants *g, const char *text, size_t len, size_t *out_good, struct err *e)
{
	size_t at = 0, number = 1;
	struct err inner = {0};

	for (const char *nl; (nl = memchr(text + at, '\n', len - at)); number++) {
		int rc = apply_line(g, text + at, (size_t)(nl - text) - at, &inner);

		if (rc)
			return err_set(e, rc == ERR_NOMEM ? rc : ERR_CORRUPT, "%s:%zu: %s", g->path, number,
				       inner.message[0] ? inner.message : err_name(rc));
		at = (size_t)(nl - text) + 1;
	}
	*out_good = at;
	return 0;
}

/* A count lasts as long as the newest renewal of what it is of. */
static void keep_counts(struct grants *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct grant_line l = grant_line(&g->list[i].grant);

		if (g->list[i].grant.bounds.uses)
			tally_extend(&g->tally, grant_line_first(&l), l.expires_ns);
	}
}

/* One that owes its event stays, and is revoked. */
static size_t drop_expired(struct grants *g, int64_t now_ns)
{
	size_t kept = 0, came = 0, dropped;

	for (size_t i = 0; i < g->n; i++) {
		if (g->list[i].grant.expires_ns > now_ns || !id_is_nil(&g->list[i].owed.event))
			g->list[kept++] = g->list[i];
		else
			g->dead += 1 + g->list[i].revoked;
	}
	dropped = g->n - kept;
	g->n = kept;
	for (size_t i = 0; dropped && i < g->ncame; i++)
		if (grants_find(g, &g->came[i].id))
			g->came[came++] = g->came[i];
	g->ncame = dropped ? came : g->ncame;
	g->dead += tally_expire(&g->tally, now_ns);
	return dropped;
}

static int grants_put_line(struct buf *b, json_t *o)
{
	int rc = o ? json_append(b, o) : ERR_NOMEM;

	json_decref(o);
	return rc ? rc : buf_append(b, "\n", 1);
}

static int open_log(struct grants *g, struct err *e)
{
	struct stat st;
	int fd = open(g->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, errno, "open %s", g->path);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(e, errno, "stat %s", g->path);
	}
	if (g->fd >= 0)
		close(g->fd);
	g->fd = fd;
	g->size = st.st_size;
	return 0;
}

static json_t *tally_line(const struct tally *t, const struct tally_entry *u)
{
	return use_line(&u->id, u->n < INT32_MAX ? u->n : INT32_MAX, u->until_ns, t->sources[u->of].name);
}

/* Each that is revoked has a line of its own, with the event that it owes. */
static json_t *revoked_line(const struct entry *en)
{
	const struct grants_owed none = {.at_ns = en->grant.not_before_ns, .by = "compaction"};

	return revoke_line(&en->grant, GRANTS_ALONE, id_is_nil(&en->owed.event) ? &none : &en->owed);
}

/* The log anew, with what is alive. */
static int rewrite(struct grants *g, struct err *e)
{
	struct buf b;
	int rc = 0;

	buf_init(&b, LOG_MAX_BYTES);
	for (size_t i = 0; i < g->n && rc == 0; i++) {
		rc = grants_put_line(&b, create_line(&g->list[i]));
		if (rc == 0 && g->list[i].revoked)
			rc = grants_put_line(&b, revoked_line(&g->list[i]));
	}
	for (size_t i = 0; i < g->tally.n && rc == 0; i++)
		rc = grants_put_line(&b, tally_line(&g->tally, &g->tally.list[i]));
	rc = rc ? err_set(e, rc, "%s could not be written anew", g->path)
		: file_publish(g->path, buf_ptr(&b), buf_len(&b), 0600, FILE_OWNER_SELF, true, e);
	buf_finish(&b);
	/* However it failed: the new file may have the name already, and then the open descriptor is of none. */
	g->nameless = rc != 0;
	g->broken = open_log(g, rc ? NULL : e) != 0;
	if (rc == 0)
		g->dead = 0;
	return rc ? rc : g->broken ? ERR_SYS : 0;
}

static int cut_torn(struct grants *g, size_t good, struct err *e)
{
	if (ftruncate(g->fd, (off_t)good) < 0 || fsync(g->fd) < 0)
		return err_sys(e, errno, "cut the torn end of %s", g->path);
	g->size = (off_t)good;
	return 0;
}

static size_t alive_at(const struct grants *g, int64_t now_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += g->list[i].grant.expires_ns > now_ns;
	return n;
}

static int monitor_grants_load(struct grants *g, int64_t now_ns, struct grants_load *out, struct err *e)
{
	char *text = NULL;
	size_t len = 0, good = 0;
	int rc = file_read(g->path, LOG_MAX_BYTES, &text, &len, e);
	bool fresh = rc == ERR_NOT_FOUND;

	if (rc && !fresh)
		return rc;
	rc = text ? apply_all(g, text, len, &good, e) : 0;
	free(text);
	if (rc == 0)
		rc = open_log(g, e);
	if (rc == 0 && fresh)
		rc = file_sync_dir(g->path, e);
	if (rc == 0 && good < len)
		rc = cut_torn(g, good, e);
	if (rc)
		return rc;
	drop_pending(g);
	g->dead += tally_settle(&g->tally);
	keep_counts(g);
	out->torn_bytes = len - good;
	out->expired = drop_expired(g, now_ns);
	out->alive = alive_at(g, now_ns);
	rc = g->dead ? rewrite(g, e) : 0;
	return rc == ERR_DISK_FULL ? 0 : rc; /* the old one is as good; a later one makes it shorter */
}

int grants_open(const char *path, int64_t now_ns, struct grants **out, struct grants_load *out_load, struct err *e)
{
	struct grants *g = calloc(1, sizeof *g);
	struct grants_load loaded = {0};
	int rc;

	if (!g)
		return err_set(e, ERR_NOMEM, "no memory for grants");
	g->fd = -1;
	snprintf(g->path, sizeof g->path, "%s", path);
	rc = monitor_grants_load(g, now_ns, &loaded, e);
	if (rc) {
		grants_close(g);
		return rc;
	}
	*out = g;
	*out_load = loaded;
	return 0;
}

void grants_close(struct grants *g)
{
	if (!g)
		return;
	if (g->fd >= 0)
		close(g->fd);
	free(g->list);
	free(g->came);
	tally_finish(&g->tally);
	free(g);
}

/* One line, whole and synced, or not there at all. */
static int append_line(struct grants *g, json_t *o, struct err *e)
{
	char *text = o ? json_text(o) : NULL;
	size_t len;
	int rc = 0;

	json_decref(o);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for a grant");
	len = strlen(text);
	text[len++] = '\n'; /* in place of its NUL */
	if (g->broken)
		rc = err_set(e, ERR_SYS, "%s has a torn end after a failed write; restart the daemon", g->path);
	else if (g->nameless)
		rc = file_sync_dir(g->path, e);
	g->nameless = g->nameless && rc;
	if (rc == 0 && (spill_fd(g->fd, text, len) < 0 || (!g->together && fdatasync(g->fd) < 0)))
		rc = err_sys(e, errno, "write %s", g->path);
	if (rc && !g->broken && !g->nameless)
		g->broken = ftruncate(g->fd, g->size) < 0 || fdatasync(g->fd) < 0;
	if (rc == 0)
		g->size += (off_t)len;
	free(text);
	return rc;
}

void grants_together_begin(struct grants *g)
{
	g->together = true;
}

/* Revocations that are in force cannot be taken back: nothing is written behind lines that may not be there. */
int grants_together_end(struct grants *g, struct err *e)
{
	g->together = false;
	if (g->broken || fdatasync(g->fd) == 0)
		return 0;
	g->broken = true;
	return err_sys(e, errno, "write %s", g->path);
}

/* How many stand below the same topmost grant, with its renewals. */
static size_t came_of(const struct grants *g, const struct grant *grant)
{
	struct grant_line l = grant_line(grant);
	const struct id *top = l.kin.depth ? &l.kin.above[l.kin.depth - 1] : grant_line_first(&l);
	size_t n = grants_find(g, top) != NULL;

	for (size_t i = 0; i < g->ncame; i++)
		n += came_from(&g->came[i], top);
	return n;
}

/* The grants that one issuer let in, or a key or a token of the cluster one person. */
static size_t of_source(const struct grants *g, const struct grant *grant, const char *via, const char *by)
{
	bool issuer = strcmp(via, "issuer") == 0;
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += strcmp(g->list[i].via, via) == 0 &&
		     (issuer ? strcmp(g->list[i].by, by) == 0
			     : strcmp(g->list[i].grant.principal, grant->principal) == 0);
	return n;
}

#define GRANTS_RETRY_S 60 /* one of them is over, or was taken back */

/* One source of grants leaves room for the others, and all of them together for an administrator. */
static int grants_check_share(const struct grants *g, const struct grant *grant, const char *via, const char *by,
			      struct err *e)
{
	bool came = has_kin(grant), admin = !came && strcmp(via, "admin") == 0;

	if (g->n >= GRANTS_MAX || (!admin && g->n >= GRANTS_MAX - GRANTS_OF_ADMIN))
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.grants", "daemon",
						     admin ? GRANTS_MAX : GRANTS_MAX - GRANTS_OF_ADMIN, g->n,
						     GRANTS_RETRY_S},
				 "%zu grants are alive already", g->n);
	if (came && came_of(g, grant) >= GRANTS_OF_ONE)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.grants_of_one", "grant", GRANTS_OF_ONE, came_of(g, grant),
						     GRANTS_RETRY_S},
				 "%d grants that are not over yet came of one", GRANTS_OF_ONE);
	if (!came && !admin && of_source(g, grant, via, by) >= GRANTS_OF_SOURCE)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.grants_of_source", "principal", GRANTS_OF_SOURCE,
						     of_source(g, grant, via, by), GRANTS_RETRY_S},
				 "%d grants of %.100s are not over yet", GRANTS_OF_SOURCE,
				 strcmp(via, "issuer") == 0 ? by : grant->principal);
	return 0;
}

/* The leases of one edge that are not over: its state has to hold them all. */
static size_t of_edge(const struct grants *g, const char *edge)
{
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += strcmp(g->list[i].grant.edge, edge) == 0;
	return n;
}

int grants_check_room(const struct grants *g, const struct grant *grant, const char *via, const char *by, struct err *e)
{
	int rc = grants_check_share(g, grant, via, by, e);

	if (!rc && grant->edge[0] && of_edge(g, grant->edge) >= EDGE_LEASES_MAX)
		rc = err_limit(e, ERR_LIMIT,
			       &(struct err_share){"fixed.edge_leases", "edge", EDGE_LEASES_MAX,
						   of_edge(g, grant->edge), GRANTS_RETRY_S},
			       "%d leases of this edge are not over yet", EDGE_LEASES_MAX);
	return rc;
}

int grants_create(struct grants *g, const struct grant *grant, const char *via, const char *by, struct err *e)
{
	return grants_create_for(g, grant, &(struct grants_token){.until_ns = 0}, via, by, e);
}

int grants_create_for(struct grants *g, const struct grant *grant, const struct grants_token *t, const char *via,
		      const char *by, struct err *e)
{
	struct entry en = {.grant = *grant, .token = *t};
	int rc;

	en.pending = !id_is_nil(&grant->kin.first);
	if ((rc = grants_check_room(g, grant, via, by, e)))
		return rc;
	if (grants_find(g, &grant->id))
		return err_set(e, ERR_CONFLICT, "a grant with this id exists");
	text_put(en.via, sizeof en.via, via);
	text_put(en.by, sizeof en.by, by);
	rc = reserve_one(g);
	if (rc)
		return err_set(e, rc, "no memory for a grant");
	rc = append_line(g, create_line(&en), e);
	if (rc)
		return rc;
	insert(g, &en);
	/* The grant may be over when the record has its renewal: the count of uses waits for that. */
	if (en.pending)
		tally_extend(&g->tally, &grant->kin.first, grant->expires_ns);
	return 0;
}

static int tokens_full(size_t share, const char *by, struct err *e)
{
	return err_limit(e, ERR_LIMIT,
			 &(struct err_share){"fixed.tokens_counted", "issuer", share, share, GRANTS_RETRY_S},
			 "%zu tokens of %s are counted already, until they are over", share, by);
}

static bool is_shut_out(const struct grants *g, const struct id *id)
{
	return tally_count(&g->tally, id) >= SHUT_OUT;
}

int grants_token_check(const struct grants *g, const struct id *id, const char *by, size_t share, struct err *e)
{
	if (is_shut_out(g, id))
		return err_set(e, ERR_TOKEN_REVOKED, "a grant of this token was revoked: get another one");
	return !id_is_nil(id) && tally_is_full(&g->tally, id, by, share) ? tokens_full(share, by, e) : 0;
}

/* Its issuer's share refuses none. Without memory for it the next start has it from the log. */
static void token_shut_out(struct grants *g, const struct entry *en)
{
	const struct grants_token *t = &en->token;

	if (!id_is_nil(&t->id) && !is_shut_out(g, &t->id))
		(void)tally_add(&g->tally, &t->id, en->by, t->until_ns, SHUT_OUT);
}

int grants_revoke(struct grants *g, const struct id *id, enum grants_reach reach, int64_t now_ns, const char *via,
		  const char *by, struct grants_revoked *out, struct err *e)
{
	struct entry *en = grants_find_line(g, id);
	struct grants_owed owed = {.at_ns = now_ns};
	bool again = en && en->revoked && !(en->alone && reach == GRANTS_WITH_ALL);
	int rc = again ? 0 : id_new(&owed.event);

	if (!en)
		return err_set(e, ERR_NOT_FOUND, "there is no grant with this id that is still alive");
	text_put(owed.via, sizeof owed.via, via);
	text_put(owed.by, sizeof owed.by, by);
	if (rc)
		return err_set(e, rc, "no random bytes for an event's id");
	if (!again && (rc = append_line(g, revoke_line(&en->grant, reach, &owed), e)))
		return rc;
	mark_revoked(g, en, reach, &owed, out);
	out->again = again;
	if (reach == GRANTS_WITH_ALL)
		token_shut_out(g, en);
	return 0;
}

void grants_each_owed(struct grants *g, grants_owed_fn *fn, void *arg)
{
	for (size_t i = 0; g->owed && i < g->n; i++) {
		struct entry *en = &g->list[i];

		if (id_is_nil(&en->owed.event) || en->taken)
			continue;
		if (fn(arg, &en->grant, &en->owed))
			return;
		en->taken = true;
		g->owed--;
	}
}

void grants_told(struct grants *g, const struct id *id, const struct id *event)
{
	struct entry *en = grants_find(g, id);
	bool together = g->together;

	if (!en || !id_equal(&en->owed.event, event))
		return;
	g->together = true; /* not synced */
	g->dead += append_line(g, told_line(en), NULL) == 0;
	g->together = together;
	owe_no_more(g, en);
}

int grants_renewed(struct grants *g, const struct id *id, struct err *e)
{
	struct entry *en = grants_find(g, id);
	char text[ID_STR_LEN];
	int rc;

	if (!en)
		return err_set(e, ERR_NOT_FOUND, "the renewal is over");
	id_format(id, text);
	rc = append_line(g, json_pack("{s:s, s:s}", "op", "renewed", "id", text), e);
	if (rc == 0) {
		en->pending = false;
		g->dead++;
		tally_extend(&g->tally, &en->grant.kin.first, en->grant.expires_ns);
	}
	return rc;
}

int grants_use(struct grants *g, const struct grants_use *u, struct err *e)
{
	int64_t before = tally_count(&g->tally, &u->id);
	int rc;

	if (before >= u->max)
		return err_set(e, ERR_TOKEN_USED, "it has been used %lld time%s, which is the most", (long long)u->max,
			       u->max == 1 ? "" : "s");
	/* Before the log has it: what is refused is not to be there. */
	if (tally_is_full(&g->tally, &u->id, u->by, u->share))
		return tokens_full(u->share, u->by, e);
	rc = append_line(g, use_line(&u->id, 1, u->until_ns, u->by), e);
	if (rc)
		return rc;
	/* A use that memory cannot count is refused: the log has it all the same. */
	rc = tally_add(&g->tally, &u->id, u->by, u->until_ns, 1);
	if (rc)
		return err_set(e, rc, "no memory to count a token");
	g->dead += before > 0; /* each line again of the same is dead weight */
	return 0;
}

/* ---- uses of grants */

/* n more of what may be used `uses` times? */
static int has_left(const struct grants *g, const struct id *first, uint32_t uses, int64_t n, bool own, struct err *e)
{
	int64_t spent = tally_count(&g->tally, first);

	if (spent + n <= uses)
		return 0;
	return err_set(e, ERR_TOKEN_USED, "%s may open something %u time%s (uses), and %lld %s left",
		       own ? "the grant" : "all that was made from a grant above yours", (unsigned)uses,
		       uses == 1 ? "" : "s", (long long)(uses > spent ? uses - spent : 0),
		       uses - spent == 1 ? "is" : "are");
}

/* The grants above it that have a number; *out gets their ids. */
static int spend_above(const struct grants *g, const struct grants_spend *s, const struct id *out[GRANT_DEPTH_MAX],
		       size_t *out_n, struct err *e)
{
	const struct grant_kin *kin = &s->grant->kin;
	size_t n = 0;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < kin->depth && !s->grant->edge[0]; i++) {
		const struct entry *up = grants_find_line(g, &kin->above[i]);

		if (!up) /* nothing outlives what it was made from */
			rc = err_set(e, ERR_TOKEN_EXPIRED, "a grant that this one was made from has ended");
		else if (up->grant.bounds.uses &&
			 (rc = has_left(g, &kin->above[i], up->grant.bounds.uses, s->n, false, e)) == 0)
			out[n++] = &kin->above[i];
	}
	*out_n = n;
	return rc;
}

static json_t *spend_line(const struct grants_spend *s, const struct id *first, const struct id *const *above, size_t n,
			  const struct id *key)
{
	json_t *o = use_line(first, s->n, s->until_ns, OF_GRANTS), *list = n ? json_array() : NULL;
	char id[ID_STR_LEN];

	for (size_t i = 0; i < n; i++) {
		id_format(above[i], id);
		json_array_append_new(list, json_string(id));
	}
	if (o && list && json_object_set(o, "above", list)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(list);
	if (!o || !key)
		return o;
	id_format(key, id);
	if (json_object_set_new(o, "key", json_string(id)) ||
	    json_object_set_new(o, "key_until_ns", json_integer(s->key_until_ns))) {
		json_decref(o);
		return NULL;
	}
	return o;
}

/* In memory, behind the log. */
static int spend_count(struct grants *g, const struct grants_spend *s, const struct id *first,
		       const struct id *const *above, size_t n, const struct id *key)
{
	int rc = tally_add(&g->tally, first, OF_GRANTS, s->until_ns, s->n);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = tally_add(&g->tally, above[i], OF_GRANTS, s->until_ns, s->n);
		tally_extend(&g->tally, above[i], grants_ends(g, above[i]));
	}
	return rc || !key ? rc : tally_add(&g->tally, key, OF_KEYS, s->key_until_ns, 1);
}

int grants_spend(struct grants *g, const struct grants_spend *s, struct err *e)
{
	const struct id *above[GRANT_DEPTH_MAX], *key = id_is_nil(&s->key) ? NULL : &s->key;
	struct grant_line l = grant_line(s->grant);
	const struct id *first = grant_line_first(&l);
	bool again = tally_count(&g->tally, first) > 0;
	size_t n = 0;
	int rc;

	if (key && tally_count(&g->tally, key))
		return 0;
	if ((rc = has_left(g, first, s->grant->bounds.uses, s->n, true, e)) || (rc = spend_above(g, s, above, &n, e)))
		return rc;
	if (key && tally_is_full(&g->tally, key, OF_KEYS, KEYS_MAX))
		key = NULL; /* then the same start again is one more */
	rc = append_line(g, spend_line(s, first, above, n, key), e);
	if (rc)
		return rc;
	g->dead += again;
	rc = spend_count(g, s, first, above, n, key);
	return rc ? err_set(e, rc, "no memory to count a use") : 0;
}

int64_t grants_spent(const struct grants *g, const struct grant *grant)
{
	struct grant_line l = grant_line(grant);

	return tally_count(&g->tally, grant_line_first(&l));
}

int grants_get(const struct grants *g, const struct id *id, struct grant *out, const char **out_via, struct err *e)
{
	const struct entry *en = grants_find_line(g, id);

	if (!en)
		return err_set(e, ERR_NOT_FOUND, "there is no grant with this id that is still alive");
	if (en->revoked)
		return err_set(e, ERR_TOKEN_REVOKED, "the grant was revoked");
	*out = en->grant;
	if (out_via)
		*out_via = en->via;
	return 0;
}

const char *grants_by(const struct grants *g, const struct id *id)
{
	const struct entry *en = grants_find(g, id);

	return en ? en->by : "";
}

int64_t grants_ends(const struct grants *g, const struct id *first)
{
	const struct entry *en = grants_find(g, first);
	int64_t ends = en && !en->revoked && id_is_nil(&en->grant.kin.first) ? en->grant.expires_ns : 0;

	for (size_t i = 0; i < g->ncame; i++) {
		en = renews(&g->came[i], first) ? grants_find(g, &g->came[i].id) : NULL;
		if (en && !en->revoked && !en->pending && en->grant.expires_ns > ends)
			ends = en->grant.expires_ns;
	}
	return ends;
}

int grants_expire(struct grants *g, int64_t now_ns, struct err *e)
{
	drop_expired(g, now_ns);
	if (g->broken || g->dead < COMPACT_DEAD || g->dead < g->n + g->tally.n)
		return 0;
	return rewrite(g, e);
}

static json_t *describe_entry(const struct grants *g, const struct entry *en, size_t *out_size)
{
	json_t *o = grant_describe(&en->grant);

	if (!o ||
	    (en->grant.bounds.uses && json_object_set_new(o, "used", json_integer(grants_spent(g, &en->grant)))) ||
	    json_object_set_new(o, "revoked", json_boolean(en->revoked)) ||
	    json_object_set_new(o, "via", json_string(en->via)) || json_object_set_new(o, "by", json_string(en->by))) {
		json_decref(o);
		return NULL;
	}
	*out_size = json_dumpb(o, NULL, 0, JSON_COMPACT);
	return o;
}

static bool wanted(const struct entry *en, const struct id *of)
{
	struct grant_line l = grant_line(&en->grant);

	return !of || grant_line_has(&l, of);
}

int grants_list(const struct grants *g, const struct id *of, const struct id *before, size_t limit, json_t **out,
		bool *out_more)
{
	const size_t budget = 160 * 1024; /* an answer is one packet */
	size_t i = before ? lower_bound(g, before) : g->n, used = 0;
	json_t *list = json_array();

	if (!list)
		return ERR_NOMEM;
	while (i > 0 && json_array_size(list) < limit) {
		size_t size = 0;
		json_t *o;

		if (!wanted(&g->list[i - 1], of)) {
			i--;
			continue;
		}
		o = describe_entry(g, &g->list[i - 1], &size);
		if (o && used + size > budget) {
			json_decref(o);
			break;
		}
		if (!o || json_array_append_new(list, o)) {
			json_decref(list);
			return ERR_NOMEM;
		}
		used += size + 1;
		i--;
	}
	*out = list;
	*out_more = i > 0;
	return 0;
}

int grants_each_revoked(const struct grants *g, grants_revoked_fn *fn, void *arg)
{
	int rc = 0;

	for (size_t i = g->n; i > 0 && rc == 0; i--) {
		if (g->list[i - 1].revoked)
			rc = fn(arg, &g->list[i - 1].grant.id, g->list[i - 1].grant.expires_ns);
	}
	return rc;
}

int grants_each_gone(const struct grants *g, grants_gone_fn *fn, void *arg)
{
	int rc = 0;

	for (size_t i = 0; i < g->n && rc == 0; i++)
		if (g->list[i].revoked)
			rc = fn(arg, &g->list[i].grant);
	return rc;
}

int grants_each_taken_along(struct grants *g, const struct id *id, grants_gone_fn *fn, void *arg)
{
	const struct entry *en = grants_find_line(g, id);
	int rc = 0;

	for (size_t i = 0; en && i < g->n && rc == 0; i++)
		if (stands_beside(en, &g->list[i]) && g->list[i].along) {
			g->list[i].along = false;
			rc = fn(arg, &g->list[i].grant);
		}
	return rc;
}

int grants_each_renewed(const struct grants *g, grants_renewed_fn *fn, void *arg)
{
	int rc = 0;

	for (size_t i = 0; i < g->n && rc == 0; i++) {
		if (!g->list[i].revoked && !g->list[i].pending && !id_is_nil(&g->list[i].grant.kin.first))
			rc = fn(arg, &g->list[i].grant);
	}
	return rc;
}

int grants_each_alive(const struct grants *g, grants_alive_fn *fn, void *arg)
{
	int rc = 0;

	for (size_t i = 0; i < g->n && rc == 0; i++)
		if (!g->list[i].revoked && !g->list[i].pending)
			rc = fn(arg, &g->list[i].grant, g->list[i].via, g->list[i].by);
	return rc;
}

size_t grants_count(const struct grants *g)
{
	return g->n;
}
