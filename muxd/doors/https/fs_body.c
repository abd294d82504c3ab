#include "muxd/doors/https/fs_body.h"

#include "base/clock.h"
#include "base/schema.h"
#include "muxd/doors/https/body.h"
#include "muxd/hub/session/file_op.h"

#include <stdlib.h>
#include <string.h>

#define MS_MAX      (INT64_C(365) * 24 * 3600 * 1000)
#define OFFSET_MAX  (INT64_C(1) << 60)
#define DIGEST_LEN  64
#define IGNORE_MAX  64
#define RULE_MAX    1024
#define PATTERN_MAX 4096

struct fields {
	const json_t *path, *to;
	const char *data, *encoding, *mode, *task;
	int64_t timeout_ms;
};

/* Operations as a set. */
#define OP(name)  (UINT32_C(1) << FILE_##name)
#define OPS_ALL   UINT32_MAX
#define OPS_TREE  (OP(LIST) | OP(GLOB) | OP(SEARCH))
#define OPS_PAGE  (OP(LIST) | OP(GLOB))
#define OPS_FIND  (OP(GLOB) | OP(SEARCH))
#define OPS_NEW   (OP(WRITE) | OP(APPEND) | OP(MKDIR) | OP(MOVE) | OP(COPY))
#define OPS_PUT   (OP(WRITE) | OP(APPEND))
#define OPS_TAKE  (OPS_PUT | OP(PATCH))
#define OPS_MATCH (OPS_PUT | OP(MOVE) | OP(DELETE))

static int fs_check_path(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	char *path = NULL;
	int rc = body_path(v, &path);

	free(path);
	return rc ? schema_fault(s, at, ERR_INVAL, "is neither a text without NUL nor {\"base64\": ...}") : 0;
}

static int fs_check_mode(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *text = json_string_value(v);

	return text[strspn(text, "01234567")] ? schema_fault(s, at, ERR_INVAL, "is not permissions in octal, as 0644")
					      : 0;
}

static int fs_check_digest(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	const char *text = json_string_value(v);

	return text[strspn(text, "0123456789abcdefABCDEF")]
		   ? schema_fault(s, at, ERR_INVAL, "is not a SHA-256: 64 hexadecimal digits")
		   : 0;
}

static int fs_check_ignore(const struct schema *s, const struct schema_at *at, const json_t *v)
{
	return schema_texts(s, at, v, RULE_MAX);
}

