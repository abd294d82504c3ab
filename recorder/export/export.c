#include "recorder/export/export.h"

#include "base/err.h"
#include "base/json.h"
#include "recorder/export/export_out.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"

#include <string.h>

static const char *const formats[] = {
    [EXPORT_ASCIICAST_V2] = "asciicast-v2",
    [EXPORT_ASCIICAST_V3] = "asciicast-v3",
    [EXPORT_TEXT] = "text",
    [EXPORT_JSON] = "json",
    [EXPORT_RAW] = "raw",
};
static const char *const streams[] = {
    [EXPORT_DEFAULT] = "",      [EXPORT_OUTPUT] = "output", [EXPORT_INPUT] = "input",
    [EXPORT_STDOUT] = "stdout", [EXPORT_STDERR] = "stderr",
};

int export_format_parse(const char *s, enum export_format *out, struct err *e)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		if (strcmp(s, formats[i]) == 0) {
			*out = (enum export_format)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "unknown format: use asciicast-v2, asciicast-v3, text, json or raw");
}

int export_stream_parse(const char *s, enum export_stream *out, struct err *e)
{
	for (size_t i = 1; i < sizeof streams / sizeof *streams; i++) {
		if (strcmp(s, streams[i]) == 0) {
			*out = (enum export_stream)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "unknown stream: use output, input, stdout or stderr");
}

static int one_event(struct export *x, struct export_text *text, const struct ring_record *rec, struct err *e)
{
	bool stream = rec->type == RING_DATA || rec->type == EVENT_GAP || rec->type == EVENT_MISSING;

	if (!x->begun && rec->type != RING_OPEN)
		return err_set(e, ERR_CORRUPT, "the events do not begin with an OPEN record");
	if (rec->stream >= STREAM_COUNT)
		return err_set(e, ERR_CORRUPT, "an event names stream %u", rec->stream);
	export_count(x, rec);
	if (stream && !export_wants(x, rec->stream))
		return 0;
	switch (x->options->format) {
	case EXPORT_TEXT:
		return export_text_event(text, rec, e);
	case EXPORT_JSON:
		return export_json_event(x, rec, e);
	case EXPORT_RAW:
		return rec->type == RING_DATA ? buf_append(&x->out, rec->payload, rec->len) : 0;
	default:
		return export_cast_event(x, rec, e);
	}
}

static int export_end(struct export *x, struct export_text *text, struct err *e)
{
	int rc = 0;

	if (!x->begun)
		return err_set(e, ERR_CORRUPT, "there are no events");
	if (x->options->format == EXPORT_TEXT)
		rc = export_text_end(text, e);
	else if (x->options->format == EXPORT_ASCIICAST_V2 || x->options->format == EXPORT_ASCIICAST_V3)
		rc = export_cast_end(x, e);
	return rc ? rc : export_flush(x, true, e);
}

int export_run(const struct export_source *src, const struct export_options *o, export_write *write, void *arg,
	       struct export_result *out, struct err *e)
{
	struct export x = {.options = o, .write = write, .arg = arg};
	struct export_text *text = NULL;
	struct ring_record rec;
	struct err why = {0};
	int rc = 0;

	buf_init(&x.out, EXPORT_OUT_MAX);
	if (o->format == EXPORT_TEXT)
		rc = export_text_create(&x, &text);
	while (!rc && (rc = src->next(src->arg, &rec, &why)) == 1) {
		rc = one_event(&x, text, &rec, &why);
		if (!rc)
			rc = export_flush(&x, false, &why);
	}
	if (!rc)
		rc = export_end(&x, text, &why);
	if (rc)
		err_set(e, rc, "%s", why.code ? why.message : "no memory for an export");
	else
		*out = x.result;
	export_text_destroy(text);
	json_decref(x.open);
	buf_finish(&x.out);
	return rc;
}

static int next_of_recording(void *arg, struct ring_record *out, struct err *e)
{
	return recording_next(arg, out, e);
}

void export_recording_source(struct recording *r, struct export_source *out)
{
	out->next = next_of_recording;
	out->arg = r;
}
