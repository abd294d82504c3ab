#include "recorder/export/export.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/record_rule.h"
#include "recorder/chain/chain_text.h"
#include "recorder/export/export_out.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

#include <string.h>

/* One JSON object a line for each event; bytes as text where they are text, else as base64. Nothing is left out. */

static int set_gap(json_t *o, const struct ring_record *rec)
{
	char sha[65];
	struct event_gap g;

	if (event_gap_decode(rec, &g))
		return ERR_CORRUPT;
	chain_hex(g.sha256, sizeof g.sha256, sha);
	return json_object_set_new(o, "bytes", json_integer((json_int_t)g.bytes)) |
		       json_object_set_new(o, "sha256_to_end", json_string(sha)) |
		       json_object_set_new(o, "rule",
					   json_string(g.rule <= RULE_METADATA
							   ? record_rule_kind_name((enum conf_rule_kind)g.rule)
							   : "unknown"))
		   ? ERR_NOMEM
		   : 0;
}

/* A payload that should be JSON; one that is not is shown as bytes. */
static int set_body(json_t *o, const struct ring_record *rec)
{
	json_t *body = NULL;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &body, NULL))
		return json_set_bytes(o, "data", "encoding", rec->payload, rec->len);
	return json_object_set_new(o, "body", body) ? ERR_NOMEM : 0;
}

static int set_stream(json_t *o, const struct ring_record *rec)
{
	return json_object_set_new(o, "stream", json_string(event_stream_name(rec->stream))) |
		       json_object_set_new(o, "offset", json_integer((json_int_t)rec->offset))
		   ? ERR_NOMEM
		   : 0;
}

static int set_size(json_t *o, const struct ring_record *rec)
{
	if (rec->len < 4)
		return ERR_CORRUPT;
	return json_object_set_new(o, "cols", json_integer(get_u16(rec->payload))) |
		       json_object_set_new(o, "rows", json_integer(get_u16(rec->payload + 2)))
		   ? ERR_NOMEM
		   : 0;
}

static int set_count(json_t *o, const struct ring_record *rec)
{
	if (rec->len < 8)
		return ERR_CORRUPT;
	return json_object_set_new(o, "bytes", json_integer((json_int_t)get_u64(rec->payload))) ? ERR_NOMEM : 0;
}

static int set_special(json_t *o, const struct ring_record *rec)
{
	int rc = 0;

	switch (rec->type) {
	case RING_DATA:
		rc = set_stream(o, rec);
		if (!rc && (rec->flags & RING_MASKED))
			rc = json_object_set_new(o, "masked", json_true());
		return rc ? rc : json_set_bytes(o, "data", "encoding", rec->payload, rec->len);
	case EVENT_GAP:
		rc = set_stream(o, rec);
		return rc ? rc : set_gap(o, rec);
	case EVENT_MISSING:
		rc = set_stream(o, rec);
		return rc ? rc : set_count(o, rec);
	case RING_RESIZE:
		return set_size(o, rec);
	case RING_SECRET:
		return set_count(o, rec);
	default:
		return set_body(o, rec);
	}
}

static int export_json_event(struct export *x, const struct ring_record *rec, struct err *e)
{
	char time[40], session[ID_STR_LEN];
	json_t *o;
	int rc;

	clock_format_utc(export_wall(x, rec->boot_ns), time, sizeof time);
	o = json_pack("{s:s, s:I, s:s, s:I}", "type", event_type_name(rec->type), "seq", (json_int_t)rec->seq, "time",
		      time, "boot_ns", (json_int_t)rec->boot_ns);
	rc = o ? 0 : ERR_NOMEM;
	if (!rc && rec->type == RING_OPEN) {
		id_format(&rec->session, session);
		rc = json_object_set_new(o, "session", json_string(session)) ? ERR_NOMEM : 0;
	}
	if (!rc)
		rc = set_special(o, rec);
	if (!rc)
		rc = json_append(&x->out, o);
	if (!rc)
		rc = buf_append(&x->out, "\n", 1);
	json_decref(o);
	return rc ? err_set(e, rc, "an event of type %u cannot be written as JSON (%s)", rec->type, err_name(rc)) : 0;
}

/* ---- a recording in any of the formats */

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
	case EXPORT_ASCIICAST_V2:
	case EXPORT_ASCIICAST_V3:
		return export_cast_event(x, rec, e);
	case EXPORT_FORMATS:
		break;
	}
	return err_set(e, ERR_INVAL, "there is no format %u of exports", (unsigned)x->options->format);
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
