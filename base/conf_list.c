/* The keys that are more than one value: record.rules, staff, kubernetes.labels. */
#include "base/conf_node.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 1000

static int need_list(const struct conf_reader *r, const yaml_node_t *n, const char *what, size_t *out_n)
{
	if (n->type != YAML_SEQUENCE_NODE)
		return conf_fail(r, &n->start_mark, "%s is not a list", what);
	size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
	if (count > LIST_MAX)
		return conf_fail(r, &n->start_mark, "%s has more than %d entries", what, LIST_MAX);
	*out_n = count;
	return 0;
}

/* The value of one field in a small mapping whose keys are all in `known` ("a|b|c"). */
static int check_fields(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *known)
{
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "an entry of %s is not a mapping of %s", what, known);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = conf_node_at(r, p->key);
		const char *key = yamldoc_scalar(k);
		size_t len = 0;
		const char *near = key ? conf_choice_nearest(known, key, &len) : NULL;
		if (!key || !near)
			return conf_fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, known are: %s",
					 key ? key : "?", what, known);
		if (strlen(key) != len || strncmp(key, near, len) != 0)
			return conf_fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, did you mean %.*s?", key,
					 what, (int)len, near);
		for (yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
			if (strcmp(yamldoc_scalar(conf_node_at(r, q->key)), key) == 0)
				return conf_fail(r, &k->start_mark, "%s stands twice in one entry of %s", key, what);
	}
	return 0;
}

static yaml_node_t *conf_list_field(const struct conf_reader *r, const yaml_node_t *n, const char *key)
{
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++)
		if (strcmp(yamldoc_scalar(conf_node_at(r, p->key)), key) == 0)
			return conf_node_at(r, p->value);
	return NULL;
}

/* A field that is one of "a|b|c"; *out becomes its place there. Absent: *out is left. */
static int field_choice(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
			const char *choices, const char **out)
{
	const yaml_node_t *v = conf_list_field(r, n, key);
	const char *text = "", *near;
	size_t len = 0;

	if (!v)
		return 0;
	int rc = conf_need_scalar(r, v, what, &text);
	if (rc < 0)
		return rc;
	near = conf_choice_nearest(choices, text, &len);
	if (near && strlen(text) == len && strncmp(text, near, len) == 0) {
		*out = text;
		return 0;
	}
	if (near)
		return conf_fail(r, &v->start_mark, "%s is \"%.64s\": did you mean %.*s?", what, text, (int)len, near);
	return conf_fail(r, &v->start_mark, "%s is \"%.64s\", known are: %s", what, text, choices);
}

static int field_size(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
		      uint64_t *out)
{
	const yaml_node_t *v = conf_list_field(r, n, key);
	const char *text = "";

	if (!v)
		return 0;
	int rc = conf_need_scalar(r, v, what, &text);
	if (rc == 0 && conf_parse_size(text, out) < 0)
		rc = conf_fail(r, &v->start_mark, "%s is \"%.64s\", not a size such as 512KiB, 64MiB or 1GB", what,
			       text);
	return rc;
}

static int read_rule(struct conf_reader *r, const yaml_node_t *n)
{
	const char *kind = "*", *session = "*", *rule = NULL;
	uint64_t head = CONF_RULE_HEAD, tail = CONF_RULE_TAIL;
	enum conf_rule_kind k = RULE_TRUNCATED;
	int rc = check_fields(r, n, "record.rules", "kind|session|rule|head|tail");

	if (rc == 0)
		rc = field_choice(r, n, "record.rules: kind", "kind", "*|staff|agent|auditor|service", &kind);
	if (rc == 0)
		rc =
		    field_choice(r, n, "record.rules: session", "session", "*|terminal|exec|round|file|port", &session);
	if (rc == 0)
		rc = field_choice(r, n, "record.rules: rule", "rule", "full|truncated|metadata", &rule);
	if (rc == 0)
		rc = field_size(r, n, "record.rules: head", "head", &head);
	if (rc == 0)
		rc = field_size(r, n, "record.rules: tail", "tail", &tail);
	if (rc < 0)
		return rc;
	if (!rule)
		return conf_fail(r, &n->start_mark,
				 "an entry of record.rules names no rule: full, truncated or metadata");
	if (strcmp(rule, "full") == 0)
		k = RULE_FULL;
	else if (strcmp(rule, "metadata") == 0)
		k = RULE_METADATA;
	if (k != RULE_TRUNCATED && (conf_list_field(r, n, "head") || conf_list_field(r, n, "tail")))
		return conf_fail(r, &n->start_mark, "head and tail of record.rules go with the rule truncated only");
	rc = conf_rule_add(r->conf, kind, session, k, head, tail);
	if (rc == ERR_LIMIT)
		return conf_fail(r, &n->start_mark, "record.rules has too many entries");
	return rc < 0 ? conf_fail_memory(r) : 0;
}

