#include "muxd/base/conf.h"

#include "muxd/base/clock.h"
#include "muxd/base/conf_table.h"
#include "muxd/base/err.h"
#include "muxd/base/ids.h"
#include "muxd/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#define TEXT_MAX   (1024 * 1024)
#define LIST_MAX   1000
#define KEYS_MAX   128
#define SCOPES_MAX 128

/* One reading: the document, what it becomes, and where each key stood (line 0: nowhere). */
struct conf_reader {
	yaml_document_t *doc;
	const char *name;
	struct conf *conf;
	yaml_mark_t marks[KEYS_MAX];
	bool seen[KEYS_MAX];
	struct err *e;
};

static int fail(const struct conf_reader *r, const yaml_mark_t *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(const struct conf_reader *r, const yaml_mark_t *at, const char *fmt, ...)
{
	char why[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(r->e, ERR_CONFIG, "%s:%zu:%zu: %s", r->name, at->line + 1, at->column + 1, why);
}

static int fail_memory(const struct conf_reader *r)
{
	return err_set(r->e, ERR_NOMEM, "no memory for the configuration");
}

static yaml_node_t *node_at(const struct conf_reader *r, int index)
{
	return yaml_document_get_node(r->doc, index);
}

/* Text of a scalar; NULL for anything else, or when a NUL hides in it. */
static const char *scalar(const yaml_node_t *n)
{
	if (n->type != YAML_SCALAR_NODE || strlen((const char *)n->data.scalar.value) != n->data.scalar.length)
		return NULL;
	return (const char *)n->data.scalar.value;
}

/* "key:" with nothing behind it, or ~. */
static bool is_null(const yaml_node_t *n)
{
	const char *s = scalar(n);

	return s && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0);
}

/* A scalar that says something. what: "rules.kind". */
static int need_scalar(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char **out)
{
	const char *s = scalar(n);

	if (!s || is_null(n))
		return fail(r, &n->start_mark, "%s %s", what, s ? "has no value" : "is not a single value");
	*out = s;
	return 0;
}

static int need_list(const struct conf_reader *r, const yaml_node_t *n, const char *what, size_t *out_n)
{
	if (n->type != YAML_SEQUENCE_NODE)
		return fail(r, &n->start_mark, "%s is not a list", what);
	size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
	if (count > LIST_MAX)
		return fail(r, &n->start_mark, "%s has more than %d entries", what, LIST_MAX);
	*out_n = count;
	return 0;
}

/* The value of one field in a small mapping whose keys are all in `known` ("a|b|c"). */
static int check_fields(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *known)
{
	if (n->type != YAML_MAPPING_NODE)
		return fail(r, &n->start_mark, "an entry of %s is not a mapping of %s", what, known);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *k = node_at(r, p->key);
		const char *key = scalar(k);
		size_t len = 0;
		const char *near = key ? conf_choice_nearest(known, key, &len) : NULL;
		if (!key || !near)
			return fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, known are: %s", key ? key : "?",
				    what, known);
		if (strlen(key) != len || strncmp(key, near, len) != 0)
			return fail(r, &k->start_mark, "unknown key \"%.64s\" in %s, did you mean %.*s?", key, what,
				    (int)len, near);
		for (yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
			if (strcmp(scalar(node_at(r, q->key)), key) == 0)
				return fail(r, &k->start_mark, "%s stands twice in one entry of %s", key, what);
	}
	return 0;
}

static yaml_node_t *field(const struct conf_reader *r, const yaml_node_t *n, const char *key)
{
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++)
		if (strcmp(scalar(node_at(r, p->key)), key) == 0)
			return node_at(r, p->value);
	return NULL;
}

/* A field that is one of "a|b|c"; *out becomes its place there. Absent: *out is left. */
static int field_choice(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
			const char *choices, const char **out)
{
	const yaml_node_t *v = field(r, n, key);
	const char *text = "", *near;
	size_t len = 0;

	if (!v)
		return 0;
	int rc = need_scalar(r, v, what, &text);
	if (rc < 0)
		return rc;
	near = conf_choice_nearest(choices, text, &len);
	if (near && strlen(text) == len && strncmp(text, near, len) == 0) {
		*out = text;
		return 0;
	}
	if (near)
		return fail(r, &v->start_mark, "%s is \"%.64s\": did you mean %.*s?", what, text, (int)len, near);
	return fail(r, &v->start_mark, "%s is \"%.64s\", known are: %s", what, text, choices);
}

