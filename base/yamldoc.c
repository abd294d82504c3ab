#include "base/yamldoc.h"

#include "base/conf_table.h"
#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct yamldoc {
	char *name;
	yaml_document_t doc;
};

static yaml_node_t *node_of(struct yamlnode n)
{
	/* libyaml takes a document that it does not change as one that it may */
	return n.index ? yaml_document_get_node((yaml_document_t *)(uintptr_t)&n.doc->doc, n.index) : NULL;
}

static int fail_at(const char *name, const yaml_mark_t *at, struct err *e, const char *why)
{
	return err_set(e, ERR_CONFIG, "%s:%zu:%zu: %s", name, at->line + 1, at->column + 1, why);
}

int yamlnode_fail(struct yamlnode n, struct err *e, const char *fmt, ...)
{
	static const yaml_mark_t top;
	const yaml_node_t *node = node_of(n);
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	text_vformat(why, sizeof(why), fmt, ap);
	va_end(ap);
	return fail_at(n.doc->name, node ? &node->start_mark : &top, e, why);
}

const char *yamldoc_scalar(const yaml_node_t *n)
{
	if (!n || n->type != YAML_SCALAR_NODE || strlen((const char *)n->data.scalar.value) != n->data.scalar.length)
		return NULL;
	return (const char *)n->data.scalar.value;
}

bool yamldoc_is_null(const yaml_node_t *n)
{
	const char *s = yamldoc_scalar(n);

	return s && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0);
}

/* A null is as good as nothing. */
static struct yamlnode place(const struct yamldoc *doc, int index)
{
	struct yamlnode n = {doc, index};

	if (index && yamldoc_is_null(node_of(n)))
		n.index = 0;
	return n;
}

static int parse_fault(const yaml_parser_t *p, const char *name, struct err *e)
{
	if (p->error == YAML_MEMORY_ERROR)
		return err_set(e, ERR_NOMEM, "no memory for %s", name);
	if (p->error == YAML_READER_ERROR)
		return err_set(e, ERR_CONFIG, "%s: %s at byte %zu", name, p->problem ? p->problem : "unreadable",
			       p->problem_offset);
	return fail_at(name, &p->problem_mark, e, p->problem ? p->problem : "not YAML");
}

/* Anything after the first document would silently not count. */
static int check_single(yaml_parser_t *p, const char *name, struct err *e)
{
	yaml_document_t more;

	if (!yaml_parser_load(p, &more))
		return parse_fault(p, name, e);
	yaml_node_t *n = yaml_document_get_root_node(&more);
	int rc = n ? fail_at(name, &n->start_mark, e, "a second document begins; one is expected") : 0;
	yaml_document_delete(&more);
	return rc;
}

struct bounds {
	const char *name;
	struct err *e;
	size_t depth, nodes, anchors;
	size_t entries[YAMLDOC_DEPTH]; /* keys and values of what is open; of a list none are counted */
	bool is_map[YAMLDOC_DEPTH];
};

static int above(const struct bounds *b, const yaml_event_t *ev, const char *what, int most)
{
	char why[96];

	text_format(why, sizeof(why), "%s: %d at most", what, most);
	return fail_at(b->name, &ev->start_mark, b->e, why);
}

/* A scalar, an alias, or the beginning of a list or a mapping. */
static int bounds_take(struct bounds *b, const yaml_event_t *ev, const yaml_char_t *anchor)
{
	size_t *entries = b->depth ? &b->entries[b->depth - 1] : NULL;

	if (++b->nodes > YAMLDOC_NODES)
		return above(b, ev, "too many values", YAMLDOC_NODES);
	if (anchor && ++b->anchors > YAMLDOC_ANCHORS)
		return above(b, ev, "too many anchors", YAMLDOC_ANCHORS);
	if (entries && b->is_map[b->depth - 1] && ++*entries > 2 * (size_t)YAMLDOC_KEYS)
		return above(b, ev, "too many keys in one mapping", YAMLDOC_KEYS);
	return 0;
}

