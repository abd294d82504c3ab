/* Changes of a workspace by programs: asked of muxlet behind their end, told to the audit log. */
#define LOG_SUBSYS "survey"
#include "muxd/hub/agent/survey.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/record/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENT        "workspace.changes"
#define ANSWER_MAX   (1024 * 1024)
#define PART_MAX     (64 * 1024) /* of paths in one event */
#define NAMED_MAX    100         /* sessions in one event */
#define PATH_SAID    (4 * 4096)  /* of a path in it, base64 at most */
#define SETTLE_NS    (200 * NS_PER_MS)
#define PATIENCE_NS  (30 * NS_PER_SEC)
#define HURRY_NS     (3 * NS_PER_SEC)
#define FAILED_NS    (10 * NS_PER_SEC)
#define PAUSE_FACTOR 50 /* a look takes a fiftieth of the time at most */

enum survey_state { SURVEY_IDLE, SURVEY_DUE, SURVEY_LOOKING, SURVEY_TELLING };

struct survey {
	enum survey_state state;
	uint32_t channel;
	uint64_t look, have; /* this one's number; the last one in the record */
	uint64_t due_ns, began_ns, not_before_ns, hurried_ns;
	struct buf answer;
	json_t *ended; /* sessions that ended since the last look that is told */
	json_t *named; /* those, and those that run, as this look began */
	unsigned unnamed;
	json_t *events; /* what is left to be told, in order */
	bool again;     /* something ended meanwhile */
	bool failed;    /* the last one, and that was told */
	bool off;       /* there is no workspace to be looked at, as long as this link is up */
};

static void survey_set_state(struct agent *a, enum survey_state state)
{
	static const char *const names[] = {"idle", "due", "looking", "telling"};

	log_debug(&(struct log_ids){.agent = a->name}, "%s -> %s", names[a->survey->state], names[state]);
	a->survey->state = state;
	hub_stir(a->hub);
}

static struct survey *survey_get(struct agent *a)
{
	struct survey *v = a->survey;

	if (v || !hub_conf(a->hub)->file_changes)
		return v;
	v = calloc(1, sizeof(*v));
	if (v && !(v->ended = json_array())) {
		free(v);
		v = NULL;
	}
	if (v)
		buf_init(&v->answer, ANSWER_MAX);
	a->survey = v;
	return v;
}

static void survey_due(struct agent *a)
{
	struct survey *v = a->survey;

	v->again = v->state != SURVEY_IDLE;
	if (v->state != SURVEY_IDLE)
		return;
	v->due_ns = clock_boot_ns();
	survey_set_state(a, SURVEY_DUE);
}

/* ---- who ran */

static json_t *name_of(const struct session *s)
{
	return json_pack("{s:s,s:s,s:s,s:s*,s:b}", "session", s->id_text, "kind", session_kind_name(s->kind),
			 "principal", s->grant->principal, "task", s->launch.task[0] ? s->launch.task : NULL, "running",
			 s->state != SESSION_ENDED);
}

static void survey_name(struct survey *v, json_t *list, const struct session *s)
{
	if (json_array_size(list) < NAMED_MAX)
		json_array_append_new(list, name_of(s));
	else
		v->unnamed++;
}

static bool runs_programs(const struct session *s)
{
	return s->kind == SESSION_ROUND || s->kind == SESSION_EXEC || s->kind == SESSION_TERMINAL;
}

static bool survey_runs_now(const struct session *s)
{
	return runs_programs(s) && s->started && s->state != SESSION_ENDED;
}

/* A file operation has an event of its own, and its changes show here as well: it is named, and no reason to look. */
static bool changed_files(const struct session *s)
{
	const struct transfer *t = s->launch.transfer;

	return t && (t->changes || t->op == FILE_PUT);
}

/* There is no muxlet, or one from before surveys: nothing is looked for, and so nothing is lost. */
static bool nobody_looks(const struct agent *a)
{
	return a->info.backend == SANDBOX_PLAIN || (a->state == AGENT_UP && !link_has_survey(a->link));
}

void survey_session_ended(const struct session *s)
{
	struct survey *v =
	    !nobody_looks(s->agent) && (runs_programs(s) || changed_files(s)) ? survey_get(s->agent) : NULL;

	if (!v || v->off)
		return;
	survey_name(v, v->ended, s);
	if (runs_programs(s))
		survey_due(s->agent);
}

/* ---- the look */

static void name_running(struct agent *a)
{
	struct survey *v = a->survey;
	const struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	if (survey_runs_now(s))
		survey_name(v, v->named, s);
}

