#include "control/filespace/wire.h"

#include "base/err.h"
#include "base/relpath.h"
#include "base/text.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHA_HEX     64
#define TIME_MAX    INT64_C(4102444800000000) /* a time beyond is none */
#define CURSOR_MAX  8192
#define ENTRY_BYTES 80 /* beside its path: what muxlet's record of a file has */
#define ENTRY_WRONG "the store's answer is none: "

void filespace_key_put(const uint8_t *sha256, bool executable, char out[FILESPACE_KEY_LEN + 1])
{
	for (size_t i = 0; i < SHA256_DIGEST_LENGTH; i++)
		snprintf(out + 2 * i, 3, "%02x", sha256[i]);
	out[SHA_HEX] = executable ? 'x' : '-';
	out[SHA_HEX + 1] = '\0';
}

bool filespace_key_runs(const char *key)
{
	return key[0] && key[SHA_HEX] == 'x';
}

json_t *filespace_wire_path(const char *path)
{
	return json_text_or_base64(path);
}

/* *out_why: it is a path, and none that is taken; *out is NULL then. */
static int path_in(const json_t *v, char **out, const char **out_why, struct err *e)
{
	const char *text = json_string_value(v), *b64 = json_string_value(json_object_get(v, "base64"));
	size_t n = json_string_length(v);
	uint8_t *bytes = NULL;
	char *path;

	*out = NULL;
	*out_why = NULL;
	if (!text && (!b64 || base64_decode(b64, strlen(b64), false, &bytes, &n)))
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "a path is neither text nor base64");
	path = malloc(n + 1);
	if (path) {
		memcpy(path, text ? text : (const char *)bytes, n);
		path[n] = '\0';
	}
	free(bytes);
	if (!path)
		return err_set(e, ERR_NOMEM, "no memory for a path");
	*out_why = relpath_check(path, n);
	if (*out_why) {
		free(path);
		return 0;
	}
	*out = path;
	return 0;
}

static int time_in(const json_t *o, int64_t *out, struct err *e)
{
	const json_t *v = json_object_get(o, "updated_at");
	int64_t t = json_integer_value(v);

	if (!json_is_integer(v) || t < 0 || t > TIME_MAX)
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "an updated_at is no time in milliseconds");
	*out = t;
	return 0;
}

/* An entry without its path. */
static int entry_in(const json_t *o, struct filespace_file *f, struct err *e)
{
	const char *sha = json_string_value(json_object_get(o, "sha256"));
	const json_t *size = json_object_get(o, "size");
	int rc = time_in(o, &f->side.at_ms, e);

	if (rc)
		return rc;
	if (json_is_true(json_object_get(o, "deleted"))) {
		f->side.deleted = true;
		return 0;
	}
	if (!sha || strlen(sha) != SHA_HEX || strspn(sha, "0123456789abcdef") != SHA_HEX)
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "a sha256 is none");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "a size is none");
	f->size = (uint64_t)json_integer_value(size);
	memcpy(f->side.key, sha, SHA_HEX);
	f->side.key[SHA_HEX] = json_is_true(json_object_get(o, "executable")) ? 'x' : '-';
	f->side.key[SHA_HEX + 1] = '\0';
	return 0;
}

int filespace_wire_now(const json_t *body, int64_t *out_ms, struct err *e)
{
	const json_t *v = json_object_get(body, "now");

	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > TIME_MAX)
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "now is no time in milliseconds");
	*out_ms = json_integer_value(v);
	return 0;
}

static void page_refuse(struct filespace_page *io, const json_t *path, const char *why)
{
	const char *text = json_string_value(path);

	if (!io->refused++)
		text_format(io->refused_first, sizeof(io->refused_first), "%.100s: %s", text ? text : "(base64)", why);
}

static int page_entry(const json_t *v, const struct filespace_bounds *b, struct filespace_page *io, struct err *e)
{
	struct filespace_file f = {0};
	const char *why = NULL;
	char *path = NULL;
	int rc =
	    json_is_object(v) ? entry_in(v, &f, e) : err_set(e, ERR_FILESPACE, ENTRY_WRONG "an entry is no object");

	if (!rc)
		rc = path_in(json_object_get(v, "path"), &path, &why, e);
	if (!rc && !path) {
		page_refuse(io, json_object_get(v, "path"), why);
		return 0;
	}
	if (!rc && f.side.deleted && b->wanted && !b->wanted(b->arg, path)) {
		free(path);
		return 0;
	}
	if (!rc && f.side.deleted && b->wanted && io->deletions++ >= b->wanted_max)
		rc = err_set(e, ERR_FILESPACE, "the store lists a deletion twice");
	if (!rc && !f.side.deleted && io->files++ >= b->files_max)
		rc = err_set(e, ERR_TOO_LARGE, "the store lists more than the %zu files of filespace.max_files",
			     b->files_max);
	io->bytes += ENTRY_BYTES + (path ? strlen(path) : 0);
	if (!rc && b->bytes_max && io->bytes > b->bytes_max)
		rc = err_set(e, ERR_TOO_LARGE, "the store's list has more than %zu bytes", b->bytes_max);
	if (!rc && f.size > b->size_max)
		f.skipped = true; /* there, and not for here */
	if (!rc && filespace_list_add(io->list, path, &f))
		rc = err_set(e, ERR_NOMEM, "no memory for a list of files");
	free(path);
	return rc;
}

