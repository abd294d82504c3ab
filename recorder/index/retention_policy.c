#include "recorder/index/retention_policy.h"

#include "base/clock.h"
#include "base/text.h"

#include <string.h>

void retention_policy_init(struct retention_policy *p)
{
	*p = (struct retention_policy){.retain = {.now = RETENTION_FOREVER, .next = RETENTION_FOREVER},
				       .wait = {.now = RETENTION_WAIT_DEFAULT_NS, .next = RETENTION_WAIT_DEFAULT_NS}};
}

bool retention_shorter(uint64_t a, uint64_t b)
{
	return a != RETENTION_FOREVER && (b == RETENTION_FOREVER || a < b);
}

static bool wait_shorter(uint64_t a, uint64_t b)
{
	return a < b;
}

static int64_t retention_policy_later(int64_t at, uint64_t ns)
{
	return at > INT64_MAX - (int64_t)ns ? INT64_MAX : at + (int64_t)ns;
}

static void retention_policy_settle(struct retention_term *t)
{
	t->now = t->next;
	t->source = t->next_source;
	t->waits = false;
}

void retention_policy_advance(struct retention_policy *p, int64_t wall_ns)
{
	if (p->retain.waits && wall_ns >= p->retain.until_ns)
		retention_policy_settle(&p->retain);
	if (p->wait.waits && wall_ns >= p->wait.until_ns)
		retention_policy_settle(&p->wait);
}

/* Somebody wants `value`: at once where it is not shorter than what holds. */
static void want(struct retention_term *t, uint64_t value, bool shorter_than_now, bool shorter_than_next,
		 const struct retention_source *from, int64_t at_ns, uint64_t wait_ns)
{
	t->next_source = *from;
	if (!shorter_than_now) {
		t->next = value;
		retention_policy_settle(t);
		return;
	}
	/* What waits already keeps its count, unless this asks for more than that did. */
	if (!t->waits || shorter_than_next) {
		t->since_ns = at_ns;
		t->until_ns = retention_policy_later(at_ns, wait_ns);
	}
	t->next = value;
	t->waits = true;
}

/* A longer waiting time holds at once, for what waits too. */
static void stretch(struct retention_term *t, uint64_t wait_ns)
{
	int64_t until = retention_policy_later(t->since_ns, wait_ns);

	if (t->waits && until > t->until_ns)
		t->until_ns = until;
}

static const char *retention_policy_text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void source_of(const json_t *record, struct retention_source *out)
{
	text_put(out->digest, sizeof(out->digest), retention_policy_text_of(record, "digest"));
	text_put(out->by, sizeof(out->by), retention_policy_text_of(record, "principal"));
}

static void take_config(struct retention_policy *p, const json_t *record, int64_t at_ns)
{
	int64_t retain = -1, wait = -1;
	struct retention_source from;

	/* An event that does not say both is none of the recorder's. */
	if (json_need_int(record, "retain_ns", 0, INT64_MAX, &retain, NULL) ||
	    json_need_int(record, "wait_ns", 0, INT64_MAX, &wait, NULL))
		return;
	source_of(record, &from);
	p->loaded = from;
	text_put(p->load, sizeof(p->load), retention_policy_text_of(record, "load"));
	/* Nothing is there yet that could be removed: the first word needs no waiting. */
	if (!p->known && json_is_true(json_object_get(record, "first"))) {
		p->retain.next = (uint64_t)retain;
		p->wait.next = (uint64_t)wait;
		p->retain.next_source = p->wait.next_source = from;
		retention_policy_settle(&p->retain);
		retention_policy_settle(&p->wait);
		p->known = true;
		return;
	}
	p->known = true;
	uint64_t held = p->wait.now;
	want(&p->wait, (uint64_t)wait, wait_shorter((uint64_t)wait, p->wait.now),
	     wait_shorter((uint64_t)wait, p->wait.next), &from, at_ns, held);
	stretch(&p->retain, p->wait.now);
	want(&p->retain, (uint64_t)retain, retention_shorter((uint64_t)retain, p->retain.now),
	     retention_shorter((uint64_t)retain, p->retain.next), &from, at_ns, p->wait.now);
}

/* The event names the configuration that it lets hold, so that a later one is not meant with it. */
static void take_apply(struct retention_policy *p, const json_t *record)
{
	if (strcmp(retention_policy_text_of(record, "digest"), p->loaded.digest) != 0)
		return;
	for (int i = 0; i < 2; i++) {
		struct retention_term *t = i ? &p->wait : &p->retain;

		if (!t->waits)
			continue;
		source_of(record, &t->next_source);
		retention_policy_settle(t);
	}
}

static void take_clock(struct retention_policy *p, int64_t at_ns)
{
	for (int i = 0; i < 2; i++) {
		struct retention_term *t = i ? &p->wait : &p->retain;

		if (!t->waits)
			continue;
		t->since_ns = at_ns;
		t->until_ns = retention_policy_later(at_ns, p->wait.now);
	}
}

bool retention_policy_reserved(const char *event)
{
	static const char *const names[] = {
	    RETENTION_CONFIG_EVENT, RETENTION_APPLY_EVENT, RETENTION_CLOCK_EVENT, "config.text", "hold.add",
	    "hold.release"};

	for (size_t i = 0; event && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], event) == 0)
			return true;
	return false;
}

void retention_policy_take(struct retention_policy *p, uint64_t seq, const json_t *record)
{
	const char *event = retention_policy_text_of(record, "event");
	int64_t at = 0;

	if (seq <= p->seq)
		return;
	/* Events of the time before this was kept have no time of their own, and none of them waits for anything. */
	if (json_opt_int(record, "at_ns", 0, INT64_MAX, &at, NULL) || !at)
		return;
	if (strcmp(event, RETENTION_CLOCK_EVENT) == 0) {
		/* Not first what this clock would let hold: it is the one that is not believed. */
		take_clock(p, at);
	} else if (strcmp(event, RETENTION_CONFIG_EVENT) == 0) {
		retention_policy_advance(p, at);
		take_config(p, record, at);
	} else if (strcmp(event, RETENTION_APPLY_EVENT) == 0) {
		retention_policy_advance(p, at);
		take_apply(p, record);
	} else {
		return;
	}
	p->seq = seq;
}

bool retention_policy_due(const struct retention_policy *p, int64_t sealed_ns, int64_t now_ns)
{
	return p->retain.now != RETENTION_FOREVER && p->retain.now <= INT64_MAX &&
	       now_ns - sealed_ns > (int64_t)p->retain.now;
}

static json_t *duration_json(uint64_t ns)
{
	char text[64];

	clock_format_duration(ns, text, sizeof(text));
	return json_string(ns ? text : "0");
}

static json_t *term_json(const struct retention_term *t)
{
	char since[40], until[40];
	json_t *next = NULL;

	if (t->waits) {
		clock_format_utc(t->since_ns, since, sizeof(since));
		clock_format_utc(t->until_ns, until, sizeof(until));
		next = json_pack("{s:o,s:s,s:s,s:s,s:s}", "value", duration_json(t->next), "since", since, "applies_at",
				 until, "by", t->next_source.by, "digest", t->next_source.digest);
	}
	return json_pack("{s:o,s:s,s:s,s:o*}", "now", duration_json(t->now), "by", t->source.by, "digest",
			 t->source.digest, "next", next);
}

json_t *retention_policy_json(const struct retention_policy *p)
{
	return json_pack("{s:o,s:o}", "retain", term_json(&p->retain), "retain_wait", term_json(&p->wait));
}
