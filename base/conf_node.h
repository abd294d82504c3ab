/*
 * conf_node.h - what conf.c and conf_list.c share: one reading of a YAML document, and its nodes.
 *
 * A reader belongs to conf_parse(); everything it points to lives as long as that call.
 */
#ifndef BASE_CONF_NODE_H
#define BASE_CONF_NODE_H

#include "base/conf_table.h"
#include "base/yamldoc.h"

#define CONF_KEYS_MAX 256

/* One reading: the document, what it becomes, and where each key stood (line 0: nowhere). */
struct conf_reader {
	yaml_document_t *doc;
	const char *name;
	struct conf *conf;
	yaml_mark_t marks[CONF_KEYS_MAX];
	bool seen[CONF_KEYS_MAX];
	struct err *e;
};

/* ERR_CONFIG, "NAME:LINE:COLUMN: ...". */
int conf_fail(const struct conf_reader *r, const yaml_mark_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int conf_fail_memory(const struct conf_reader *r);
yaml_node_t *conf_node_at(const struct conf_reader *r, int index);
/* A scalar that says something. what: "rules.kind". */
int conf_need_scalar(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char **out);

/* conf_list.c: a key of type CONF_LIST. */
int conf_read_list(struct conf_reader *r, const char *path, const yaml_node_t *n);

#endif