static int bounds_open(struct bounds *b, const yaml_event_t *ev, const yaml_char_t *anchor, bool map)
{
	int rc = bounds_take(b, ev, anchor);

	if (rc == 0 && b->depth == YAMLDOC_DEPTH)
		rc = above(b, ev, "lists and mappings inside each other", YAMLDOC_DEPTH);
	if (rc)
		return rc;
	b->entries[b->depth] = 0;
	b->is_map[b->depth++] = map;
	return 0;
}

static int bounds_event(struct bounds *b, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return bounds_take(b, ev, ev->data.scalar.anchor);
	case YAML_ALIAS_EVENT:
		return bounds_take(b, ev, NULL);
	case YAML_SEQUENCE_START_EVENT:
		return bounds_open(b, ev, ev->data.sequence_start.anchor, false);
	case YAML_MAPPING_START_EVENT:
		return bounds_open(b, ev, ev->data.mapping_start.anchor, true);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		b->depth--;
		return 0;
	default:
		return 0;
	}
}

/* Its events alone, one after another: nothing of it is kept, and what is above a bound is not read on. */
static int check_bounds(const char *text, size_t len, const char *name, struct err *e)
{
	struct bounds b = {.name = name, .e = e};
	yaml_parser_t parser;
	bool more = true;
	int rc = 0;

	if (!yaml_parser_initialize(&parser))
		return err_set(e, ERR_NOMEM, "no memory for %s", name);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	while (rc == 0 && more) {
		yaml_event_t ev;

		if (!yaml_parser_parse(&parser, &ev))
			break; /* no YAML: whoever loads it meets the same, at the same place */
		more = ev.type != YAML_STREAM_END_EVENT;
		rc = bounds_event(&b, &ev);
		if (ev.type == YAML_SCALAR_EVENT)
			explicit_bzero(ev.data.scalar.value, ev.data.scalar.length);
		yaml_event_delete(&ev);
	}
	yaml_parser_delete(&parser);
	return rc;
}

static int yaml_load(struct yamldoc *y, const char *text, size_t len, struct err *e)
{
	yaml_parser_t parser;
	int rc = 0;

	if (!yaml_parser_initialize(&parser))
		return err_set(e, ERR_NOMEM, "no memory for %s", y->name);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &y->doc)) {
		memset(&y->doc, 0, sizeof(y->doc));
		rc = parse_fault(&parser, y->name, e);
	} else if (yaml_document_get_root_node(&y->doc)) {
		rc = check_single(&parser, y->name, e);
	}
	yaml_parser_delete(&parser);
	return rc;
}

int yamldoc_parse(const char *text, size_t len, const char *name, struct yamldoc **out, struct err *e)
{
	int rc;

	if (len > YAMLDOC_MAX)
		return err_set(e, ERR_CONFIG, "%s: larger than %d bytes", name, YAMLDOC_MAX);
	struct yamldoc *y = calloc(1, sizeof(*y));
	if (y)
		y->name = strdup(name);
	if (!y || !y->name)
		rc = err_set(e, ERR_NOMEM, "no memory for %s", name);
	else
		rc = check_bounds(text, len, name, e);
	if (rc == 0)
		rc = yaml_load(y, text, len, e);
	if (rc < 0)
		yamldoc_destroy(y);
	else
		*out = y;
	return rc;
}

void yamldoc_destroy(struct yamldoc *y)
{
	if (!y)
		return;
	for (yaml_node_t *n = y->doc.nodes.start; n && n < y->doc.nodes.top; n++)
		if (n->type == YAML_SCALAR_NODE)
			explicit_bzero(n->data.scalar.value, n->data.scalar.length);
	if (y->doc.nodes.start)
		yaml_document_delete(&y->doc);
	free(y->name);
	free(y);
}

yaml_document_t *yamldoc_document(struct yamldoc *y)
{
	return y->doc.nodes.start != y->doc.nodes.top ? &y->doc : NULL;
}

