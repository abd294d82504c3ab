/*
 * template_fields.h - which fields of a pod a template may have: one table, for the check, the merge and what the
 * server made of it.
 *
 * A field that is not in the table is refused. Lists with a key are merged by it, as Kubernetes' strategic merge does;
 * a list without one is taken as a whole. The table holds everything that an additional container may have; ours has
 * less (template_own_fields).
 */
#ifndef CONTROL_KUBE_PODS_TEMPLATE_FIELDS_H
#define CONTROL_KUBE_PODS_TEMPLATE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#define TEMPLATE_PATH_MAX 256 /* of a JSON pointer, which is cut there */

enum template_kind {
	TEMPLATE_TEXT,
	TEMPLATE_NUMBER,
	TEMPLATE_BOOL,
	TEMPLATE_PORT, /* a number or a name */
	TEMPLATE_TEXTS,
	TEMPLATE_MAP,        /* text to text */
	TEMPLATE_QUANTITIES, /* name to quantity */
	TEMPLATE_OBJECT,
	TEMPLATE_LIST /* of objects */
};

/* A rule says more of a value than its kind does: template_check.c. */
enum template_rule {
	RULE_NONE,
	RULE_LABELS,
	RULE_ANNOTATIONS,
	RULE_FALSE,
	RULE_TRUE,
	RULE_OWN_NAME, /* of a container: the one that muxd knows, or one of its own */
	RULE_VOLUME,
	RULE_CONFIG_MAP,
	RULE_SECRET,
	RULE_CLAIM,
	RULE_MOUNT,
	RULE_ENV,
	RULE_UID,
	RULE_NOT_EMPTY
};

struct template_field {
	const char *name; /* NULL: the end of its table */
	enum template_kind kind;
	const struct template_field *fields; /* of an object, or of each in a list */
	const char *key;                     /* that a list is merged by; NULL: as a whole */
	enum template_rule rule;
	bool takes_null; /* no part of ours: a null takes away what a template before it has said */
};

extern const struct template_field template_root[];
extern const struct template_field template_own_fields[]; /* of the container KUBE_CONTAINER */
extern const struct template_field template_volume_sources[];

/* NULL: there is none of that name. */
const struct template_field *template_field_find(const struct template_field *fields, const char *name);
/* One step more of a JSON pointer, escaped; the length to go back to. */
size_t template_path_down(char at[TEMPLATE_PATH_MAX], const char *key);

#endif
