/*
 * Agents for people: the rows that life keeps, with what the hub and the provider know of those that run.
 *
 * A list is a page of rows by name. Only where one of them runs and the hub has no link to it is
 * the provider asked, so that ten thousand that sleep cost a look into the store and no more.
 */
#define LOG_SUBSYS "broker"
#include "base/err.h"
#include "base/text.h"
#include "control/life/life.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/agent/settings.h"
#include "muxd/hub/broker/agent_json.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/place.h"

#include <stdlib.h>
#include <string.h>

/* ---- one */

static bool broker_list_later(const json_t *a, const json_t *b)
{
	return json_is_string(a) && json_is_string(b) && strcmp(json_string_value(a), json_string_value(b)) > 0;
}

/* What is known of nobody is not said, so that nothing looks like a fact that is none. */
static void drop_unknown(json_t *o)
{
	static const char *const keys[] = {
	    "backend",  "backend_reason", "delivery", "ephemeral_container", "namespace",       "pod",
	    "enforced", "oom_kills",      "detail",   "pod_made_with",       "image_made_with", "image_digest"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_del(o, keys[i]);
}

static void overlay(json_t *o, const json_t *row)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)row, key, value)
	{
		json_t *old = json_object_get(o, key);

		if (json_is_null(value) && old)
			continue;
		if (strcmp(key, "last_activity_at") == 0 && broker_list_later(old, value))
			continue;
		if (strcmp(key, "detail") == 0 && json_is_string(value) && !*json_string_value(value))
			continue;
		json_object_set(o, key, value);
	}
}

/* A sandbox that runs and cannot serve: whoever knows better that it runs does not know this. */
static void show_unable(json_t *o, const struct agent *a)
{
	char text[400];

	text_format(text, sizeof(text), "%s; %s", a->unable,
		    agent_may_end(a)
			? "who enters it next has it ended and begun anew: its programs end, its workspace stays"
			: "muxctl sandbox terminate ends it; what its workspace is on decides what stays");
	json_object_set_new(o, "state", json_string("error"));
	json_object_set_new(o, "detail", json_string(text));
}

/* Names each resource that was asked for beyond what the configuration gives: the next start has less. */
static void show_clipped(const struct hub *h, const json_t *row, json_t *o)
{
	struct resources asked, most;

	if (resources_read(json_object_get(row, "resources"), &asked, NULL))
		return;
	resources_most(hub_conf(h), &most);
	json_object_set_new(o, "resources_clipped", resources_clipped(&asked, &most));
}

static void show_reference(const struct hub *h, const char *name, json_t *o)
{
	json_object_set_new(o, "reference", place_reference(h, name, json_string_value(json_object_get(o, "app_id"))));
}

json_t *agent_show(struct hub *h, const char *name, const struct sandbox_info *info, const json_t *row)
{
	static const char *const links[] = {NULL, "waking", "up", "lost"};
	json_t *o = agent_describe(h, name, info);
	struct agent *a = agent_find(h, name);

	if (!o)
		return NULL;
	json_object_set(o, "started_at", json_object_get(o, "created_at"));
	json_object_set_new(o, "link", a && links[a->state] ? json_string(links[a->state]) : json_null());
	if (!info && !(a && a->info.agent[0]))
		drop_unknown(o);
	if (row)
		overlay(o, row);
	if (row)
		settings_show(h, name, o), show_clipped(h, row, o);
	show_reference(h, name, o);
	if (a && a->unable[0] && a->state != AGENT_COLD)
		show_unable(o, a);
	return o;
}

json_t *agent_row(struct hub *h, const char *name)
{
	json_t *row = NULL;

	if (!hub_life(h) || target_is_pod(name) || life_show(hub_life(h), name, &row, NULL))
		return NULL;
	return row;
}

json_t *agent_show_now(struct hub *h, const char *name)
{
	json_t *row = agent_row(h, name), *o = agent_show(h, name, NULL, row);

	json_decref(row);
	return o;
}

/* ---- a list */

struct list_job {
	struct hub *hub;
	struct request rq;
	char state[32], prefix[AGENT_NAME_MAX + 1], after[AGENT_NAME_MAX + 1], app_id[DNS_LABEL_MAX + 1];
	size_t limit;
	json_t *rows; /* of life, by name */
	bool more;
	broker_json_done *done;
	void *arg;
};

