/* An export in the making: which streams it takes, its times, its counts, and the bytes that wait to be handed on. */
#include "recorder/export/export_out.h"

#include "recorder/format/event.h"

#define FLUSH_AT (64 * 1024)

bool export_wants(const struct export *x, unsigned stream)
{
	switch (x->options->stream) {
	case EXPORT_OUTPUT:
		return stream != STREAM_INPUT;
	case EXPORT_INPUT:
		return stream == STREAM_INPUT;
	case EXPORT_STDOUT:
		return stream == STREAM_OUTPUT;
	case EXPORT_STDERR:
		return stream == STREAM_STDERR;
	default:
		return stream != STREAM_INPUT ||
		       (x->options->format != EXPORT_TEXT && x->options->format != EXPORT_RAW);
	}
}

int64_t export_wall(const struct export *x, uint64_t boot_ns)
{
	return (int64_t)((uint64_t)x->anchor_wall + (boot_ns - x->anchor_ns));
}

int export_flush(struct export *x, bool all, struct err *e)
{
	size_t n = buf_len(&x->out);
	int rc = 0;

	if (!n || (!all && n < FLUSH_AT))
		return 0;
	rc = x->write(x->arg, buf_ptr(&x->out), n, e);
	if (!rc) {
		x->result.written += n;
		buf_clear(&x->out);
	}
	return rc;
}

static void take_wall(struct export *x, const struct ring_record *rec)
{
	json_t *o = NULL;
	int64_t wall = 0;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	if (json_need_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0) {
		x->anchor_ns = rec->boot_ns;
		x->anchor_wall = wall;
	}
	if (rec->type == RING_OPEN && !x->open)
		x->open = json_incref(o);
	json_decref(o);
}

void export_count(struct export *x, const struct ring_record *rec)
{
	x->result.events++;
	if (rec->type == EVENT_GAP && export_wants(x, rec->stream)) {
		x->result.gaps++;
		x->result.gap_bytes += event_extent(rec);
	}
	if (rec->type == EVENT_MISSING && export_wants(x, rec->stream))
		x->result.missing_bytes += event_extent(rec);
	if (rec->type == RING_EXIT)
		x->result.ended = true;
	if (rec->type == RING_OPEN && !x->begun) {
		x->begun = true;
		x->open_ns = x->anchor_ns = rec->boot_ns;
	}
	if (rec->type == RING_OPEN || rec->type == RING_CLOCK)
		take_wall(x, rec);
}
