#include "base/conf.h"

#include "base/clock.h"
#include "base/conf_table.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/record_rule.h"
#include "base/slurp.h"
#include "base/text.h"
#include "base/yamldoc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (1024 * 1024)
#define KEYS_MAX 256
#define LIST_MAX 1000 /* of a list in an entry; of the others, conf_table.h */

/* One reading: the document, what it becomes, and where each key stood (line 0: nowhere). */
struct conf_reader {
	yaml_document_t *doc;
	const char *name;
	struct conf *conf;
	yaml_mark_t marks[KEYS_MAX];
	bool seen[KEYS_MAX];
	struct err *e;
};

/* ERR_CONFIG, "NAME:LINE:COLUMN: ...". */
__attribute__((format(printf, 3, 4))) static int conf_fail(const struct conf_reader *r, const yaml_mark_t *at,
							   const char *fmt, ...)
{
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(r->e, ERR_CONFIG, "%s:%zu:%zu: %s", r->name, at->line + 1, at->column + 1, why);
}

static int conf_fail_memory(const struct conf_reader *r)
{
	return err_set(r->e, ERR_NOMEM, "no memory for the configuration");
}

static yaml_node_t *conf_node_at(const struct conf_reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

/* A scalar that says something. what: "rules.kind". */
static int conf_need_scalar(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char **out)
{
	const char *s = yamldoc_scalar(n);

	if (!s || yamldoc_is_null(n))
		return conf_fail(r, &n->start_mark, "%s %s", what, s ? "has no value" : "is not a single value");
	*out = s;
	return 0;
}

/* ---- keys that are more than one value: record.rules, staff, kubernetes.labels and others */

static int need_list(const struct conf_reader *r, const yaml_node_t *n, const char *what, size_t most, size_t *out_n)
{
	if (n->type != YAML_SEQUENCE_NODE)
		return conf_fail(r, &n->start_mark, "%s is not a list", what);
	size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
	if (count > most)
		return conf_fail(r, &n->start_mark, "%s has more than %zu entries", what, most);
	*out_n = count;
	return 0;
}

/* A field of an entry, a small mapping. */
enum conf_field_kind {
	FIELD_CHOICE,   /* const char *, one of choices, borrowed from the document */
	FIELD_COPY,     /* char *, one of choices */
	FIELD_BOOL,     /* bool */
	FIELD_TEXT,     /* char * */
	FIELD_SIZE,     /* uint64_t bytes */
	FIELD_DURATION, /* uint64_t ns */
	FIELD_OTHER,    /* read by its list's own function */
};

struct conf_field {
	const char *key;
	enum conf_field_kind kind;
	size_t to; /* in the entry */
	const char *choices;
	int (*check)(const char *value, struct err *e); /* of a text: ERR_CONFIG says what is wrong with it */
};

struct conf_fields {
	const char *list; /* "record.rules" */
	const struct conf_field *field;
	size_t n;
};
#define FIELDS(name, a)                                                                                                \
	{                                                                                                              \
		name, a, sizeof(a) / sizeof((a)[0])                                                                    \
	}

/* "kind|session|rule" */
static void fields_known(const struct conf_fields *f, char out[400])
{
	size_t len = 0;

	for (size_t i = 0; i < f->n; i++)
		len += (size_t)snprintf(out + len, 400 - len, "%s%s", i ? "|" : "", f->field[i].key);
}

static int check_fields(const struct conf_reader *r, const yaml_node_t *n, const struct conf_fields *f)
{
	char known[400];

	fields_known(f, known);
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "an entry of %s is not a mapping of %s", f->list, known);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = conf_node_at(r, p->key);
		const char *key = yamldoc_scalar(k);
		size_t len = 0;
		const char *near = key ? conf_choice_nearest(known, key, &len) : NULL;
		if (!key || !near)
			return conf_fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, known are: %s",
					 key ? key : "?", f->list, known);
		if (strlen(key) != len || strncmp(key, near, len) != 0)
			return conf_fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, did you mean %.*s?", key,
					 f->list, (int)len, near);
		for (yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
			if (strcmp(yamldoc_scalar(conf_node_at(r, q->key)), key) == 0)
				return conf_fail(r, &k->start_mark, "%s stands twice in one entry of %s", key, f->list);
	}
	return 0;
}

static yaml_node_t *field_of(const struct conf_reader *r, const yaml_node_t *n, const char *key)
{
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++)
		if (strcmp(yamldoc_scalar(conf_node_at(r, p->key)), key) == 0)
			return conf_node_at(r, p->value);
	return NULL;
}

