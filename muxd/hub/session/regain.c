#define LOG_SUBSYS "regain"
#include "muxd/hub/session/regain.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_run.h"
#include "muxd/hub/session/session_state.h"
#include "recorder/serve/client.h"

#include <stdlib.h>
#include <string.h>

#define REGAIN_NS (10 * NS_PER_SEC) /* for a recorder that is restarted, too */
#define PAGE_MAX  (1024 * 1024)

enum regain_part { PART_DIGESTS, PART_HEAD, PART_TAIL };

struct regain {
	struct session *session; /* NULL: it has gone, and the answer that is on its way is the last of this */
	void (*over)(struct session *s);
	uint64_t until_ns; /* boot */
	bool asked;
	enum regain_part part;
	uint64_t totals[STREAM_COUNT]; /* of which the digests were asked for */
	int stream;                    /* of a head or tail */
	uint64_t at, want;             /* the next byte; where the part ends */
	uint64_t from, page_at;        /* what was asked for last; the next byte of what comes */
	char hex[STREAM_COUNT][65];
	struct buf head[STREAM_COUNT], tail[STREAM_COUNT];
};

static void regain_free(struct regain *r)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		buf_finish(&r->head[i]);
		buf_finish(&r->tail[i]);
	}
	free(r);
}

void regain_forget(struct session *s)
{
	if (s->regain && s->regain->asked)
		s->regain->session = NULL;
	else if (s->regain)
		regain_free(s->regain);
	s->regain = NULL;
}

static void regain_give_up(struct session *s, const char *why)
{
	log_warn(&(struct log_ids){.session = s->id_text, .agent = s->agent->name},
		 "what it printed before the restart is in the record alone: %s", why);
	regain_forget(s);
	s->regained = true;
}

static void regain_take_over(struct session *s)
{
	struct regain *r = s->regain;
	int rc = 0;

	for (int i = STREAM_OUTPUT; !rc && i < STREAM_COUNT; i++)
		rc = keep_regain(&s->keep[i], s->launch.head, &r->head[i], &r->tail[i], r->hex[i]);
	if (rc) {
		regain_give_up(s, err_name(rc));
		return;
	}
	regain_forget(s);
	s->regained = true;
}

/* The next part that has bytes; false: that was all. */
static bool next_part(struct session *s, struct regain *r)
{
	for (;;) {
		uint64_t total, last;

		if (r->part == PART_DIGESTS || r->part == PART_TAIL) {
			r->stream = r->part == PART_DIGESTS ? STREAM_OUTPUT : r->stream + 1;
			r->part = PART_HEAD;
		} else {
			r->part = PART_TAIL;
		}
		if (r->stream >= STREAM_COUNT)
			return false;
		total = s->stream[r->stream].end;
		if (r->part == PART_HEAD) {
			r->at = 0;
			r->want = total < s->launch.head ? total : s->launch.head;
		} else {
			last = total > s->launch.tail ? total - s->launch.tail : 0;
			r->at = last > buf_len(&r->head[r->stream]) ? last : buf_len(&r->head[r->stream]);
			r->want = total;
		}
		if (r->at < r->want)
			return true;
	}
}

/* Output that the link still had comes behind a question: what was asked of fewer bytes is asked anew. */
static bool has_moved(const struct session *s, const struct regain *r)
{
	for (int i = STREAM_OUTPUT; i < STREAM_COUNT; i++)
		if (s->stream[i].end != r->totals[i])
			return true;
	return false;
}

static void regain_begin(struct session *s, struct regain *r)
{
	r->part = PART_DIGESTS;
	for (int i = 0; i < STREAM_COUNT; i++) {
		r->totals[i] = s->stream[i].end;
		r->hex[i][0] = '\0';
		buf_clear(&r->head[i]);
		buf_clear(&r->tail[i]);
	}
}

static json_t *regain_question(const struct session *s, const struct regain *r)
{
	uint64_t n = r->want - r->at;

	if (r->part == PART_DIGESTS)
		return json_pack("{s:s,s:s,s:[I,I,I]}", "op", "digests", "session", s->id_text, "totals",
				 (json_int_t)s->in_offset, (json_int_t)r->totals[STREAM_OUTPUT],
				 (json_int_t)r->totals[STREAM_STDERR]);
	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "op", "output", "session", s->id_text, "stream",
			 r->stream == STREAM_OUTPUT ? "stdout" : "stderr", "offset", (json_int_t)r->at, "limit",
			 (json_int_t)(n < PAGE_MAX ? n : PAGE_MAX), "house", 1);
}