static void broker_list_job_end(struct list_job *j, int rc, const struct err *e, json_t *o)
{
	struct err here = {0};

	if (!rc && !o)
		rc = err_set(&here, ERR_NOMEM, "no memory for a list of sandboxes"), e = &here;
	if (rc && (!e || !e->message[0]))
		err_set(&here, rc, "the sandboxes cannot be listed: %s", err_name(rc)), e = &here;
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : o);
	json_decref(o);
	json_decref(j->rows);
	request_finish(&j->rq);
	free(j);
}

static const char *broker_list_name_of(const json_t *row)
{
	const char *s = json_string_value(json_object_get(row, "agent"));

	return s ? s : "";
}

static bool broker_list_covers(void *arg, const char *name)
{
	const struct list_job *j = arg;

	return !agent_is_passing(name) && grant_allows(&j->rq.grant, name, 0, NULL) == 0;
}

/* One that has no row, or whose row was not asked for: pods of others, and all of them where there is no life. */
static bool broker_list_wanted(struct list_job *j, const char *name, const json_t *shown)
{
	const char *state = json_string_value(json_object_get(shown, "state"));

	if (!broker_list_covers(j, name) || strncmp(name, j->prefix, strlen(j->prefix)) != 0 ||
	    strcmp(name, j->after) <= 0 || (j->app_id[0] && strcmp(json_get_text(shown, "app_id"), j->app_id) != 0))
		return false;
	/* life may have told of it after this page */
	if (j->more && strcmp(name, broker_list_name_of(json_array_get(j->rows, json_array_size(j->rows) - 1))) > 0)
		return false;
	return !j->state[0] || (state && strcmp(j->state, state) == 0);
}

/*
 * A row of life's that nobody else knows more of becomes what is shown, without a copy: what agent_show() says of a
 * sandbox that the hub and the provider have never heard of. NULL: somebody does know more.
 */
static json_t *show_row(struct list_job *j, const struct sandbox_info *info, json_t *row)
{
	if (info || agent_find(j->hub, broker_list_name_of(row)))
		return NULL;
	json_object_set_new(row, "sessions", json_integer(0));
	json_object_set_new(row, "started_at", json_null());
	json_object_set_new(row, "link", json_null());
	show_reference(j->hub, broker_list_name_of(row), row);
	return json_incref(row);
}

/* Rows are of one name each, and come by name. */
static void add_row(struct list_job *j, json_t *list, const struct sandbox_info *info, json_t *row)
{
	json_t *o = show_row(j, info, row);

	json_array_append_new(list, o ? o : agent_show(j->hub, broker_list_name_of(row), info, row));
}

/* What has no row, once for each name. */
static void add_other(struct list_job *j, json_t *others, const char *name, const struct sandbox_info *info)
{
	json_t *o = json_object_get(others, name) ? NULL : agent_show(j->hub, name, info, NULL);

	if (o && broker_list_wanted(j, name, o))
		json_object_set(others, name, o);
	json_decref(o);
}

static int broker_list_by_name(const void *a, const void *b)
{
	return strcmp(broker_list_name_of(*(json_t *const *)a), broker_list_name_of(*(json_t *const *)b));
}

/* The first `limit` by name of both. NULL: no memory. */
static json_t *page(struct list_job *j, json_t *rows, json_t *others)
{
	size_t n = json_array_size(rows) + json_object_size(others), i = 0;
	json_t **all = calloc(n + 1, sizeof(json_t *)), *list = json_array(), *value;
	const char *key;

	if (!all || !list) {
		free(all);
		json_decref(list);
		return NULL;
	}
	json_array_foreach(rows, i, value) all[i] = value;
	json_object_foreach(others, key, value) all[i++] = value;
	if (json_object_size(others))
		qsort(all, n, sizeof(json_t *), broker_list_by_name);
	for (i = 0; i < n && i < j->limit; i++)
		json_array_append(list, all[i]);
	j->more = j->more || i < n;
	free(all);
	return list;
}

static const struct sandbox_info *broker_list_find(const struct sandbox_info *list, const json_t *index,
						   const char *name)
{
	const json_t *at = json_object_get(index, name);

	return at ? &list[json_integer_value(at)] : NULL;
}