static int field_choice(const struct conf_reader *r, const yaml_node_t *v, const char *what, const char *choices,
			const char **out)
{
	const char *text = "", *near;
	size_t len = 0;
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

/* One checked string. */
static int conf_take_text(const struct conf_reader *r, const yaml_node_t *n, const char *what,
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

static int field_size(const struct conf_reader *r, const yaml_node_t *v, const char *what, uint64_t *out)
{
	const char *text = "";
	int rc = conf_need_scalar(r, v, what, &text);

	if (rc == 0 && conf_parse_size(text, out) < 0)
		rc = conf_fail(r, &v->start_mark, "%s is \"%.64s\", not a size such as 512KiB, 64MiB or 1GB", what,
			       text);
	return rc;
}

static int field_duration(const struct conf_reader *r, const yaml_node_t *v, const char *what, uint64_t *out)
{
	const char *text = "";
	int rc = conf_need_scalar(r, v, what, &text);

	if (rc == 0 && strcmp(text, "0") == 0)
		*out = 0;
	else if (rc == 0 && clock_parse_duration(text, out) < 0)
		rc = conf_fail(r, &v->start_mark, "%s is \"%.64s\", not a duration such as 90s, 15m or 2h", what, text);
	return rc;
}

static int read_field(const struct conf_reader *r, const yaml_node_t *v, const char *what, const struct conf_field *f,
		      void *to)
{
	const char *text = "";
	int rc = 0;

	switch (f->kind) {
	case FIELD_CHOICE:
		return field_choice(r, v, what, f->choices, to);
	case FIELD_COPY:
		rc = field_choice(r, v, what, f->choices, &text);
		return rc == 0 && !(*(char **)to = strdup(text)) ? conf_fail_memory(r) : rc;
	case FIELD_BOOL:
		rc = field_choice(r, v, what, "true|false", &text);
		if (rc == 0)
			*(bool *)to = strcmp(text, "true") == 0;
		return rc;
	case FIELD_TEXT:
		return conf_take_text(r, v, what, f->check, to);
	case FIELD_SIZE:
		return field_size(r, v, what, to);
	case FIELD_DURATION:
		return field_duration(r, v, what, to);
	case FIELD_OTHER:
		break;
	}
	return 0;
}

/* The fields that are there, into the entry. What is no field of it: ERR_CONFIG. */
static int read_fields(const struct conf_reader *r, const yaml_node_t *n, const struct conf_fields *f, void *entry)
{
	char what[100];
	int rc = check_fields(r, n, f);

	for (size_t i = 0; rc == 0 && i < f->n; i++) {
		const yaml_node_t *v = field_of(r, n, f->field[i].key);

		text_format(what, sizeof(what), "%s: %s", f->list, f->field[i].key);
		if (v)
			rc = read_field(r, v, what, &f->field[i], (char *)entry + f->field[i].to);
	}
	return rc;
}

typedef int read_entry(struct conf_reader *r, const yaml_node_t *n);

static int read_each(struct conf_reader *r, const yaml_node_t *n, const char *what, size_t most, read_entry *read)
{
	size_t count = 0;
	int rc = need_list(r, n, what, most, &count);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = read(r, conf_node_at(r, n->data.sequence.items.start[i]));
	return rc;
}

struct rule_entry {
	const char *kind, *session, *rule;
	uint64_t head, tail;
	bool floor;
};

static int read_rule(struct conf_reader *r, const yaml_node_t *n)
{
	static const struct conf_field fields[] = {
	    {"kind", FIELD_CHOICE, offsetof(struct rule_entry, kind), "*|staff|agent|auditor|service", NULL},
	    {"session", FIELD_CHOICE, offsetof(struct rule_entry, session), RECORD_RULE_SESSIONS, NULL},
	    {"rule", FIELD_CHOICE, offsetof(struct rule_entry, rule), RECORD_RULE_KINDS, NULL},
	    {"head", FIELD_SIZE, offsetof(struct rule_entry, head), NULL, NULL},
	    {"tail", FIELD_SIZE, offsetof(struct rule_entry, tail), NULL, NULL},
	    {"floor", FIELD_BOOL, offsetof(struct rule_entry, floor), NULL, NULL},
	};
	static const struct conf_fields all = FIELDS("record.rules", fields);
	struct rule_entry x = {.kind = "*", .session = "*", .head = CONF_RULE_HEAD, .tail = CONF_RULE_TAIL};
	enum conf_rule_kind k;
	int rc = read_fields(r, n, &all, &x);

	if (rc < 0)
		return rc;
	if (!x.rule)
		return conf_fail(r, &n->start_mark,
				 "an entry of record.rules names no rule: full, truncated or metadata");
	rc = record_rule_kind_parse(x.rule, &k);
	if (rc < 0)
		return rc;
	if (k != RULE_TRUNCATED && (field_of(r, n, "head") || field_of(r, n, "tail")))
		return conf_fail(r, &n->start_mark, "head and tail of record.rules go with the rule truncated only");
	return conf_rule_add(r->conf, x.kind, x.session, k, x.head, x.tail, x.floor) ? conf_fail_memory(r) : 0;
}

/* "ssh-ed25519 AAAA... comment": a known type, then base64. */
static int conf_check_ssh_key(const char *text, struct err *e)
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

/* A list of strings, or one alone. */
static int take_list(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*check)(const char *, struct err *), char ***out, size_t *out_n)
{
	bool single = n->type == YAML_SCALAR_NODE;
	size_t count = 1;
	int rc = single ? 0 : need_list(r, n, what, LIST_MAX, &count);

	if (rc < 0)
		return rc;
	if (count == 0)
		return conf_fail(r, &n->start_mark, "%s is empty", what);
	*out = calloc(count, sizeof(**out));
	if (!*out)
		return conf_fail_memory(r);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const yaml_node_t *item = single ? n : conf_node_at(r, n->data.sequence.items.start[i]);
		rc = conf_take_text(r, item, what, check, &(*out)[i]);
		if (rc == 0)
			(*out_n)++;
	}
	return rc;
}

