#include "base/conf_text.h"

#include "base/clock.h"
#include "base/conf_table.h"
#include "base/record_rule.h"

#include <stdlib.h>
#include <string.h>

#define DURATION_TEXT 64

/* Ends of the names of keys whose values nobody is to read. A file's name is no secret. */
static bool is_secret(const char *path)
{
	static const char *const ends[] = {"secret", "password", "token", "secret_key", "access_key"};
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t k = strlen(ends[i]);
		if (n >= k && strcmp(path + n - k, ends[i]) == 0)
			return true;
	}
	return false;
}

/* "https://user:word@host" as "https://(secret)@host"; each one in the text. */
static char *without_passwords(const char *text)
{
	static const char mark[] = CONF_TEXT_SECRET;
	size_t n = strlen(text), k = 0;
	/* A place needs four characters at least ("://@"), and grows by the mark. */
	char *out = malloc(n + (n / 4 + 1) * sizeof(mark));

	for (const char *p = text; out && *p;) {
		size_t host = strncmp(p, "://", 3) == 0 ? strcspn(p + 3, "/?#, ") : 0, at = host;

		while (at && p[3 + at - 1] != '@')
			at--;
		if (!at) {
			out[k++] = *p++;
			continue;
		}
		memcpy(out + k, "://", 3);
		memcpy(out + k + 3, mark, sizeof(mark) - 1);
		k += 3 + sizeof(mark) - 1;
		p += 3 + at - 1;
	}
	if (out)
		out[k] = '\0';
	return out;
}

static json_t *string_of(const char *s)
{
	char *clean = without_passwords(s ? s : "");
	json_t *o = clean ? json_string(clean) : NULL;

	free(clean);
	return o;
}

static json_t *duration_of(uint64_t ns)
{
	char text[DURATION_TEXT];

	if (ns == UINT64_MAX)
		return json_null();
	clock_format_duration(ns, text, sizeof(text));
	return json_string(ns ? text : "0");
}

static json_t *strings_of(char *const *list, size_t n)
{
	json_t *o = json_array();

	for (size_t i = 0; o && i < n; i++)
		if (json_array_append_new(o, string_of(list[i]))) {
			json_decref(o);
			o = NULL;
		}
	return o;
}

static json_t *rule_of(const struct conf *c, size_t i)
{
	const struct conf_rule *r = &c->rules[i];

	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "kind", r->kind, "session", r->session, "rule",
			 record_rule_kind_name(r->rule), "head", (json_int_t)r->head, "tail", (json_int_t)r->tail,
			 "floor", r->floor);
}

static json_t *staff_of(const struct conf *c, size_t i)
{
	const struct conf_staff *s = &c->staff[i];

	return json_pack("{s:s,s:o,s:o,s:s,s:o}", "principal", s->principal, "keys", strings_of(s->keys, s->nkeys),
			 "agents", strings_of(s->agents, s->nagents), "scopes", s->scopes, "ttl",
			 duration_of(s->ttl_ns));
}

static json_t *label_of(const struct conf *c, size_t i)
{
	return json_pack("{s:s,s:s}", "key", c->kubernetes_labels[i].key, "value", c->kubernetes_labels[i].value);
}

static json_t *life_agent_of(const struct conf *c, size_t i)
{
	const struct conf_life_agent *a = &c->life_agents[i];

	return json_pack("{s:s,s:o,s:o,s:s,s:s,s:o}", "agent", a->agent, "idle_ttl", duration_of(a->idle_ttl_ns), "ttl",
			 duration_of(a->ttl_ns), "ttl_action", a->ttl_action, "at_rest", a->at_rest, "hold_attached",
			 a->hold_attached < 0 ? json_null() : json_boolean(a->hold_attached));
}

static json_t *witness_of(const struct conf *c, size_t i)
{
	const struct conf_witness *w = &c->witnesses[i];

	return json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:o,s:o,s:b,s:o}", "name",
			 w->name, "kind", w->kind, "path", w->path, "url", string_of(w->url), "address", w->address,
			 "server_name", w->name_there, "ca", w->ca, "tsa_ca", w->tsa_ca, "credential", w->credential,
			 "certificate", w->certificate, "certificate_key", w->certificate_key, "region", w->region,
			 "lock_mode", w->lock_mode, "key", w->key, "lock", duration_of(w->lock_ns), "interval",
			 duration_of(w->interval_ns), "timeout", duration_of(w->timeout_ns), "on_seal", (int)w->on_seal,
			 "refuse_after", duration_of(w->refuse_after_ns));
}

static json_t *pusher_of(const struct conf *c, size_t i)
{
	const struct conf_pusher *p = &c->pushers[i];

	return json_pack("{s:s,s:s,s:o,s:b}", "name", p->name, "log_id", p->log_id, "keys",
			 strings_of(p->keys, p->nkeys), "merge", (int)p->merge);
}

