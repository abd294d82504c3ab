#include "files/syncrec.h"

#include "base/relpath.h"

#include <string.h>

static uint8_t *put_number(uint8_t *p, uint64_t v, unsigned bytes)
{
	while (bytes--) {
		*p++ = (uint8_t)v;
		v >>= 8;
	}
	return p;
}

static uint64_t syncrec_take_number(const uint8_t **p, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = bytes; i-- > 0;)
		v = v << 8 | (*p)[i];
	*p += bytes;
	return v;
}

void syncrec_head(const struct syncrec *r, uint8_t out[SYNCREC_HEAD])
{
	uint8_t *p = out;

	memset(out, 0, SYNCREC_HEAD);
	p = put_number(p, r->kind, 1);
	p = put_number(p, r->executable, 1);
	p = put_number(p, r->path_len, 2);
	p = put_number(p, r->why, 2);
	p = put_number(p, r->used_kib, 2);
	p = put_number(p, r->st.size, 8);
	p = put_number(p, r->st.inode, 8);
	p = put_number(p, (uint64_t)r->st.mtime_ns, 8);
	p = put_number(p, (uint64_t)r->st.ctime_ns, 8);
	p = put_number(p, r->content, 8);
	memcpy(p, r->sha256, SYNCREC_SHA_LEN);
}

static void head_in(const uint8_t *p, struct syncrec *r)
{
	r->kind = (uint8_t)syncrec_take_number(&p, 1);
	r->executable = syncrec_take_number(&p, 1) & 1;
	r->path_len = (uint16_t)syncrec_take_number(&p, 2);
	r->why = (uint16_t)syncrec_take_number(&p, 2);
	r->used_kib = (uint16_t)syncrec_take_number(&p, 2);
	r->st.size = syncrec_take_number(&p, 8);
	r->st.inode = syncrec_take_number(&p, 8);
	r->st.mtime_ns = (int64_t)syncrec_take_number(&p, 8);
	r->st.ctime_ns = (int64_t)syncrec_take_number(&p, 8);
	r->content = syncrec_take_number(&p, 8);
	memcpy(r->sha256, p, SYNCREC_SHA_LEN);
}

static bool is_kind(uint8_t k)
{
	return k && strchr("fwcdrs", k);
}

static const char *head_wrong(const struct syncrec_reader *s)
{
	const struct syncrec *r = &s->r;

	if (!is_kind(r->kind))
		return "a record is of no kind";
	if (!r->path_len || r->path_len >= SYNCREC_PATH_MAX)
		return "a path is empty or has more than 4,095 bytes";
	if (r->content && r->kind != SYNCREC_CONTENT)
		return "a record has a content that has none";
	return r->content > s->content_max ? "a content is larger than was asked for" : NULL;
}

/* Bytes of p that belong to what is being filled, of want in all. */
static size_t fill(struct syncrec_reader *s, void *to, size_t want, const uint8_t *p, size_t n)
{
	size_t take = want - s->filled < n ? want - s->filled : n;

	if (take)
		memcpy((uint8_t *)to + s->filled, p, take);
	s->filled += take;
	return take;
}

static int path_step(struct syncrec_reader *s, const uint8_t *p, size_t n, size_t *out_used, enum syncrec_event *out)
{
	struct syncrec *r = &s->r;

	*out_used = fill(s, r->path, r->path_len, p, n);
	if (s->filled < r->path_len)
		return 0;
	r->path[r->path_len] = '\0';
	s->why = relpath_check(r->path, r->path_len);
	if (s->why)
		return -1;
	s->in_path = false;
	s->filled = 0;
	s->in_content = r->kind == SYNCREC_CONTENT;
	s->left = r->content;
	*out = SYNCREC_RECORD;
	return 0;
}

static int content_step(struct syncrec_reader *s, const uint8_t *p, size_t n, size_t *out_used, enum syncrec_event *out)
{
	size_t take = s->left < n ? (size_t)s->left : n;

	if (!s->left) {
		s->in_content = false;
		*out = SYNCREC_DATA_END;
		return 0;
	}
	if (!take)
		return 0;
	s->data = p;
	s->data_n = take;
	s->left -= take;
	*out_used = take;
	*out = SYNCREC_DATA;
	return 0;
}

int syncrec_read(struct syncrec_reader *s, const uint8_t *p, size_t n, size_t *out_used, enum syncrec_event *out)
{
	size_t used = 0;
	int rc;

	*out = SYNCREC_MORE;
	*out_used = 0;
	if (s->in_content)
		return content_step(s, p, n, out_used, out);
	if (!s->in_path) {
		used = fill(s, s->head, SYNCREC_HEAD, p, n);
		*out_used = used;
		if (s->filled < SYNCREC_HEAD)
			return 0;
		head_in(s->head, &s->r);
		s->why = head_wrong(s);
		if (s->why)
			return -1;
		s->filled = 0;
		s->in_path = true;
	}
	rc = path_step(s, p + used, n - used, out_used, out);
	*out_used += used;
	return rc;
}

bool syncrec_between(const struct syncrec_reader *s)
{
	return !s->in_path && !s->in_content && !s->filled;
}
