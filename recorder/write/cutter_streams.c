/* What a terminal or an exec printed, in bytes and digests, as an audit event. */
#define LOG_SUBSYS "cutter"
#include "base/json.h"
#include "base/log.h"
#include "recorder/chain/chain_text.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a stream, and their digest: none where the journal lacks some of them. */
static void put_stream(json_t *detail, const struct builder *b, unsigned stream, const char *bytes, const char *sha256)
{
	uint8_t digest[32];
	char hex[2 * sizeof digest + 1];

	json_object_set_new(detail, bytes, json_integer((json_int_t)builder_offset(b, stream)));
	if (!sha256 || builder_digest(b, stream, digest))
		return;
	chain_hex(digest, sizeof digest, hex);
	json_object_set_new(detail, sha256, json_string(hex));
}

/* What is typed is short enough to be guessed: of input the count alone. */
static json_t *streams_event(const struct cut_session *s, const struct part *p)
{
	char id[ID_STR_LEN];
	json_t *detail;

	id_format(&s->id, id);
	detail = json_pack("{s:s}", "session", id);
	if (!detail)
		return NULL;
	put_stream(detail, s->b, STREAM_INPUT, "stdin_bytes", NULL);
	put_stream(detail, s->b, STREAM_OUTPUT, "stdout_bytes", "stdout_sha256");
	put_stream(detail, s->b, STREAM_STDERR, "stderr_bytes", "stderr_sha256");
	return json_pack("{s:s, s:s, s:s, s:s, s:o}", "event", "session.streams", "outcome", "ok", "principal",
			 "recorder", "agent", p->agent, "detail", detail);
}

void cut_tell_streams(struct cutter *c, const struct cut_session *s)
{
	static const struct id nobody;
	struct part p;
	json_t *o;
	char *text;

	builder_part(s->b, &p);
	if (strcmp(p.kind, "terminal") != 0 && strcmp(p.kind, "exec") != 0)
		return; /* the hub told of the others */
	o = streams_event(s, &p);
	text = o ? json_text(o) : NULL;
	if (!text || drain_append_own(c->p.drain, RING_AUDIT, &nobody, text))
		log_error(NULL, "the digests of a session that ended are in its recording, and could not be audited");
	free(text);
	json_decref(o);
}
