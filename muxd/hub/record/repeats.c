#define LOG_SUBSYS "audit"
#include "muxd/hub/record/repeats.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/prefix.h"
#include "base/text.h"
#include "policy/verdict.h"

#include <stdlib.h>
#include <string.h>

#define NAME_LEN     31
#define ENDPOINT_LEN 79
#define MESSAGE_LEN  255
#define ENDPOINTS    8
#define AGENTS       4

enum width { ADDRESS, SITE, REGION, FAMILY, ANY, WIDTHS };
static const unsigned room[WIDTHS] = {192, 32, 16, 16, 1};

enum slot_state { FREE, COUNTING, OWED };

/* The properties by which one is of the same sort as another. */
struct sort {
	enum width width;
	char door[NAME_LEN + 1], what[NAME_LEN + 1], outcome[NAME_LEN + 1];
	char endpoint[ENDPOINT_LEN + 1];                                                  /* with a grant */
	char operation[NAME_LEN + 1], rule[POLICY_RULE_MAX], version[POLICY_VERSION_LEN]; /* the policy's */
	char local[64]; /* whoever has no network address: "uid 1000" */
	struct prefix from;
	struct id grant;
};

/* How often each of a few names was met, and how often any other. */
struct tally {
	struct {
		char name[AGENT_NAME_MAX + 1];
		uint64_t count;
	} of[ENDPOINTS];
	uint64_t others;
};

struct slot {
	enum slot_state state;
	struct sort sort;
	uint64_t due_ns;
	struct id event;
	uint64_t count; /* that no event has told yet */
	int64_t first_wall_ns, last_wall_ns;
	char message[MESSAGE_LEN + 1];
	char principal[GRANT_NAME_MAX + 1];
	const char *principal_kind;
	char peer[64]; /* of the first verdict that no event has told; "any": there were several */
	struct tally endpoints, agents;
	struct id requests[2 * REPEATS_IDS]; /* the first ones; behind them the last ones, in a circle */
	json_t *owed;
};

struct repeats {
	enum repeats_of of;
	const struct repeats_ops *ops;
	void *arg;
	struct slot slots[REPEATS_SLOTS];
};

int repeats_create(enum repeats_of of, const struct repeats_ops *ops, void *arg, struct repeats **out)
{
	struct repeats *f = calloc(1, sizeof(*f));

	if (!f)
		return ERR_NOMEM;
	f->of = of;
	f->ops = ops;
	f->arg = arg;
	*out = f;
	return 0;
}

void repeats_destroy(struct repeats *f)
{
	for (size_t i = 0; f && i < REPEATS_SLOTS; i++)
		json_decref(f->slots[i].owed);
	free(f);
}

/* ---- sorts */

/* A client with a grant is known: its address says nothing about the sort. */
static void sort_verdict(const struct repeat *it, enum width width, struct sort *out)
{
	out->width = width;
	if (width == ANY)
		return;
	if (width != FAMILY)
		out->grant = it->who->id;
	if (width != REGION)
		text_put(out->outcome, sizeof(out->outcome), it->outcome);
	if (width != FAMILY)
		text_put(out->door, sizeof(out->door), it->door);
	if (width != ADDRESS)
		return;
	text_put(out->what, sizeof(out->what), it->what);
	text_put(out->endpoint, sizeof(out->endpoint), it->endpoint);
	text_put(out->operation, sizeof(out->operation), it->operation ? it->operation : "");
	text_put(out->rule, sizeof(out->rule), it->rule ? it->rule : "");
	text_put(out->version, sizeof(out->version), it->version ? it->version : "");
}

static void sort_login(const struct repeat *it, enum width width, struct sort *out)
{
	static const unsigned v4[WIDTHS] = {32, 24, 16, 0, 0}, v6[WIDTHS] = {64, 48, 32, 0, 0};
	struct prefix whole;

	out->width = width;
	if (width == ANY)
		return;
	prefix_of_peer(it->peer, &whole);
	out->from = prefix_wide(&whole, whole.family == 6 ? v6[width] : v4[width]);
	text_put(out->door, sizeof(out->door), it->door);
	text_put(out->what, sizeof(out->what), it->what);
	text_put(out->outcome, sizeof(out->outcome), it->outcome);
	if (width == ADDRESS && !whole.family)
		text_format(out->local, sizeof(out->local), "%.*s", (int)strcspn(it->peer, ":"), it->peer);
	if (!it->who || width == FAMILY)
		return;
	out->grant = it->who->id;
	if (width == ADDRESS && !id_is_nil(&out->grant))
		text_put(out->endpoint, sizeof(out->endpoint), it->endpoint);
}