/* "terminal,observe", or the same as a list. what: "staff: scopes". */
static int take_scopes(struct conf_reader *r, const yaml_node_t *n, const char *what, char **out)
{
	char **list = NULL, joined[CONF_SCOPES_MAX * 2] = "";
	size_t count = 0, len = 0;
	int rc = take_list(r, n, what, conf_check_scopes, &list, &count);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		int put = snprintf(joined + len, sizeof(joined) - len, "%s%s", i ? "," : "", list[i]);
		len += (size_t)put;
		if (len > CONF_SCOPES_MAX)
			rc = conf_fail(r, &n->start_mark, "%s is too long", what);
	}
	if (rc == 0 && !(*out = strdup(joined)))
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
	static const struct conf_field fields[] = {
	    {"principal", FIELD_TEXT, offsetof(struct conf_staff, principal), NULL, check_principal},
	    {"keys", FIELD_OTHER, 0, NULL, NULL},
	    {"agents", FIELD_OTHER, 0, NULL, NULL},
	    {"scopes", FIELD_OTHER, 0, NULL, NULL},
	    {"ttl", FIELD_OTHER, 0, NULL, NULL},
	};
	static const struct conf_fields all = FIELDS("staff", fields);
	int rc = check_fields(r, n, &all);

	/* All but the ttl are needed. */
	for (size_t i = 0; rc == 0 && i < 4; i++)
		if (!field_of(r, n, fields[i].key))
			rc = conf_fail(r, &n->start_mark, "an entry of staff has no %s", fields[i].key);
	if (rc == 0)
		rc = read_fields(r, n, &all, s);
	if (rc == 0)
		rc = take_list(r, field_of(r, n, "keys"), "staff: keys", conf_check_ssh_key, &s->keys, &s->nkeys);
	if (rc == 0)
		rc = take_list(r, field_of(r, n, "agents"), "staff: agents", check_agent, &s->agents, &s->nagents);
	if (rc == 0)
		rc = take_scopes(r, field_of(r, n, "scopes"), "staff: scopes", &s->scopes);
	if (rc == 0 && field_of(r, n, "ttl"))
		rc = take_ttl(r, field_of(r, n, "ttl"), &s->ttl_ns);
	return rc;
}

static int read_staff(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "staff", CONF_STAFF_MAX, &count);

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

struct life_entry {
	struct conf_life_agent a;
	const char *hold;
};

