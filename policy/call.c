#include "policy/call.h"

#include "base/clock.h"
#include "base/conf_table.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

#define CALL_KEYS                                                                                                      \
	"task|agent|principal|kind|path|port|server|tool|time|size|rounds|sessions|contexts|requests|image|cpu|"       \
	"memory|pids"

static int call_take_number(const char *key, const char *value, unsigned long most, unsigned *out, struct err *e)
{
	char *end;
	unsigned long n = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || n > most)
		return err_set(e, ERR_INVAL, "%s=%.40s is no number up to %lu", key, value, most);
	*out = (unsigned)n;
	return 0;
}

static int call_take_path(char *value, struct policy_question *q)
{
	size_t n = strlen(value);

	q->tree = n >= 3 && strcmp(value + n - 3, "/**") == 0;
	if (q->tree)
		value[n - 3] = '\0';
	q->path = strcmp(value, "**") == 0 ? "." : *value == '/' ? "" : value;
	q->tree = q->tree || strcmp(value, "**") == 0;
	return 0;
}

/* By who reads those of a call of the API. */
static int call_take_resource(const char *key, const char *value, struct policy_question *q, struct err *e)
{
	bool pids = strcmp(key, "pids") == 0;
	struct resources one = {0};
	unsigned n = 0;
	json_t *o;
	int rc = pids ? call_take_number(key, value, RESOURCES_PIDS_MAX, &n, e) : 0;

	if (rc)
		return rc;
	o = json_object();
	if (!o || json_object_set_new(o, key, pids ? json_integer(n) : json_string(value)))
		rc = err_set(e, ERR_INVAL, "%s=%.40s is no quantity", key, value);
	else
		rc = resources_read(o, &one, e);
	json_decref(o);
	if (rc)
		return rc;
	q->resources.cpu_milli += one.cpu_milli;
	q->resources.memory += one.memory;
	q->resources.pids += one.pids;
	q->makes = true;
	return 0;
}

static int call_word(struct policy_question *q, const char *key, char *value, struct err *e)
{
	const char *near;
	size_t len = 0;

	if (strcmp(key, "task") == 0)
		q->task = value;
	else if (strcmp(key, "agent") == 0)
		q->agent = value;
	else if (strcmp(key, "principal") == 0)
		q->principal = value;
	else if (strcmp(key, "server") == 0)
		q->server = value;
	else if (strcmp(key, "tool") == 0)
		q->tool = value;
	else if (strcmp(key, "image") == 0)
		q->image = strcmp(value, "none") == 0 ? "" : value, q->makes = true;
	else if (strcmp(key, "cpu") == 0 || strcmp(key, "memory") == 0 || strcmp(key, "pids") == 0)
		return call_take_resource(key, value, q, e);
	else if (strcmp(key, "kind") == 0)
		return grant_kind_parse(value, &q->kind, e);
	else if (strcmp(key, "path") == 0)
		return call_take_path(value, q);
	else if (strcmp(key, "port") == 0)
		return call_take_number(key, value, 65535, &q->port, e);
	else if (strcmp(key, "rounds") == 0)
		return call_take_number(key, value, 1000000, &q->rounds, e);
	else if (strcmp(key, "sessions") == 0)
		return call_take_number(key, value, 1000000, &q->sessions, e);
	else if (strcmp(key, "contexts") == 0)
		return call_take_number(key, value, 1000000, &q->contexts, e);
	else if (strcmp(key, "requests") == 0)
		return call_take_number(key, value, 1000000, &q->requests, e);
	else if (strcmp(key, "time") == 0)
		return clock_parse_duration(value, &q->timeout_ns)
			   ? err_set(e, ERR_INVAL, "time=%.40s is no duration, as 90s or 10m", value)
			   : 0;
	else if (strcmp(key, "size") == 0)
		return conf_parse_size(value, &q->bytes)
			   ? err_set(e, ERR_INVAL, "size=%.40s is no size, as 512KiB or 1MiB", value)
			   : 0;
	else if ((near = conf_choice_nearest(CALL_KEYS, key, &len)))
		return err_set(e, ERR_INVAL, "unknown word \"%.40s\", did you mean %.*s?", key, (int)len, near);
	else
		return err_set(e, ERR_INVAL, "unknown word \"%.40s\", known are: " CALL_KEYS, key);
	return 0;
}

static int call_op(const char *name, enum policy_op *out, struct err *e)
{
	const char *near;

	*out = policy_op_find(name);
	if (*out != POLICY_OPS)
		return 0;
	near = policy_op_nearest(name);
	if (near)
		return err_set(e, ERR_INVAL, "there is no operation \"%.64s\", did you mean %s?", name, near);
	return err_set(e, ERR_INVAL, "there is no operation \"%.64s\": muxctl policy operations lists them", name);
}

int policy_call_parse(const char *text, struct policy_call *out, struct err *e)
{
	struct policy_call *c = out;
	char *at, *word, *rest;
	int rc;

	if (strlen(text) > POLICY_CALL_MAX)
		return err_set(e, ERR_INVAL, "a call has %zu bytes, %d are allowed", strlen(text), POLICY_CALL_MAX);
	memset(c, 0, sizeof(*c));
	memcpy(c->text, text, strlen(text));
	c->q.kind = GRANT_AGENT;
	c->q.principal = "";
	at = c->text;
	word = strtok_r(at, " \t", &rest);
	if (!word)
		return err_set(e, ERR_INVAL, "a call begins with its operation, as file.write path=src/a.c");
	rc = call_op(word, &c->q.op, e);
	c->q.makes = c->q.op == POLICY_SANDBOX_WAKE || c->q.op == POLICY_SNAPSHOT_FORK;
	c->q.fixed = c->q.op == POLICY_LEASE_HOLD || c->q.op == POLICY_RUN_START;
	while (rc == 0 && (word = strtok_r(NULL, " \t", &rest))) {
		char *value = strchr(word, '=');

		if (!value || value == word)
			return err_set(e, ERR_INVAL, "\"%.40s\" is no KEY=VALUE", word);
		*value++ = '\0';
		rc = call_word(&c->q, word, value, e);
	}
	return rc;
}
