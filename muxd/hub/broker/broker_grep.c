/*
 * Lines of a round's output in which something is found. The recorder looks through a bounded piece for each question
 * (recorder/serve/service_kept.c), so that others are answered in between; the hub asks on until there is enough, or no
 * more, or the time of a call is over.
 */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/access/broker_check.h"
#include "muxd/hub/access/broker_policy.h"
#include "muxd/hub/broker/broker_round.h"
#include "muxd/hub/record/reader.h"
#include "muxd/hub/session/launch.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

#define GREP_NS     (10 * NS_PER_SEC) /* of a call, about: it says where it came to */
#define GREP_ANSWER (1024 * 1024)     /* bytes of lines, about */
#define GAPS_MAX    64

struct grep_job {
	struct hub *hub;
	struct request rq; /* for its token */
	struct id round;
	struct round_grep what;
	char *pattern;
	uint64_t until_ns, next, total, lines;
	size_t shown;
	bool eof, live;
	json_t *matches, *gaps;
	broker_json_done *done;
	void *arg;
};

static void grep_free(struct grep_job *g)
{
	json_decref(g->matches);
	json_decref(g->gaps);
	request_finish(&g->rq);
	free(g->pattern);
	free(g);
}

static void grep_end(struct grep_job *g, int rc, const struct err *e)
{
	struct err here = {0};
	json_t *o = rc ? NULL
		       : json_pack("{s:O,s:I,s:I,s:b,s:O}", "matches", g->matches, "next_offset", (json_int_t)g->next,
				   "total_bytes", (json_int_t)g->total, "eof", g->eof, "gaps", g->gaps);

	if (!rc && !o)
		rc = err_set(&here, ERR_NOMEM, "no memory"), e = &here;
	g->done(g->arg, rc, rc ? e : NULL, o);
	json_decref(o);
	grep_free(g);
}

/* Lines are counted where the first of them was seen, and none is missing. */
static void take_match(struct grep_job *g, json_t *o)
{
	json_int_t line = json_integer_value(json_object_get(o, "line"));
	bool counted = g->what.offset == 0 && !json_array_size(g->gaps);

	g->shown += (size_t)json_string_length(json_object_get(o, "data"));
	json_object_set_new(o, "line", counted ? json_integer((json_int_t)g->lines + line + 1) : json_null());
	json_array_append(g->matches, o);
}

static void take_answer(struct grep_job *g, const json_t *json)
{
	int64_t offset = 0, next = 0, total = 0, lines = 0;
	size_t i;
	json_t *o;

	(void)json_opt_int(json, "offset", 0, INT64_MAX, &offset, NULL);
	(void)json_opt_int(json, "next_offset", 0, INT64_MAX, &next, NULL);
	(void)json_opt_int(json, "total", 0, INT64_MAX, &total, NULL);
	(void)json_opt_int(json, "lines", 0, INT64_MAX, &lines, NULL);
	if ((uint64_t)offset > g->next && json_array_size(g->gaps) < GAPS_MAX)
		json_array_append_new(g->gaps, json_pack("{s:I,s:I}", "offset", (json_int_t)g->next, "bytes",
							 offset - (json_int_t)g->next));
	json_array_foreach(json_object_get(json, "matches"), i, o) take_match(g, o);
	g->next = (uint64_t)next;
	g->total = (uint64_t)total;
	g->lines += (uint64_t)lines;
	g->eof = json_is_true(json_object_get(json, "eof"));
}

static bool enough(const struct grep_job *g, uint64_t before)
{
	return g->eof || g->next == before || json_array_size(g->matches) >= g->what.matches ||
	       g->shown >= GREP_ANSWER || clock_boot_ns() >= g->until_ns;
}

static int grep_ask(struct grep_job *g);

static void broker_grep_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p,
				  size_t n, bool end)
{
	struct grep_job *g = arg;
	struct err here = {0};
	uint64_t before = g->next;

	(void)p, (void)n;
	if (!rc && !end)
		return;
	if (rc == ERR_NOT_FOUND)
		rc = err_set(&here, ERR_NOT_FOUND, "no such round"), e = &here;
	if (!rc) {
		json_t *copy = json_deep_copy(json); /* the answer is the recorder client's */

		take_answer(g, copy);
		json_decref(copy);
	}
	if (!rc && !enough(g, before)) {
		rc = grep_ask(g);
		if (!rc)
			return;
		err_set(&here, rc, "the recorder could not be asked"), e = &here;
	}
	grep_end(g, rc, e);
}

static int grep_ask(struct grep_job *g)
{
	char id[ID_STR_LEN];
	json_t *q;

	id_format(&g->round, id);
	q = json_pack("{s:s,s:s,s:s,s:I,s:s,s:b,s:b,s:I,s:b}", "op", "grep", "session", id, "stream",
		      g->what.stream == STREAM_STDERR ? "stderr" : "stdout", "offset", (json_int_t)g->next, "pattern",
		      g->pattern, "regex", g->what.regex, "ignore_case", g->what.ignore_case, "matches",
		      (json_int_t)(g->what.matches - json_array_size(g->matches)), "live", g->live);
	return reader_ask(g->hub, &g->rq, q, broker_grep_on_answer, g);
}

static void grep_on_checked(void *arg, int rc, const struct err *e, json_t *none)
{
	struct grep_job *g = arg;
	struct err here = {0};

	(void)none;
	if (!rc && grep_ask(g))
		rc = err_set(&here, ERR_UNAVAILABLE, "the recorder could not be asked"), e = &here;
	if (rc)
		grep_end(g, rc, e);
}

static int grep_begin(struct grep_job *g, struct err *e)
{
	struct session *s = hub_session_find(g->hub, &g->round);
	bool at_hand = s && s->kind == SESSION_ROUND;
	int rc = at_hand ? broker_find_round(g->hub, &g->rq, &g->round, 0, "output", &s, e) : 0;

	if (rc)
		return rc;
	if (!at_hand && broker_policy_is(g->hub, &g->rq)) { /* by the facts of the round, which the recorder has */
		broker_policy_round(g->hub, &g->rq, &g->round, grep_on_checked, g);
		return 0;
	}
	g->live = at_hand && s->state != SESSION_ENDED;
	return grep_ask(g) ? err_set(e, ERR_UNAVAILABLE, "the recorder could not be asked") : 0;
}

void broker_round_grep(struct hub *h, const struct request *rq, const struct id *round, const struct round_grep *what,
		       broker_json_done *done, void *arg)
{
	struct grep_job *g = calloc(1, sizeof(*g));
	struct err e = {0};
	int rc;

	if (g) {
		*g = (struct grep_job){.hub = h,
				       .rq = *rq,
				       .round = *round,
				       .what = *what,
				       .pattern = strdup(what->pattern),
				       .until_ns = clock_boot_ns() + GREP_NS,
				       .next = what->offset,
				       .matches = json_array(),
				       .gaps = json_array(),
				       .done = done,
				       .arg = arg};
		rc = g->pattern ? grep_begin(g, &e) : err_set(&e, ERR_NOMEM, "no memory");
		if (!rc)
			return;
		grep_free(g);
	} else {
		rc = err_set(&e, ERR_NOMEM, "no memory");
	}
	done(arg, rc, &e, NULL);
}
