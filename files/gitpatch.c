#include "files/gitpatch.h"

#include "files/content.h"

#include <stdio.h>
#include <string.h>

#define BLOCK_MAX 65535 /* of deflate, stored (RFC 1951, 3.2.4) */

struct sink {
	diff_put *put;
	void *arg;
};

static int gitpatch_say(const struct sink *k, const char *text)
{
	return k->put(k->arg, text, strlen(text));
}

/* ---- names, as git quotes them */

static bool plain(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < 0x20 || *path == 0x7f || *path == '"' || *path == '\\')
			return false;
	return true;
}

static int say_quoted(const struct sink *k, const char *prefix, const char *path)
{
	int rc = gitpatch_say(k, "\"");

	if (!rc)
		rc = gitpatch_say(k, prefix);
	for (; !rc && *path; path++) {
		char text[8];

		if (plain((const char[]){*path, 0}))
			snprintf(text, sizeof(text), "%c", *path);
		else if (*path == '"' || *path == '\\')
			snprintf(text, sizeof(text), "\\%c", *path);
		else
			snprintf(text, sizeof(text), "\\%03o", (unsigned char)*path);
		rc = gitpatch_say(k, text);
	}
	return rc ? rc : gitpatch_say(k, "\"");
}

static int say_name(const struct sink *k, const char *prefix, const char *path)
{
	int rc;

	if (!plain(path))
		return say_quoted(k, prefix, path);
	rc = gitpatch_say(k, prefix);
	return rc ? rc : gitpatch_say(k, path);
}

/* Behind a name with blanks a tab says where it ends. */
static int say_line(const struct sink *k, const char *word, const char *prefix, const char *path)
{
	int rc = gitpatch_say(k, word);

	if (!rc)
		rc = path ? say_name(k, prefix, path) : gitpatch_say(k, "/dev/null");
	return rc ? rc : gitpatch_say(k, path && plain(path) && strchr(path, ' ') ? "\t\n" : "\n");
}

/* ---- the head of a change */

static int say_modes(const struct sink *k, const struct gitpatch_side *old, const struct gitpatch_side *now)
{
	char text[64] = "";

	if (!old->mode)
		snprintf(text, sizeof(text), "new file mode %o\n", now->mode);
	else if (!now->mode)
		snprintf(text, sizeof(text), "deleted file mode %o\n", old->mode);
	else if (old->mode != now->mode)
		snprintf(text, sizeof(text), "old mode %o\nnew mode %o\n", old->mode, now->mode);
	return gitpatch_say(k, text);
}

static void hex(const struct gitpatch_side *s, char out[2 * SHA1_LEN + 1])
{
	for (int i = 0; i < SHA1_LEN; i++)
		snprintf(out + (size_t)2 * i, 3, "%02x", s->mode ? s->blob[i] : 0);
}

/* Nothing of a content that stays. */
static int say_index(const struct sink *k, const struct gitpatch_side *old, const struct gitpatch_side *now)
{
	char from[2 * SHA1_LEN + 1], to[2 * SHA1_LEN + 1], text[128], mode[16] = "";

	hex(old, from);
	hex(now, to);
	if (strcmp(from, to) == 0)
		return 0;
	if (old->mode == now->mode)
		snprintf(mode, sizeof(mode), " %o", now->mode);
	snprintf(text, sizeof(text), "index %s..%s%s\n", from, to, mode);
	return gitpatch_say(k, text);
}

static int say_head(const struct sink *k, const char *path, const struct gitpatch_side *old,
		    const struct gitpatch_side *now)
{
	int rc = gitpatch_say(k, "diff --git ");

	if (!rc)
		rc = say_name(k, "a/", path);
	if (!rc)
		rc = gitpatch_say(k, " ");
	if (!rc)
		rc = say_name(k, "b/", path);
	if (!rc)
		rc = gitpatch_say(k, "\n");
	if (!rc)
		rc = say_modes(k, old, now);
	return rc ? rc : say_index(k, old, now);
}

/* ---- contents */

void gitpatch_blob(struct sha1 *s, uint64_t size)
{
	char head[40];
	int n = snprintf(head, sizeof(head), "blob %llu", (unsigned long long)size);

	sha1_init(s);
	sha1_add(s, head, (size_t)n + 1);
}

static bool side_is_text(const struct gitpatch_side *s)
{
	if (!s->mode)
		return true;
	return s->p && s->size <= DIFF_TEXT_MAX && !memchr(s->p, 0, (size_t)s->size) &&
	       !content_is_binary(s->p, (size_t)s->size);
}

bool gitpatch_is_text(const struct gitpatch_side *old, const struct gitpatch_side *now)
{
	return side_is_text(old) && side_is_text(now);
}

