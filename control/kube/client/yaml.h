/*
 * yaml.h - one YAML document (JSON is one too), walked by key; every complaint has file, line, column and key.
 *
 * A doc is read-only after parsing and owns its strings. A node is a value: a
 * place in a doc, good as long as the doc is. Wiped on destroy: it may hold secrets,
 * and no complaint ever quotes a value, only keys.
 */
#ifndef CONTROL_KUBE_CLIENT_YAML_H
#define CONTROL_KUBE_CLIENT_YAML_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct kube_yaml;

#define KUBE_YAML_MAX  (4 * 1024 * 1024)
#define KUBE_YAML_LIST 10000 /* entries of one list or mapping */

struct kube_node {
	const struct kube_yaml *doc;
	int index; /* 0: absent, or null */
};

/* name: for messages. ERR_CONFIG also for a second document. An empty text is a doc whose root is absent. */
int kube_yaml_parse(const char *text, size_t len, const char *name, struct kube_yaml **out, struct err *e);
void kube_yaml_destroy(struct kube_yaml *doc); /* NULL-safe */
const char *kube_yaml_name(const struct kube_yaml *doc);
struct kube_node kube_yaml_root(const struct kube_yaml *doc);
static inline bool kube_node_absent(struct kube_node n)
{
	return n.index == 0;
}

/* ERR_CONFIG, "FILE:LINE:COLUMN: ...", for the place of n. */
int kube_node_fail(struct kube_node n, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * The value of a key. Absent and null leave an absent node, NULL, false or 0; the wrong type is ERR_CONFIG. An absent
 * map has no keys. `what` names the map in complaints: "cluster \"dev\"".
 */
int kube_node_get(struct kube_node map, const char *what, const char *key, struct kube_node *out, struct err *e);
int kube_node_str(struct kube_node map, const char *what, const char *key, const char **out, struct err *e);
int kube_node_bool(struct kube_node map, const char *what, const char *key, bool *out, struct err *e);
int kube_node_map(struct kube_node map, const char *what, const char *key, struct kube_node *out, struct err *e);
int kube_node_list(struct kube_node map, const char *what, const char *key, struct kube_node *out, size_t *out_n,
		   struct err *e);
struct kube_node kube_node_item(struct kube_node list, size_t i); /* i < n */
/* An item of a list that has to be text. */
int kube_node_item_str(struct kube_node list, const char *what, size_t i, const char **out, struct err *e);
/* A key that is nearly one of "a|b|c" is a slip of the pen: ERR_CONFIG. Keys far from all of them are others' business.
 */
int kube_node_check_keys(struct kube_node map, const char *what, const char *known, struct err *e);

/*
 * The whole document as JSON, a new reference: plain null, true, false and whole numbers are those, everything else is
 * text. ERR_CONFIG also for more than `most` values, what an alias repeats included, and for a key that stands twice.
 */
int kube_yaml_json(const struct kube_yaml *doc, size_t most, json_t **out, struct err *e);
/* The node that a JSON pointer leads to, or the last on the way to it that there is. */
struct kube_node kube_yaml_at(const struct kube_yaml *doc, const char *pointer);

#endif