static int read_life_agent(struct conf_reader *r, const yaml_node_t *n)
{
	static const struct conf_field fields[] = {
	    {"agent", FIELD_TEXT, offsetof(struct life_entry, a.agent), NULL, conf_check_agents},
	    {"idle_ttl", FIELD_DURATION, offsetof(struct life_entry, a.idle_ttl_ns), NULL, NULL},
	    {"ttl", FIELD_DURATION, offsetof(struct life_entry, a.ttl_ns), NULL, NULL},
	    {"ttl_action", FIELD_COPY, offsetof(struct life_entry, a.ttl_action), "stop|delete", NULL},
	    {"hold_attached", FIELD_CHOICE, offsetof(struct life_entry, hold), "true|false", NULL},
	    {"at_rest", FIELD_COPY, offsetof(struct life_entry, a.at_rest), "drop|keep", NULL},
	};
	static const struct conf_fields all = FIELDS("lifecycle.agents", fields);
	struct life_entry x = {.a = {.idle_ttl_ns = UINT64_MAX, .ttl_ns = UINT64_MAX, .hold_attached = -1}};
	int rc = read_fields(r, n, &all, &x);

	if (rc == 0 && !x.a.agent)
		rc = conf_fail(r, &n->start_mark, "an entry of lifecycle.agents names no agent");
	if (rc == 0 && x.hold)
		x.a.hold_attached = strcmp(x.hold, "true") == 0;
	if (rc == 0 && conf_life_agent_add(r->conf, &x.a))
		rc = conf_fail_memory(r);
	if (rc < 0)
		conf_life_agent_finish(&x.a);
	return rc;
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
	static const struct conf_field fields[] = {
	    {"name", FIELD_TEXT, offsetof(struct conf_witness, name), NULL, conf_check_witness_name},
	    {"kind", FIELD_TEXT, offsetof(struct conf_witness, kind), NULL, conf_check_witness_kind},
	    {"path", FIELD_TEXT, offsetof(struct conf_witness, path), NULL, conf_check_file},
	    {"url", FIELD_TEXT, offsetof(struct conf_witness, url), NULL, conf_check_http},
	    {"address", FIELD_TEXT, offsetof(struct conf_witness, address), NULL, conf_check_address},
	    {"server_name", FIELD_TEXT, offsetof(struct conf_witness, name_there), NULL, conf_check_host_name},
	    {"ca", FIELD_TEXT, offsetof(struct conf_witness, ca), NULL, conf_check_file},
	    {"tsa_ca", FIELD_TEXT, offsetof(struct conf_witness, tsa_ca), NULL, conf_check_file},
	    {"credential", FIELD_TEXT, offsetof(struct conf_witness, credential), NULL, conf_check_file},
	    {"certificate", FIELD_TEXT, offsetof(struct conf_witness, certificate), NULL, conf_check_file},
	    {"certificate_key", FIELD_TEXT, offsetof(struct conf_witness, certificate_key), NULL, conf_check_file},
	    {"region", FIELD_TEXT, offsetof(struct conf_witness, region), NULL, conf_check_region},
	    {"lock", FIELD_DURATION, offsetof(struct conf_witness, lock_ns), NULL, NULL},
	    {"lock_mode", FIELD_COPY, offsetof(struct conf_witness, lock_mode), "compliance|governance", NULL},
	    {"key", FIELD_TEXT, offsetof(struct conf_witness, key), NULL, conf_check_record_key},
	    {"interval", FIELD_DURATION, offsetof(struct conf_witness, interval_ns), NULL, NULL},
	    {"timeout", FIELD_DURATION, offsetof(struct conf_witness, timeout_ns), NULL, NULL},
	    {"on_seal", FIELD_BOOL, offsetof(struct conf_witness, on_seal), NULL, NULL},
	    {"refuse_after", FIELD_DURATION, offsetof(struct conf_witness, refuse_after_ns), NULL, NULL},
	};
	static const struct conf_fields all = FIELDS("witnesses", fields);
	struct conf_witness w = {.interval_ns = 60 * NS_PER_SEC, .timeout_ns = 10 * NS_PER_SEC, .on_seal = true};
	const yaml_node_t *kind;
	int rc = check_fields(r, n, &all);

	/* Authorities count what they are asked. */
	if (rc == 0 && (kind = field_of(r, n, "kind")) != NULL && yamldoc_scalar(kind) &&
	    strcmp(yamldoc_scalar(kind), "timestamp") == 0) {
		w.interval_ns = 3600 * NS_PER_SEC;
		w.on_seal = false;
	}
	if (rc == 0)
		rc = read_fields(r, n, &all, &w);
	if (rc == 0)
		rc = check_witness(r, n, &w);
	if (rc == 0 && (rc = conf_witness_add(r->conf, &w)) != 0)
		rc = rc == ERR_CONFLICT ? conf_fail(r, &n->start_mark, "witness %s stands twice", w.name)
					: conf_fail_memory(r);
	if (rc < 0)
		conf_witness_finish(&w);
	return rc;
}

static int read_pusher(struct conf_reader *r, const yaml_node_t *n)
{
	static const struct conf_field fields[] = {
	    {"name", FIELD_TEXT, offsetof(struct conf_pusher, name), NULL, conf_check_witness_name},
	    {"log_id", FIELD_TEXT, offsetof(struct conf_pusher, log_id), NULL, conf_check_log_id},
	    {"keys", FIELD_OTHER, 0, NULL, NULL},
	    {"merge", FIELD_BOOL, offsetof(struct conf_pusher, merge), NULL, NULL},
	};
	static const struct conf_fields all = FIELDS("witness.pushers", fields);
	struct conf_pusher p = {0};
	int rc = read_fields(r, n, &all, &p);

	if (rc == 0 && (!p.name || !p.log_id || !field_of(r, n, "keys")))
		rc = conf_fail(r, &n->start_mark, "an entry of witness.pushers needs name, log_id and keys");
	if (rc == 0)
		rc = take_list(r, field_of(r, n, "keys"), "witness.pushers: keys", conf_check_record_key, &p.keys,
			       &p.nkeys);
	if (rc == 0 && (rc = conf_pusher_add(r->conf, &p)) != 0)
		rc = rc == ERR_CONFLICT
			 ? conf_fail(r, &n->start_mark, "witness.pushers: %s or its log id stands twice", p.name)
			 : conf_fail_memory(r);
	if (rc < 0)
		conf_pusher_finish(&p);
	return rc;
}