static int read_rules(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "record.rules", &count);

	conf_rules_clear(r->conf);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = read_rule(r, conf_node_at(r, n->data.sequence.items.start[i]));
	return rc;
}

/* "ssh-ed25519 AAAA... comment": a known type, then base64. */
static int conf_list_check_key(const char *text, struct err *e)
{
	static const char *const types[] = {"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"};
	const char *space = strchr(text, ' ');
	uint8_t *blob = NULL;
	size_t len = 0, i = 0;

	while (i < 4 && strncmp(text, types[i], strlen(types[i])) != 0)
		i++;
	if (i == 4 || !space)
		return err_set(e, ERR_CONFIG, "is not an OpenSSH public key (ssh-ed25519 AAAA...)");
	int rc = base64_decode(space + 1, strcspn(space + 1, " "), false, &blob, &len);
	free(blob);
	return rc < 0 || len < 16 ? err_set(e, ERR_CONFIG, "is not an OpenSSH public key: its base64 is broken") : 0;
}

static int check_agent(const char *text, struct err *e)
{
	return strcmp(text, "*") == 0 ? 0 : target_name_check(text, e);
}

static int check_principal(const char *text, struct err *e)
{
	return token_name_check("name", text, e);
}

/* One checked string of a staff entry. */
static int take_text(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*check)(const char *, struct err *), char **out)
{
	const char *text = "";
	struct err why = {0};
	int rc = conf_need_scalar(r, n, what, &text);

	if (rc < 0)
		return rc;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			return conf_fail(r, &n->start_mark, "%s has a control character", what);
	rc = check(text, &why);
	if (rc < 0)
		return conf_fail(r, &n->start_mark, rc == ERR_CONFIG ? "%s %s" : "%s: %s", what, why.message);
	*out = strdup(text);
	return *out ? 0 : conf_fail_memory(r);
}

/* A list of strings, or one alone. */
static int take_list(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*check)(const char *, struct err *), char ***out, size_t *out_n)
{
	bool single = n->type == YAML_SCALAR_NODE;
	size_t count = 1;
	int rc = single ? 0 : need_list(r, n, what, &count);

	if (rc < 0)
		return rc;
	if (count == 0)
		return conf_fail(r, &n->start_mark, "%s is empty", what);
	*out = calloc(count, sizeof(**out));
	if (!*out)
		return conf_fail_memory(r);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const yaml_node_t *item = single ? n : conf_node_at(r, n->data.sequence.items.start[i]);
		rc = take_text(r, item, what, check, &(*out)[i]);
		if (rc == 0)
			(*out_n)++;
	}
	return rc;
}

/* "terminal,observe", or the same as a list. */
static int take_scopes(struct conf_reader *r, const yaml_node_t *n, struct conf_staff *s)
{
	char **list = NULL, joined[CONF_SCOPES_MAX * 2] = "";
	size_t count = 0, len = 0;
	int rc = take_list(r, n, "staff: scopes", conf_check_scopes, &list, &count);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		int put = snprintf(joined + len, sizeof(joined) - len, "%s%s", i ? "," : "", list[i]);
		len += (size_t)put;
		if (len > CONF_SCOPES_MAX)
			rc = conf_fail(r, &n->start_mark, "staff: scopes is too long");
	}
	if (rc == 0 && !(s->scopes = strdup(joined)))
		rc = conf_fail_memory(r);
	for (size_t i = 0; i < count; i++)
		free(list[i]);
	free(list);
	return rc;
}

static int take_ttl(struct conf_reader *r, const yaml_node_t *n, uint64_t *out)
{
	const char *text = "";
	int rc = conf_need_scalar(r, n, "staff: ttl", &text);

	if (rc == 0 && (clock_parse_duration(text, out) < 0 || *out < NS_PER_SEC))
		rc = conf_fail(r, &n->start_mark, "staff: ttl is \"%.64s\", not a duration such as 15m or 1h", text);
	return rc;
}