const char *yamldoc_name(const struct yamldoc *y)
{
	return y->name;
}

struct yamlnode yamldoc_root(const struct yamldoc *y)
{
	return place(y, y->doc.nodes.start != y->doc.nodes.top ? 1 : 0);
}

int yamlnode_get(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, struct err *e)
{
	const yaml_node_t *n = node_of(map);
	struct yamlnode found = {map.doc, 0};

	if (n && n->type != YAML_MAPPING_NODE)
		return yamlnode_fail(map, e, "%s is not a mapping of keys to values", what);
	for (const yaml_node_pair_t *p = n ? n->data.mapping.pairs.start : NULL; p && p < n->data.mapping.pairs.top;
	     p++) {
		struct yamlnode k = {map.doc, p->key};
		const char *text = yamldoc_scalar(node_of(k));
		if (!text)
			return yamlnode_fail(k, e, "a key of %s is not a name", what);
		if (strcmp(text, key) != 0)
			continue;
		if (found.index)
			return yamlnode_fail(k, e, "%s stands twice in %s", key, what);
		found.index = p->value;
	}
	*out = place(map.doc, found.index);
	return 0;
}

int yamlnode_str(struct yamlnode map, const char *what, const char *key, const char **out, struct err *e)
{
	struct yamlnode n = {0};
	int rc = yamlnode_get(map, what, key, &n, e);

	if (rc < 0)
		return rc;
	const char *s = yamldoc_scalar(node_of(n));
	if (n.index && !s)
		return yamlnode_fail(n, e, "%s of %s is not text", key, what);
	*out = s;
	return 0;
}

int yamlnode_bool(struct yamlnode map, const char *what, const char *key, bool *out, struct err *e)
{
	struct yamlnode n = {0};
	int rc = yamlnode_get(map, what, key, &n, e);

	if (rc < 0)
		return rc;
	const char *s = yamldoc_scalar(node_of(n));
	bool yes = s && strcasecmp(s, "true") == 0;
	if (n.index && !yes && (!s || strcasecmp(s, "false") != 0))
		return yamlnode_fail(n, e, "%s of %s is neither true nor false", key, what);
	*out = yes;
	return 0;
}

int yamlnode_map(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, struct err *e)
{
	struct yamlnode n = {0};
	int rc = yamlnode_get(map, what, key, &n, e);

	if (rc == 0 && n.index && node_of(n)->type != YAML_MAPPING_NODE)
		return yamlnode_fail(n, e, "%s of %s is not a mapping of keys to values", key, what);
	if (rc == 0)
		*out = n;
	return rc;
}

int yamlnode_list(struct yamlnode map, const char *what, const char *key, struct yamlnode *out, size_t *out_n,
		  struct err *e)
{
	struct yamlnode n = {0};
	int rc = yamlnode_get(map, what, key, &n, e);
	size_t count = 0;

	if (rc < 0)
		return rc;
	const yaml_node_t *node = node_of(n);
	if (node && node->type != YAML_SEQUENCE_NODE)
		return yamlnode_fail(n, e, "%s of %s is not a list", key, what);
	if (node)
		count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (count > YAMLDOC_LIST)
		return yamlnode_fail(n, e, "%s of %s has more than %d entries", key, what, YAMLDOC_LIST);
	*out = n;
	*out_n = count;
	return 0;
}

struct yamlnode yamlnode_item(struct yamlnode list, size_t i)
{
	/* not place(): a complaint about an empty entry needs its line */
	return (struct yamlnode){list.doc, node_of(list)->data.sequence.items.start[i]};
}

int yamlnode_item_str(struct yamlnode list, const char *what, size_t i, const char **out, struct err *e)
{
	struct yamlnode n = yamlnode_item(list, i);
	const char *s = yamldoc_scalar(node_of(n));

	if (!s)
		return yamlnode_fail(n, e, "an entry of %s is not text", what);
	*out = s;
	return 0;
}

