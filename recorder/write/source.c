#include "recorder/write/source.h"

#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"
#include "recorder/write/follower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct source {
	struct source_place p;
	struct source_info info;
	struct recording *recording; /* not NULL: reading from it */
	struct follower *follower;
	uint64_t seq;  /* last event handed out */
	uint64_t skip; /* events of the recording up to it were handed out before */
	uint64_t lsn;  /* next expected from the log; 0 = any */
	uint64_t gaps; /* what the log lacks before it was asked of the recording: gone, or in no recording yet */
	uint64_t from_ns;
	struct trunc_rule rule;
	bool ruled;
	uint8_t gap[EVENT_GAP_SIZE];
};

static int info_fill(struct source *s, const char *open, struct err *e)
{
	const char *agent = "", *principal = "";
	json_t *o = NULL;

	free(s->info.open);
	s->info.open = strdup(open ? open : "{}");
	if (!s->info.open)
		return err_set(e, ERR_NOMEM, "out of memory");
	if (json_parse(s->info.open, strlen(s->info.open), RING_RECORD_MAX, &o, NULL) == 0) {
		(void)json_opt_str(o, "agent", &agent, NULL);
		(void)json_opt_str(o, "principal", &principal, NULL);
	}
	text_put(s->info.agent, sizeof(s->info.agent), agent);
	text_put(s->info.principal, sizeof(s->info.principal), principal);
	json_decref(o);
	return 0;
}

/* The recording as it is now: sealed, or as far as it is cut. ERR_NOT_FOUND. */
static int open_recording(struct source *s, struct err *e)
{
	int rc = recording_open_found(s->p.dir, &s->info.session, NULL, &s->recording, e);

	if (rc)
		return rc;
	const struct recording_info *info = recording_info(s->recording);
	s->info.sealed = info->sealed;
	if (info->sealed) {
		for (int i = 0; i < STREAM_COUNT; i++)
			s->info.totals[i] = info->streams[i].total;
	}
	return s->info.open ? 0 : info_fill(s, info->open_json, e);
}

static int open_log(struct source *s, uint64_t segment, struct err *e)
{
	struct index_cursor from = {.segment = segment};
	follower_destroy(s->follower);
	s->follower = NULL;
	s->lsn = 0;
	return follower_create(s->p.segments_fd, &from, &s->follower, e);
}

static int oldest_segment(const struct source *s, uint64_t *out, struct err *e)
{
	uint64_t *list;
	size_t n;
	int rc = segment_list(s->p.segments_fd, &list, &n, e);
	if (rc)
		return rc;
	*out = n ? list[0] : 0;
	free(list);
	return 0;
}

/* Not sealed: from the log when its beginning is still there, else from the recording first. */
static int open_unsealed(struct source *s, struct err *e)
{
	uint64_t oldest, lsn, segment;
	struct index_cursor cursor;

	int rc = oldest_segment(s, &oldest, e);
	if (rc)
		return rc;
	rc = index_session_start(s->p.index, &s->info.session, &lsn, &segment, e);
	if (rc == ERR_NOT_FOUND) {
		/* So new that the cutter has not come to it. */
		rc = index_cursor(s->p.index, &cursor, e);
		segment = cursor.segment;
	}
	if (rc)
		return rc;
	if (segment >= oldest && segment)
		return open_log(s, segment, e);
	rc = open_recording(s, e);
	/* CORRUPT: its head is just being written. */
	return rc == 0 || rc == ERR_NOT_FOUND || rc == ERR_CORRUPT ? open_log(s, oldest, e) : rc;
}

static int info_row(void *arg, json_t *o)
{
	struct source *s = arg;
	json_t *open = json_object_get(o, "open");
	char *text = open ? json_text(open) : NULL;
	int rc = info_fill(s, text, NULL);
	free(text);
	for (size_t i = 0; i < STREAM_COUNT; i++)
		s->info.totals[i] = (uint64_t)json_integer_value(json_array_get(json_object_get(o, "offsets"), i));
	const char *state = json_string_value(json_object_get(o, "state"));
	s->info.sealed = state && strcmp(state, "open") != 0 && strcmp(state, "ended") != 0;
	return rc == 0 && state && strcmp(state, "expired") == 0 ? ERR_ENDED : rc;
}

static int find_row(struct source *s, const char *session, struct err *e)
{
	struct index_filter f = {.session = session, .limit = 1};
	int rc = index_sessions(s->p.index, &f, info_row, s, e);

	return rc == ERR_ENDED
		   ? err_set(e, ERR_NOT_FOUND, "the recording of session %s is gone: its time was over", session)
		   : rc;
}

/* The live table is ahead of the index. *out: it has the session. */
static int find_live(struct source *s, bool *out, struct err *e)
{
	struct live_session live;
	int rc;

	*out = live_get(s->p.live, &s->info.session, &live) == 0;
	if (!*out)
		return 0;
	memcpy(s->info.totals, live.offsets, sizeof(s->info.totals));
	rc = s->info.open && !live.open ? 0 : info_fill(s, live.open, e);
	live_session_finish(&live);
	return rc;
}

static int source_find(struct source *s, struct err *e)
{
	char text[ID_STR_LEN];
	bool live = false;

	id_format(&s->info.session, text);
	int rc = find_row(s, text, e);
	if (rc == 0 && !s->info.sealed)
		rc = find_live(s, &live, e);
	/* A short one may have come into the index and gone from the live table between these two looks. */
	if (rc == 0 && !s->info.sealed && !live)
		rc = find_row(s, text, e);
	if (rc == 0 && !s->info.open)
		rc = err_set(e, ERR_NOT_FOUND, "there is no session %s in the record", text);
	return rc;
}