static int field_size(const struct conf_reader *r, const yaml_node_t *n, const char *what, const char *key,
		      uint64_t *out)
{
	const yaml_node_t *v = field(r, n, key);
	const char *text = "";

	if (!v)
		return 0;
	int rc = need_scalar(r, v, what, &text);
	if (rc == 0 && conf_parse_size(text, out) < 0)
		rc = fail(r, &v->start_mark, "%s is \"%.64s\", not a size such as 512KiB, 64MiB or 1GB", what, text);
	return rc;
}

static int read_rule(struct conf_reader *r, const yaml_node_t *n)
{
	const char *kind = "*", *session = "*", *rule = NULL;
	uint64_t head = CONF_RULE_HEAD, tail = CONF_RULE_TAIL;
	enum conf_rule_kind k = RULE_TRUNCATED;
	int rc = check_fields(r, n, "record.rules", "kind|session|rule|head|tail");

	if (rc == 0)
		rc = field_choice(r, n, "record.rules: kind", "kind", "*|staff|agent|auditor|service", &kind);
	if (rc == 0)
		rc = field_choice(r, n, "record.rules: session", "session", "*|terminal|exec|round", &session);
	if (rc == 0)
		rc = field_choice(r, n, "record.rules: rule", "rule", "full|truncated|metadata", &rule);
	if (rc == 0)
		rc = field_size(r, n, "record.rules: head", "head", &head);
	if (rc == 0)
		rc = field_size(r, n, "record.rules: tail", "tail", &tail);
	if (rc < 0)
		return rc;
	if (!rule)
		return fail(r, &n->start_mark, "an entry of record.rules names no rule: full, truncated or metadata");
	if (strcmp(rule, "full") == 0)
		k = RULE_FULL;
	else if (strcmp(rule, "metadata") == 0)
		k = RULE_METADATA;
	if (k != RULE_TRUNCATED && (field(r, n, "head") || field(r, n, "tail")))
		return fail(r, &n->start_mark, "head and tail of record.rules go with the rule truncated only");
	rc = conf_rule_add(r->conf, kind, session, k, head, tail);
	if (rc == ERR_LIMIT)
		return fail(r, &n->start_mark, "record.rules has too many entries");
	return rc < 0 ? fail_memory(r) : 0;
}

static int read_rules(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "record.rules", &count);

	conf_rules_clear(r->conf);
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = read_rule(r, node_at(r, n->data.sequence.items.start[i]));
	return rc;
}

/* "ssh-ed25519 AAAA... comment": a known type, then base64. */
static int check_key(const char *text, struct err *e)
{
	static const char *const types[] = {"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"};
	const char *space = strchr(text, ' ');
	uint8_t *blob = NULL;
	size_t len = 0, i = 0;

	while (i < 4 && strncmp(text, types[i], strlen(types[i])) != 0)
		i++;
	if (i == 4 || !space)
		return err_set(e, ERR_CONFIG, "is not an OpenSSH public key (ssh-ed25519 AAAA...)");
	int rc = base64_decode(space + 1, strcspn(space + 1, " "), false, &blob, &len);
	free(blob);
	return rc < 0 || len < 16 ? err_set(e, ERR_CONFIG, "is not an OpenSSH public key: its base64 is broken") : 0;
}

static int check_agent(const char *text, struct err *e)
{
	return strcmp(text, "*") == 0 ? 0 : target_name_check(text, e);
}

static int check_principal(const char *text, struct err *e)
{
	return token_name_check("name", text, e);
}

/* Which scopes exist is policy's; here only what cannot be a list of them is refused. */
static int check_scopes(const char *text, struct err *e)
{
	size_t len = strlen(text);

	if (len == 0 || len > SCOPES_MAX || strspn(text, "abcdefghijklmnopqrstuvwxyz,") != len || text[0] == ',' ||
	    text[len - 1] == ',' || strstr(text, ",,"))
		return err_set(e, ERR_CONFIG, "is not a list of scopes such as terminal,observe");
	return 0;
}