enum yamlnode_form yamlnode_form(struct yamlnode n)
{
	const yaml_node_t *node = node_of(n);

	if (!node || yamldoc_is_null(node))
		return YAMLNODE_ABSENT;
	return node->type == YAML_SEQUENCE_NODE  ? YAMLNODE_LIST
	       : node->type == YAML_MAPPING_NODE ? YAMLNODE_MAP
						 : YAMLNODE_TEXT;
}

const char *yamlnode_text(struct yamlnode n)
{
	return yamlnode_form(n) == YAMLNODE_TEXT ? yamldoc_scalar(node_of(n)) : NULL;
}

size_t yamlnode_count(struct yamlnode n)
{
	const yaml_node_t *node = node_of(n);

	if (node && node->type == YAML_SEQUENCE_NODE)
		return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (node && node->type == YAML_MAPPING_NODE)
		return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
	return 0;
}

unsigned yamlnode_line(struct yamlnode n)
{
	const yaml_node_t *node = node_of(n);

	return node ? (unsigned)node->start_mark.line + 1 : 0;
}

unsigned yamlnode_column(struct yamlnode n)
{
	const yaml_node_t *node = node_of(n);

	return node ? (unsigned)node->start_mark.column + 1 : 0;
}

int yamlnode_pair(struct yamlnode map, const char *what, size_t i, struct yamlnode *out_key, struct yamlnode *out_value,
		  struct err *e)
{
	const yaml_node_pair_t *pairs = node_of(map)->data.mapping.pairs.start;
	struct yamlnode k = {map.doc, pairs[i].key};
	const char *key = yamldoc_scalar(node_of(k));

	if (!key)
		return yamlnode_fail(k, e, "a key of %s is not a name", what);
	for (size_t j = 0; j < i; j++) {
		const char *before = yamldoc_scalar(node_of((struct yamlnode){map.doc, pairs[j].key}));

		if (before && strcmp(before, key) == 0)
			return yamlnode_fail(k, e, "%.64s stands twice in %s", key, what);
	}
	*out_key = k;
	*out_value = place(map.doc, pairs[i].value);
	return 0;
}

static int yaml_check_key(struct yamlnode k, const char *what, const char *known, struct err *e)
{
	const char *key = yamldoc_scalar(node_of(k));
	size_t len = 0;

	if (!key)
		return yamlnode_fail(k, e, "a key of %s is not a name", what);
	const char *near = conf_choice_nearest(known, key, &len);
	if (near && (strlen(key) != len || strncmp(key, near, len) != 0))
		return yamlnode_fail(k, e, "unknown key \"%.64s\" in %s, did you mean %.*s?", key, what, (int)len,
				     near);
	return 0;
}

int yamlnode_check_keys(struct yamlnode map, const char *what, const char *known, struct err *e)
{
	const yaml_node_t *n = node_of(map);
	int rc = 0;

	if (!n)
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return yamlnode_fail(map, e, "%s is not a mapping of keys to values", what);
	for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++)
		rc = yaml_check_key((struct yamlnode){map.doc, p->key}, what, known, e);
	return rc;
}

/* ---- as JSON */

#define DEPTH_MAX 32

struct reading {
	const struct yamldoc *doc;
	size_t left;
	struct err *e;
};

static int read_value(struct reading *r, int index, int depth, json_t **out);

static json_t *plain_value(const char *s)
{
	size_t sign = *s == '-' || *s == '+', digits = strspn(s + sign, "0123456789");
	long long n;

	if (!*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0)
		return json_null();
	if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
		return json_boolean(*s == 't');
	errno = 0;
	n = digits && !s[sign + digits] ? strtoll(s, NULL, 10) : 0;
	if (digits && !s[sign + digits] && !errno)
		return json_integer(n);
	return json_string(s);
}