static json_t *issuer_of(const struct conf *c, size_t i)
{
	const struct conf_issuer *x = &c->issuers[i];
	json_t *o = json_pack("{s:s,s:o,s:o,s:s,s:s,s:s,s:b,s:s,s:o,s:s,s:s,s:o}", "name", x->name, "issuer",
			      string_of(x->issuer), "jwks_url", string_of(x->jwks_url), "audience", x->audience, "ca",
			      x->ca, "typ", x->typ, "loopback", (int)x->loopback, "principal", x->principal, "require",
			      strings_of(x->require, x->nrequire), "kinds", x->kinds, "kind_claim", x->kind_claim,
			      "agents", strings_of(x->agents, x->nagents));
	json_t *more = json_pack("{s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:s,s:s}", "agents_claim", x->agents_claim,
				 "scopes", x->scopes, "scopes_claim", x->scopes_claim, "ttl", duration_of(x->ttl_ns),
				 "lifetime", duration_of(x->lifetime_ns), "skew", duration_of(x->skew_ns), "refresh",
				 duration_of(x->refresh_ns), "keep", duration_of(x->keep_ns), "timeout",
				 duration_of(x->timeout_ns), "exchanges", (json_int_t)x->exchanges, "reason", x->reason,
				 "task", x->task);

	if (!o || !more || json_object_update(o, more)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(more);
	return o;
}

static json_t *image_of(const struct conf *c, size_t i)
{
	const struct conf_image *x = &c->images[i];

	return json_pack("{s:s,s:s,s:s,s:s,s:s}", "name", x->name, "archive", x->archive, "dir", x->dir, "digest",
			 x->digest, "ref", x->ref);
}

static json_t *edge_of(const struct conf *c, size_t i)
{
	const struct conf_edge *x = &c->edges[i];

	return json_pack("{s:s,s:s,s:s}", "name", x->name, "id", x->id, "key", x->key);
}

static json_t *list_of(const struct conf *c, const char *path)
{
	const struct {
		const char *path;
		size_t n;
		json_t *(*one)(const struct conf *c, size_t i);
	} lists[] = {
	    {"record.rules", c->nrules, rule_of},
	    {"staff", c->nstaff, staff_of},
	    {"kubernetes.labels", c->kubernetes_nlabels, label_of},
	    {"lifecycle.agents", c->life_nagents, life_agent_of},
	    {"witnesses", c->nwitnesses, witness_of},
	    {"witness.pushers", c->npushers, pusher_of},
	    {"edge.known", c->nedges, edge_of},
	    {"issuers", c->nissuers, issuer_of},
	    {"sandbox.images", c->nimages, image_of},
	};
	json_t *o = NULL;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (strcmp(lists[i].path, path) != 0)
			continue;
		o = json_array();
		for (size_t k = 0; o && k < lists[i].n; k++)
			if (json_array_append_new(o, lists[i].one(c, k))) {
				json_decref(o);
				return NULL;
			}
	}
	return o;
}

static json_t *flag_of(const struct conf_key *k, bool yes)
{
	const char *second = strchr(k->choices, '|');

	return yes ? json_string(second + 1) : json_stringn(k->choices, (size_t)(second - k->choices));
}

static json_t *conf_value_of(const struct conf *c, const struct conf_key *k)
{
	const void *field = (const char *)c + k->offset;

	if (is_secret(k->path))
		return json_string(CONF_TEXT_SECRET);
	switch (k->type) {
	case CONF_STRING:
	case CONF_CHOICE:
		return string_of(*(char *const *)field);
	case CONF_FLAG:
		return flag_of(k, *(const bool *)field);
	case CONF_BOOL:
		return json_boolean(*(const bool *)field);
	case CONF_NUMBER:
	case CONF_SIZE32:
		return json_integer(*(const uint32_t *)field);
	case CONF_SIZE:
		return json_integer((json_int_t) * (const uint64_t *)field);
	case CONF_DURATION:
		return duration_of(*(const uint64_t *)field);
	case CONF_LIST:
		break;
	}
	return list_of(c, k->path);
}

json_t *conf_values(const struct conf *c)
{
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	json_t *o = json_object();

	for (size_t i = 0; o && i < n; i++) {
		if (json_object_set_new(o, keys[i].path, conf_value_of(c, &keys[i]))) {
			json_decref(o);
			o = NULL;
		}
	}
	return o;
}

char *conf_text(const struct conf *c)
{
	json_t *o = conf_values(c);
	char *text = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(o);
	return text;
}

static int add_change(json_t *out, const char *key, json_t *old, json_t *new)
{
	return json_array_append_new(out, json_pack("{s:s,s:O*,s:O*}", "key", key, "old", old, "new", new));
}

json_t *conf_changes(const json_t *old, const json_t *new)
{
	json_t *out = json_array(), *value;
	const char *key;
	int rc = out ? 0 : -1;

	json_object_foreach((json_t *)new, key, value)
	{
		json_t *was = json_object_get(old, key);
		if (rc == 0 && !(was && json_equal(was, value)))
			rc = add_change(out, key, was, value);
	}
	json_object_foreach((json_t *)old, key, value)
	{
		if (rc == 0 && !json_object_get(new, key))
			rc = add_change(out, key, value, NULL);
	}
	if (rc) {
		json_decref(out);
		out = NULL;
	}
	return out;
}