static int survey_open(struct agent *a, struct err *e)
{
	struct survey *v = a->survey;
	char look[24], have[24];
	const char *const argv[] = {"muxlet", "--survey", look, "--have", have, NULL};
	static const char *const env[] = {NULL};
	struct link_open o = {.argv = argv,
			      .env = env,
			      .timeout_ms = PATIENCE_NS / NS_PER_MS,
			      .grace_ms = 100,
			      .self = true,
			      .window = ANSWER_MAX};

	snprintf(look, sizeof(look), "%llu", (unsigned long long)v->look);
	snprintf(have, sizeof(have), "%llu", (unsigned long long)v->have);
	if (id_new(&o.session))
		return err_set(e, ERR_SYS, "no random bytes");
	o.channel = v->channel = agent_new_channel(a);
	return link_open(a->link, &o, e);
}

/* Told once for as long as it goes on failing; who ran stays named for the look that succeeds. */
static void survey_fail(struct agent *a, const char *why)
{
	struct survey *v = a->survey;

	if (!v->failed)
		(void)audit_event(a->hub, EVENT, NULL, a->name, "error",
				  json_pack("{s:s,s:O}", "message", why, "sessions", v->named));
	v->failed = true;
	v->channel = 0;
	json_array_extend(v->named, v->ended);
	json_decref(v->ended);
	v->ended = v->named;
	v->named = NULL;
	buf_clear(&v->answer);
	v->due_ns = clock_boot_ns();
	v->not_before_ns = v->due_ns + FAILED_NS;
	survey_set_state(a, SURVEY_DUE);
}

static void survey_begin(struct agent *a, uint64_t now)
{
	struct survey *v = a->survey;
	json_t *fresh = json_array();
	int64_t wall = hub_now_wall(a->hub);
	struct err e = {0};

	if (!fresh)
		return;
	v->named = v->ended;
	v->ended = fresh;
	name_running(a);
	v->look = wall > 0 && (uint64_t)wall > v->look ? (uint64_t)wall : v->look + 1;
	v->began_ns = now;
	v->again = false;
	survey_set_state(a, SURVEY_LOOKING);
	if (survey_open(a, &e))
		survey_fail(a, e.message);
}

void survey_link_up(struct agent *a)
{
	struct survey *v = link_has_survey(a->link) ? survey_get(a) : NULL;

	if (!v)
		return;
	v->off = false;
	survey_due(a);
	if (v->state == SURVEY_DUE && !a->quiesce && !a->stopping)
		survey_begin(a, clock_boot_ns());
}

void survey_link_down(struct agent *a)
{
	struct survey *v = a->survey;

	if (!v || v->state != SURVEY_LOOKING)
		return;
	v->failed = true; /* a lost link is told elsewhere */
	survey_fail(a, "");
	v->failed = false;
	v->not_before_ns = 0;
}

static bool survey_runs(const struct agent *a)
{
	const struct session *s, *next;

	HASH_ITER(hh_channel, a->channels, s, next)
	if (survey_runs_now(s))
		return true;
	return false;
}

bool survey_hurry(struct agent *a, uint64_t now)
{
	struct survey *v = a->survey;

	if (!v || v->off || a->state != AGENT_UP || !link_has_survey(a->link))
		return false;
	if ((v->state == SURVEY_IDLE || v->state == SURVEY_DUE) && !v->failed && now - v->hurried_ns > 2 * HURRY_NS &&
	    (json_array_size(v->ended) || survey_runs(a))) {
		survey_begin(a, now);
		v->hurried_ns = now;
	}
	return v->state == SURVEY_LOOKING && now - v->hurried_ns < HURRY_NS;
}

/* ---- what it said */

/* A sandbox is not believed beyond the form: these keys, of this kind, and no more than were asked for. */
static json_t *entry_checked(const json_t *said)
{
	static const char *const texts[] = {"how", "type", "mode", "sha256"}, *const paths[] = {"path", "target"};
	json_t *o = json_object();

	for (size_t i = 0; o && i < 4; i++) {
		json_t *v = json_object_get(said, texts[i]);

		if (json_is_string(v) && json_string_length(v) <= 64)
			json_object_set(o, texts[i], v);
	}
	for (size_t i = 0; o && i < 2; i++) {
		json_t *v = json_object_get(said, paths[i]), *b = json_object_get(v, "base64");

		if (json_is_string(v) && json_string_length(v) <= PATH_SAID)
			json_object_set(o, paths[i], v);
		else if (json_is_string(b) && json_string_length(b) <= PATH_SAID)
			json_object_set_new(o, paths[i], json_pack("{s:O}", "base64", b));
	}
	if (o && json_is_integer(json_object_get(said, "size")))
		json_object_set(o, "size", json_object_get(said, "size"));
	if (json_object_get(o, "how") && json_object_get(o, "path"))
		return o;
	json_decref(o);
	return NULL;
}