/* One checked string of a staff entry. */
static int take_text(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*check)(const char *, struct err *), char **out)
{
	const char *text = "";
	struct err why = {0};
	int rc = need_scalar(r, n, what, &text);

	if (rc < 0)
		return rc;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20)
			return fail(r, &n->start_mark, "%s has a control character", what);
	rc = check(text, &why);
	if (rc < 0)
		return fail(r, &n->start_mark, rc == ERR_CONFIG ? "%s %s" : "%s: %s", what, why.message);
	*out = strdup(text);
	return *out ? 0 : fail_memory(r);
}

/* A list of strings, or one alone. */
static int take_list(struct conf_reader *r, const yaml_node_t *n, const char *what,
		     int (*check)(const char *, struct err *), char ***out, size_t *out_n)
{
	bool single = n->type == YAML_SCALAR_NODE;
	size_t count = 1;
	int rc = single ? 0 : need_list(r, n, what, &count);

	if (rc < 0)
		return rc;
	if (count == 0)
		return fail(r, &n->start_mark, "%s is empty", what);
	*out = calloc(count, sizeof(**out));
	if (!*out)
		return fail_memory(r);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		const yaml_node_t *item = single ? n : node_at(r, n->data.sequence.items.start[i]);
		rc = take_text(r, item, what, check, &(*out)[i]);
		if (rc == 0)
			(*out_n)++;
	}
	return rc;
}

/* "terminal,observe", or the same as a list. */
static int take_scopes(struct conf_reader *r, const yaml_node_t *n, struct conf_staff *s)
{
	char **list = NULL, joined[SCOPES_MAX * 2] = "";
	size_t count = 0, len = 0;
	int rc = take_list(r, n, "staff: scopes", check_scopes, &list, &count);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		int put = snprintf(joined + len, sizeof(joined) - len, "%s%s", i ? "," : "", list[i]);
		len += (size_t)put;
		if (len > SCOPES_MAX)
			rc = fail(r, &n->start_mark, "staff: scopes is too long");
	}
	if (rc == 0 && !(s->scopes = strdup(joined)))
		rc = fail_memory(r);
	for (size_t i = 0; i < count; i++)
		free(list[i]);
	free(list);
	return rc;
}

static int take_ttl(struct conf_reader *r, const yaml_node_t *n, uint64_t *out)
{
	const char *text = "";
	int rc = need_scalar(r, n, "staff: ttl", &text);

	if (rc == 0 && (clock_parse_duration(text, out) < 0 || *out < NS_PER_SEC))
		rc = fail(r, &n->start_mark, "staff: ttl is \"%.64s\", not a duration such as 15m or 1h", text);
	return rc;
}

static int read_staff_entry(struct conf_reader *r, const yaml_node_t *n, struct conf_staff *s)
{
	static const char *const needed[] = {"principal", "keys", "agents", "scopes"};
	int rc = check_fields(r, n, "staff", "principal|keys|agents|scopes|ttl");

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < 4; i++)
		if (!field(r, n, needed[i]))
			return fail(r, &n->start_mark, "an entry of staff has no %s", needed[i]);
	rc = take_text(r, field(r, n, "principal"), "staff: principal", check_principal, &s->principal);
	if (rc == 0)
		rc = take_list(r, field(r, n, "keys"), "staff: keys", check_key, &s->keys, &s->nkeys);
	if (rc == 0)
		rc = take_list(r, field(r, n, "agents"), "staff: agents", check_agent, &s->agents, &s->nagents);
	if (rc == 0)
		rc = take_scopes(r, field(r, n, "scopes"), s);
	if (rc == 0 && field(r, n, "ttl"))
		rc = take_ttl(r, field(r, n, "ttl"), &s->ttl_ns);
	return rc;
}