static int read_staff_entry(struct conf_reader *r, const yaml_node_t *n, struct conf_staff *s)
{
	static const char *const needed[] = {"principal", "keys", "agents", "scopes"};
	int rc = check_fields(r, n, "staff", "principal|keys|agents|scopes|ttl");

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < 4; i++)
		if (!conf_list_field(r, n, needed[i]))
			return conf_fail(r, &n->start_mark, "an entry of staff has no %s", needed[i]);
	rc = take_text(r, conf_list_field(r, n, "principal"), "staff: principal", check_principal, &s->principal);
	if (rc == 0)
		rc = take_list(r, conf_list_field(r, n, "keys"), "staff: keys", conf_list_check_key, &s->keys,
			       &s->nkeys);
	if (rc == 0)
		rc = take_list(r, conf_list_field(r, n, "agents"), "staff: agents", check_agent, &s->agents,
			       &s->nagents);
	if (rc == 0)
		rc = take_scopes(r, conf_list_field(r, n, "scopes"), s);
	if (rc == 0 && conf_list_field(r, n, "ttl"))
		rc = take_ttl(r, conf_list_field(r, n, "ttl"), &s->ttl_ns);
	return rc;
}

static int read_staff(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "staff", &count);

	if (rc < 0 || count == 0)
		return rc;
	r->conf->staff = calloc(count, sizeof(*r->conf->staff));
	if (!r->conf->staff)
		return conf_fail_memory(r);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		r->conf->nstaff = i + 1;
		rc = read_staff_entry(r, conf_node_at(r, n->data.sequence.items.start[i]), &r->conf->staff[i]);
	}
	return rc;
}

static int field_duration(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
			  uint64_t *out)
{
	const yaml_node_t *v = conf_list_field(r, n, key);
	const char *text = "";
	int rc;

	if (!v)
		return 0;
	rc = conf_need_scalar(r, v, what, &text);
	if (rc == 0 && strcmp(text, "0") == 0)
		*out = 0;
	else if (rc == 0 && clock_parse_duration(text, out) < 0)
		rc = conf_fail(r, &v->start_mark, "%s is \"%.64s\", not a duration such as 90s, 15m or 2h", what, text);
	return rc;
}

static int field_copy(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
		      const char *choices, char **out)
{
	const char *text = NULL;
	int rc = field_choice(r, n, what, key, choices, &text);

	if (rc == 0 && text && !(*out = strdup(text)))
		rc = conf_fail_memory(r);
	return rc;
}

/* A name, or the beginning of names and a star. */
static int check_agents(const char *text, struct err *e)
{
	size_t len = strlen(text);
	char name[AGENT_NAME_MAX + 2];

	if (len == 0 || len > AGENT_NAME_MAX || strcmp(text, "*") == 0)
		return strcmp(text, "*") == 0 ? 0 : err_set(e, ERR_CONFIG, "is no agent's name");
	snprintf(name, sizeof(name), "%s", text);
	if (name[len - 1] == '*')
		name[len - 1] = 'x';
	return agent_name_check(name, e);
}

static int read_life_agent(struct conf_reader *r, const yaml_node_t *n)
{
	struct conf_life_agent a = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .hold_attached = -1};
	const char *hold = NULL;
	int rc = check_fields(r, n, "lifecycle.agents", "agent|idle_ttl|ttl|ttl_action|hold_attached|at_rest");

	if (rc == 0 && !conf_list_field(r, n, "agent"))
		rc = conf_fail(r, &n->start_mark, "an entry of lifecycle.agents names no agent");
	if (rc == 0)
		rc = take_text(r, conf_list_field(r, n, "agent"), "lifecycle.agents: agent", check_agents, &a.agent);
	if (rc == 0)
		rc = field_duration(r, n, "lifecycle.agents: idle_ttl", "idle_ttl", &a.idle_ttl_ns);
	if (rc == 0)
		rc = field_duration(r, n, "lifecycle.agents: ttl", "ttl", &a.ttl_ns);
	if (rc == 0)
		rc = field_copy(r, n, "lifecycle.agents: ttl_action", "ttl_action", "stop|delete", &a.ttl_action);
	if (rc == 0)
		rc = field_copy(r, n, "lifecycle.agents: at_rest", "at_rest", "drop|keep", &a.at_rest);
	if (rc == 0)
		rc = field_choice(r, n, "lifecycle.agents: hold_attached", "hold_attached", "true|false", &hold);
	if (rc == 0 && hold)
		a.hold_attached = strcmp(hold, "true") == 0;
	if (rc == 0 && conf_life_agent_add(r->conf, &a))
		rc = conf_fail_memory(r);
	if (rc < 0)
		conf_life_agent_finish(&a);
	return rc;
}

