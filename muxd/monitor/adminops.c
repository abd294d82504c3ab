/* Everything that can be asked on admin.sock. */
#define LOG_SUBSYS "admin"
#include "muxd/monitor/admin.h"

#include "base/log.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"
#include "muxd/monitor/rotation.h"

#include <string.h>

#define LIST_LIMIT     200
#define LIST_LIMIT_MAX 1000

static void adminops_on_created(void *arg, int rc, const struct err *e, const struct grant *g, const char *token)
{
	struct admin_call *c = arg;
	json_t *o = NULL;

	if (rc) {
		admin_answer(c, request_error(rc, e));
		return;
	}
	o = grant_describe(g);
	if (o &&
	    (json_object_set_new(o, "rc", json_integer(0)) || json_object_set_new(o, "token", json_string(token)) ||
	     (!g->edge[0] &&
	      request_add_doors(o, g->agent, token, c->m->listeners.https_address, c->m->listeners.ssh_address)))) {
		json_decref(o);
		o = NULL;
	}
	admin_answer(c, o);
}

static int op_grant_create(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op",       "tag",    "principal",  "kind",     "agent", "scopes",
					   "task",     "ttl_ns", "reason",     "least_ns", "read",  "write",
					   "file_max", "uses",   "operations", NULL};
	struct wish w = {.via = "admin"};
	int64_t least = 0;
	int rc = json_only_keys(msg, keys, e);

	(void)out;
	if (rc == 0)
		rc = request_wish(msg, &w, e);
	if (rc == 0)
		rc = json_opt_int(msg, "least_ns", 0, INT64_MAX, &least, e);
	if (rc)
		return rc;
	w.least_ns = (uint64_t)least;
	memcpy(w.by, c->by, sizeof w.by);
	issue_create(c->m, &w, adminops_on_created, c);
	return ADMIN_LATER;
}

static int op_edge_mint(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op",       "tag",  "edge",       "principal", "kind", "agent",
					   "scopes",   "task", "ttl_ns",     "reason",    "read", "write",
					   "file_max", "uses", "operations", NULL};
	struct wish w = {.via = "admin"};
	const char *edge = NULL;
	int rc = json_only_keys(msg, keys, e);

	(void)out;
	if (rc == 0)
		rc = json_need_str(msg, "edge", &edge, e);
	if (rc == 0)
		rc = request_wish(msg, &w, e);
	if (rc == 0)
		rc = edge_find(c->m->conf, edge, &w.edge, e);
	if (rc)
		return rc;
	memcpy(w.by, c->by, sizeof w.by);
	issue_create(c->m, &w, adminops_on_created, c);
	return ADMIN_LATER;
}

static int op_edge_show(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", NULL};
	int rc = json_only_keys(msg, keys, e);

	if (rc)
		return rc;
	*out = edge_describe(c->m);
	return *out && json_object_set_new(*out, "rc", json_integer(0)) == 0 ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static int op_grant_renew(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "id", "reason", "ttl_ns", NULL};
	struct wish w = {.how = WISH_RENEWAL, .via = "admin"};
	const char *text = NULL;
	struct grant g;
	struct id id;
	int rc = json_only_keys(msg, keys, e);

	(void)out;
	if (rc == 0)
		rc = json_need_str(msg, "id", &text, e);
	if (rc == 0 && id_parse(text, &id))
		rc = err_set(e, ERR_INVAL, "invalid grant id \"%.40s\"", text);
	if (rc == 0)
		rc = grants_get(c->m->grants, &id, &g, NULL, e);
	if (rc == 0)
		rc = request_renewal(msg, &w, e);
	if (rc)
		return rc;
	w.from = &g;
	memcpy(w.by, c->by, sizeof w.by);
	issue_create(c->m, &w, adminops_on_created, c);
	return ADMIN_LATER;
}