int filespace_wire_page(const json_t *body, const struct filespace_bounds *b, struct filespace_page *io, struct err *e)
{
	const json_t *files = json_object_get(body, "files"), *v;
	const char *next = json_string_value(json_object_get(body, "next"));
	int rc = json_is_array(files) ? filespace_wire_now(body, &io->now_ms, e)
				      : err_set(e, ERR_FILESPACE, ENTRY_WRONG "it has no list of files");
	size_t i;

	io->next = NULL;
	json_array_foreach(files, i, v)
	{
		if (!rc)
			rc = page_entry(v, b, io, e);
	}
	if (!rc && next && (strlen(next) > CURSOR_MAX || !json_array_size(files)))
		rc = err_set(e, ERR_FILESPACE, ENTRY_WRONG "its list has no end");
	if (!rc && next && !(io->next = strdup(next)))
		rc = err_set(e, ERR_NOMEM, "no memory for a list of files");
	return rc;
}

json_t *filespace_wire_paths(json_t *paths)
{
	return json_pack("{s:o}", "paths", paths);
}

/* ---- contents */

void filespace_content_finish(struct filespace_content *c)
{
	free(c->file.path);
	free(c->data);
	*c = (struct filespace_content){0};
}

static int content_is(const struct filespace_content *c, struct err *e)
{
	uint8_t sum[SHA256_DIGEST_LENGTH];
	char key[FILESPACE_KEY_LEN + 1];

	SHA256(c->data, c->n, sum);
	filespace_key_put(sum, filespace_key_runs(c->file.side.key), key);
	if (c->n != c->file.size || strcmp(key, c->file.side.key) != 0)
		return err_set(e, ERR_FILESPACE, ENTRY_WRONG "the content of %.100s is not what its sha256 says",
			       c->file.path);
	return 0;
}

int filespace_wire_content(const json_t *entry, const struct filespace_bounds *b, struct filespace_content *out,
			   struct err *e)
{
	const json_t *data = json_object_get(entry, "content");
	struct filespace_content c = {0};
	const char *why = NULL;
	int rc = path_in(json_object_get(entry, "path"), &c.file.path, &why, e);

	if (!rc && !c.file.path)
		rc = err_set(e, ERR_FILESPACE, ENTRY_WRONG "%s", why);
	if (!rc)
		rc = entry_in(entry, &c.file, e);
	if (!rc && (!json_is_string(data) || c.file.size > b->size_max ||
		    base64_decode(json_string_value(data), json_string_length(data), false, &c.data, &c.n)))
		rc = err_set(e, ERR_FILESPACE, ENTRY_WRONG "a content is no base64");
	if (!rc)
		rc = content_is(&c, e);
	if (rc)
		filespace_content_finish(&c);
	else
		*out = c;
	return rc;
}

/* ---- puts */

json_t *filespace_wire_put(const char *path, const char *key, const void *content, size_t n, int64_t if_ms)
{
	json_t *o = json_pack("{s:o?,s:o}", "path", filespace_wire_path(path), "if",
			      if_ms < 0 ? json_null() : json_integer(if_ms));
	char *data = content ? base64_encode(content, n, false) : NULL;

	if (o && content &&
	    (!data || json_object_set_new(o, "sha256", json_stringn(key, SHA_HEX)) ||
	     json_object_set_new(o, "executable", json_boolean(filespace_key_runs(key))) ||
	     json_object_set_new(o, "content", json_string(data)))) {
		json_decref(o);
		o = NULL;
	}
	free(data);
	return o;
}

static int put_in(const json_t *v, bool done, filespace_put_each *each, void *arg, struct err *e)
{
	struct filespace_put p = {.done = done};
	struct filespace_file f = {0};
	const char *why = NULL;
	char *path = NULL;
	int rc = path_in(json_object_get(v, "path"), &path, &why, e);

	if (!rc && !path)
		rc = err_set(e, ERR_FILESPACE, ENTRY_WRONG "%s", why);
	if (!rc && done)
		rc = time_in(v, &p.side.at_ms, e);
	else if (!rc && !json_is_true(json_object_get(v, "absent")))
		rc = entry_in(v, &f, e), p.side = f.side;
	if (!rc)
		rc = each(arg, path, &p);
	free(path);
	return rc;
}

int filespace_wire_puts(const json_t *body, const struct filespace_bounds *b, filespace_put_each *each, void *arg,
			int64_t *out_now_ms, struct err *e)
{
	const json_t *done = json_object_get(body, "done"), *conflicts = json_object_get(body, "conflicts"), *v;
	int rc = filespace_wire_now(body, out_now_ms, e);
	size_t i;

	(void)b;
	if (!rc && (!json_is_array(done) || !json_is_array(conflicts)))
		rc = err_set(e, ERR_FILESPACE, ENTRY_WRONG "it lacks done or conflicts");
	json_array_foreach(done, i, v)
	{
		if (!rc)
			rc = put_in(v, true, each, arg, e);
	}
	json_array_foreach(conflicts, i, v)
	{
		if (!rc)
			rc = put_in(v, false, each, arg, e);
	}
	return rc;
}