static void regain_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end);

/* A recorder that cannot be asked now is asked again by the next sweep, until the time is over. */
static void regain_ask(struct session *s)
{
	struct regain *r = s->regain;
	json_t *q;
	int rc;

	if (clock_boot_ns() >= r->until_ns) {
		regain_give_up(s, "the recorder did not answer in time");
		return;
	}
	if (!hub_recorder(s->hub))
		return;
	if (has_moved(s, r))
		regain_begin(s, r);
	q = regain_question(s, r);
	r->from = r->at;
	r->asked = true;
	rc = q ? recorder_client_ask(hub_recorder(s->hub), q, regain_on_answer, r) : ERR_NOMEM;
	json_decref(q);
	if (rc)
		r->asked = false;
}

/* A rule may have left out what stands here: a head ends before it, a tail begins behind it. */
static int regain_take_bytes(struct regain *r, const uint8_t *p, size_t n)
{
	struct buf *to = r->part == PART_HEAD ? &r->head[r->stream] : &r->tail[r->stream];
	size_t room = r->want > r->page_at ? (size_t)(r->want - r->page_at) : 0;

	if (r->part == PART_HEAD && r->page_at != r->at)
		return 0;
	n = n < room ? n : room;
	r->page_at += n;
	r->at = r->page_at;
	return buf_append(to, p, n);
}

static int take_json(struct regain *r, const json_t *json)
{
	int64_t offset = 0;
	int rc = 0;

	if (r->part == PART_DIGESTS) {
		text_put(r->hex[STREAM_OUTPUT], 65, json_string_value(json_object_get(json, "stdout")) ?: "");
		text_put(r->hex[STREAM_STDERR], 65, json_string_value(json_object_get(json, "stderr")) ?: "");
	} else if (json_object_get(json, "offset")) {
		rc = json_need_int(json, "offset", 0, INT64_MAX, &offset, NULL);
		r->page_at = (uint64_t)offset;
		if (!rc && r->part == PART_TAIL && r->page_at > r->at) { /* what stands before a hole is not the end */
			buf_clear(&r->tail[r->stream]);
			r->at = r->page_at;
		}
	}
	return rc;
}

static void page_ended(struct session *s, struct regain *r)
{
	bool more = r->part != PART_DIGESTS && r->at < r->want && r->at > r->from;

	if (has_moved(s, r) || more || next_part(s, r)) {
		regain_ask(s);
		return;
	}
	void (*over)(struct session * s) = r->over;

	regain_take_over(s);
	over(s);
}

static void regain_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end)
{
	struct regain *r = arg;
	struct session *s = r->session;

	if (!s) {
		if (rc || end)
			regain_free(r);
		return;
	}
	if (!rc && json && !json_object_get(json, "error"))
		rc = take_json(r, json);
	if (!rc && p)
		rc = regain_take_bytes(r, p, n);
	if (!rc && !end)
		return;
	r->asked = false;
	if (rc == ERR_CANCELLED || rc == ERR_TIMEOUT || rc == ERR_RECORD_UNAVAILABLE)
		return;              /* the next sweep asks again */
	if (rc && has_moved(s, r)) { /* the record has more than was asked for */
		regain_ask(s);
		return;
	}
	if (rc) {
		void (*over)(struct session * s) = r->over;

		regain_give_up(s, e ? e->message : err_name(rc));
		over(s);
		return;
	}
	page_ended(s, r);
}

bool regain_waits(struct session *s, void (*over)(struct session *s))
{
	if (!s->keep || s->regained || (s->keep[STREAM_OUTPUT].whole && s->keep[STREAM_STDERR].whole))
		return false;
	if (!s->regain) {
		s->regain = calloc(1, sizeof(*s->regain));
		if (!s->regain) {
			regain_give_up(s, "no memory");
			return false;
		}
		s->regain->session = s;
		s->regain->over = over;
		s->regain->until_ns = clock_boot_ns() + REGAIN_NS;
		for (int i = 0; i < STREAM_COUNT; i++) {
			buf_init(&s->regain->head[i], s->launch.head + 1);
			buf_init(&s->regain->tail[i], s->launch.tail + 1);
		}
		regain_begin(s, s->regain);
	}
	if (!s->regain->asked)
		regain_ask(s);
	return !s->regained;
}
