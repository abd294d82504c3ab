#include "base/events.h"

#include "base/err.h"

#include <string.h>

#define RETRY_DIGITS 9

void events_init(struct events *v, size_t max)
{
	*v = (struct events){.retry_ms = -1};
	buf_init(&v->line, max);
	buf_init(&v->data, max);
}

void events_finish(struct events *v)
{
	buf_finish(&v->line);
	buf_finish(&v->data);
}

/* One that could not stand in a field of a request is none. */
static void take_id(struct events *v, const char *p, size_t n)
{
	v->named = true;
	v->next_id[0] = '\0';
	if (n >= sizeof(v->next_id))
		return;
	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' || p[i] > '~')
			return;
	memcpy(v->next_id, p, n);
	v->next_id[n] = '\0';
}

static void take_retry(struct events *v, const char *p, size_t n)
{
	int64_t ms = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || n > RETRY_DIGITS)
			return;
		ms = ms * 10 + (p[i] - '0');
	}
	if (n)
		v->retry_ms = ms;
}

static bool is_field(const char *p, size_t n, const char *name)
{
	return n == strlen(name) && memcmp(p, name, n) == 0;
}

static int take_field(struct events *v, const char *p, size_t n)
{
	const char *colon = memchr(p, ':', n);
	size_t name = colon ? (size_t)(colon - p) : n, skip = name + (colon != NULL);
	const char *value;
	int rc = 0;

	skip += skip < n && p[skip] == ' ';
	value = p + skip;
	n -= skip;
	if (is_field(p, name, "data")) {
		rc = buf_append(&v->data, value, n);
		rc = rc ? rc : buf_append(&v->data, "\n", 1);
	} else if (is_field(p, name, "event")) {
		v->other = n && !is_field(value, n, "message");
	} else if (is_field(p, name, "id")) {
		take_id(v, value, n);
	} else if (is_field(p, name, "retry")) {
		take_retry(v, value, n);
	}
	return rc;
}

static int event_over(struct events *v, events_fn *fn, void *arg)
{
	size_t n = buf_len(&v->data);
	bool tells = n && !v->other;
	int rc;

	if (v->named)
		memcpy(v->id, v->next_id, sizeof(v->id));
	v->named = v->other = false;
	rc = tells ? fn(arg, (char *)v->data.data + v->data.off, n - 1) : 0;
	buf_clear(&v->data);
	return rc;
}

static int events_take_line(struct events *v, events_fn *fn, void *arg)
{
	const char *p = (const char *)buf_ptr(&v->line);
	size_t n = buf_len(&v->line), mark = !v->begun && n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	int rc;

	v->begun = true;
	rc = n > mark ? take_field(v, p + mark, n - mark) : event_over(v, fn, arg);
	buf_clear(&v->line);
	return rc;
}

int events_feed(struct events *v, const void *bytes, size_t n, events_fn *fn, void *arg)
{
	const char *p = bytes, *end = p + n;
	int rc = 0;

	while (rc == 0 && p < end) {
		const char *stop = p;

		if (v->cr && *p == '\n') {
			v->cr = false;
			p++;
			continue;
		}
		v->cr = false;
		while (stop < end && *stop != '\n' && *stop != '\r')
			stop++;
		rc = buf_append(&v->line, p, (size_t)(stop - p));
		if (rc || stop == end)
			return rc;
		v->cr = *stop == '\r';
		p = stop + 1;
		rc = events_take_line(v, fn, arg);
	}
	return rc;
}