static int read_life_agents(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "lifecycle.agents", &count);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = read_life_agent(r, conf_node_at(r, n->data.sequence.items.start[i]));
	return rc;
}

/* A text field that may be absent; check: ERR_CONFIG or 0. */
static int field_text(struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
		      int (*check)(const char *, struct err *), char **out)
{
	const yaml_node_t *v = conf_list_field(r, n, key);

	return v ? take_text(r, v, what, check, out) : 0;
}

static int field_bool(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key, bool *out)
{
	const char *text = NULL;
	int rc = field_choice(r, n, what, key, "true|false", &text);

	if (rc == 0 && text)
		*out = strcmp(text, "true") == 0;
	return rc;
}

static int read_witness_fields(struct conf_reader *r, const yaml_node_t *n, struct conf_witness *w)
{
	const struct {
		const char *what;
		char **out;
	} files[] = {{"witnesses: ca", &w->ca},
		     {"witnesses: tsa_ca", &w->tsa_ca},
		     {"witnesses: credential", &w->credential},
		     {"witnesses: certificate", &w->certificate},
		     {"witnesses: certificate_key", &w->certificate_key}};
	int rc = field_text(r, n, "witnesses: name", "name", conf_check_witness_name, &w->name);

	if (rc == 0)
		rc = field_text(r, n, "witnesses: kind", "kind", conf_check_witness_kind, &w->kind);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: path", "path", conf_check_file, &w->path);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: url", "url", conf_check_http, &w->url);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: address", "address", conf_check_address, &w->address);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: server_name", "server_name", conf_check_host_name, &w->name_there);
	for (size_t i = 0; rc == 0 && i < sizeof files / sizeof files[0]; i++)
		rc = field_text(r, n, files[i].what, files[i].what + 11, conf_check_file, files[i].out);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: region", "region", conf_check_region, &w->region);
	if (rc == 0)
		rc = field_copy(r, n, "witnesses: lock_mode", "lock_mode", "compliance|governance", &w->lock_mode);
	if (rc == 0)
		rc = field_duration(r, n, "witnesses: lock", "lock", &w->lock_ns);
	if (rc == 0)
		rc = field_text(r, n, "witnesses: key", "key", conf_check_record_key, &w->key);
	if (rc == 0)
		rc = field_duration(r, n, "witnesses: interval", "interval", &w->interval_ns);
	if (rc == 0)
		rc = field_duration(r, n, "witnesses: timeout", "timeout", &w->timeout_ns);
	if (rc == 0)
		rc = field_duration(r, n, "witnesses: refuse_after", "refuse_after", &w->refuse_after_ns);
	return rc ? rc : field_bool(r, n, "witnesses: on_seal", "on_seal", &w->on_seal);
}

static int check_witness(const struct conf_reader *r, const yaml_node_t *n, const struct conf_witness *w)
{
	struct err why;

	if (!w->name || !w->kind)
		return conf_fail(r, &n->start_mark, "an entry of witnesses has no %s", w->name ? "kind" : "name");
	if (conf_check_witness(w, &why))
		return conf_fail(r, &n->start_mark, "witness %s: %s", w->name, why.message);
	if (w->interval_ns < NS_PER_SEC || w->timeout_ns < NS_PER_SEC || w->timeout_ns > 600 * NS_PER_SEC)
		return conf_fail(r, &n->start_mark,
				 "witness %s: interval is a second at least, timeout a second to ten minutes", w->name);
	if (w->refuse_after_ns && w->refuse_after_ns < w->interval_ns)
		return conf_fail(r, &n->start_mark, "witness %s: refuse_after is shorter than interval", w->name);
	return 0;
}

