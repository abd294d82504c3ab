#include "muxd/muxlet/fs_out.h"
#include "base/utf8.h"

#include "muxd/muxlet/fs_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SIZE 4096

/* Room for n more; NULL: there is none. */
static char *fs_out_room(struct fs_out *o, size_t n)
{
	size_t size = o->size ? o->size : FIRST_SIZE;
	char *p;

	if (o->over || n > FS_OUT_MAX - o->n) {
		o->over = true;
		return NULL;
	}
	while (size < o->n + n)
		size *= 2;
	if (size != o->size) {
		p = realloc(o->p, size);
		if (!p) {
			o->over = true;
			return NULL;
		}
		o->p = p;
		o->size = size;
	}
	return o->p + o->n;
}

static void add(struct fs_out *o, const char *p, size_t n)
{
	char *to = fs_out_room(o, n);

	if (to) {
		memcpy(to, p, n);
		o->n += n;
	}
}

static void add_str(struct fs_out *o, const char *s)
{
	add(o, s, strlen(s));
}

/* How many of the next bytes stand for themselves in a text. */
static size_t plain_run(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && (unsigned char)p[i] >= 0x20 && (unsigned char)p[i] < 0x7f && p[i] != '"' && p[i] != '\\')
		i++;
	return i;
}

/* n bytes of text in quotes. */
static void add_quoted(struct fs_out *o, const char *p, size_t n)
{
	char escape[8];

	add_str(o, "\"");
	while (n && !o->over) {
		size_t run = plain_run(p, n), len = run ? run : utf8_step((const uint8_t *)p, n, NULL);

		if (run) {
			add(o, p, run);
		} else if (len == 1 && (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20 || *p == 0x7f)) {
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)*p);
			add_str(o, *p == '"' ? "\\\"" : *p == '\\' ? "\\\\" : *p == '\n' ? "\\n" : escape);
		} else if (len) {
			add(o, p, len);
		} else {
			add_str(o, "?");
			len = 1;
		}
		p += len;
		n -= len;
	}
	add_str(o, "\"");
}

/* A comma where there is something before it, and the key. */
static void fs_out_begin(struct fs_out *o, const char *key)
{
	if (o->n && !strchr("{[", o->p[o->n - 1]))
		add_str(o, ",");
	if (key) {
		add_quoted(o, key, strlen(key));
		add_str(o, ":");
	}
}

void fs_out_open(struct fs_out *o, const char *key, char bracket)
{
	fs_out_begin(o, key);
	add(o, &bracket, 1);
}

void fs_out_close(struct fs_out *o, char bracket)
{
	add(o, &bracket, 1);
}

void fs_out_text(struct fs_out *o, const char *key, const char *text)
{
	fs_out_begin(o, key);
	add_quoted(o, text, strlen(text));
}

void fs_out_text_n(struct fs_out *o, const char *key, const char *text, size_t n)
{
	fs_out_begin(o, key);
	add_quoted(o, text, n);
}

static void add_base64(struct fs_out *o, const void *p, size_t n)
{
	char *to;

	add_str(o, "\"");
	to = fs_out_room(o, FS_BASE64_SIZE(n));
	if (to) {
		fs_base64_encode(p, n, to);
		o->n += FS_BASE64_SIZE(n);
	}
	add_str(o, "\"");
}

void fs_out_path(struct fs_out *o, const char *key, const char *path)
{
	size_t n = strlen(path);

	fs_out_begin(o, key);
	if (utf8_valid((const uint8_t *)path, n)) {
		add_quoted(o, path, n);
		return;
	}
	add_str(o, "{\"base64\":");
	add_base64(o, path, n);
	add_str(o, "}");
}

void fs_out_number(struct fs_out *o, const char *key, long long v)
{
	char text[24];

	fs_out_begin(o, key);
	snprintf(text, sizeof(text), "%lld", v);
	add_str(o, text);
}

void fs_out_flag(struct fs_out *o, const char *key, bool v)
{
	fs_out_begin(o, key);
	add_str(o, v ? "true" : "false");
}

void fs_out_null(struct fs_out *o, const char *key)
{
	fs_out_begin(o, key);
	add_str(o, "null");
}

/* Text that is shorter as such: programs' output is, with a few colours in it, and pictures are not. */
static bool is_text(const char *p, size_t n)
{
	size_t controls = 0;

	for (size_t i = 0; i < n; i++) {
		if (!p[i])
			return false;
		controls += (unsigned char)p[i] < 0x20 && p[i] != '\n' && p[i] != '\t';
	}
	return controls <= n / 16 + 1 && utf8_valid((const uint8_t *)p, n);
}

void fs_out_data(struct fs_out *o, const void *p, size_t n)
{
	bool text = is_text(p, n);

	fs_out_begin(o, "data");
	if (text)
		add_quoted(o, p, n);
	else
		add_base64(o, p, n);
	fs_out_text(o, "encoding", text ? "utf-8" : "base64");
}

void fs_out_raw(struct fs_out *o, const char *key, const char *json, size_t n)
{
	fs_out_begin(o, key);
	add(o, json, n);
}

void fs_out_back(struct fs_out *o, size_t n)
{
	o->n = n;
	o->over = false;
}

void fs_out_finish(struct fs_out *o)
{
	free(o->p);
	memset(o, 0, sizeof(*o));
}