static int read_map(struct reading *r, const yaml_node_t *n, int depth, json_t *o)
{
	for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		struct yamlnode k = {r->doc, p->key};
		const char *key = yamldoc_scalar(node_of(k));
		json_t *v = NULL;
		int rc;

		if (!key)
			return yamlnode_fail(k, r->e, "a key is not a name");
		if (json_object_get(o, key))
			return yamlnode_fail(k, r->e, "%.64s stands twice", key);
		rc = read_value(r, p->value, depth, &v);
		if (rc)
			return rc;
		if (json_object_set_new(o, key, v))
			return err_set(r->e, ERR_NOMEM, "no memory for %s", r->doc->name);
	}
	return 0;
}

static int read_list(struct reading *r, const yaml_node_t *n, int depth, json_t *list)
{
	for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
		json_t *v = NULL;
		int rc = read_value(r, *i, depth, &v);

		if (rc)
			return rc;
		if (json_array_append_new(list, v))
			return err_set(r->e, ERR_NOMEM, "no memory for %s", r->doc->name);
	}
	return 0;
}

static int read_value(struct reading *r, int index, int depth, json_t **out)
{
	struct yamlnode place = {r->doc, index};
	const yaml_node_t *n = node_of(place);
	bool list = n && n->type == YAML_SEQUENCE_NODE;
	const char *s = yamldoc_scalar(n);
	json_t *o;
	int rc;

	if (!r->left-- || depth >= DEPTH_MAX) {
		r->left = 0;
		return yamlnode_fail(place, r->e, "there is too much here, or too deep");
	}
	if (s) {
		*out = n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_value(s) : json_string(s);
		return *out ? 0 : err_set(r->e, ERR_NOMEM, "no memory for %s", r->doc->name);
	}
	if (!n || n->type == YAML_SCALAR_NODE)
		return yamlnode_fail(place, r->e, "a NUL stands in a text");
	o = list ? json_array() : json_object();
	rc = list ? read_list(r, n, depth + 1, o) : read_map(r, n, depth + 1, o);
	if (rc)
		json_decref(o);
	else
		*out = o;
	return rc;
}

int yamldoc_json(const struct yamldoc *doc, size_t most, json_t **out, struct err *e)
{
	struct reading r = {doc, most, e};

	if (doc->doc.nodes.start == doc->doc.nodes.top) {
		*out = json_null();
		return 0;
	}
	return read_value(&r, 1, 0, out);
}

/* One step of a pointer, escapes undone, into key; the rest. */
static const char *pointer_step(const char *p, char *key, size_t size)
{
	size_t n = 0;

	for (p++; *p && *p != '/'; p++) {
		char c = *p;

		if (c == '~' && (p[1] == '0' || p[1] == '1'))
			c = *++p == '0' ? '~' : '/';
		if (n + 1 < size)
			key[n++] = c;
	}
	key[n] = '\0';
	return p;
}

static int child_of(const yaml_node_t *n, const struct yamldoc *doc, const char *key)
{
	size_t i = strtoul(key, NULL, 10);

	if (n && n->type == YAML_SEQUENCE_NODE &&
	    i < (size_t)(n->data.sequence.items.top - n->data.sequence.items.start))
		return n->data.sequence.items.start[i];
	for (const yaml_node_pair_t *p = n && n->type == YAML_MAPPING_NODE ? n->data.mapping.pairs.start : NULL;
	     p && p < n->data.mapping.pairs.top; p++) {
		const char *text = yamldoc_scalar(node_of((struct yamlnode){doc, p->key}));

		if (text && strcmp(text, key) == 0)
			return p->value;
	}
	return 0;
}

struct yamlnode yamldoc_at(const struct yamldoc *doc, const char *pointer)
{
	struct yamlnode n = {doc, doc->doc.nodes.start == doc->doc.nodes.top ? 0 : 1};
	char key[256];

	while (*pointer == '/') {
		int next;

		pointer = pointer_step(pointer, key, sizeof(key));
		next = child_of(node_of(n), doc, key);
		if (!next)
			break;
		n.index = next;
	}
	return n;
}