static int op_grant_list(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "before", "limit", NULL};
	const char *before = NULL;
	int64_t limit = LIST_LIMIT;
	json_t *list = NULL;
	struct id id;
	bool more = false;
	int rc;

	if ((rc = json_only_keys(msg, keys, e)) || (rc = json_opt_str(msg, "before", &before, e)) ||
	    (rc = json_opt_int(msg, "limit", 1, LIST_LIMIT_MAX, &limit, e)))
		return rc;
	if (before && id_parse(before, &id))
		return err_set(e, ERR_INVAL, "invalid grant id \"%s\" in before", before);
	rc = grants_list(c->m->grants, NULL, before ? &id : NULL, (size_t)limit, &list, &more);
	if (rc == 0)
		*out = json_pack("{s:i, s:o, s:b}", "rc", 0, "grants", list, "more", more);
	return rc;
}

static void adminops_on_revoked(void *arg, int rc, const struct err *e, const struct grant *g)
{
	struct admin_call *c = arg;
	char id[ID_STR_LEN];

	if (rc || c->but.code) {
		admin_answer(c, request_error(rc ? rc : c->but.code, rc ? e : &c->but));
		return;
	}
	id_format(&g->id, id);
	admin_answer(c, json_pack("{s:i, s:s}", "rc", 0, "id", id));
}

static int op_grant_revoke(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "id", NULL};
	const char *text = NULL;
	struct id id;
	int rc = json_only_keys(msg, keys, e);

	(void)out;
	if (rc == 0)
		rc = json_need_str(msg, "id", &text, e);
	if (rc)
		return rc;
	if (id_parse(text, &id))
		return err_set(e, ERR_INVAL, "invalid grant id \"%s\"", text);
	issue_revoke(c->m, &id, "admin", c->by, adminops_on_revoked, c);
	return ADMIN_LATER;
}

/* A lease is taken back at its edge, which knows of none before it is shown, or at the centre, as any grant. */
static int op_edge_revoke(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "id", NULL};
	struct grants_revoked what = {0};
	const char *text = NULL;
	struct err why = {0};
	struct id id;
	int rc;

	if (!c->m->edge.on)
		return op_grant_revoke(c, msg, out, e);
	rc = json_only_keys(msg, keys, e);
	if (rc == 0)
		rc = json_need_str(msg, "id", &text, e);
	if (rc == 0 && id_parse(text, &id))
		rc = err_set(e, ERR_INVAL, "invalid lease id \"%.40s\"", text);
	if (rc == 0)
		rc = edge_revoke(c->m, &id, &what, &why);
	if (rc && what.until_ns) { /* in force all the same: a full disk keeps no lease alive */
		err_set(&c->but, rc, "the lease is revoked, but a restart of this edge would forget it: %s",
			why.message);
	} else if (rc) {
		if (why.code)
			*e = why;
		return rc;
	}
	edge_audit_revoked(c->m, &id, c->by);
	issue_enforce(c->m, &what, adminops_on_revoked, c);
	return ADMIN_LATER;
}

static int op_shutdown(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "sandboxes", NULL};
	bool end_sandboxes = false;
	int rc = json_only_keys(msg, keys, e);

	if (rc == 0)
		rc = json_opt_bool(msg, "sandboxes", &end_sandboxes, e);
	if (rc)
		return rc;
	log_info(NULL, "shutdown asked for by %s%s", c->by, end_sandboxes ? ", sandboxes too" : "");
	/* Answered at once; the connection closes when the daemon has ended. */
	*out = json_pack("{s:i, s:i}", "rc", 0, "pid", (int)getpid());
	monitor_stop(c->m, end_sandboxes, 0);
	return 0;
}

/* NULL: no memory. */
static json_t *policy_status(const struct monitor *m)
{
	return json_pack("{s:s,s:s,s:s?}", "file", m->conf->policy_file, "version",
			 m->policy_version[0] ? m->policy_version : NULL, "refused",
			 m->policy_error[0] ? m->policy_error : NULL);
}

