#include "recorder/format/summary.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/record_rule.h"

#include <stdlib.h>

#define SIZES_MAX    1000
#define SIZES_READ   64
#define EXACT_BLOCKS 8 /* up to so many, events are counted one by one */

struct timeline {
	uint64_t first, step;
	size_t n;
	uint64_t in[SUMMARY_STEPS], out[SUMMARY_STEPS];
};

static void timeline_init(struct timeline *t, uint64_t first, uint64_t last)
{
	uint64_t span = last > first ? last - first : 1;

	*t = (struct timeline){.first = first, .step = span / SUMMARY_STEPS + 1};
	t->n = (size_t)(span / t->step) + 1;
	if (t->n > SUMMARY_STEPS)
		t->n = SUMMARY_STEPS;
}

static size_t step_of(const struct timeline *t, uint64_t at)
{
	size_t i = at > t->first ? (size_t)((at - t->first) / t->step) : 0;

	return i < t->n ? i : t->n - 1;
}

/* What a block holds is spread over the time that it covers. */
static void spread(struct timeline *t, uint64_t *to, const struct block_header *h, uint64_t bytes)
{
	size_t from = step_of(t, h->first_ns), last = step_of(t, h->last_ns);
	size_t n = last > from ? last - from + 1 : 1; /* clocks that went back: all of it in the first */
	uint64_t each = bytes / n;

	for (size_t i = 0; i < n; i++)
		to[from + i] += each;
	to[from] += bytes - each * n;
}

static json_t *numbers(const uint64_t *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; a && i < n; i++)
		json_array_append_new(a, json_integer((json_int_t)v[i]));
	return a;
}

static uint64_t moved(const struct block_header *h, const struct recording_info *info, const struct block_header *next,
		      unsigned stream)
{
	uint64_t end = next ? next->offset[stream] : info->streams[stream].total;

	return end > h->offset[stream] ? end - h->offset[stream] : 0;
}

static json_t *nanoseconds(uint64_t ns)
{
	return json_sprintf("%llu", (unsigned long long)ns);
}

static void by_blocks(struct timeline *t, const struct recording *r, const struct recording_info *info)
{
	const struct block_header *h;

	for (size_t i = 0; (h = recording_block(r, i)); i++) {
		const struct block_header *next = recording_block(r, i + 1);

		spread(t, t->in, h, moved(h, info, next, STREAM_INPUT));
		spread(t, t->out, h, moved(h, info, next, STREAM_OUTPUT) + moved(h, info, next, STREAM_STDERR));
	}
}

static int by_events(struct timeline *t, struct recording *r, struct err *e)
{
	struct ring_record rec;
	int rc = recording_rewind(r, e);

	if (rc)
		return rc;
	while ((rc = recording_next(r, &rec, e)) == 1)
		(rec.stream == STREAM_INPUT ? t->in : t->out)[step_of(t, rec.boot_ns)] += event_extent(&rec);
	return rc;
}

static json_t *timeline_json(struct recording *r, const struct recording_info *info, struct err *e)
{
	struct timeline *t = malloc(sizeof(*t));
	json_t *o = NULL;
	int rc = 0;

	if (!t)
		return NULL;
	timeline_init(t, info->first_ns, info->last_ns);
	if (info->blocks <= EXACT_BLOCKS)
		rc = by_events(t, r, e);
	else
		by_blocks(t, r, info);
	if (rc == 0)
		o = json_pack("{s:I, s:o, s:o}", "step_ns", (json_int_t)t->step, "input", numbers(t->in, t->n),
			      "output", numbers(t->out, t->n));
	free(t);
	return o;
}

struct sizes {
	json_t *list;
	unsigned cols, rows;
	size_t read; /* blocks that were looked into */
};

static void sizes_add(struct sizes *s, uint64_t ns, unsigned cols, unsigned rows)
{
	if (!cols || (cols == s->cols && rows == s->rows) || json_array_size(s->list) >= SIZES_MAX)
		return;
	s->cols = cols;
	s->rows = rows;
	json_array_append_new(
	    s->list, json_pack("{s:o, s:i, s:i}", "at_ns", nanoseconds(ns), "cols", (int)cols, "rows", (int)rows));
}

/* When within a block; what cannot be read is left to whoever plays it. */
static void sizes_of_block(struct sizes *s, struct recording *r, const struct block_header *h)
{
	struct ring_record rec;

	if (recording_seek_seq(r, h->first_seq ? h->first_seq - 1 : 0, NULL))
		return;
	while (recording_next(r, &rec, NULL) == 1 && rec.seq <= h->last_seq)
		if (rec.type == RING_RESIZE && rec.len >= 4 && rec.seq >= h->first_seq)
			sizes_add(s, rec.boot_ns, get_u16(rec.payload), get_u16(rec.payload + 2));
}

/* Short recordings are read; of long ones blocks that end with another size than they begin with, SIZES_READ of them.
 */
static json_t *sizes_json(struct recording *r, size_t blocks)
{
	struct sizes s = {.list = json_array()};
	const struct block_header *h, *next;

	for (size_t i = 0; s.list && (h = recording_block(r, i)); i++) {
		next = recording_block(r, i + 1);
		sizes_add(&s, h->first_ns, h->cols, h->rows);
		if (blocks > EXACT_BLOCKS && (!next || (next->cols == h->cols && next->rows == h->rows)))
			continue;
		if (s.read++ < SIZES_READ)
			sizes_of_block(&s, r, h);
	}
	return s.list;
}

static json_t *streams_json(const struct recording_info *info)
{
	json_t *a = json_array();

	for (unsigned i = 0; a && i < STREAM_COUNT; i++)
		json_array_append_new(a, json_pack("{s:s, s:I, s:I, s:I}", "name", event_stream_name(i), "total",
						   (json_int_t)info->streams[i].total, "omitted",
						   (json_int_t)info->streams[i].omitted, "missing",
						   (json_int_t)info->streams[i].missing));
	return a;
}

int summary_make(struct recording *r, json_t **out, struct err *e)
{
	const struct recording_info *info = recording_info(r);
	char wall[40];
	json_t *exit = NULL, *o;

	clock_format_utc(info->wall_ns, wall, sizeof(wall));
	if (info->exit_json)
		(void)json_parse(info->exit_json, strlen(info->exit_json), RING_RECORD_MAX, &exit, NULL);
	o = json_pack("{s:o, s:o, s:s, s:I, s:I, s:o?, s:s, s:o, s:o, s:o}", "first_ns", nanoseconds(info->first_ns),
		      "last_ns", nanoseconds(info->last_ns), "wall_at", wall, "events", (json_int_t)info->events,
		      "file_size", (json_int_t)info->file_size, "exit", exit, "rule",
		      record_rule_kind_name(info->rule.kind), "streams", streams_json(info), "timeline",
		      timeline_json(r, info, e), "sizes", sizes_json(r, info->blocks));
	if (!o)
		return err_set(e, ERR_NOMEM, "no memory for a summary");
	*out = o;
	return 0;
}