/* Sandboxes that run and cannot serve are shown as errors, which their rows do not know. */
static void add_unable(struct list_job *j, json_t *others, const struct sandbox_info *list, const json_t *index)
{
	struct agent *a, *next;

	HASH_ITER(hh, hub_agents(j->hub)->by_name, a, next)
	{
		json_t *row = a->unable[0] && a->state != AGENT_COLD ? agent_row(j->hub, a->name) : NULL;
		const char *state = json_string_value(json_object_get(row, "state"));
		json_t *o = state && strcmp(state, j->state) != 0
				? agent_show(j->hub, a->name, broker_list_find(list, index, a->name), row)
				: NULL; /* else it is listed already */

		if (o && broker_list_wanted(j, a->name, o))
			json_object_set(others, a->name, o);
		json_decref(o);
		json_decref(row);
	}
}

/* missing: what the provider could not say; NULL. */
static void broker_list_finish(struct list_job *j, const struct sandbox_info *list, size_t n, const struct err *missing)
{
	json_t *rows = json_array(), *others = json_object(), *index = json_object(), *row, *o = NULL, *agents;
	struct agent *a, *next;
	size_t i;

	for (i = 0; i < n; i++)
		json_object_set_new(index, list[i].agent, json_integer((json_int_t)i));
	json_array_foreach(j->rows, i, row)
	    add_row(j, rows, n ? broker_list_find(list, index, broker_list_name_of(row)) : NULL, row);
	for (i = 0; i < n; i++)
		if (!j->rows || target_is_pod(list[i].agent))
			add_other(j, others, list[i].agent, &list[i]);
	HASH_ITER(hh, hub_agents(j->hub)->by_name, a, next)
	if (a->state != AGENT_COLD && (!j->rows || target_is_pod(a->name)))
		add_other(j, others, a->name, NULL);
	if (j->rows && strcmp(j->state, "error") == 0)
		add_unable(j, others, list, index);
	agents = page(j, rows, others);
	if (agents)
		o = json_pack("{s:o,s:b}", "agents", agents, "more", (int)j->more);
	if (o && missing)
		json_object_set_new(o, "incomplete", json_string(missing->message));
	json_decref(rows);
	json_decref(others);
	json_decref(index);
	broker_list_job_end(j, 0, NULL, o);
}

static void broker_list_on_list(void *arg, const struct sandbox_answer *r)
{
	struct list_job *j = arg;

	if (r->rc == ERR_CANCELLED || (r->rc && !j->rows))
		broker_list_job_end(j, r->rc, r->e, NULL);
	else
		broker_list_finish(j, r->rc ? NULL : r->info, r->rc ? 0 : r->n, r->e);
}

/* A grant for one agent: only that one is asked about. */
static void broker_list_on_stat(void *arg, const struct sandbox_answer *r)
{
	static const struct sandbox_answer none = {.fd = -1};
	bool absent = !r->rc && r->info->state == SANDBOX_ABSENT && !r->info->has_workspace;

	broker_list_on_list(arg, absent || r->rc == ERR_NOT_FOUND ? &none : r);
}

/* Something runs that the hub has no link to: only the provider can tell more of it. */
static bool needs_provider(const struct list_job *j)
{
	const json_t *row;
	size_t i;

	json_array_foreach(j->rows, i, row)
	{
		const char *state = json_string_value(json_object_get(row, "state"));
		struct agent *a = agent_find(j->hub, broker_list_name_of(row));

		if (state && strcmp(state, "running") == 0 && (!a || a->state == AGENT_COLD))
			return true;
	}
	return !j->rows;
}

/* The longer of what is asked for and what the grant's names begin with. false: no name begins with both. */
static bool narrow_prefix(struct list_job *j)
{
	const char *pattern = j->rq.grant.agent;
	size_t n = strcspn(pattern, "*"), asked = strlen(j->prefix);

	if (strncmp(pattern, j->prefix, n < asked ? n : asked) != 0)
		return false;
	if (n > asked)
		memcpy(j->prefix, pattern, n), j->prefix[n] = '\0';
	return true;
}