static const struct {
	struct schema_field field;
	uint32_t ops;
	bool ours; /* not for muxlet */
} table[] = {
    {{"path", SCHEMA_ANY, true, 0, 0, fs_check_path, SCHEMA_TO(struct fields, path)}, OPS_ALL, true},
    {{"to", SCHEMA_ANY, true, 0, 0, fs_check_path, SCHEMA_TO(struct fields, to)}, OP(MOVE) | OP(COPY), false},
    {{"task_id", SCHEMA_TEXT, false, 1, 0, NULL, SCHEMA_TO(struct fields, task)}, OPS_ALL, true},
    {{"timeout_ms", SCHEMA_INTEGER, false, 1, MS_MAX, NULL, SCHEMA_TO(struct fields, timeout_ms)}, OPS_ALL, true},
    {{"data", SCHEMA_TEXT, true, 0, 0, NULL, SCHEMA_TO(struct fields, data)}, OPS_TAKE, true},
    {{"encoding", SCHEMA_TEXT, false, 0, 0, NULL, SCHEMA_TO(struct fields, encoding)}, OPS_TAKE, true},
    {{"mode", SCHEMA_TEXT, false, 1, 4, fs_check_mode, SCHEMA_TO(struct fields, mode)}, OPS_PUT | OP(MKDIR), true},
    {{"mode", SCHEMA_TEXT, true, 1, 4, fs_check_mode, SCHEMA_TO(struct fields, mode)}, OP(CHMOD), true},
    {{"if_match", SCHEMA_TEXT, false, DIGEST_LEN, DIGEST_LEN, fs_check_digest, 0}, OPS_MATCH, false},
    {{"create_only", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(WRITE), false},
    {{"parents", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OPS_NEW, false},
    {{"overwrite", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(MOVE) | OP(COPY), false},
    {{"recursive", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(COPY) | OP(DELETE), false},
    {{"follow", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(STAT), false},
    {{"sha256", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(STAT), false},
    {{"depth", SCHEMA_INTEGER, false, 1, 256, NULL, 0}, OP(LIST), false},
    {{"limit", SCHEMA_INTEGER, false, 1, 10000, NULL, 0}, OPS_TREE, false},
    {{"cursor", SCHEMA_ANY, false, 0, 0, fs_check_path, 0}, OPS_PAGE, false},
    {{"ignore", SCHEMA_LIST, false, 0, IGNORE_MAX, fs_check_ignore, 0}, OPS_TREE, false},
    {{"gitignore", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OPS_TREE, false},
    {{"pattern", SCHEMA_TEXT, true, 1, PATTERN_MAX, NULL, 0}, OPS_FIND, false},
    {{"regex", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(SEARCH), false},
    {{"ignore_case", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(SEARCH), false},
    {{"context", SCHEMA_INTEGER, false, 0, 20, NULL, 0}, OP(SEARCH), false},
    {{"dry_run", SCHEMA_BOOL, false, 0, 0, NULL, 0}, OP(PATCH), false},
    {{"offset", SCHEMA_INTEGER, false, -OFFSET_MAX, OFFSET_MAX, NULL, 0}, OP(READ), false},
    {{"length", SCHEMA_INTEGER, false, 0, 1024 * 1024, NULL, 0}, OP(READ), false},
    {{"from_line", SCHEMA_INTEGER, false, 1, OFFSET_MAX, NULL, 0}, OP(READ), false},
    {{"to_line", SCHEMA_INTEGER, false, 1, OFFSET_MAX, NULL, 0}, OP(READ), false},
};

/* The fields that an operation knows. Returns how many. */
static size_t fields_of(enum file_op op, struct schema_field *out)
{
	size_t n = 0;

	for (size_t i = 0; i < SCHEMA_COUNT(table); i++)
		if (table[i].ops & UINT32_C(1) << op)
			out[n++] = table[i].field;
	return n;
}

/* Members that go on to muxlet as they are. */
static int copy_request(enum file_op op, struct fs_body *b, const char *mode)
{
	b->request = json_object();
	if (!b->request)
		return ERR_NOMEM;
	for (size_t i = 0; i < SCHEMA_COUNT(table); i++) {
		json_t *v = json_object_get(b->root, table[i].field.key);

		if (v && !json_is_null(v) && !table[i].ours && table[i].ops & UINT32_C(1) << op &&
		    json_object_set(b->request, table[i].field.key, v))
			return ERR_NOMEM;
	}
	if (mode && json_object_set_new(b->request, "mode", json_integer(strtol(mode, NULL, 8))))
		return ERR_NOMEM;
	b->file.request = b->request;
	return 0;
}

static int take_fields(enum file_op op, struct fs_body *b, const struct fields *f, struct err *e)
{
	int rc = body_path(f->path, &b->path);

	if (!rc && f->to)
		rc = body_path(f->to, &b->to);
	if (!rc)
		rc = copy_request(op, b, f->mode);
	if (!rc && f->data)
		rc = body_bytes("data", f->data, strlen(f->data), f->encoding, &b->content, &b->content_len,
				&b->content_owned, e);
	b->task = f->task;
	b->timeout_ns = (uint64_t)f->timeout_ms * NS_PER_MS;
	b->file.op = op;
	b->file.path = b->path;
	b->file.to = b->to;
	b->file.mode = -1;
	b->file.size = f->data ? b->content_len : UINT64_MAX;
	return rc;
}

int fs_body_parse(enum file_op op, const void *p, size_t n, size_t max, struct fs_body *out, struct err *e)
{
	struct schema_field fields[SCHEMA_COUNT(table)];
	struct fs_body b = {0};
	struct fields f = {0};
	struct schema s = {.out = &f, .e = e, .null_is_absent = true};
	int rc;

	if (n == 0)
		return err_set(e, ERR_INVAL, "the body is empty; send a JSON object with a path");
	rc = json_parse_values(p, n, max, JSON_VALUES_BODY, &b.root, e);
	if (rc == 0)
		rc = schema_object(&s, NULL, b.root, fields, fields_of(op, fields));
	if (rc == 0)
		rc = take_fields(op, &b, &f, e);
	if (rc)
		fs_body_finish(&b);
	else
		*out = b;
	return rc;
}

void fs_body_finish(struct fs_body *b)
{
	if (!b)
		return;
	json_decref(b->request);
	json_decref(b->root);
	free(b->path);
	free(b->to);
	free(b->content_owned);
	memset(b, 0, sizeof(*b));
}
