/*
 * record_rule.h - what is kept of a session's bytes: by the configuration, and by the profile of its task where one
 * says.
 *
 * A profile's word stands in the session's OPEN record, values and all, so that the recorder has one source for it:
 * `"record":{"rule":"truncated","head":65536,"tail":65536,"by":"coding/record"}`, head and tail of truncated alone.
 * The configuration's rule holds where there is none, and where its rule for that session is a floor (`floor: true` in
 * record.rules) whichever of the two keeps more. Pure; both the hub and the recorder ask.
 */
#ifndef BASE_RECORD_RULE_H
#define BASE_RECORD_RULE_H

#include "base/conf.h"
#include "base/json.h"

#define RECORD_RULE_KINDS    "full|truncated|metadata"
#define RECORD_RULE_SESSIONS "*|terminal|exec|round|file|port"
#define RECORD_RULE_BY_MAX   96 /* bytes, with the end */

struct record_rule {
	bool given;
	enum conf_rule_kind kind;
	uint64_t head, tail;         /* of RULE_TRUNCATED */
	char by[RECORD_RULE_BY_MAX]; /* who says so: "coding/record" */
};

const char *record_rule_kind_name(enum conf_rule_kind k);
int record_rule_kind_parse(const char *text, enum conf_rule_kind *out); /* ERR_INVAL */
/* The first of rules for a session of that kind ("terminal", "round", "mcp") and that kind of principal; NULL: none.
 * `*` stands for neither "file" nor "port". */
const struct conf_rule *record_rule_find(const struct conf_rule *rules, size_t n, const char *principal_kind,
					 const char *session);
/* The rule that holds. named may be NULL; of nothing that is known everything is kept, and of files and ports metadata.
 */
void record_rule_choose(const struct conf_rule *rules, size_t n, const char *principal_kind, const char *session,
			const struct record_rule *named, struct record_rule *out);

/* As OPEN has it; NULL: no memory. */
json_t *record_rule_json(const struct record_rule *r);
/* Of an OPEN; without one *out is not given. ERR_INVAL: there is one that cannot be, and *out is not given. */
int record_rule_read(const json_t *open, struct record_rule *out, struct err *e);

#endif
