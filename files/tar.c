#include "files/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LONGEST 255
#define SIZE_LARGEST (UINT64_C(1) << 60)
#define OCTAL_SIZE   UINT64_C(077777777777)

/* POSIX.1, pax: ustar header block. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, linkname[100], magic[6],
	    version[2], uname[32], gname[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == TAR_BLOCK, "a header is a block");

static int tar_fault(struct tar_reader *r, const char *why)
{
	r->state = TAR_BROKEN;
	r->why = why;
	return -1;
}

/* ---- numbers */

/* Octal digits, with spaces or NULs around; or GNU's base 256. */
static int number(const char *p, size_t n, uint64_t *out)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((uint8_t)p[0] & 0x80) {
		if ((uint8_t)p[0] != 0x80)
			return -1; /* below 0, or larger than any file */
		for (i = 1; i < n; i++) {
			if (v >> 52)
				return -1;
			v = v << 8 | (uint8_t)p[i];
		}
		*out = v;
		return 0;
	}
	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	for (; i < n; i++)
		if (p[i] && p[i] != ' ')
			return -1;
	*out = v;
	return 0;
}

static unsigned checksum(const uint8_t *block)
{
	const size_t from = offsetof(struct header, checksum), to = from + sizeof(((struct header *)0)->checksum);
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= from && i < to ? ' ' : block[i];
	return sum;
}

/* ---- what is said ahead of an entry */

static int tar_take_text(char *out, const uint8_t *p, size_t n)
{
	while (n && !p[n - 1])
		n--;
	if (n >= TAR_PATH_MAX || memchr(p, 0, n))
		return -1;
	memcpy(out, p, n);
	out[n] = '\0';
	return 0;
}

/* Decimal, with a fraction that is passed over. */
static int pax_number(const char *p, size_t n, uint64_t max, uint64_t *out)
{
	uint64_t v = 0;
	size_t i = 0;

	for (; i < n && p[i] >= '0' && p[i] <= '9'; i++) {
		v = v * 10 + (uint64_t)(p[i] - '0');
		if (v > max)
			return -1;
	}
	if (i == 0 || (i < n && p[i] != '.'))
		return -1;
	*out = v;
	return 0;
}

static int pax_value(struct tar_reader *r, const char *key, size_t key_n, const uint8_t *value, size_t n)
{
	uint64_t v = 0;

	if (key_n == 4 && memcmp(key, "path", 4) == 0) {
		r->has_path = true;
		return tar_take_text(r->path, value, n);
	}
	if (key_n == 8 && memcmp(key, "linkpath", 8) == 0) {
		r->has_target = true;
		return tar_take_text(r->target, value, n);
	}
	if (key_n == 4 && memcmp(key, "size", 4) == 0) {
		r->has_size = true;
		return pax_number((const char *)value, n, SIZE_LARGEST, &r->size);
	}
	if (key_n == 5 && memcmp(key, "mtime", 5) == 0) {
		r->has_mtime =
		    pax_number((const char *)value, n, INT64_MAX / 2, &v) == 0; /* before 1970: as the header has it */
		r->mtime_s = (int64_t)v;
		return 0;
	}
	return key_n >= 10 && memcmp(key, "GNU.sparse", 10) == 0 ? -1 : 0;
}

/* "LENGTH KEY=VALUE\n", LENGTH of all of it. */
static int pax_records(struct tar_reader *r, bool global)
{
	const char *p = (const char *)r->text, *end = p + r->filled;

	while (p < end && *p) {
		size_t len = 0;
		const char *at = p, *eq;

		for (; at < end && *at >= '0' && *at <= '9' && len <= TAR_LONG_MAX; at++)
			len = len * 10 + (size_t)(*at - '0');
		if (at == p || at == end || *at != ' ' || len > (size_t)(end - p) || p + len <= at + 1 ||
		    p[len - 1] != '\n')
			return tar_fault(r, "a pax record is malformed");
		at++;
		eq = memchr(at, '=', (size_t)(p + len - at));
		if (!eq)
			return tar_fault(r, "a pax record is malformed");
		if (!global &&
		    pax_value(r, at, (size_t)(eq - at), (const uint8_t *)eq + 1, (size_t)(p + len - 1 - (eq + 1))))
			return tar_fault(r, "a pax record has a path, a size or a sparse file that is not taken");
		p += len;
	}
	return 0;
}

static int long_over(struct tar_reader *r)
{
	int rc = 0;

	switch (r->long_type) {
	case 'L':
		r->has_path = true;
		rc = tar_take_text(r->path, r->text, r->filled);
		break;
	case 'K':
		r->has_target = true;
		rc = tar_take_text(r->target, r->text, r->filled);
		break;
	default:
		return pax_records(r, r->long_type == 'g');
	}
	return rc ? tar_fault(r, "a long name holds NUL or has more than 4,095 bytes") : 0;
}

/* ---- headers */

