#include "recorder/draw/drawing.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "muxd/screen/frame.h"
#include "recorder/format/recording.h"

#include <string.h>

/* Of the OPEN: is it a terminal, and how large at its beginning? */
static bool terminal(const struct recording *r, uint16_t *out_cols, uint16_t *out_rows)
{
	const char *open = recording_info(r)->open_json;
	int64_t cols = 0, rows = 0;
	bool pty = false;
	json_t *o = NULL;

	if (json_parse(open, strlen(open), RING_RECORD_MAX, &o, NULL) == 0) {
		(void)json_opt_bool(o, "pty", &pty, NULL);
		(void)json_opt_int(o, "cols", 0, UINT16_MAX, &cols, NULL);
		(void)json_opt_int(o, "rows", 0, UINT16_MAX, &rows, NULL);
	}
	json_decref(o);
	*out_cols = cols ? (uint16_t)cols : 80;
	*out_rows = rows ? (uint16_t)rows : 24;
	return pty;
}

bool drawing_worth(const struct recording *r)
{
	const struct recording_info *info = recording_info(r);
	uint16_t cols, rows;

	return info->sealed && info->streams[STREAM_OUTPUT].kept >= 2 * DRAWING_SPACING && terminal(r, &cols, &rows);
}

int drawing_begin(struct drawing *d, struct recording *r, struct drawers *from, struct err *e)
{
	uint16_t cols, rows;

	*d = (struct drawing){.recording = r};
	(void)terminal(r, &cols, &rows);
	int rc = drawer_begin(&d->worker, from, cols, rows, e);
	if (rc == 0)
		rc = drawer_version(&d->worker, d->version, e);
	/* Nothing of the recording was drawn yet: what ended the worker was not that. */
	return rc == ERR_EOF ? err_set(e, ERR_UNAVAILABLE, "the screen worker ended before it drew anything") : rc;
}

void drawing_end(struct drawing *d)
{
	drawer_end(&d->worker);
}

/* The screen as it is after the last event. One that is too large to draw is left out. */
static int shoot(struct drawing *d, struct keyframe *out, const uint8_t **data, struct err *e)
{
	static const uint8_t tag[4];
	struct screen_frame f;
	int rc = drawer_tell(&d->worker, SCREEN_SHOOT, tag, sizeof(tag), NULL, 0);

	if (rc == 0)
		rc = drawer_hear(&d->worker, &f);
	if (rc || f.type != SCREEN_SHOT || f.len < SCREEN_SHOT_HEAD)
		return err_set(e, ERR_EOF, "the worker has ended");
	d->heard = true;
	d->since = 0;
	*out = (struct keyframe){.ns = d->ns,
				 .seq = d->seq,
				 .offset = get_u64(f.payload + 4),
				 .cols = get_u16(f.payload + 12),
				 .rows = get_u16(f.payload + 14),
				 .len = (uint32_t)(f.len - SCREEN_SHOT_HEAD)};
	*data = f.payload + SCREEN_SHOT_HEAD;
	return 1;
}

static int drawing_show(struct drawing *d, struct err *e)
{
	const struct ring_record *rec = &d->next;

	if (drawer_show(&d->worker, rec))
		return err_set(e, ERR_EOF, "the worker has ended");
	if (rec->type == RING_DATA && rec->stream == STREAM_OUTPUT)
		d->since += rec->len;
	d->ns = rec->boot_ns;
	d->seq = rec->seq;
	d->pending = false;
	return 1;
}

int drawing_step(struct drawing *d, struct keyframe *out, const uint8_t **data, struct err *e)
{
	int rc;

	if (d->heard)
		drawer_taken(&d->worker);
	d->heard = false;
	*out = (struct keyframe){0};
	if (!d->pending && (rc = recording_next(d->recording, &d->next, e)) != 1)
		return rc;
	d->pending = true;
	/* All events of a sequence belong on one side of a screen: it is taken before the next sequence begins. */
	return d->since >= DRAWING_SPACING && d->next.seq != d->seq ? shoot(d, out, data, e) : drawing_show(d, e);
}