static int read_staff(struct conf_reader *r, const yaml_node_t *n)
{
	size_t count = 0;
	int rc = need_list(r, n, "staff", &count);

	if (rc < 0 || count == 0)
		return rc;
	r->conf->staff = calloc(count, sizeof(*r->conf->staff));
	if (!r->conf->staff)
		return fail_memory(r);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		r->conf->nstaff = i + 1;
		rc = read_staff_entry(r, node_at(r, n->data.sequence.items.start[i]), &r->conf->staff[i]);
	}
	return rc;
}

static int unknown_key(const struct conf_reader *r, const yaml_mark_t *at, const char *path)
{
	const char *near = conf_key_nearest(path);

	if (near && strcmp(near, path) == 0)
		return fail(r, at, "key \"%.64s\" is written as a section with the name inside it, not with a dot",
			    path);
	if (near)
		return fail(r, at, "unknown key \"%.64s\", did you mean %s?", path, near);
	return fail(r, at, "unknown key \"%.64s\" (muxd serve --print-config shows all)", path);
}

static int read_key(struct conf_reader *r, const char *path, const yaml_node_t *key, const yaml_node_t *value,
		    bool dotted)
{
	size_t n, i = 0;
	const struct conf_key *keys = conf_keys(&n);
	struct err why = {0};
	const char *text = "";

	while (i < n && strcmp(keys[i].path, path) != 0)
		i++;
	if (i == n || dotted)
		return unknown_key(r, &key->start_mark, path);
	if (r->seen[i])
		return fail(r, &key->start_mark, "%s stands twice, first at line %zu", path, r->marks[i].line + 1);
	r->seen[i] = true;
	r->marks[i] = value->start_mark;
	if (keys[i].type == CONF_LIST)
		return strcmp(path, "staff") == 0 ? read_staff(r, value) : read_rules(r, value);
	int rc = need_scalar(r, value, path, &text);
	if (rc < 0)
		return rc;
	rc = conf_key_set(r->conf, &keys[i], text, &why);
	if (rc == ERR_NOMEM)
		return fail_memory(r);
	return rc < 0 ? fail(r, &value->start_mark, "%s %s", path, why.message) : 0;
}

static bool is_section(const char *name)
{
	size_t n, len = strlen(name);
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++)
		if (strncmp(keys[i].path, name, len) == 0 && keys[i].path[len] == '.')
			return true;
	return false;
}

static int unknown_section(const struct conf_reader *r, const yaml_mark_t *at, const char *name)
{
	size_t len = 0;
	const char *near = conf_choice_nearest(
	    "listen|log|journal|record|grants|staff|ssh|api|sessions|rounds|sandbox|privsep", name, &len);

	if (near)
		return fail(r, at, "unknown key \"%.64s\", did you mean %.*s?", name, (int)len, near);
	return unknown_key(r, at, name);
}

static int read_section(struct conf_reader *r, const char *name, const yaml_node_t *n)
{
	char path[160];
	int rc = 0;

	if (is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return fail(r, &n->start_mark, "%s is not a section with keys inside it", name);
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = node_at(r, p->key);
		const char *text = scalar(key);
		if (!text)
			return fail(r, &key->start_mark, "a key in %s is not a name", name);
		snprintf(path, sizeof(path), "%s.%.100s", name, text);
		rc = read_key(r, path, key, node_at(r, p->value), false);
	}
	return rc;
}

static int read_root(struct conf_reader *r, const yaml_node_t *n)
{
	int rc = 0;

	if (is_null(n))
		return 0;
	if (n->type != YAML_MAPPING_NODE)
		return fail(r, &n->start_mark, "the configuration is not a mapping of sections");
	for (yaml_node_pair_t *p = n->data.mapping.pairs.start; rc == 0 && p < n->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = node_at(r, p->key), *value = node_at(r, p->value);
		const char *text = scalar(key);
		if (!text)
			return fail(r, &key->start_mark, "a key is not a name");
		if (is_section(text))
			rc = read_section(r, text, value);
		else if (strcmp(text, "staff") == 0 || strchr(text, '.'))
			rc = read_key(r, text, key, value, strchr(text, '.') != NULL);
		else
			rc = unknown_section(r, &key->start_mark, text);
	}
	return rc;
}