static void set_path(struct tar_reader *r, const struct header *h)
{
	struct tar_entry *e = &r->entry;
	int prefix = memcmp(h->magic, "ustar", 6) == 0 ? (int)strnlen(h->prefix, sizeof(h->prefix)) : 0;

	if (r->has_path)
		memcpy(e->path, r->path, sizeof(e->path));
	else
		snprintf(e->path, sizeof(e->path), "%.*s%s%.*s", prefix, h->prefix, prefix ? "/" : "",
			 (int)strnlen(h->name, sizeof(h->name)), h->name);
	if (r->has_target)
		memcpy(e->target, r->target, sizeof(e->target));
	else
		snprintf(e->target, sizeof(e->target), "%.*s", (int)strnlen(h->linkname, sizeof(h->linkname)),
			 h->linkname);
}

static int begin_long(struct tar_reader *r, char type, uint64_t size)
{
	if (size > TAR_LONG_MAX)
		return tar_fault(r, "a long name or pax header has more than 32 KiB");
	r->long_type = type;
	r->left = size;
	r->filled = 0;
	r->state = TAR_IN_LONG;
	r->content = false;
	return 0;
}

static int set_type(struct tar_reader *r, char type)
{
	struct tar_entry *e = &r->entry;
	size_t n = strlen(e->path);

	switch (type) {
	case '\0':
	case '7':
	case TAR_FILE:
		e->type = n && e->path[n - 1] == '/' ? TAR_DIRECTORY : TAR_FILE; /* of before POSIX */
		return 0;
	case TAR_HARDLINK:
	case TAR_SYMLINK:
	case TAR_DIRECTORY:
		e->type = type;
		return 0;
	case '3':
	case '4':
	case '6':
		return tar_fault(r, "it holds a device or a fifo");
	default:
		return tar_fault(
		    r, "it holds an entry of a kind that is not taken (sparse, of several volumes, or unknown)");
	}
}

static int take_header(struct tar_reader *r, bool *out_entry)
{
	const struct header *h = (const void *)r->block;
	struct tar_entry *e = &r->entry;
	uint64_t size, mode, mtime, sum;

	if (number(h->checksum, sizeof(h->checksum), &sum) || sum != checksum(r->block))
		return tar_fault(r, "a header's checksum is wrong: it is no tar archive, or is damaged");
	if (number(h->size, sizeof(h->size), &size) || number(h->mode, sizeof(h->mode), &mode) ||
	    number(h->mtime, sizeof(h->mtime), &mtime) || size > SIZE_LARGEST)
		return tar_fault(r, "a header has a number that is none");
	if (h->type && strchr("LKxg", h->type))
		return begin_long(r, h->type, size);
	set_path(r, h);
	if (set_type(r, h->type))
		return -1;
	e->mode = (uint32_t)(mode & 07777);
	e->mtime_s = r->has_mtime ? r->mtime_s : (int64_t)(mtime & INT64_MAX);
	e->size = e->type == TAR_FILE ? (r->has_size ? r->size : size) : 0;
	r->left = e->size;
	r->has_path = r->has_target = r->has_size = r->has_mtime = false;
	r->state = TAR_IN_DATA;
	r->content = true;
	*out_entry = true;
	return 0;
}

static bool is_zero(const uint8_t *p)
{
	return !p[0] && memcmp(p, p + 1, TAR_BLOCK - 1) == 0;
}

static int block_over(struct tar_reader *r, enum tar_event *out)
{
	bool entry = false;

	r->filled = 0;
	if (is_zero(r->block)) {
		if (r->zeros) {
			r->state = TAR_AT_END;
			*out = TAR_END;
		}
		r->zeros = true;
		return 0;
	}
	if (r->zeros)
		return tar_fault(r, "something stands behind its end");
	if (take_header(r, &entry))
		return -1;
	if (entry)
		*out = TAR_ENTRY;
	return 0;
}

/* ---- reading */

static size_t fill(uint8_t *to, size_t *filled, size_t want, const uint8_t *p, size_t n)
{
	size_t take = want < n ? want : n;

	memcpy(to + *filled, p, take);
	*filled += take;
	return take;
}

static int content_over(struct tar_reader *r, uint64_t size)
{
	r->left = TAR_PAD(size);
	r->state = TAR_IN_PAD;
	return 0;
}

/* One step; *out stays TAR_MORE where nothing is to be told. */
static int tar_step(struct tar_reader *r, const uint8_t *p, size_t n, size_t *used, enum tar_event *out)
{
	switch (r->state) {
	case TAR_IN_HEADER:
		*used = fill(r->block, &r->filled, TAR_BLOCK - r->filled, p, n);
		return r->filled == TAR_BLOCK ? block_over(r, out) : 0;
	case TAR_IN_LONG:
		*used = fill(r->text, &r->filled, (size_t)r->left, p, n);
		r->left -= *used;
		if (r->left)
			return 0;
		return long_over(r) ? -1 : content_over(r, r->filled);
	case TAR_IN_DATA:
		r->data = p;
		r->data_n = *used = r->left < n ? (size_t)r->left : n;
		r->left -= *used;
		if (*used)
			*out = TAR_DATA;
		return r->left ? 0 : content_over(r, r->entry.size);
	case TAR_IN_PAD:
		*used = r->left < n ? (size_t)r->left : n;
		r->left -= *used;
		if (r->left)
			return 0;
		r->state = TAR_IN_HEADER;
		r->filled = 0;
		if (r->content)
			*out = TAR_ENTRY_END;
		return 0;
	case TAR_AT_END: /* what fills the last record up */
		*used = n;
		return 0;
	default:
		return -1;
	}
}

