/*
 * yamldoc.h - one YAML document (JSON is one too), walked by key; every complaint has file, line, column and key.
 *
 * A doc is read-only after parsing and owns its strings. A node is a value: a
 * place in a doc, good as long as the doc is. Wiped on destroy: it may hold secrets,
 * and no complaint ever quotes a value, only keys.
 */
#ifndef BASE_YAMLDOC_H
#define BASE_YAMLDOC_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <yaml.h>

struct err;
struct yamldoc;

/* Counted before anything is built: libyaml's time and memory, and a duplicate key's search, grow with their squares.
 */
#define YAMLDOC_MAX     (4 * 1024 * 1024)
#define YAMLDOC_DEPTH   64
#define YAMLDOC_NODES   500000
#define YAMLDOC_KEYS    10000 /* of one mapping */
#define YAMLDOC_ANCHORS 1000
#define YAMLDOC_LIST    10000 /* entries of a list that yamlnode_list() gives */

struct yamlnode {
	const struct yamldoc *doc;
	int index; /* 0: absent, or null */
};

/* name: for messages. ERR_CONFIG also for a second document, and above the bounds. An empty text is a doc whose root is
 * absent. */
int yamldoc_parse(const char *text, size_t len, const char *name, struct yamldoc **out, struct err *e);
void yamldoc_destroy(struct yamldoc *doc); /* NULL-safe */
const char *yamldoc_name(const struct yamldoc *doc);
/* For who walks it by libyaml's own means; NULL: there is nothing in it. */
yaml_document_t *yamldoc_document(struct yamldoc *doc);
/* Text of a scalar; NULL for anything else, or when a NUL hides in it. */
const char *yamldoc_scalar(const yaml_node_t *n);
/* "key:" with nothing behind it, or ~. */
bool yamldoc_is_null(const yaml_node_t *n);
struct yamlnode yamldoc_root(const struct yamldoc *doc);
static inline bool yamlnode_absent(struct yamlnode n)
{
	return n.index == 0;
}

/* ERR_CONFIG, "FILE:LINE:COLUMN: ...", for the place of n. */
int yamlnode_fail(struct yamlnode n, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * The value of a key. Absent and null leave an absent node, NULL, false or 0; the wrong type is ERR_CONFIG. An absent
 * map has no keys. `what` names the map in complaints: "cluster \"dev\"".
 */
int yamlnode_get(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, struct err *e);
int yamlnode_str(struct yamlnode map, const char *what, const char *key, const char **out, struct err *e);
int yamlnode_bool(struct yamlnode map, const char *what, const char *key, bool *out, struct err *e);
int yamlnode_map(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, struct err *e);
int yamlnode_list(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, size_t *out_n,
		  struct err *e);
struct yamlnode yamlnode_item(struct yamlnode list, size_t i); /* i < n */
/* An item of a list that has to be text. */
int yamlnode_item_str(struct yamlnode list, const char *what, size_t i, const char **out, struct err *e);
/* For who reads what may be of several forms. A null is absent; of an absent node nothing is NULL, 0. */
enum yamlnode_form { YAMLNODE_ABSENT, YAMLNODE_TEXT, YAMLNODE_LIST, YAMLNODE_MAP };
enum yamlnode_form yamlnode_form(struct yamlnode n);
const char *yamlnode_text(struct yamlnode n);
size_t yamlnode_count(struct yamlnode n); /* entries of a list, keys of a map */
unsigned yamlnode_line(struct yamlnode n);
unsigned yamlnode_column(struct yamlnode n);
/* The i-th key of a map and its value (i < count). ERR_CONFIG: the key is not a name, or stood before. */
int yamlnode_pair(struct yamlnode map, const char *what, size_t i, struct yamlnode *out_key, struct yamlnode *out_value,
		  struct err *e);
/* A key that is nearly one of "a|b|c" is a slip of the pen: ERR_CONFIG. Keys far from all of them are others' business.
 */
int yamlnode_check_keys(struct yamlnode map, const char *what, const char *known, struct err *e);

/*
 * The whole document as JSON, a new reference: plain null, true, false and whole numbers are those, everything else is
 * text. ERR_CONFIG also for more than `most` values, what an alias repeats included, and for a key that stands twice.
 */
int yamldoc_json(const struct yamldoc *doc, size_t most, json_t **out, struct err *e);
/* The node that a JSON pointer leads to, or the last on the way to it that there is. */
struct yamlnode yamldoc_at(const struct yamldoc *doc, const char *pointer);

#endif