/* Where one of two keys stood, the first if both; the top of the file when both kept their defaults. */
static const yaml_mark_t *mark_of(const struct conf_reader *r, const char *path, const char *other)
{
	static const yaml_mark_t top;
	const yaml_mark_t *found = &top;
	size_t n;
	const struct conf_key *keys = conf_keys(&n);

	for (size_t i = 0; i < n; i++) {
		if (!r->seen[i])
			continue;
		if (strcmp(keys[i].path, path) == 0)
			return &r->marks[i];
		if (strcmp(keys[i].path, other) == 0)
			found = &r->marks[i];
	}
	return found;
}

/* What one key alone cannot tell. */
static int check_together(struct conf_reader *r)
{
	struct conf *c = r->conf;

	if (c->grant_ttl_ns > c->grant_ttl_max_ns)
		return fail(r, mark_of(r, "grants.ttl", "grants.ttl_max"), "grants.ttl is longer than grants.ttl_max");
	if (c->round_timeout_ns > c->round_timeout_max_ns)
		return fail(r, mark_of(r, "rounds.timeout", "rounds.timeout_max"),
			    "rounds.timeout is longer than rounds.timeout_max");
	for (size_t i = 0; i < c->nstaff; i++) {
		if (c->staff[i].ttl_ns == 0)
			c->staff[i].ttl_ns = c->grant_ttl_ns;
		if (c->staff[i].ttl_ns > c->grant_ttl_max_ns)
			return fail(r, mark_of(r, "staff", "staff"), "the ttl of %s is longer than grants.ttl_max",
				    c->staff[i].principal);
	}
	return conf_rules_close(c) < 0 ? fail_memory(r) : 0;
}

static int parse_fault(const struct conf_reader *r, const yaml_parser_t *p)
{
	if (p->error == YAML_MEMORY_ERROR)
		return fail_memory(r);
	if (p->error == YAML_READER_ERROR)
		return err_set(r->e, ERR_CONFIG, "%s: %s at byte %zu", r->name, p->problem ? p->problem : "unreadable",
			       p->problem_offset);
	return fail(r, &p->problem_mark, "%s", p->problem ? p->problem : "not YAML");
}

/* Anything after the first document is a mistake, not more configuration. */
static int check_single(const struct conf_reader *r, yaml_parser_t *p)
{
	yaml_document_t more;

	if (!yaml_parser_load(p, &more))
		return parse_fault(r, p);
	yaml_node_t *n = yaml_document_get_root_node(&more);
	int rc = n ? fail(r, &n->start_mark, "a second document begins; one is expected") : 0;
	yaml_document_delete(&more);
	return rc;
}

int conf_parse(const char *text, size_t len, const char *name, struct conf **out, struct err *e)
{
	struct conf_reader r = {.name = name, .e = e};
	yaml_document_t doc;
	yaml_parser_t parser;

	if (len > TEXT_MAX)
		return err_set(e, ERR_CONFIG, "%s: larger than %d bytes", name, TEXT_MAX);
	int rc = conf_create(&r.conf);
	if (rc < 0)
		return fail_memory(&r);
	if (!yaml_parser_initialize(&parser)) {
		conf_destroy(r.conf);
		return fail_memory(&r);
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	if (!yaml_parser_load(&parser, &doc)) {
		rc = parse_fault(&r, &parser);
	} else {
		r.doc = &doc;
		yaml_node_t *root = yaml_document_get_root_node(&doc);
		rc = root ? read_root(&r, root) : 0;
		if (rc == 0)
			rc = check_together(&r);
		if (rc == 0 && root)
			rc = check_single(&r, &parser);
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&parser);
	if (rc < 0)
		conf_destroy(r.conf);
	else
		*out = r.conf;
	return rc;
}

static int read_all(int fd, const char *path, char *text, size_t size, size_t *out_len, struct err *e)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read %s", path);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*out_len = len;
	return 0;
}

int conf_load(const char *path, struct conf **out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	char *text = malloc(TEXT_MAX + 1);
	int rc =
	    text ? read_all(fd, path, text, TEXT_MAX + 1, &len, e) : err_set(e, ERR_NOMEM, "no memory for %s", path);
	close(fd);
	if (rc == 0)
		rc = conf_parse(text, len, path, out, e);
	free(text);
	return rc;
}