int tar_read(struct tar_reader *r, const uint8_t *p, size_t n, size_t *out_used, enum tar_event *out)
{
	enum tar_state was;

	*out_used = 0;
	*out = TAR_MORE;
	do {
		size_t used = 0;

		was = r->state;
		if (tar_step(r, p + *out_used, n - *out_used, &used, out))
			return -1;
		*out_used += used;
	} while (*out == TAR_MORE && (*out_used < n || was != r->state));
	return 0;
}

/* ---- what may be unpacked */

/* In place: no "." names, no doubled slashes. NULL, or why not. */
static const char *clean_path(char *path)
{
	char *to = path;
	const char *at = path;

	if (*path == '/')
		return "a name in it is absolute";
	while (*at) {
		size_t n = strcspn(at, "/");

		if (n == 2 && memcmp(at, "..", 2) == 0)
			return "a name in it has \"..\"";
		if (n > NAME_LONGEST)
			return "a name in it has more than 255 bytes";
		if (n && !(n == 1 && *at == '.')) {
			if (to != path)
				*to++ = '/';
			memmove(to, at, n);
			to += n;
		}
		at += n;
		at += strspn(at, "/");
	}
	*to = '\0';
	return NULL;
}

/* From the directory of path on: never above the top. */
static bool leads_above(const char *path, const char *target)
{
	long depth = 0;

	for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
		depth++;
	while (*target) {
		size_t n = strcspn(target, "/");

		if (n == 2 && memcmp(target, "..", 2) == 0)
			depth--;
		else if (n && !(n == 1 && *target == '.'))
			depth++;
		if (depth < 0)
			return true;
		target += n;
		target += strspn(target, "/");
	}
	return false;
}

const char *tar_check(struct tar_entry *e)
{
	const char *why = clean_path(e->path);

	if (why)
		return why;
	if (!*e->path && e->type != TAR_DIRECTORY)
		return "a name in it is empty";
	if (e->type == TAR_FILE && e->mode & 06000)
		return "a file in it is setuid or setgid";
	if (e->type == TAR_HARDLINK && (clean_path(e->target) || !*e->target))
		return "a hard link in it leads outside";
	if (e->type == TAR_SYMLINK && (*e->target == '/' || !*e->target || leads_above(e->path, e->target)))
		return "a symbolic link in it leads outside";
	return NULL;
}

/* ---- writing */

static void put_octal(char *to, size_t size, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%0*llo", (int)size - 1, (unsigned long long)v);
	memcpy(to, text, size - 1);
}

static void put_header(uint8_t *out, const char *name, char type, const struct tar_entry *e, uint64_t size)
{
	struct header h = {0};
	char sum[16];

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	put_octal(h.mode, sizeof(h.mode), e->mode & 07777);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size <= OCTAL_SIZE ? size : 0);
	put_octal(h.mtime, sizeof(h.mtime),
		  e->mtime_s > 0 && (uint64_t)e->mtime_s <= OCTAL_SIZE ? (uint64_t)e->mtime_s : 0);
	h.type = type;
	memcpy(h.linkname, e->target, strnlen(e->target, sizeof(h.linkname)));
	memcpy(h.magic, "ustar", 6);
	memcpy(h.version, "00", 2);
	memcpy(out, &h, sizeof(h));
	snprintf(sum, sizeof(sum), "%06o", checksum(out));
	memcpy(((struct header *)(void *)out)->checksum, sum, 7); /* six digits, NUL, */
	((struct header *)(void *)out)->checksum[7] = ' ';        /* and a space */
}

/* Its own length is part of it. */
static size_t put_record(char *to, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1;

	while ((size_t)snprintf(NULL, 0, "%zu", n) + rest != n)
		n = (size_t)snprintf(NULL, 0, "%zu", n) + rest;
	return (size_t)sprintf(to, "%zu %s=%s\n", n, key, value);
}

size_t tar_write(const struct tar_entry *e, uint8_t out[TAR_HEAD_MAX])
{
	char pax[2 * TAR_PATH_MAX + 256], size[24];
	size_t n = 0, at = 0;

	if (strlen(e->path) > sizeof(((struct header *)0)->name))
		n += put_record(pax + n, "path", e->path);
	if (strlen(e->target) > sizeof(((struct header *)0)->linkname))
		n += put_record(pax + n, "linkpath", e->target);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)e->size);
	if (e->size > OCTAL_SIZE)
		n += put_record(pax + n, "size", size);
	memset(out, 0, TAR_HEAD_MAX);
	if (n) {
		struct tar_entry head = {.mode = 0644, .mtime_s = e->mtime_s};

		put_header(out, "pax", 'x', &head, n);
		memcpy(out + TAR_BLOCK, pax, n);
		at = TAR_BLOCK + n + TAR_PAD(n);
	}
	put_header(out + at, e->path, e->type, e, e->size);
	return at + TAR_BLOCK;
}