static int op_status(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", NULL};
	struct monitor *m = c->m;
	json_t *o, *alarms;
	int rc = json_only_keys(msg, keys, e);

	if (rc)
		return rc;
	alarms = alarms_all(m);
	o = ready_describe(m);
	if (o &&
	    (json_object_set_new(o, "rc", json_integer(0)) ||
	     json_object_set_new(o, "state", json_string(monitor_state_name(m->state))) ||
	     json_object_set_new(o, "grants", json_integer((json_int_t)grants_count(m->grants))) ||
	     (alarms && json_object_set(o, "alarms", alarms)) || json_object_set_new(o, "policy", policy_status(m)) ||
	     (m->conf->nissuers && json_object_set_new(o, "issuers", issueripc_describe(m))) ||
	     json_object_set_new(o, "audit_waiting", json_integer((json_int_t)audit_waiting(m->audit))) ||
	     json_object_set_new(o, "processes",
				 json_pack("{s:{s:s, s:i}, s:{s:s, s:i}}", "net", "state",
					   proc_state_name(m->net.state), "restarts", (int)m->net.restarts, "recorder",
					   "state", proc_state_name(m->recorder.state), "restarts",
					   (int)m->recorder.restarts)))) {
		json_decref(o);
		o = NULL;
	}
	json_decref(alarms);
	*out = o;
	return 0;
}

/* By the key that signs, and not by the result: it may be another one although old ones could not be dropped. */
static int rotate_grant_key(struct admin_call *c, bool drop_old, struct err *e)
{
	struct monitor *m = c->m;
	char before[sizeof m->keys.kid];
	int rc;

	memcpy(before, m->keys.kid, sizeof before);
	rc = keys_rotate(&m->keys, &m->layout, drop_old, e);
	if (strcmp(m->keys.kid, before) == 0)
		return rc;
	tell_grant_keys(m);
	log_info(NULL, "grants are signed by key %s from now on, by %s", m->keys.kid, c->by);
	if (audit_put(m->audit,
		      json_pack("{s:s, s:s, s:s, s:b, s:s}", "event", "key.rotate", "kid", m->keys.kid, "by", c->by,
				"drop_old", drop_old, "outcome", rc ? err_name(rc) : "ok"),
		      0, NULL, NULL))
		log_error(NULL, "the audit queue is full: the rotation to key %s is not in it", m->keys.kid);
	return rc;
}

static int op_key_rotate(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", "drop_old", "record", NULL};
	struct monitor *m = c->m;
	bool drop_old = false, record = false;
	int rc = json_only_keys(msg, keys, e);

	if (rc == 0)
		rc = json_opt_bool(msg, "drop_old", &drop_old, e);
	if (rc == 0)
		rc = json_opt_bool(msg, "record", &record, e);
	if (rc == 0 && record && drop_old)
		rc = err_set(e, ERR_INVAL, "drop_old is for grant keys: public keys of the record stay for ever");
	if (rc == 0 && !record && m->edge.on)
		rc = err_set(e, ERR_UNSUPPORTED, "an edge has no key that signs grants");
	if (rc == 0 && record && (rc = rotation_begin(m, c, e)) == 0)
		return ADMIN_LATER;
	if (rc == 0)
		rc = rotate_grant_key(c, drop_old, e);
	if (rc == 0)
		*out = json_pack("{s:i, s:s}", "rc", 0, "kid", m->keys.kid);
	return rc;
}

static int op_config_reload(struct admin_call *c, const json_t *msg, json_t **out, struct err *e)
{
	static const char *const keys[] = {"op", "tag", NULL};
	int rc = json_only_keys(msg, keys, e);

	if (rc == 0)
		rc = config_reload(c->m, "admin", c->uid, c->pid, e);
	if (rc == 0)
		*out = json_pack("{s:i, s:O?}", "rc", 0, "loaded", c->m->loaded);
	return rc;
}

const struct admin_op admin_ops[] = {
    {"grant.create", op_grant_create, false},
    {"grant.renew", op_grant_renew, false},
    {"grant.list", op_grant_list, true},
    {"grant.revoke", op_grant_revoke, true},
    {"edge.mint", op_edge_mint, false},
    {"edge.revoke", op_edge_revoke, true},
    {"edge.show", op_edge_show, true},
    {"shutdown", op_shutdown, true},
    {"status", op_status, true},
    {"key.rotate", op_key_rotate, false},
    {"config.reload", op_config_reload, false},
    {0},
};
