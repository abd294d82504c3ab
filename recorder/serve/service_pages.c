/*
 * Recordings as players read them: what there is of one, then its events page by page.
 *
 * A player comes back for the next page within seconds, so where the last one ended is remembered (READINGS_MAX of them
 * for each conversation, the longest unused goes): a session that goes on is not read from its beginning each time.
 */
#include "base/err.h"
#include "recorder/chain/chain_text.h"
#include "recorder/draw/keyframes.h"
#include "recorder/format/event.h"
#include "recorder/format/summary.h"
#include "recorder/serve/service_conn.h"

#include <stdlib.h>
#include <unistd.h>

#define READINGS_MAX 8
#define PAGE_MAX     ((int64_t)1024 * 1024)

struct reading {
	struct reading *next; /* the last used first */
	struct source *source;
	struct id grant;
	uint64_t seq;           /* of the last event handed out */
	struct ring_record rec; /* taken from the source, not handed out */
	bool full;
};

static void reading_destroy(struct reading *r)
{
	source_destroy(r->source);
	free(r);
}

void conn_forget_readings(struct conn *c)
{
	struct reading *r;

	while ((r = c->readings)) {
		c->readings = r->next;
		reading_destroy(r);
	}
}

static void service_pages_keep(struct conn *c, struct reading *r)
{
	struct reading **at = &c->readings;

	r->next = c->readings;
	c->readings = r;
	for (int i = 0; *at && i < READINGS_MAX; i++)
		at = &(*at)->next;
	if (*at) {
		reading_destroy(*at);
		*at = NULL;
	}
}

/* Takes out the one that stands where this page begins. */
static struct reading *kept(struct conn *c, const struct id *session, uint64_t seq)
{
	struct reading *r, **at;

	for (at = &c->readings; (r = *at); at = &r->next)
		if (r->seq == seq && id_equal(&source_info(r->source)->session, session) &&
		    id_equal(&r->grant, &c->grant.id)) {
			*at = r->next;
			return r;
		}
	return NULL;
}

static int service_pages_begin(struct conn *c, const struct id *session, uint64_t from_ns, uint64_t seq,
			       struct reading **out, struct err *e)
{
	struct reading *r = calloc(1, sizeof(*r));
	int rc = r ? read_open(c, session, &r->source, e) : err_set(e, ERR_NOMEM, "out of memory");

	if (rc == 0)
		rc = read_check(c, READ_PAGE, r->source, false, e);
	if (rc == 0 && from_ns)
		rc = source_seek_time(r->source, from_ns, e);
	else if (rc == 0 && seq)
		rc = source_seek_seq(r->source, seq, e);
	if (rc) {
		if (r)
			reading_destroy(r);
		return rc;
	}
	r->grant = c->grant.id;
	r->seq = seq;
	*out = r;
	return 0;
}

/* Events of one sequence are never on two pages: the next page begins behind a sequence. */
static int send_page(struct conn *c, struct reading *r, size_t limit, struct err *e)
{
	uint64_t after = r->seq;
	size_t sent = 0, n;
	int rc = 1;

	while (rc == 1) {
		if (!r->full && (rc = source_next(r->source, &r->rec, e)) != 1)
			break;
		r->full = true;
		if (sent >= limit && r->rec.seq != r->seq)
			break;
		r->full = false;
		if (r->rec.seq <= after)
			continue; /* of the page before, where this one did not go on from it */
		rc = read_send_event(c, r->source, READ_PAGE, &r->rec, &n) ? ERR_EOF : 1;
		sent += n;
		r->seq = r->rec.seq;
	}
	return rc < 0 ? rc : 0;
}

static json_t *u64_text(uint64_t v)
{
	return json_sprintf("%llu", (unsigned long long)v);
}

static json_t *page_end(const struct reading *r)
{
	return json_pack("{s:b, s:o, s:b, s:b}", "end", 1, "next_seq", u64_text(r->seq), "more", r->full, "ended",
			 source_info(r->source)->ended && !r->full);
}

static int opt_u64(const json_t *request, const char *key, uint64_t *out, struct err *e)
{
	int64_t v = 0;
	int rc = json_opt_int(request, key, 0, INT64_MAX, &v, e);

	*out = (uint64_t)v;
	return rc;
}