static void sort_of(const struct repeats *f, const struct repeat *it, enum width width, struct sort *out)
{
	memset(out, 0, sizeof(*out));
	if (f->of != REPEATS_LOGINS)
		sort_verdict(it, width, out);
	else
		sort_login(it, width, out);
}

static bool sort_equal(const struct sort *a, const struct sort *b)
{
	return a->width == b->width && prefix_equal(&a->from, &b->from) && id_equal(&a->grant, &b->grant) &&
	       strcmp(a->door, b->door) == 0 && strcmp(a->what, b->what) == 0 && strcmp(a->outcome, b->outcome) == 0 &&
	       strcmp(a->endpoint, b->endpoint) == 0 && strcmp(a->local, b->local) == 0 &&
	       strcmp(a->operation, b->operation) == 0 && strcmp(a->rule, b->rule) == 0 &&
	       strcmp(a->version, b->version) == 0;
}

static struct slot *repeats_find(struct repeats *f, const struct sort *s)
{
	for (size_t i = 0; i < REPEATS_SLOTS; i++)
		if (f->slots[i].state == COUNTING && sort_equal(&f->slots[i].sort, s))
			return &f->slots[i];
	return NULL;
}

/* A slot for one more sort of this width; slots are not bound to a width, their number is. */
static struct slot *take_free(struct repeats *f, enum width width)
{
	const unsigned most = f->of == REPEATS_ALLOWANCES ? REPEATS_SLOTS : room[width];
	struct slot *got = NULL;
	unsigned used = 0;

	for (size_t i = 0; i < REPEATS_SLOTS; i++) {
		struct slot *s = &f->slots[i];

		if (s->state == COUNTING && s->sort.width == width)
			used++;
		else if (s->state == FREE && !got)
			got = s;
	}
	return used < most ? got : NULL;
}

/* The slot of one more: of the narrowest sort that there is, or that there is room for. *out_new: it is a new one. */
static struct slot *slot_for(struct repeats *f, const struct repeat *it, bool *out_new)
{
	/* A wider sort knows no rule, which is what an allowance is about. */
	const enum width widest = f->of == REPEATS_ALLOWANCES ? ADDRESS : ANY;
	struct slot *slot = NULL;
	struct sort s;

	for (enum width w = ADDRESS; w <= widest && !slot; w++) {
		sort_of(f, it, w, &s);
		slot = repeats_find(f, &s);
		*out_new = !slot;
		if (slot || !(slot = take_free(f, w)))
			continue;
		memset(slot, 0, sizeof(*slot));
		memcpy(&slot->sort, &s, sizeof(s));
	}
	return slot;
}

/* ---- events */

static json_t *tally_json(const struct tally *t)
{
	json_t *o = json_object();

	for (size_t i = 0; o && i < ENDPOINTS && t->of[i].count; i++)
		json_object_set_new(o, t->of[i].name[0] ? t->of[i].name : "none",
				    json_integer((json_int_t)t->of[i].count));
	if (o && t->others)
		json_object_set_new(o, "others", json_integer((json_int_t)t->others));
	return o;
}

/* Where the id of that one of the requests is kept, counted from 0. */
static size_t request_at(uint64_t n)
{
	return n < REPEATS_IDS ? n : REPEATS_IDS + n % REPEATS_IDS;
}

static json_t *requests_json(const struct slot *s)
{
	json_t *list = json_array();
	char id[ID_STR_LEN];

	for (uint64_t n = 0; list && n < s->count; n++) {
		if (n == REPEATS_IDS && s->count > sizeof(s->requests) / sizeof(s->requests[0]))
			n = s->count - REPEATS_IDS;
		if (id_is_nil(&s->requests[request_at(n)]))
			continue;
		id_format(&s->requests[request_at(n)], id);
		json_array_append_new(list, json_string(id));
	}
	return list;
}

static const char *or_any(const char *text)
{
	return text[0] ? text : "any";
}