static int read_edge(struct conf_reader *r, const yaml_node_t *n)
{
	static const struct conf_field fields[] = {
	    {"name", FIELD_TEXT, offsetof(struct conf_edge, name), NULL, conf_check_witness_name},
	    {"id", FIELD_TEXT, offsetof(struct conf_edge, id), NULL, conf_check_log_id},
	    {"key", FIELD_TEXT, offsetof(struct conf_edge, key), NULL, conf_check_record_key},
	};
	static const struct conf_fields all = FIELDS("edge.known", fields);
	struct conf_edge x = {0};
	int rc = read_fields(r, n, &all, &x);

	if (rc == 0 && (!x.name || !x.id || !x.key))
		rc = conf_fail(r, &n->start_mark, "an entry of edge.known needs name, id and key");
	if (rc == 0 && (rc = conf_edge_add(r->conf, &x)) != 0)
		rc = rc == ERR_CONFLICT
			 ? conf_fail(r, &n->start_mark, "edge.known: %s, its id or its key stands twice", x.name)
			 : conf_fail_memory(r);
	if (rc < 0)
		conf_edge_finish(&x);
	return rc;
}

static int read_image(struct conf_reader *r, const yaml_node_t *n)
{
	static const struct conf_field fields[] = {
	    {"name", FIELD_TEXT, offsetof(struct conf_image, name), NULL, conf_check_image_name},
	    {"archive", FIELD_TEXT, offsetof(struct conf_image, archive), NULL, conf_check_file},
	    {"dir", FIELD_TEXT, offsetof(struct conf_image, dir), NULL, conf_check_file},
	    {"digest", FIELD_TEXT, offsetof(struct conf_image, digest), NULL, conf_check_image_digest},
	    {"ref", FIELD_TEXT, offsetof(struct conf_image, ref), NULL, conf_check_image_needed},
	};
	static const struct conf_fields all = FIELDS("sandbox.images", fields);
	struct conf_image x = {0};
	struct err why = {0};
	int rc = read_fields(r, n, &all, &x);

	if (rc == 0 && !x.name)
		rc = conf_fail(r, &n->start_mark, "an entry of sandbox.images has no name");
	if (rc == 0 && conf_check_image_entry(&x, &why))
		rc = conf_fail(r, &n->start_mark, "sandbox.images: %s: %s", x.name, why.message);
	if (rc == 0 && (rc = conf_image_add(r->conf, &x)) != 0)
		rc = rc == ERR_CONFLICT ? conf_fail(r, &n->start_mark, "sandbox.images: %s stands twice", x.name)
					: conf_fail_memory(r);
	if (rc < 0)
		conf_image_finish(&x);
	return rc;
}

static int read_issuer_lists(struct conf_reader *r, const yaml_node_t *n, struct conf_issuer *x)
{
	const yaml_node_t *v;
	int rc = 0;

	if ((v = field_of(r, n, "agents")))
		rc = take_list(r, v, "issuers: agents", conf_check_agents, &x->agents, &x->nagents);
	if (rc == 0 && (v = field_of(r, n, "require")))
		rc = take_list(r, v, "issuers: require", conf_check_require, &x->require, &x->nrequire);
	if (rc == 0 && (v = field_of(r, n, "scopes")))
		rc = take_scopes(r, v, "issuers: scopes", &x->scopes);
	return rc;
}