static bool is_baseline(const json_t *said)
{
	return json_is_true(json_object_get(said, "baseline"));
}

static void set_counts(json_t *detail, const json_t *said)
{
	static const char *const numbers[] = {"files",    "created",  "changed",   "deleted",
					      "left_out", "unhashed", "unreadable"};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(detail, numbers[i],
				    json_integer(json_integer_value(json_object_get(said, numbers[i]))));
	json_object_set_new(detail, "baseline", json_boolean(is_baseline(said)));
	json_object_set_new(detail, "incomplete", json_boolean(json_is_true(json_object_get(said, "incomplete"))));
}

/* One event with as many entries from *at on as fit. NULL: no memory. */
static json_t *next_part(const struct survey *v, const json_t *said, size_t *at)
{
	const json_t *entries = json_object_get(said, "entries");
	json_t *detail = json_pack("{s:I,s:O,s:[]}", "look", (json_int_t)v->look, "sessions", v->named, "entries");
	size_t room = PART_MAX;

	if (!detail)
		return NULL;
	for (; *at < json_array_size(entries); (*at)++) {
		json_t *o = entry_checked(json_array_get(entries, *at));
		char *text = o ? json_text(o) : NULL;
		size_t n = text ? strlen(text) : 0;

		free(text);
		if (n > room && room < PART_MAX) {
			json_decref(o);
			break;
		}
		room -= n < room ? n : room;
		if (o)
			json_array_append_new(json_object_get(detail, "entries"), o);
	}
	if (v->unnamed)
		json_object_set_new(detail, "sessions_left_out", json_integer(v->unnamed));
	set_counts(detail, said);
	return detail;
}

/*
 * The whole of it in parts, each with all counts; behind them, for every session but the first, one that says which
 * look it is in: whoever asks by session finds it.
 */
static int make_events(struct survey *v, const json_t *said)
{
	size_t total = json_array_size(json_object_get(said, "entries")), at = 0, i;
	json_t *list = json_array(), *who, *detail;
	unsigned part = 1;

	if (!list)
		return ERR_NOMEM;
	do {
		detail = next_part(v, said, &at);
		json_object_set_new(detail, "part", json_integer(part++));
		json_array_append_new(list, detail);
	} while (detail && at < total);
	json_array_foreach(v->named, i, who)
	{
		if (i)
			json_array_append_new(list, json_pack("{s:I,s:O}", "look", (json_int_t)v->look, "session",
							      json_object_get(who, "session")));
	}
	v->events = list;
	return detail ? 0 : ERR_NOMEM;
}

static void survey_end(struct agent *a)
{
	struct survey *v = a->survey;
	uint64_t now = clock_boot_ns();

	v->have = v->look;
	v->failed = false;
	v->unnamed = 0;
	json_decref(v->named);
	json_decref(v->events);
	v->named = v->events = NULL;
	survey_set_state(a, SURVEY_IDLE);
	if (v->again || json_array_size(v->ended))
		survey_due(a);
	v->again = false;
	v->not_before_ns = now + PAUSE_FACTOR * (now - v->began_ns);
}

static const char *session_of(const struct survey *v, const json_t *detail)
{
	const char *own = json_string_value(json_object_get(detail, "session"));

	return own ? own : json_string_value(json_object_get(json_array_get(v->named, 0), "session"));
}

/* As far as the ring has room now. */
static void survey_put(struct agent *a)
{
	struct survey *v = a->survey;

	while (json_array_size(v->events)) {
		json_t *detail = json_array_get(v->events, 0);
		int rc = audit_session_event(a->hub, EVENT, session_of(v, detail), a->name, "ok", json_incref(detail));

		if (rc == ERR_AGAIN)
			return;
		json_array_remove(v->events, 0);
	}
	survey_end(a);
}

/* Names those who ran while the first look was taken: their deletions before it are not known, and that is told. */
static void name_overlap(struct agent *a)
{
	name_running(a);
	json_array_extend(a->survey->named, a->survey->ended);
}