static int ask_life(struct list_job *j, struct err *e)
{
	struct life_filter f = {.state = j->state[0] ? j->state : NULL,
				.prefix = j->prefix[0] ? j->prefix : NULL,
				.after = j->after[0] ? j->after : NULL,
				.app_id = j->app_id[0] ? j->app_id : NULL,
				.limit = j->limit,
				.wanted = broker_list_covers,
				.arg = j};
	const char *only = j->rq.grant.agent;
	json_t *o = NULL, *row = NULL;
	int rc;

	if (!grant_of_one(&j->rq.grant) && !narrow_prefix(j)) {
		j->rows = json_array();
		return j->rows ? 0 : err_set(e, ERR_NOMEM, "no memory");
	}
	if (!grant_of_one(&j->rq.grant)) {
		f.prefix = j->prefix[0] ? j->prefix : NULL;
		rc = life_list(hub_life(j->hub), &f, &o, e);
		j->rows = json_incref(json_object_get(o, "agents"));
		j->more = json_is_true(json_object_get(o, "more"));
		json_decref(o);
		return rc;
	}
	row = agent_row(j->hub, only);
	if (!row)
		return 0; /* a pod, or never made: the provider may know of it */
	j->rows = json_array();
	if (broker_list_wanted(j, only, row))
		json_array_append(j->rows, row);
	json_decref(row);
	return j->rows ? 0 : ERR_NOMEM;
}

static int take_filter(struct list_job *j, const struct life_filter *f, struct err *e)
{
	bool known = !f || !f->state;

	j->limit = f && f->limit && f->limit < BROKER_AGENTS_MAX ? f->limit : BROKER_AGENTS_MAX;
	for (int s = LIFE_STOPPED; !known && s <= LIFE_ERROR; s++)
		known = strcmp(f->state, life_state_name((enum life_state)s)) == 0;
	if (!known)
		return err_set(e, ERR_INVAL,
			       "state \"%.40s\" is not known: running, idle_stopping, stopped, error, "
			       "starting, stopping or destroying",
			       f->state);
	if (!f)
		return 0;
	if ((f->prefix && strlen(f->prefix) > AGENT_NAME_MAX) || (f->after && strlen(f->after) > AGENT_NAME_MAX))
		return err_set(e, ERR_INVAL, "prefix or after is longer than a name can be (%d)", AGENT_NAME_MAX);
	if (f->app_id && dns_label_check("app_id", f->app_id, e))
		return ERR_INVAL;
	text_put(j->app_id, sizeof(j->app_id), f->app_id ? f->app_id : "");
	text_put(j->state, sizeof(j->state), f->state ? f->state : "");
	text_put(j->prefix, sizeof(j->prefix), f->prefix ? f->prefix : "");
	text_put(j->after, sizeof(j->after), f->after ? f->after : "");
	return 0;
}

void broker_agents(struct hub *h, const struct request *rq, const struct life_filter *f, broker_json_done *done,
		   void *arg)
{
	struct sandbox_provider *p = hub_provider(h);
	struct list_job *j = calloc(1, sizeof(*j));
	struct err e = {0};
	int rc = j ? broker_in_force(h, rq, "agents", &e) : err_set(&e, ERR_NOMEM, "no memory");

	if (!j) {
		done(arg, rc, &e, NULL);
		return;
	}
	if (!rc)
		rc = broker_policy(h, rq, &(struct policy_question){.op = POLICY_SANDBOX_READ}, "agents", NULL, &e);
	j->hub = h;
	j->rq = *rq;
	j->done = done;
	j->arg = arg;
	if (!rc)
		rc = take_filter(j, f, &e);
	if (!rc && hub_life(h) && (rc = ask_life(j, &e)) == ERR_UNSUPPORTED)
		rc = 0; /* it keeps no rows: what the provider says */
	if (rc)
		broker_list_job_end(j, rc, &e, NULL);
	else if (needs_provider(j) && grant_of_one(&j->rq.grant) && !target_is_pod(j->rq.grant.agent))
		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_STAT, .agent = j->rq.grant.agent},
			    broker_list_on_stat, j);
	else if (needs_provider(j))
		sandbox_ask(p, &(struct sandbox_ask){.op = SANDBOX_LIST}, broker_list_on_list, j);
	else
		broker_list_finish(j, NULL, 0, NULL);
}