static json_t *detail_json(const struct repeats *f, const struct slot *s, const char *from)
{
	char first[32], last[32], id[ID_STR_LEN];
	json_t *o;

	id_format(&s->event, id);
	clock_format_utc(s->first_wall_ns, first, sizeof(first));
	clock_format_utc(s->last_wall_ns, last, sizeof(last));
	o = json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:o,s:s,s:o}", "what", or_any(s->sort.what), "message", s->message,
		      "count", (json_int_t)s->count, "first_at", first, "last_at", last, "from", from, "endpoints",
		      tally_json(&s->endpoints), "event_id", id, "request_ids", requests_json(s));
	if (o && f->of != REPEATS_LOGINS)
		json_object_set_new(o, "agents", tally_json(&s->agents));
	if (o && f->of >= REPEATS_DENIALS)
		json_object_set_new(o, "operation", json_string(or_any(s->sort.operation)));
	if (o && f->of == REPEATS_DENIALS) {
		json_object_set_new(o, "rule", json_string(or_any(s->sort.rule)));
		json_object_set_new(o, "version", json_string(or_any(s->sort.version)));
	}
	return o;
}

static const char *outcome_of(const struct repeats *f, const struct slot *s)
{
	if (s->sort.outcome[0])
		return s->sort.outcome;
	if (f->of == REPEATS_ALLOWANCES)
		return "ok";
	return f->of != REPEATS_LOGINS ? "denied" : "unauthenticated";
}

static const char *peer_of(const struct repeats *f, const struct slot *s, char from[PREFIX_STR_LEN])
{
	if (f->of != REPEATS_LOGINS)
		return or_any(s->peer);
	prefix_format(&s->sort.from, from);
	if (s->sort.local[0])
		return s->sort.local;
	return s->sort.width == ANY ? "any" : or_any(from);
}

/* The only name that was met, or NULL. */
static const char *tally_only(const struct tally *t)
{
	return t->of[0].count && !t->of[1].count ? t->of[0].name : NULL;
}

static const char *const event_names[REPEATS_KINDS] = {[REPEATS_LOGINS] = "auth.fail",
						       [REPEATS_VERDICTS] = "verdict",
						       [REPEATS_DENIALS] = "policy.deny",
						       [REPEATS_ALLOWANCES] = "policy.allow"};

static json_t *event_json(const struct repeats *f, const struct slot *s, int64_t wall_ns)
{
	char from[PREFIX_STR_LEN] = "", grant[ID_STR_LEN];
	const char *peer = peer_of(f, s, from), *endpoint = tally_only(&s->endpoints), *agent = tally_only(&s->agents);
	json_t *o = json_pack("{s:s,s:I,s:s,s:s,s:s,s:o}", "event", event_names[f->of], "wall_ns", (json_int_t)wall_ns,
			      "outcome", outcome_of(f, s), "door", or_any(s->sort.door), "peer", peer, "detail",
			      detail_json(f, s, peer));

	if (o && endpoint)
		json_object_set_new(o, "endpoint", json_string(endpoint));
	if (o && f->of == REPEATS_ALLOWANCES && s->sort.version[0])
		json_object_set_new(o, "policy",
				    json_pack("{s:s,s:s}", "rule", s->sort.rule, "version", s->sort.version));
	if (o && agent && agent[0])
		json_object_set_new(o, "agent", json_string(agent));
	if (o && !id_is_nil(&s->sort.grant)) {
		id_format(&s->sort.grant, grant);
		json_object_set_new(o, "grant_id", json_string(grant));
		json_object_set_new(o, "principal", json_string(s->principal));
		json_object_set_new(o, "principal_kind", json_string(s->principal_kind));
	}
	return o;
}

/* One that is too long, as its message is all escapes, goes without the ids of its requests: the count comes first. */
static void repeats_keep(struct repeats *f, const struct slot *s, const json_t *event)
{
	char *text = event ? json_text(event) : NULL;
	size_t n = text ? strlen(text) : 0;

	if (n > REPEATS_EVENT_MAX) {
		json_object_del(json_object_get(event, "detail"), "request_ids");
		free(text);
		text = json_text(event);
		n = text ? strlen(text) : 0;
	}
	if (n <= REPEATS_EVENT_MAX)
		f->ops->keep(f->arg, f->of, (size_t)(s - f->slots), text ? text : "", n);
	free(text);
}