/* Nothing is told of such a look, unless it may have missed something. */
static bool changed_nothing(const struct survey *v, const json_t *said)
{
	static const char *const counts[] = {"created", "changed", "deleted"};
	json_int_t n = 0;

	for (size_t i = 0; i < 3; i++)
		n += json_integer_value(json_object_get(said, counts[i])) != 0;
	return !n && !json_array_size(json_object_get(said, "entries")) &&
	       !json_is_true(json_object_get(said, "incomplete")) && !(is_baseline(said) && json_array_size(v->named));
}

static void survey_take(struct agent *a)
{
	struct survey *v = a->survey;
	json_t *said = NULL;
	int rc = json_parse(buf_ptr(&v->answer), buf_len(&v->answer), ANSWER_MAX, &said, NULL);

	buf_finish(&v->answer);
	buf_init(&v->answer, ANSWER_MAX);
	if (rc == 0 && !json_is_object(said))
		rc = ERR_PROTOCOL;
	if (rc == 0 && is_baseline(said))
		name_overlap(a);
	if (rc == 0 && !changed_nothing(v, said))
		rc = make_events(v, said);
	json_decref(said);
	if (rc) {
		json_decref(v->events);
		v->events = NULL;
		survey_fail(a, rc == ERR_NOMEM ? "no memory" : "its answer is not one");
		return;
	}
	v->channel = 0;
	survey_set_state(a, SURVEY_TELLING);
	survey_put(a);
}

bool survey_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n)
{
	struct survey *v = a->survey;

	if (!v || !v->channel || v->channel != channel)
		return false;
	if (buf_append(&v->answer, p, n)) {
		(void)link_forget(a->link, channel);
		survey_fail(a, "its answer is too large");
	}
	return true;
}

/* Programs begin in the root of everything: that is told once, and nothing more is asked. */
static void survey_unable(struct agent *a)
{
	struct survey *v = a->survey;

	(void)audit_event(a->hub, EVENT, NULL, a->name, "unsupported",
			  json_pack("{s:s}", "message", "programs begin in /, which is no workspace to be looked at"));
	v->off = true;
	v->channel = 0;
	json_decref(v->named);
	v->named = NULL;
	json_array_clear(v->ended);
	buf_clear(&v->answer);
	survey_set_state(a, SURVEY_IDLE);
}

bool survey_exited(struct agent *a, uint32_t channel, const struct link_exit *x)
{
	struct survey *v = a->survey;
	char why[120];

	if (!v || !v->channel || v->channel != channel)
		return false;
	(void)link_forget(a->link, channel);
	if (x->cause == EXIT_EXITED && x->code == 0) {
		survey_take(a);
		return true;
	}
	if (x->cause == EXIT_EXITED && x->code == EOPNOTSUPP) {
		survey_unable(a);
		return true;
	}
	text_format(why, sizeof(why), "the survey ended with %s %d%s%s", exit_cause_name(x->cause),
		    x->cause == EXIT_NOT_STARTED ? x->error : x->code, x->error_at[0] ? " at " : "", x->error_at);
	survey_fail(a, why);
	return true;
}

void survey_gone(struct agent *a, const char *why)
{
	struct survey *v = a->survey;

	if (!v)
		return;
	survey_link_down(a);
	if (v->state == SURVEY_TELLING)
		survey_put(a);
	if (json_array_size(v->ended))
		(void)audit_event(a->hub, EVENT, NULL, a->name, "lost",
				  json_pack("{s:s,s:O}", "message", why, "sessions", v->ended));
	survey_destroy(a);
}

bool survey_rests(const struct agent *a)
{
	return !a->survey || a->survey->state == SURVEY_IDLE;
}

void survey_tick(struct agent *a, uint64_t now)
{
	struct survey *v = a->survey;

	if (!v)
		return;
	if (v->state == SURVEY_TELLING)
		survey_put(a);
	if (v->state == SURVEY_LOOKING && now - v->began_ns > PATIENCE_NS + 10 * NS_PER_SEC) {
		(void)link_forget(a->link, v->channel);
		survey_fail(a, "the survey did not end in time");
	}
	if (v->state == SURVEY_DUE && agent_is_awake(a) && !a->quiesce && now >= v->not_before_ns &&
	    now - v->due_ns >= SETTLE_NS && link_has_survey(a->link))
		survey_begin(a, now);
}

void survey_destroy(struct agent *a)
{
	struct survey *v = a->survey;

	if (!v)
		return;
	buf_finish(&v->answer);
	json_decref(v->ended);
	json_decref(v->named);
	json_decref(v->events);
	free(v);
	a->survey = NULL;
}
