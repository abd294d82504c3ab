#include "control/servers/lists.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "control/store/store.h"
#include "control/store/store_sql.h"

#include <stdlib.h>
#include <string.h>

#define SQL_MAX 256

const struct list_kind list_servers = {"mcp_lists", "servers", "[]"},
		       list_services = {"service_lists", "services", "[]"},
		       list_settings = {"agent_settings", "settings", "{}"};

/* A question on its way through the store, with copies of its texts. */
struct list_job {
	const struct list_kind *kind;
	char agent[AGENT_NAME_MAX + 1], principal[192];
	char *list, *call;
	int64_t if_version, now_ns;
	json_t *result;
	list_done *done;
	void *arg;
};

static void list_job_free(struct list_job *j)
{
	free(j->list);
	free(j->call);
	json_decref(j->result);
	free(j);
}

json_t *lists_time(int64_t ns)
{
	char text[40];

	if (!ns)
		return json_null();
	clock_format_utc(ns, text, sizeof(text));
	return json_string(text);
}

json_t *lists_parse(const char *text)
{
	json_t *v = NULL;

	return json_parse(text, strlen(text), SIZE_MAX, &v, NULL) ? NULL : v;
}

/* ---- read */

#define COLUMNS "SELECT agent, version, %s, set_ns, principal FROM %s WHERE agent = ?"

struct list_look {
	const struct list_kind *kind;
	const char *agent;
	int64_t version;
	json_t *out;
};

static int lists_on_row(void *arg, sqlite3_stmt *st)
{
	struct list_look *l = arg;

	l->out = json_pack("{s:s,s:I,s:o,s:o,s:s}", "agent", store_text(st, 0), "version",
			   (json_int_t)sqlite3_column_int64(st, 1), l->kind->member, lists_parse(store_text(st, 2)),
			   "set_at", lists_time(sqlite3_column_int64(st, 3)), "set_by", store_text(st, 4));
	return l->out ? STORE_ENOUGH : ERR_NOMEM;
}

int lists_read_newest(sqlite3 *db, const struct list_kind *k, const char *agent, json_t **out, struct err *e)
{
	struct list_look l = {.kind = k, .agent = agent};
	char sql[SQL_MAX];
	int rc;

	text_format(sql, sizeof(sql), COLUMNS " ORDER BY version DESC LIMIT 1", k->member, k->table);
	rc = store_each(db, NULL, lists_on_row, &l, e, sql, "t", agent);
	if (!rc && !l.out &&
	    !(l.out = json_pack("{s:s,s:i,s:o,s:n,s:n}", "agent", agent, "version", 0, k->member, lists_parse(k->none),
				"set_at", "set_by")))
		rc = err_set(e, ERR_NOMEM, "no memory for a list");
	if (!rc)
		*out = l.out;
	return rc;
}

static int get_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct list_look *l = job;
	char sql[SQL_MAX];
	int rc;

	if (!l->version)
		return lists_read_newest(db, l->kind, l->agent, &l->out, e);
	text_format(sql, sizeof(sql), COLUMNS " AND version = ?", l->kind->member, l->kind->table);
	rc = store_each(db, NULL, lists_on_row, l, e, sql, "ti", l->agent, l->version);
	return rc       ? rc
	       : l->out ? 0
			: err_set(e, ERR_NOT_FOUND, "%.100s has no version %lld of its list", l->agent,
				  (long long)l->version);
}

int lists_get(struct store *s, const struct list_kind *k, const char *agent, int64_t version, json_t **out,
	      struct err *e)
{
	struct list_look l = {.kind = k, .agent = agent, .version = version};
	int rc = store_read(s, get_in_db, &l, e);

	if (rc)
		json_decref(l.out);
	else
		*out = l.out;
	return rc;
}

static int lists_on_name(void *arg, sqlite3_stmt *st)
{
	struct list_look *l = arg;

	return json_array_append_new(l->out, json_string(store_text(st, 0))) ? ERR_NOMEM : 0;
}

