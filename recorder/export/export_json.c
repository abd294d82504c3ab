/* One JSON object a line for each event; bytes as text where they are text, else as base64. Nothing is left out. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/chain_text.h"
#include "recorder/export/export_out.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

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
							   ? trunc_rule_name((enum conf_rule_kind)g.rule)
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

int export_json_event(struct export *x, const struct ring_record *rec, struct err *e)
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