/* ---- counting */

static void tally_count(struct tally *t, size_t most, const char *name)
{
	for (size_t i = 0; i < most; i++) {
		if (!t->of[i].count)
			text_put(t->of[i].name, sizeof(t->of[i].name), name);
		else if (strcmp(t->of[i].name, name) != 0)
			continue;
		t->of[i].count++;
		return;
	}
	t->others++;
}

static void repeats_count(struct repeats *f, struct slot *s, const struct repeat *it, int64_t wall_ns)
{
	static const struct id none;
	char endpoint[ENDPOINT_LEN + 1];
	json_t *event;

	s->requests[request_at(s->count)] = it->request ? *it->request : none;
	if (s->count++ == 0) {
		(void)id_new(&s->event);
		s->first_wall_ns = wall_ns;
		text_put(s->message, sizeof(s->message), it->message);
		text_put(s->peer, sizeof(s->peer), it->peer);
	}
	s->last_wall_ns = wall_ns;
	if (strcmp(s->peer, it->peer) != 0)
		text_put(s->peer, sizeof(s->peer), "any");
	text_put(endpoint, sizeof(endpoint), it->endpoint);
	tally_count(&s->endpoints, ENDPOINTS, endpoint);
	if (f->of != REPEATS_LOGINS)
		tally_count(&s->agents, AGENTS, it->agent ? it->agent : "");
	event = event_json(f, s, wall_ns);
	if (!event)
		log_error(NULL, "what repeats is counted in memory alone: no memory");
	else
		repeats_keep(f, s, event);
	json_decref(event);
}

bool repeats_note(struct repeats *f, const struct repeat *it, uint64_t boot_ns, int64_t wall_ns)
{
	bool fresh = false;
	struct slot *s = slot_for(f, it, &fresh);

	/* No slot: all are owed, as the audit log takes nothing, or allowances have them all. It is the caller's. */
	if (!s)
		return true;
	if (!fresh) {
		repeats_count(f, s, it, wall_ns);
		return false;
	}
	s->state = COUNTING;
	s->due_ns = boot_ns + REPEATS_EVERY_NS;
	if (!id_is_nil(&s->sort.grant)) {
		text_put(s->principal, sizeof(s->principal), it->who->principal);
		s->principal_kind = grant_kind_name(it->who->kind);
	}
	return true;
}

bool repeats_owe(struct repeats *f, size_t slot, const char *text, size_t n)
{
	struct err e;

	if (slot >= REPEATS_SLOTS || f->slots[slot].state != FREE ||
	    json_parse(text, n, REPEATS_EVENT_MAX, &f->slots[slot].owed, &e))
		return false;
	f->slots[slot].state = OWED;
	return true;
}

static void repeats_forget(struct repeats *f, struct slot *s)
{
	json_decref(s->owed);
	memset(s, 0, sizeof(*s));
	repeats_keep(f, s, NULL);
}

/* False: the audit log takes nothing now. */
static bool repeats_settle(struct repeats *f, struct slot *s, uint64_t boot_ns, int64_t wall_ns)
{
	json_t *event = s->state == OWED ? json_incref(s->owed) : event_json(f, s, wall_ns);
	int rc = event ? f->ops->write(f->arg, event) : ERR_NOMEM;

	json_decref(event);
	if (rc)
		return false;
	if (s->state == OWED) {
		repeats_forget(f, s);
		return true;
	}
	s->count = 0;
	memset(&s->endpoints, 0, sizeof(s->endpoints));
	memset(&s->agents, 0, sizeof(s->agents));
	s->due_ns = boot_ns + REPEATS_EVERY_NS;
	repeats_keep(f, s, NULL);
	return true;
}

void repeats_tick(struct repeats *f, uint64_t boot_ns, int64_t wall_ns, bool all)
{
	for (size_t i = 0; i < REPEATS_SLOTS; i++) {
		struct slot *s = &f->slots[i];

		if (s->state == FREE || (s->state == COUNTING && !all && boot_ns < s->due_ns))
			continue;
		if (s->state == COUNTING && !s->count)
			repeats_forget(f, s);
		else if (!repeats_settle(f, s, boot_ns, wall_ns))
			return;
	}
}
