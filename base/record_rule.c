#include "base/record_rule.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

static const char *const record_rule_kinds[] = {
    [RULE_FULL] = "full", [RULE_TRUNCATED] = "truncated", [RULE_METADATA] = "metadata"};
#define KINDS (sizeof(record_rule_kinds) / sizeof(record_rule_kinds[0]))

const char *record_rule_kind_name(enum conf_rule_kind k)
{
	return (size_t)k < KINDS ? record_rule_kinds[k] : "unknown";
}

int record_rule_kind_parse(const char *text, enum conf_rule_kind *out)
{
	for (size_t i = 0; i < KINDS; i++)
		if (strcmp(text, record_rule_kinds[i]) == 0) {
			*out = (enum conf_rule_kind)i;
			return 0;
		}
	return ERR_INVAL;
}

/* Whole files and what servers say are not meant by a rule for everything. */
static bool is_apart(const char *session)
{
	return strcmp(session, "file") == 0 || strcmp(session, "port") == 0;
}

const struct conf_rule *record_rule_find(const struct conf_rule *rules, size_t n, const char *principal_kind,
					 const char *session)
{
	for (const struct conf_rule *r = rules; r < rules + n; r++) {
		bool any = strcmp(r->session, "*") == 0 && !is_apart(session);

		if ((strcmp(r->kind, "*") == 0 || strcmp(r->kind, principal_kind) == 0) &&
		    (any || strcmp(r->session, session) == 0))
			return r;
	}
	return NULL;
}

/* Whichever keeps more: of two that truncate, the longer head and the longer tail. */
static void keep_more(struct record_rule *io, const struct record_rule *floor)
{
	if (floor->kind < io->kind) {
		*io = *floor;
	} else if (floor->kind == io->kind) {
		io->head = io->head > floor->head ? io->head : floor->head;
		io->tail = io->tail > floor->tail ? io->tail : floor->tail;
	}
}

void record_rule_choose(const struct conf_rule *rules, size_t n, const char *principal_kind, const char *session,
			const struct record_rule *named, struct record_rule *out)
{
	const struct conf_rule *c = record_rule_find(rules, n, principal_kind, session);
	struct record_rule r = {.given = true, .kind = is_apart(session) ? RULE_METADATA : RULE_FULL};

	if (c) {
		r.kind = c->rule;
		r.head = c->head;
		r.tail = c->tail;
	}
	if (named && named->given) {
		const struct record_rule configured = r;

		r = *named;
		if (c && c->floor)
			keep_more(&r, &configured);
	}
	*out = r;
}

json_t *record_rule_json(const struct record_rule *r)
{
	json_t *o = json_pack("{s:s}", "rule", record_rule_kind_name(r->kind));

	if (o && r->kind == RULE_TRUNCATED) {
		json_object_set_new(o, "head", json_integer((json_int_t)r->head));
		json_object_set_new(o, "tail", json_integer((json_int_t)r->tail));
	}
	if (o && r->by[0])
		json_object_set_new(o, "by", json_string(r->by));
	return o;
}

int record_rule_read(const json_t *open, struct record_rule *out, struct err *e)
{
	const json_t *o = json_object_get(open, "record");
	struct record_rule r = {.given = true};
	const char *rule = "", *by = "";
	int64_t head = -1, tail = -1;
	int rc;

	*out = (struct record_rule){0};
	if (!o)
		return 0;
	if (!json_is_object(o))
		return err_set(e, ERR_INVAL, "record is no object");
	if ((rc = json_opt_str(o, "rule", &rule, e)) || (rc = json_opt_str(o, "by", &by, e)) ||
	    (rc = json_opt_int(o, "head", 0, INT64_MAX, &head, e)) ||
	    (rc = json_opt_int(o, "tail", 0, INT64_MAX, &tail, e)))
		return rc;
	if (record_rule_kind_parse(rule, &r.kind))
		return err_set(e, ERR_INVAL, "record: rule is \"%.40s\", not one of " RECORD_RULE_KINDS, rule);
	if ((r.kind == RULE_TRUNCATED) != (head >= 0 && tail >= 0) || (head < 0) != (tail < 0))
		return err_set(e, ERR_INVAL, "record: head and tail go with truncated, and it with both");
	if (r.kind == RULE_TRUNCATED) {
		r.head = (uint64_t)head;
		r.tail = (uint64_t)tail;
	}
	text_put(r.by, sizeof(r.by), by);
	*out = r;
	return 0;
}