static int read_issuer(struct conf_reader *r, const yaml_node_t *n)
{
#define TO(field) offsetof(struct conf_issuer, field)
	static const struct conf_field fields[] = {
	    {"name", FIELD_TEXT, TO(name), NULL, conf_check_witness_name},
	    {"issuer", FIELD_TEXT, TO(issuer), NULL, conf_check_issuer_url},
	    {"jwks_url", FIELD_TEXT, TO(jwks_url), NULL, conf_check_issuer_url},
	    {"audience", FIELD_TEXT, TO(audience), NULL, conf_check_some_text},
	    {"ca", FIELD_TEXT, TO(ca), NULL, conf_check_file},
	    {"typ", FIELD_TEXT, TO(typ), NULL, conf_check_some_text},
	    {"loopback", FIELD_BOOL, TO(loopback), NULL, NULL},
	    {"principal", FIELD_TEXT, TO(principal), NULL, conf_check_principal},
	    {"require", FIELD_OTHER, 0, NULL, NULL},
	    {"kinds", FIELD_TEXT, TO(kinds), NULL, conf_check_kinds},
	    {"kind_claim", FIELD_TEXT, TO(kind_claim), NULL, conf_check_claim},
	    {"agents", FIELD_OTHER, 0, NULL, NULL},
	    {"agents_claim", FIELD_TEXT, TO(agents_claim), NULL, conf_check_claim},
	    {"scopes", FIELD_OTHER, 0, NULL, NULL},
	    {"scopes_claim", FIELD_TEXT, TO(scopes_claim), NULL, conf_check_claim},
	    {"ttl", FIELD_DURATION, TO(ttl_ns), NULL, NULL},
	    {"lifetime", FIELD_DURATION, TO(lifetime_ns), NULL, NULL},
	    {"skew", FIELD_DURATION, TO(skew_ns), NULL, NULL},
	    {"refresh", FIELD_DURATION, TO(refresh_ns), NULL, NULL},
	    {"keep", FIELD_DURATION, TO(keep_ns), NULL, NULL},
	    {"timeout", FIELD_DURATION, TO(timeout_ns), NULL, NULL},
	    {"exchanges", FIELD_SIZE, TO(exchanges), NULL, NULL},
	    {"reason", FIELD_TEXT, TO(reason), NULL, conf_check_reason_of_claims},
	    {"task", FIELD_TEXT, TO(task), NULL, conf_check_principal},
	};
#undef TO
	static const struct conf_fields all = FIELDS("issuers", fields);
	struct conf_issuer x = conf_issuer_new();
	struct err why = {0};
	int rc = read_fields(r, n, &all, &x);

	if (rc == 0)
		rc = read_issuer_lists(r, n, &x);
	if (rc == 0 && !x.name)
		rc = conf_fail(r, &n->start_mark, "an entry of issuers has no name");
	if (rc == 0 && conf_check_issuer(&x, &why))
		rc = conf_fail(r, &n->start_mark, "issuer %s: %s", x.name, why.message);
	if (rc == 0 && (rc = conf_issuer_add(r->conf, &x)) != 0)
		rc = rc == ERR_CONFLICT ? conf_fail(r, &n->start_mark, "issuer %s stands twice", x.name)
					: conf_fail_memory(r);
	if (rc < 0)
		conf_issuer_finish(&x);
	return rc;
}

/* One pair of kubernetes.labels; the value is a scalar, "" where nothing stands. */
static int read_label(struct conf_reader *r, const yaml_node_t *k, const yaml_node_t *v)
{
	const char *key = yamldoc_scalar(k), *value = yamldoc_scalar(v);
	struct conf *c = r->conf;
	struct err why = {0};

	if (!key)
		return conf_fail(r, &k->start_mark, "a key in kubernetes.labels is not a name");
	if (!value)
		return conf_fail(r, &v->start_mark, "kubernetes.labels: %.80s is not a single value", key);
	if (conf_check_label(key, yamldoc_is_null(v) ? "" : value, &why) < 0)
		return conf_fail(r, &k->start_mark, "kubernetes.labels: %s", why.message);
	for (size_t i = 0; i < c->kubernetes_nlabels; i++)
		if (strcmp(c->kubernetes_labels[i].key, key) == 0)
			return conf_fail(r, &k->start_mark, "kubernetes.labels: %.80s stands twice", key);
	return conf_label_add(c, key, yamldoc_is_null(v) ? "" : value) ? conf_fail_memory(r) : 0;
}

static int read_labels(struct conf_reader *r, const yaml_node_t *n)
{
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "kubernetes.labels is not a mapping of labels");
	if (n->data.mapping.pairs.top - n->data.mapping.pairs.start > CONF_LABELS_MAX)
		return conf_fail(r, &n->start_mark, "kubernetes.labels has more than %d entries", CONF_LABELS_MAX);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++)
		rc = read_label(r, conf_node_at(r, p->key), conf_node_at(r, p->value));
	return rc;
}

static int conf_read_list(struct conf_reader *r, const char *path, const yaml_node_t *n)
{
	static const struct {
		const char *path;
		size_t most;
		read_entry *entry;
	} lists[] = {
	    {"record.rules", CONF_RULES_MAX, read_rule},
	    {"lifecycle.agents", CONF_LIFE_AGENTS_MAX, read_life_agent},
	    {"issuers", CONF_ISSUERS_MAX, read_issuer},
	    {"sandbox.images", CONF_IMAGES_MAX, read_image},
	    {"witnesses", CONF_WITNESSES_MAX, read_witness},
	    {"witness.pushers", CONF_PUSHERS_MAX, read_pusher},
	    {"edge.known", CONF_EDGES_MAX, read_edge},
	};
	size_t i = 0;

	if (strcmp(path, "staff") == 0)
		return read_staff(r, n);
	if (strcmp(path, "kubernetes.labels") == 0)
		return read_labels(r, n);
	if (strcmp(path, "record.rules") == 0)
		conf_rules_clear(r->conf); /* the default's */
	while (i + 1 < sizeof(lists) / sizeof(lists[0]) && strcmp(lists[i].path, path) != 0)
		i++;
	return read_each(r, n, path, lists[i].most, lists[i].entry);
}