int service_page(struct conn *c, const json_t *request, struct err *e)
{
	struct reading *r = NULL;
	struct id session;
	uint64_t from = 0, seq = 0;
	int64_t limit = PAGE_MAX;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = opt_u64(request, "from_ns", &from, e);
	if (rc == 0)
		rc = opt_u64(request, "after_seq", &seq, e);
	if (rc == 0)
		rc = json_opt_int(request, "limit", 1, PAGE_MAX, &limit, e);
	if (rc)
		return rc;
	if (seq && (r = kept(c, &session, seq))) {
		conn_catch_up(c, false);
		rc = read_check(c, READ_PAGE, r->source, false, e);
	} else {
		rc = service_pages_begin(c, &session, from, seq, &r, e);
	}
	if (rc == 0)
		rc = send_page(c, r, (size_t)limit, e);
	if (rc == 0)
		rc = conn_send(c, page_end(r));
	if (rc == 0 && r->seq)
		service_pages_keep(c, r);
	else if (r)
		reading_destroy(r);
	return rc;
}

/* What is not sealed says when it began; the rest is still being made. */
static int begun(struct source *s, json_t **out, struct err *e)
{
	struct ring_record rec;
	int rc = source_next(s, &rec, e);

	if (rc < 0)
		return rc;
	*out = json_object();
	if (rc == 1)
		json_object_set_new(*out, "first_ns", u64_text(rec.boot_ns));
	return 0;
}

int service_recording(struct conn *c, const json_t *request, struct err *e)
{
	json_t *o = NULL, *head;
	struct source *s = NULL;
	struct id session;
	int rc = conn_grant(c, request, e);

	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = read_open(c, &session, &s, e);
	if (rc)
		return rc;
	rc = read_check(c, READ_RECORDING, s, false, e);
	if (rc == 0)
		rc = source_info(s)->sealed && source_recording(s) ? summary_make(source_recording(s), &o, e)
								   : begun(s, &o, e);
	if (rc == 0) {
		head = read_head(source_info(s));
		json_object_update(o, head);
		json_decref(head);
		json_object_set_new(o, "end", json_true());
		rc = conn_send(c, json_incref(o));
	}
	json_decref(o);
	source_destroy(s);
	return rc;
}

/*
 * The screen at or before a moment, as the log vouches for it; what is not as it was drawn is named, goes, and is drawn
 * again. 1, 0: none so early, ERR_NOT_FOUND: there are none (yet).
 */
static int find_screen(struct conn *c, const struct id *session, uint64_t at, struct keyframe *k, struct buf *data)
{
	char path[FILE_PATH_MAX], keys[FILE_PATH_MAX], root[65] = "";
	uint8_t want[DIGEST_LEN];
	struct err e = {0};
	int rc;

	if (recording_find(c->s->dir, session, path, sizeof(path), NULL) ||
	    index_keyframes(c->index, session, root, NULL) || !root[0] || chain_unhex(root, want, DIGEST_LEN))
		return ERR_NOT_FOUND;
	rc = keyframes_find(path, session, want, at, k, data, &e);
	if (rc != ERR_CORRUPT)
		return rc;
	cutter_tell(c->s->p.cutter, "keyframes.differ", session, e.message);
	if (keyframes_path(path, keys, NULL) == 0)
		(void)unlink(keys);
	return ERR_NOT_FOUND;
}

/* How a player begins in the middle: the screen at or before a moment. Without keyframes (yet) it begins at the start.
 */
int service_keyframe(struct conn *c, const json_t *request, struct err *e)
{
	struct source *s = NULL;
	struct keyframe k;
	struct id session;
	uint64_t at = 0;
	struct buf data;
	int rc = conn_grant(c, request, e), found = 0;

	buf_init(&data, KEYFRAME_DATA_MAX);
	if (rc == 0)
		rc = read_session_id(request, &session, e);
	if (rc == 0)
		rc = opt_u64(request, "at_ns", &at, e);
	if (rc == 0)
		rc = read_open(c, &session, &s, e);
	if (rc == 0)
		rc = read_check(c, READ_KEYFRAME, s, false, e);
	if (rc == 0 && source_info(s)->sealed)
		found = find_screen(c, &session, at, &k, &data);
	if (found == ERR_NOT_FOUND && c->s->p.keyframer)
		keyframer_want(c->s->p.keyframer, &session);
	if (rc == 0 && found == 1)
		rc = conn_send(c, json_pack("{s:o, s:o, s:i, s:i}", "at_ns", u64_text(k.ns), "seq", u64_text(k.seq),
					    "cols", (int)k.cols, "rows", (int)k.rows));
	if (rc == 0 && found == 1)
		rc = conn_send_bytes(c, 0, buf_ptr(&data), buf_len(&data));
	if (rc == 0)
		rc = conn_send(
		    c, json_pack("{s:b, s:b, s:b}", "end", 1, "found", found == 1, "waits", found == ERR_NOT_FOUND));
	buf_finish(&data);
	source_destroy(s);
	return rc;
}
