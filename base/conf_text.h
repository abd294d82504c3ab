/*
 * conf_text.h - a configuration as text that is the same for everybody: for its digest, the audit log, comparisons.
 *
 * One JSON object, a member for each key of the table by its path ("record.retain": "30d"), values as one would
 * write them, sorted, without spaces. Secrets are not in it: keys that hold one (conf_text.c lists their names) and
 * passwords in addresses stand as "(secret)". So whoever has the text can reckon the digest.
 */
#ifndef BASE_CONF_TEXT_H
#define BASE_CONF_TEXT_H

#include "base/conf.h"
#include "base/json.h"

#define CONF_TEXT_SECRET "(secret)"

/* A new reference; NULL: no memory. */
json_t *conf_values(const struct conf *c);
/* The configuration as text; the caller frees it. */
char *conf_text(const struct conf *c);
/* What differs, key by key: [{"key","old","new"}]; "old" is not there for a key that is new. A new reference. */
json_t *conf_changes(const json_t *old, const json_t *new);

#endif