/* ---- keys and sections */

static int unknown_key(const struct conf_reader *r, const yaml_mark_t *at, const char *path)
{
	const char *near = conf_key_nearest(path);

	if (near && strcmp(near, path) == 0)
		return conf_fail(r, at, "key \"%.64s\" is written as a section with the name inside it, not with a dot",
				 path);
	if (near)
		return conf_fail(r, at, "unknown key \"%.64s\", did you mean %s?", path, near);
	return conf_fail(r, at, "unknown key \"%.64s\" (muxd serve --print-config shows all)", path);
}

static int read_key(struct conf_reader *r, const char *path, const yaml_node_t *key, const yaml_node_t *value,
		    bool dotted)
{
	size_t n, i = 0;
	const struct conf_key *keys = conf_keys(&n);
	struct err why = {0};
	const char *text = "";

	while (i < n && strcmp(keys[i].path, path) != 0)
		i++;
	if (i == n || dotted)
		return unknown_key(r, &key->start_mark, path);
	if (r->seen[i])
		return conf_fail(r, &key->start_mark, "%s stands twice, first at line %zu", path, r->marks[i].line + 1);
	r->seen[i] = true;
	r->marks[i] = value->start_mark;
	if (keys[i].type == CONF_LIST)
		return conf_read_list(r, path, value);
	int rc = conf_need_scalar(r, value, path, &text);
	if (rc < 0)
		return rc;
	rc = conf_key_set(r->conf, &keys[i], text, &why);
	if (rc == ERR_NOMEM)
		return conf_fail_memory(r);
	return rc < 0 ? conf_fail(r, &value->start_mark, "%s %s", path, why.message) : 0;
}

static bool is_section(const char *name)
{
	size_t n, len = strlen(name);
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (strncmp(keys[i].path, name, len) == 0 && keys[i].path[len] == '.')
			return true;
	return false;
}

static int unknown_section(const struct conf_reader *r, const yaml_mark_t *at, const char *name)
{
	size_t len = 0;
	const char *near = conf_choice_nearest("listen|log|journal|record|grants|staff|ssh|api|sessions|rounds|files|"
					       "router|pool|leases|sandbox|kubernetes|"
					       "lifecycle|issuers|witnesses|witness|privsep",
					       name, &len);

	if (near)
		return conf_fail(r, at, "unknown key \"%.64s\", did you mean %.*s?", name, (int)len, near);
	return unknown_key(r, at, name);
}

static int read_section(struct conf_reader *r, const char *name, const yaml_node_t *n)
{
	char path[160];
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "%s is not a section with keys inside it", name);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = conf_node_at(r, p->key);
		const char *text = yamldoc_scalar(key);
		if (!text)
			return conf_fail(r, &key->start_mark, "a key in %s is not a name", name);
		text_format(path, sizeof(path), "%s.%.100s", name, text);
		rc = read_key(r, path, key, conf_node_at(r, p->value), false);
	}
	return rc;
}

static int read_root(struct conf_reader *r, const yaml_node_t *n)
{
	int rc = 0;

	if (yamldoc_is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return conf_fail(r, &n->start_mark, "the configuration is not a mapping of sections");
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = conf_node_at(r, p->key), *value = conf_node_at(r, p->value);
		const char *text = yamldoc_scalar(key);
		if (!text)
			return conf_fail(r, &key->start_mark, "a key is not a name");
		if (is_section(text))
			rc = read_section(r, text, value);
		else if (strcmp(text, "staff") == 0 || strcmp(text, "witnesses") == 0 || strcmp(text, "issuers") == 0 ||
			 strchr(text, '.'))
			rc = read_key(r, text, key, value, strchr(text, '.') != NULL);
		else
			rc = unknown_section(r, &key->start_mark, text);
	}
	return rc;
}

/* Where one of two keys stood, the first if both; the top of the file when both kept their defaults. */
static const yaml_mark_t *mark_of(const struct conf_reader *r, const char *path, const char *other)
{
	static const yaml_mark_t top;
	const yaml_mark_t *found = &top;
	size_t n;
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++) {
		if (!r->seen[i])
			continue;
		if (strcmp(keys[i].path, path) == 0)
			return &r->marks[i];
		if (strcmp(keys[i].path, other) == 0)
			found = &r->marks[i];
	}
	return found;
}