static int agents_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct list_look *l = job;
	char sql[SQL_MAX];

	text_format(sql, sizeof(sql),
		    "SELECT agent FROM %s AS l WHERE %s <> '[]' AND version ="
		    " (SELECT max(version) FROM %s WHERE agent = l.agent)",
		    l->kind->table, l->kind->member, l->kind->table);
	return store_each(db, NULL, lists_on_name, l, e, sql, "");
}

int lists_agents(struct store *s, const struct list_kind *k, json_t **out, struct err *e)
{
	struct list_look l = {.kind = k, .out = json_array()};
	int rc = l.out ? store_read(s, agents_in_db, &l, e) : err_set(e, ERR_NOMEM, "no memory");

	if (rc)
		json_decref(l.out);
	else
		*out = l.out;
	return rc;
}

/* ---- set */

static void lists_on_done(void *job, int rc, const struct err *e)
{
	struct list_job *j = job;
	struct err here = {0};

	if (!rc && !j->result)
		rc = err_set(&here, ERR_NOMEM, "no memory for the answer"), e = &here;
	j->done(j->arg, rc, e, rc ? NULL : j->result);
	list_job_free(j);
}

static int add_version(sqlite3 *db, const struct list_job *j, int64_t version, struct err *e)
{
	char sql[SQL_MAX];
	int rc;

	text_format(sql, sizeof(sql),
		    "INSERT INTO %s(agent, version, %s, set_ns, principal, call) VALUES(?, ?, ?, ?, ?, ?)",
		    j->kind->table, j->kind->member);
	rc = store_run(db, NULL, e, sql, "tititt", j->agent, version, j->list, j->now_ns, j->principal, j->call);
	text_format(sql, sizeof(sql), "DELETE FROM %s WHERE agent = ? AND version <= ?", j->kind->table);
	return rc ? rc : store_run(db, NULL, e, sql, "ti", j->agent, version - LIST_VERSIONS);
}

int list_version_check(const char *agent, int64_t version, int64_t wanted, struct err *e)
{
	if (wanted < 0 || version == wanted)
		return 0;
	return err_set(e, ERR_LIST_CHANGED, "the list of %.100s is at version %lld, not %lld", agent,
		       (long long)version, (long long)wanted);
}

static int lists_put_in_db(sqlite3 *db, void *job, struct err *e)
{
	struct list_job *j = job;
	json_t *now = NULL, *wanted;
	int64_t version;
	int rc = lists_read_newest(db, j->kind, j->agent, &now, e);

	if (rc)
		return rc;
	version = json_integer_value(json_object_get(now, "version"));
	wanted = lists_parse(j->list);
	rc = list_version_check(j->agent, version, j->if_version, e);
	if (!rc && version && json_equal(wanted, json_object_get(now, j->kind->member))) {
		j->result = json_incref(now);
	} else if (!rc) {
		rc = add_version(db, j, version + 1, e);
		rc = rc ? rc : lists_read_newest(db, j->kind, j->agent, &j->result, e);
	}
	json_decref(wanted);
	json_decref(now);
	return rc;
}

void lists_put(struct store *s, const struct list_kind *k, const struct list_put *p, list_done *done, void *arg)
{
	struct list_job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j || !(j->list = json_text(p->list)) || !(j->call = json_text(p->call))) {
		if (j)
			list_job_free(j);
		done(arg, err_set(&e, ERR_NOMEM, "no memory"), &e, NULL);
		return;
	}
	j->kind = k;
	j->done = done;
	j->arg = arg;
	text_put(j->agent, sizeof(j->agent), p->agent);
	text_put(j->principal, sizeof(j->principal), p->principal);
	j->if_version = p->if_version;
	j->now_ns = p->now_ns;
	store_write(s, lists_put_in_db, lists_on_done, j);
}