static int read_witness(struct conf_reader *r, const yaml_node_t *n)
{
	const yaml_node_t *kind;
	struct conf_witness w = {.interval_ns = 60 * NS_PER_SEC, .timeout_ns = 10 * NS_PER_SEC, .on_seal = true};
	int rc = check_fields(r, n, "witnesses",
			      "name|kind|path|url|address|server_name|ca|tsa_ca|credential|certificate|"
			      "certificate_key|region|lock|lock_mode|key|interval|timeout|on_seal|refuse_after");

	/* Authorities count what they are asked. */
	if (rc == 0 && (kind = conf_list_field(r, n, "kind")) != NULL && yamldoc_scalar(kind) &&
	    strcmp(yamldoc_scalar(kind), "timestamp") == 0) {
		w.interval_ns = 3600 * NS_PER_SEC;
		w.on_seal = false;
	}
	if (rc == 0)
		rc = read_witness_fields(r, n, &w);
	if (rc == 0)
		rc = check_witness(r, n, &w);
	if (rc == 0 && (rc = conf_witness_add(r->conf, &w)) != 0)
		rc = rc == ERR_NOMEM ? conf_fail_memory(r)
				     : conf_fail(r, &n->start_mark, "witness %s stands twice", w.name);
	if (rc < 0)
		conf_witness_finish(&w);
	return rc;
}

static int read_pusher(struct conf_reader *r, const yaml_node_t *n)
{
	struct conf_pusher p = {0};
	int rc = check_fields(r, n, "witness.pushers", "name|log_id|keys");

	if (rc == 0)
		rc = field_text(r, n, "witness.pushers: name", "name", conf_check_witness_name, &p.name);
	if (rc == 0)
		rc = field_text(r, n, "witness.pushers: log_id", "log_id", conf_check_log_id, &p.log_id);
	if (rc == 0 && (!p.name || !p.log_id || !conf_list_field(r, n, "keys")))
		rc = conf_fail(r, &n->start_mark, "an entry of witness.pushers needs name, log_id and keys");
	if (rc == 0)
		rc = take_list(r, conf_list_field(r, n, "keys"), "witness.pushers: keys", conf_check_record_key,
			       &p.keys, &p.nkeys);
	if (rc == 0 && (rc = conf_pusher_add(r->conf, &p)) != 0)
		rc = rc == ERR_NOMEM
			 ? conf_fail_memory(r)
			 : conf_fail(r, &n->start_mark, "witness.pushers: %s or its log id stands twice", p.name);
	if (rc < 0)
		conf_pusher_finish(&p);
	return rc;
}

static int read_each(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*read)(struct conf_reader *, const yaml_node_t *))
{
	size_t count = 0;
	int rc = need_list(r, n, what, &count);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = read(r, conf_node_at(r, n->data.sequence.items.start[i]));
	return rc;
}

/* One pair of kubernetes.labels; the value is a scalar, "" where nothing stands. */
static int read_label(struct conf_reader *r, const yaml_node_t *k, const yaml_node_t *v)
{
	const char *key = yamldoc_scalar(k), *value = yamldoc_scalar(v);
	struct conf *c = r->conf;
	struct err why = {0};
	int rc;

	if (!key)
		return conf_fail(r, &k->start_mark, "a key in kubernetes.labels is not a name");
	if (!value)
		return conf_fail(r, &v->start_mark, "kubernetes.labels: %.80s is not a single value", key);
	if (conf_check_label(key, yamldoc_is_null(v) ? "" : value, &why) < 0)
		return conf_fail(r, &k->start_mark, "kubernetes.labels: %s", why.message);
	for (size_t i = 0; i < c->kubernetes_nlabels; i++)
		if (strcmp(c->kubernetes_labels[i].key, key) == 0)
			return conf_fail(r, &k->start_mark, "kubernetes.labels: %.80s stands twice", key);
	rc = conf_label_add(c, key, yamldoc_is_null(v) ? "" : value);
	if (rc == ERR_LIMIT)
		return conf_fail(r, &k->start_mark, "kubernetes.labels has too many entries");
	return rc < 0 ? conf_fail_memory(r) : 0;
}

static int read_labels(struct conf_reader *r, const yaml_node_t *n)
{
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "kubernetes.labels is not a mapping of labels");
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++)
		rc = read_label(r, conf_node_at(r, p->key), conf_node_at(r, p->value));
	return rc;
}

int conf_read_list(struct conf_reader *r, const char *path, const yaml_node_t *n)
{
	if (strcmp(path, "staff") == 0)
		return read_staff(r, n);
	if (strcmp(path, "lifecycle.agents") == 0)
		return read_life_agents(r, n);
	if (strcmp(path, "witnesses") == 0)
		return read_each(r, n, path, read_witness);
	if (strcmp(path, "witness.pushers") == 0)
		return read_each(r, n, path, read_pusher);
	return strcmp(path, "kubernetes.labels") == 0 ? read_labels(r, n) : read_rules(r, n);
}