int gitpatch_text(const char *path, const struct gitpatch_side *old, const struct gitpatch_side *now, diff_put *put,
		  void *arg)
{
	const struct sink k = {put, arg};
	size_t an = old->mode ? (size_t)old->size : 0, bn = now->mode ? (size_t)now->size : 0;
	const char *a = an ? old->p : "", *b = bn ? now->p : "";
	int rc = say_head(&k, path, old, now);

	if (rc || (an == bn && memcmp(a, b, an) == 0))
		return rc;
	rc = say_line(&k, "--- ", "a/", old->mode ? path : NULL);
	if (!rc)
		rc = say_line(&k, "+++ ", "b/", now->mode ? path : NULL);
	return rc ? rc : diff_unified(a, an, b, bn, put, arg);
}

/* ---- literals: lines of up to 52 bytes, each begun by a letter for how many they are */

static int literal_line(struct gitpatch_literal *l)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`"
				     "{|}~";
	char text[2 + 65 + 1];
	size_t len = 0;

	if (!l->n)
		return 0;
	text[len++] = (char)(l->n <= 26 ? 'A' + l->n - 1 : 'a' + l->n - 27);
	memset(l->line + l->n, 0, sizeof(l->line) - l->n);
	for (size_t i = 0; i < l->n; i += 4) {
		uint32_t v = (uint32_t)l->line[i] << 24 | (uint32_t)l->line[i + 1] << 16 |
			     (uint32_t)l->line[i + 2] << 8 | l->line[i + 3];

		for (int k = 4; k >= 0; k--, v /= 85)
			text[len + (size_t)k] = digits[v % 85];
		len += 5;
	}
	text[len++] = '\n';
	l->n = 0;
	return l->put(l->arg, text, len);
}

static int literal_bytes(struct gitpatch_literal *l, const uint8_t *p, size_t n)
{
	int rc = 0;

	while (n && !rc) {
		size_t take = sizeof(l->line) - l->n < n ? sizeof(l->line) - l->n : n;

		memcpy(l->line + l->n, p, take);
		l->n += take;
		p += take;
		n -= take;
		if (l->n == sizeof(l->line))
			rc = literal_line(l);
	}
	return rc;
}

/* The next block, of all that is left or as much as one holds. */
static int literal_block(struct gitpatch_literal *l)
{
	uint32_t n = l->left < BLOCK_MAX ? (uint32_t)l->left : BLOCK_MAX;
	const uint8_t head[5] = {l->left == n, n & 0xff, n >> 8 & 0xff, ~n & 0xff, ~n >> 8 & 0xff};

	l->in_block = n;
	return literal_bytes(l, head, sizeof(head));
}

int gitpatch_literal_begin(struct gitpatch_literal *l, const char *path, const struct gitpatch_side *old,
			   const struct gitpatch_side *now, diff_put *put, void *arg)
{
	static const uint8_t zlib[2] = {0x78, 0x01};
	const struct sink k = {put, arg};
	char text[64];
	int rc = say_head(&k, path, old, now);

	*l = (struct gitpatch_literal){.put = put, .arg = arg, .left = now->mode ? now->size : 0, .a = 1};
	snprintf(text, sizeof(text), "GIT binary patch\nliteral %llu\n", (unsigned long long)l->left);
	if (!rc)
		rc = gitpatch_say(&k, text);
	if (!rc)
		rc = literal_bytes(l, zlib, sizeof(zlib));
	return rc || l->left ? rc : literal_block(l); /* of nothing, too, one block is the last */
}

static void adler(struct gitpatch_literal *l, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		l->a = (l->a + p[i]) % 65521;
		l->b = (l->b + l->a) % 65521;
	}
}

int gitpatch_literal_add(struct gitpatch_literal *l, const void *data, size_t n)
{
	const uint8_t *p = data;
	int rc = 0;

	while (n && !rc) {
		size_t take;

		if (!l->in_block)
			rc = literal_block(l);
		if (rc)
			return rc;
		take = n < l->in_block ? n : l->in_block;
		adler(l, p, take);
		rc = literal_bytes(l, p, take);
		l->in_block -= (uint32_t)take;
		l->left -= take;
		p += take;
		n -= take;
	}
	return rc;
}

int gitpatch_literal_end(struct gitpatch_literal *l)
{
	const uint8_t sum[4] = {l->b >> 8 & 0xff, l->b & 0xff, l->a >> 8 & 0xff, l->a & 0xff};
	int rc = literal_bytes(l, sum, sizeof(sum));

	if (!rc)
		rc = literal_line(l);
	return rc ? rc : l->put(l->arg, "\n", 1);
}

int gitpatch_remark(const char *text, const char *path, diff_put *put, void *arg)
{
	const struct sink k = {put, arg};
	int rc = gitpatch_say(&k, text);

	if (!rc)
		rc = gitpatch_say(&k, ": ");
	if (!rc)
		rc = say_name(&k, "", path);
	return rc ? rc : gitpatch_say(&k, "\n");
}