int source_create(const struct source_place *p, const struct id *session, struct source **out, struct err *e)
{
	struct source *s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ERR_NOMEM, "out of memory");
	s->p = *p;
	s->info.session = *session;
	int rc = source_find(s, e);
	if (rc == 0)
		rc = s->info.sealed ? open_recording(s, e) : open_unsealed(s, e);
	if (rc) {
		source_destroy(s);
		return rc;
	}
	*out = s;
	return 0;
}

void source_destroy(struct source *s)
{
	if (!s)
		return;
	recording_close(s->recording);
	follower_destroy(s->follower);
	free(s->info.open);
	free(s);
}

const struct source_info *source_info(const struct source *s)
{
	return &s->info;
}

void source_set_rule(struct source *s, const struct trunc_rule *rule)
{
	s->rule = *rule;
	s->ruled = true;
}

/* From the recording: 1, 0 = it ends here and the log goes on, or it was sealed. */
static int next_recorded(struct source *s, struct ring_record *out, struct err *e)
{
	int rc;
	while ((rc = recording_next(s->recording, out, e)) == 1) {
		/* Events that were made from one record share its sequence. */
		if (out->seq > s->skip || s->skip == 0)
			return 1;
	}
	if (rc == ERR_CORRUPT && !s->info.sealed)
		rc = 0; /* the last block is just being written */
	if (rc)
		return rc;
	if (s->info.sealed) {
		s->info.ended = true;
	} else {
		recording_close(s->recording);
		s->recording = NULL;
	}
	return 0;
}

/* A recording of kind metadata holds no bytes; neither does a look at it before it is cut. */
static void apply_rule(struct source *s, struct ring_record *out)
{
	if (!s->ruled || s->rule.kind != RULE_METADATA || out->type != RING_DATA)
		return;
	struct event_gap gap = {
	    .bytes = out->len, .last_ns = out->boot_ns, .last_seq = out->seq, .rule = (uint8_t)RULE_METADATA};
	event_gap_encode(&gap, s->gap);
	out->type = EVENT_GAP;
	out->payload = s->gap;
	out->len = EVENT_GAP_SIZE;
}

/*
 * The log goes on at `lsn`, and not where it was left. Segments may have been let go under this reader: the recording
 * has what they held, and the log is read anew behind it. Where the log lacks records itself it does so the second time
 * as well.
 */
static int back_to_recording(struct source *s, uint64_t lsn, struct err *e)
{
	uint64_t oldest;
	int rc = oldest_segment(s, &oldest, e);
	if (rc || (rc = open_log(s, oldest, e)) != 0)
		return rc;
	s->gaps = lsn;
	s->skip = s->seq;
	rc = open_recording(s, e);
	/* CORRUPT: its head is just being written. */
	return rc == ERR_NOT_FOUND || rc == ERR_CORRUPT ? 0 : rc;
}

/* From the log: 1, 0 = nothing now, or the recording is next again. */
static int next_logged(struct source *s, struct ring_record *out, struct err *e)
{
	struct segment_tail durable;
	struct segment_record sr;
	int rc;

	drain_durable(s->p.drain, &durable);
	while ((rc = follower_read(s->follower, &durable, &sr, e)) == 1) {
		if (s->lsn && sr.lsn > s->lsn && sr.lsn > s->gaps) {
			if ((rc = back_to_recording(s, sr.lsn, e)) != 0 || s->recording)
				return rc;
			continue;
		}
		s->lsn = sr.lsn + 1;
		bool clock = sr.rec.type == RING_CLOCK && s->seq;
		if (sr.lsn <= s->seq || sr.rec.type == RING_AUDIT ||
		    !(clock || id_equal(&sr.rec.session, &s->info.session)))
			continue;
		sr.rec.seq = sr.lsn;
		*out = sr.rec;
		apply_rule(s, out);
		return 1;
	}
	return rc;
}

static int next_event(struct source *s, struct ring_record *out, struct err *e)
{
	int rc = 0;
	while (!s->info.ended) {
		rc = s->recording ? next_recorded(s, out, e) : 0;
		if (rc == 0 && !s->recording)
			rc = next_logged(s, out, e);
		if (rc || !s->recording)
			break;
	}
	return rc;
}

int source_next(struct source *s, struct ring_record *out, struct err *e)
{
	int rc;
	do {
		rc = next_event(s, out, e);
		if (rc != 1)
			return rc;
		s->seq = out->seq;
		/* Of an unsealed session nothing that matters follows its EXIT. */
		if (out->type == RING_EXIT && !s->info.sealed)
			s->info.ended = true;
	} while (out->boot_ns < s->from_ns && out->type != RING_EXIT);
	return 1;
}

int source_seek_time(struct source *s, uint64_t boot_ns, struct err *e)
{
	s->from_ns = boot_ns;
	return s->info.sealed && s->recording ? recording_seek_time(s->recording, boot_ns, e) : 0;
}

int source_seek_seq(struct source *s, uint64_t seq, struct err *e)
{
	return s->info.sealed && s->recording ? recording_seek_seq(s->recording, seq, e) : 0;
}

struct recording *source_recording(const struct source *s)
{
	return s->recording;
}

int source_seek_offset(struct source *s, unsigned stream, uint64_t offset, struct err *e)
{
	if (!s->info.sealed || !s->recording)
		return err_set(e, ERR_BAD_STATE, "the session is not sealed");
	s->seq = s->skip = 0;
	s->info.ended = false;
	return recording_seek_offset(s->recording, stream, offset, e);
}
