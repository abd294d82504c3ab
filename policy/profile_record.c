/* Recordings of a profile's sessions, and what they keep: from its YAML, and of one session. */
#include "policy/profile_record.h"

#include "base/conf_table.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "base/text.h"
#include "policy/profile_keys.h"

#include <stdlib.h>
#include <string.h>

#define ENTRIES_MAX 6 /* one of each kind of session, and of all */

void profile_record_finish(struct policy_profile *p)
{
	for (size_t i = 0; i < p->nrecord; i++) {
		free(p->record[i].kind);
		free(p->record[i].session);
	}
	free(p->record);
}

static int record_choice(struct yamlnode v, const char *what, const char *known, const char **out, struct err *e)
{
	const char *text = yamlnode_text(v), *near;
	size_t len = 0;

	near = text && *text ? conf_choice_nearest(known, text, &len) : NULL;
	if (near && strlen(text) == len && memcmp(text, near, len) == 0) {
		*out = text;
		return 0;
	}
	if (near)
		return yamlnode_fail(v, e, "%s of record is \"%.40s\": did you mean %.*s?", what, text, (int)len, near);
	return yamlnode_fail(v, e, "%s of record is \"%.40s\", not one of %s", what, text ? text : "", known);
}

/* Head or tail; absent: as in the configuration. */
static int record_size(struct yamlnode map, const char *key, enum conf_rule_kind k, uint64_t *io, struct err *e)
{
	struct yamlnode v = {0};
	int rc = yamlnode_get(map, "record", key, &v, e);

	if (rc || yamlnode_absent(v))
		return rc;
	if (k != RULE_TRUNCATED)
		return yamlnode_fail(v, e, "%s of record goes with the rule truncated only", key);
	if (!yamlnode_text(v) || conf_parse_size(yamlnode_text(v), io) || *io > INT64_MAX)
		return yamlnode_fail(v, e, "%s of record is no size, as 512KiB or 1MiB", key);
	return 0;
}

/* In the order of the file: what an entry before it has all of comes never. */
static int record_check(const struct policy_profile *p, struct yamlnode at, const char *session, struct err *e)
{
	bool apart = strcmp(session, "file") == 0 || strcmp(session, "port") == 0;

	for (size_t i = 0; i < p->nrecord; i++) {
		const char *before = p->record[i].session;

		if (!before) /* there was no memory for it, which is the error then */
			continue;
		if (strcmp(before, session) == 0)
			return yamlnode_fail(at, e, "session %s stands twice in record of profile \"%s\"", session,
					     p->name);
		if (strcmp(before, "*") == 0 && !apart)
			return yamlnode_fail(at, e,
					     "session %s of record can never match: the entry for every session comes "
					     "before it",
					     session);
	}
	return 0;
}

static int record_add(struct policy_profile *p, const char *session, enum conf_rule_kind k, uint64_t head,
		      uint64_t tail, struct err *e)
{
	struct conf_rule *r = &p->record[p->nrecord];

	*r = (struct conf_rule){.kind = strdup("*"), .session = strdup(session), .rule = k, .head = head, .tail = tail};
	p->nrecord++; /* from here on it is freed with the others */
	return r->kind && r->session ? 0 : err_set(e, ERR_NOMEM, "no memory for the policy");
}

static int record_word(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	enum conf_rule_kind k = RULE_FULL;
	const char *rule = "";
	int rc = record_choice(v, "rule", RECORD_RULE_KINDS, &rule, e);

	if (rc == 0)
		rc = record_rule_kind_parse(rule, &k);
	return rc ? rc : record_add(p, "*", k, CONF_RULE_HEAD, CONF_RULE_TAIL, e);
}

static int record_entry(struct policy_profile *p, struct yamlnode v, struct err *e)
{
	static const struct profile_later later[] = {
	    {"kind", "is written under match of the profile: those of other kinds have a profile of their own"},
	    {"floor", "is the configuration's, in record.rules: no profile goes below it"},
	    {NULL, NULL}};
	uint64_t head = CONF_RULE_HEAD, tail = CONF_RULE_TAIL;
	struct yamlnode rule = {0}, session = {0};
	enum conf_rule_kind k = RULE_FULL;
	const char *kept = "", *of = "*";
	int rc;

	if ((rc = profile_check_keys(v, "record", "session|rule|head|tail", later, e)) ||
	    (rc = yamlnode_get(v, "record", "rule", &rule, e)) ||
	    (rc = yamlnode_get(v, "record", "session", &session, e)))
		return rc;
	if (yamlnode_absent(rule))
		return yamlnode_fail(v, e, "an entry of record names no rule: full, truncated or metadata");
	rc = record_choice(rule, "rule", RECORD_RULE_KINDS, &kept, e);
	if (rc == 0 && !yamlnode_absent(session))
		rc = record_choice(session, "session", RECORD_RULE_SESSIONS, &of, e);
	if (rc == 0)
		rc = record_rule_kind_parse(kept, &k);
	if (rc == 0)
		rc = record_check(p, yamlnode_absent(session) ? v : session, of, e);
	if (rc || (rc = record_size(v, "head", k, &head, e)) || (rc = record_size(v, "tail", k, &tail, e)))
		return rc;
	return record_add(p, of, k, head, tail, e);
}

int profile_take_record(struct policy_profile *p, struct yamlnode map, struct err *e)
{
	struct yamlnode v = {0};
	int rc = yamlnode_get(map, "a profile", "record", &v, e);
	size_t n;

	if (rc || yamlnode_absent(v))
		return rc;
	n = yamlnode_form(v) == YAMLNODE_LIST ? yamlnode_count(v) : 1;
	if (n == 0)
		return yamlnode_fail(v, e,
				     "record of profile \"%s\" is empty: without it record.rules of the configuration "
				     "hold",
				     p->name);
	if (n > ENTRIES_MAX)
		return yamlnode_fail(v, e, "record of profile \"%s\" has %zu entries, %d are allowed", p->name, n,
				     ENTRIES_MAX);
	p->record = calloc(n, sizeof(*p->record));
	if (!p->record)
		return err_set(e, ERR_NOMEM, "no memory for the policy");
	if (yamlnode_form(v) == YAMLNODE_TEXT)
		return record_word(p, v, e);
	if (yamlnode_form(v) == YAMLNODE_MAP)
		return record_entry(p, v, e);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = record_entry(p, yamlnode_item(v, i), e);
	return rc;
}

void policy_record_for(const struct policy_profile *p, const char *session, struct record_rule *out)
{
	const struct conf_rule *r = p ? record_rule_find(p->record, p->nrecord, "*", session) : NULL;

	*out = (struct record_rule){0};
	if (!r)
		return;
	out->given = true;
	out->kind = r->rule;
	out->head = r->rule == RULE_TRUNCATED ? r->head : 0;
	out->tail = r->rule == RULE_TRUNCATED ? r->tail : 0;
	text_format(out->by, sizeof(out->by), "%s/record", p->name);
}