/* What one key alone cannot tell. */
static int check_together(struct conf_reader *r)
{
	struct conf *c = r->conf;
	const struct {
		const char *key, *most_key;
		uint64_t value, most;
	} defaults[] = {
	    {"grants.ttl", "grants.ttl_max", c->grant_ttl_ns, c->grant_ttl_max_ns},
	    {"rounds.timeout", "rounds.timeout_max", c->round_timeout_ns, c->round_timeout_max_ns},
	    {"files.timeout", "files.timeout_max", c->file_timeout_ns, c->file_timeout_max_ns},
	    {"leases.ttl", "leases.ttl_max", c->lease_ttl_ns, c->lease_ttl_max_ns},
	    {"leases.run_timeout", "leases.run_timeout_max", c->run_timeout_ns, c->run_timeout_max_ns},
	};

	for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (defaults[i].value > defaults[i].most)
			return conf_fail(r, mark_of(r, defaults[i].key, defaults[i].most_key), "%s is longer than %s",
					 defaults[i].key, defaults[i].most_key);
	if (!c->listen_tls_cert[0] != !c->listen_tls_key[0])
		return conf_fail(r, mark_of(r, "listen.tls_cert", "listen.tls_key"),
				 "listen.tls_cert and listen.tls_key go together");
	if (strcmp(c->sandbox_backend, "kubernetes") == 0 && !c->kubernetes_kubeconfig[0])
		return conf_fail(r, mark_of(r, "sandbox.backend", "sandbox.backend"),
				 "sandbox.backend is kubernetes, and kubernetes.kubeconfig names no cluster");
	if (strcmp(c->sandbox_backend, "kubernetes") == 0 && c->sandbox_persist[0])
		return conf_fail(
		    r, mark_of(r, "sandbox.persist", "sandbox.backend"),
		    "sandbox.persist holds for sandboxes of this machine: of a pod its claim alone outlives a "
		    "sleep, which is at /workspace");
	if (strcmp(c->kubernetes_kubeconfig, CONF_IN_CLUSTER) == 0 && c->kubernetes_context[0])
		return conf_fail(r, mark_of(r, "kubernetes.context", "kubernetes.context"),
				 "kubernetes.context goes with a kubeconfig; " CONF_IN_CLUSTER " has none");
	for (size_t i = 0; i < c->nstaff; i++) {
		if (c->staff[i].ttl_ns == 0)
			c->staff[i].ttl_ns = c->grant_ttl_ns;
		if (c->staff[i].ttl_ns > c->grant_ttl_max_ns)
			return conf_fail(r, mark_of(r, "staff", "staff"), "the ttl of %s is longer than grants.ttl_max",
					 c->staff[i].principal);
	}
	return conf_rules_close(c) < 0 ? conf_fail_memory(r) : 0;
}

static int too_large(const char *name, struct err *e)
{
	return err_set(e, ERR_CONFIG, "%s: larger than %d bytes", name, TEXT_MAX);
}

int conf_parse(const char *text, size_t len, const char *name, struct conf **out, struct err *e)
{
	struct conf_reader r = {.name = name, .e = e};
	struct yamldoc *doc = NULL;

	if (len > TEXT_MAX)
		return too_large(name, e);
	int rc = conf_create(&r.conf);
	if (rc < 0)
		return conf_fail_memory(&r);
	rc = yamldoc_parse(text, len, name, &doc, e);
	r.doc = rc == 0 ? yamldoc_document(doc) : NULL;
	if (r.doc)
		rc = read_root(&r, yaml_document_get_root_node(r.doc));
	if (rc == 0)
		rc = check_together(&r);
	yamldoc_destroy(doc);
	if (rc < 0)
		conf_destroy(r.conf);
	else
		*out = r.conf;
	return rc;
}

int conf_load(const char *path, struct conf **out, struct err *e)
{
	char *text = NULL;
	size_t len = 0;
	int rc = slurp_file(path, 0, TEXT_MAX, &text, &len, e);

	if (rc == ERR_TOO_LARGE)
		rc = too_large(path, e);
	if (rc == 0)
		rc = conf_parse(text, len, path, out, e);
	slurp_free(text, len);
	return rc;
}

const struct conf_staff *conf_staff_find(const struct conf *c, const char *principal)
{
	for (size_t i = 0; i < c->nstaff; i++)
		if (strcmp(c->staff[i].principal, principal) == 0)
			return &c->staff[i];
	return NULL;
}

bool conf_staff_covers(const struct conf_staff *s, const char *agent)
{
	for (size_t i = 0; i < s->nagents; i++)
		if (strcmp(s->agents[i], "*") == 0 || target_covers(s->agents[i], agent))
			return true;
	return false;
}
