#include "muxd/ctl/verdict.h"

#include "base/clock.h"
#include "base/ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FINDINGS_MAX 10000
#define NO_OUTSIDE   "no outside head given: whoever owns the host could have rewritten this"

int verdict_begin(struct verdict *v, struct ctl *c)
{
	*v = (struct verdict){.c = c, .findings = json_array(), .recordings = json_array(), .keys = json_array()};
	return v->findings && v->recordings && v->keys ? 0 : ERR_NOMEM;
}

void verdict_finish(struct verdict *v)
{
	json_decref(v->findings);
	json_decref(v->recordings);
	json_decref(v->keys);
}

static const char *class_name(enum verify_class k)
{
	return k == VERIFY_INTEGRITY ? "integrity" : k == VERIFY_COMPLETENESS ? "completeness" : "note";
}

static json_t *finding_json(const struct verify_finding *f)
{
	char id[ID_STR_LEN];
	json_t *o = json_pack("{s:s,s:s,s:s,s:s}", "class", class_name(f->class), "code", f->code, "path", f->path,
			      "message", f->message);

	if (o && !id_is_nil(&f->session)) {
		id_format(&f->session, id);
		json_object_set_new(o, "session", json_string(id));
	}
	if (o && f->block >= 0)
		json_object_set_new(o, "block", json_integer(f->block));
	if (o && f->len) {
		json_object_set_new(o, "position", json_integer((json_int_t)f->pos));
		json_object_set_new(o, "length", json_integer((json_int_t)f->len));
	}
	return o;
}

void verdict_finding(void *arg, const struct verify_finding *f)
{
	struct verdict *v = arg;
	char *path, *message;

	v->counts[f->class]++;
	if (v->c->json) {
		if (json_array_size(v->findings) < FINDINGS_MAX)
			json_array_append_new(v->findings, finding_json(f));
		return;
	}
	path = ctl_clean(f->path);
	message = ctl_clean(f->message);
	printf("%-12s %-20s %s", class_name(f->class), f->code, message ? message : "");
	if (path && *path)
		printf(" (%s)", path);
	putchar('\n');
	free(path);
	free(message);
}

static json_t *result_json(const char *path, const struct verify_result *r)
{
	char id[ID_STR_LEN];

	id_format(&r->session, id);
	return json_pack("{s:s,s:s,s:b,s:b,s:b,s:b,s:b,s:s,s:I,s:I,s:I}", "session", id, "path", path, "sealed",
			 (int)r->sealed, "open", (int)r->open, "intact", (int)r->intact, "complete", (int)r->complete,
			 "signature_checked", (int)r->signature_checked, "kid", r->kid, "blocks", (json_int_t)r->blocks,
			 "events", (json_int_t)r->events, "size", (json_int_t)r->size);
}

void verdict_recording(void *arg, const char *path, const struct verify_result *r)
{
	struct verdict *v = arg;
	char id[ID_STR_LEN];

	v->unsigned_recordings += r->sealed && !r->signature_checked;
	if (v->c->json) {
		if (v->verbose || !r->intact || !r->complete)
			json_array_append_new(v->recordings, result_json(path, r));
		return;
	}
	if (!v->verbose && r->intact && r->complete)
		return;
	id_format(&r->session, id);
	printf("%s  %s, %s%s, %" PRIu64 " events, %" PRIu64 " bytes\n", id, r->intact ? "intact" : "CHANGED",
	       r->complete ? "complete" : "INCOMPLETE", r->sealed ? "" : ", not sealed", r->events, r->size);
}

static void utc(int64_t wall_ns, char out[40])
{
	clock_format_utc(wall_ns, out, 40);
}

/* Where a key came from, and why it counts. */
void verdict_key(void *arg, const struct verify_key *k)
{
	static const char *const origins[] = {"given", "log", "stranger"};
	struct verdict *v = arg;
	const char *origin = k->origin == VERIFY_KEY_GIVEN && v->keys_own ? "host" : origins[k->origin];
	char when[40] = "";
	json_t *o = json_pack("{s:s,s:s}", "kid", k->kid, "origin", origin);

	if (o && k->origin == VERIFY_KEY_GIVEN)
		json_object_set_new(o, "path", json_string(v->keys_from));
	if (o && k->entry)
		json_object_set_new(o, "entry", json_integer((json_int_t)k->entry));
	if (o && k->head) {
		utc(k->head_wall_ns, when);
		json_object_set_new(
		    o, "head",
		    json_pack("{s:I,s:s,s:s}", "entry", (json_int_t)k->head, "wall", when, "kid", k->head_kid));
	}
	json_array_append_new(v->keys, o);
}

static void say_key(const struct verdict *v, const json_t *k, bool first)
{
	const json_t *head = json_object_get(k, "head");
	const char *kid = json_string_value(json_object_get(k, "kid")),
		   *origin = json_string_value(json_object_get(k, "origin"));
	json_int_t entry = json_integer_value(json_object_get(k, "entry"));
	char *from = ctl_clean(v->keys_from);

	/* own: of the key's bytes, above */
	printf("%-13s %.16s", first ? "keys:" : "", kid ? kid : "?");
	if (origin && strcmp(origin, "host") == 0)
		printf(", from this host's own %s", from ? from : "");
	else if (origin && strcmp(origin, "given") == 0)
		printf(", given in %s", from ? from : "");
	else if (origin && strcmp(origin, "stranger") == 0)
		printf(", which no key vouches for that was given");
	if (entry)
		printf(", announced in entry %" PRIu64, (uint64_t)entry);
	if (head)
		/* own: of a clock and a key's bytes, above */
		printf(" under the head of %s by %.16s", json_string_value(json_object_get(head, "wall")),
		       json_string_value(json_object_get(head, "kid")));
	putchar('\n');
	free(from);
}

static void say_keys(const struct verdict *v)
{
	const json_t *k;
	size_t i;

	json_array_foreach(v->keys, i, k) say_key(v, k, i == 0);
}

static const char *integrity_word(bool intact)
{
	return intact ? "intact" : "changed";
}

/* complete: no finding; witnessed: a head from outside says so too. */
static const char *completeness_word(bool complete, bool witnessed, uint64_t removed)
{
	if (!complete)
		return "incomplete";
	if (!witnessed)
		return "as_far_as_known";
	return removed ? "but_for_removals" : "complete";
}

static void say_findings(uint64_t n)
{
	if (n)
		printf(" (%" PRIu64 " findings)", n);
	putchar('\n');
}

static void say_verdict(const struct verdict *v, bool intact, bool complete, bool witnessed, uint64_t removed)
{
	printf("integrity:    %s", intact ? "intact" : "CHANGED");
	say_findings(v->counts[VERIFY_INTEGRITY]);
	printf("completeness: %s%s", complete ? "complete" : "INCOMPLETE",
	       complete && !witnessed ? " as far as this host knows" : "");
	if (complete && removed)
		printf(", but for %" PRIu64 " recordings that were removed", removed);
	say_findings(v->counts[VERIFY_COMPLETENESS]);
	if (v->unsigned_recordings)
		printf("not checked:  %" PRIu64 " signatures, their keys are not among those given\n",
		       v->unsigned_recordings);
}

static void say_privsep(const char *state)
{
	if (strcmp(state, "none") == 0)
		printf("privsep:      none: who ran the daemon could also sign\n");
}

static json_t *verdict_json(const struct verdict *v, bool intact, const char *completeness, bool witnessed,
			    uint64_t removed, const char *split)
{
	return json_pack("{s:s,s:s,s:b,s:I,s:s,s:O,s:O,s:O,s:b}", "integrity", integrity_word(intact), "completeness",
			 completeness, "witnessed", (int)witnessed, "removals", (json_int_t)removed, "privsep", split,
			 "keys", v->keys, "findings", v->findings, "recordings", v->recordings, "findings_cut",
			 (int)(v->counts[0] + v->counts[1] + v->counts[2] > FINDINGS_MAX));
}

static json_t *head_json(const struct chain_head *h)
{
	char when[40];

	if (!h->seq)
		return json_null();
	utc(h->wall_ns, when);
	return json_pack("{s:I,s:s,s:s}", "seq", (json_int_t)h->seq, "wall", when, "kid", h->kid);
}

static json_t *summary_json(const struct verify_summary *s)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "recordings", (json_int_t)s->recordings,
			 "open", (json_int_t)s->open, "tombstones", (json_int_t)s->tombstones, "missing",
			 (json_int_t)s->missing, "unknown", (json_int_t)s->unknown, "pending", (json_int_t)s->pending,
			 "entries", (json_int_t)s->entries, "heads", (json_int_t)s->heads, "unsigned_entries",
			 (json_int_t)s->unsigned_entries, "snapshots", (json_int_t)s->snapshots, "merged",
			 (json_int_t)s->merged);
}

static void say_drawings(const struct verdict *v, const struct verify_drawings *d)
{
	if (v->derived)
		printf("keyframes:    drawn again: %" PRIu64 " the same, %" PRIu64 " the same but shorter, %" PRIu64
		       " not compared, %" PRIu64 " %s\n",
		       d->same, d->shorter, d->uncompared, d->untrue, d->untrue ? "UNTRUE" : "untrue");
}

static void set_drawings(const struct verdict *v, json_t *o, const struct verify_drawings *d)
{
	if (v->derived)
		json_object_set_new(o, "keyframes",
				    json_pack("{s:I,s:I,s:I,s:I}", "same", (json_int_t)d->same, "shorter",
					      (json_int_t)d->shorter, "not_compared", (json_int_t)d->uncompared,
					      "untrue", (json_int_t)d->untrue));
}

static int print(const struct verdict *v, json_t *o, int status)
{
	int printed = ctl_print_json(v->c, o);

	json_decref(o);
	return status ? status : printed;
}

static int verdict_status_of(const struct verdict *v, bool intact, bool complete, bool witnessed, uint64_t removed)
{
	if (!intact)
		return VERDICT_CHANGED;
	if (!complete)
		return VERDICT_INCOMPLETE;
	if (v->need_witness && !witnessed)
		return VERDICT_UNWITNESSED;
	return v->need_all && removed ? VERDICT_REMOVED : VERDICT_WHOLE;
}

static void say_heads(const struct verify_summary *s, size_t given)
{
	char when[40];

	if (s->head.seq) {
		utc(s->head.wall_ns, when);
		printf("newest head:  entry %" PRIu64 ", %s, signed by %.16s\n", s->head.seq, when, s->head.kid);
	}
	if (!given) {
		printf("outside:      " NO_OUTSIDE "\n");
		return;
	}
	printf("outside:      %" PRIu64 " of %zu heads are in the log", s->outside_found, given);
	if (s->outside_found) {
		utc(s->outside.wall_ns, when);
		printf(", the newest of %s up to entry %" PRIu64 "; %" PRIu64 " entries came after it", when,
		       s->outside.seq, s->outside_behind);
	}
	putchar('\n');
}

static void say_timestamps(const struct verdict *v, const struct verify_summary *s)
{
	char *by = ctl_clean(s->timestamp.by), *ca = ctl_clean(v->tsa_ca ? v->tsa_ca : ""), when[40];

	if (s->timestamps) {
		utc(s->timestamp.wall_ns, when);
		printf("timestamps:   %" PRIu64 ", %s%s; entry %" PRIu64 " was there at %s, %s %s; %" PRIu64
		       " entries came after it\n",
		       s->timestamps, v->tsa_ca ? "checked with " : "not checked: no --tsa-ca", ca ? ca : "",
		       s->timestamp_seq, when, v->tsa_ca ? "says" : "as if signed by", by ? by : "",
		       s->entries > s->timestamp_seq ? s->entries - s->timestamp_seq : 0);
	}
	free(ca);
	free(by);
}

static json_t *timestamps_json(const struct verify_summary *s)
{
	char when[40];

	utc(s->timestamp.wall_ns, when);
	return json_pack("{s:I,s:I,s:o}", "count", (json_int_t)s->timestamps, "checked",
			 (json_int_t)s->timestamps_checked, "newest",
			 s->timestamps ? json_pack("{s:I,s:s,s:s,s:s}", "entry", (json_int_t)s->timestamp_seq, "wall",
						   when, "by", s->timestamp.by, "serial", s->timestamp.serial)
				       : json_null());
}

int verdict_whole(struct verdict *v, const struct verify_summary *s, size_t given, const char *privsep)
{
	bool witnessed = given && s->outside_found == given;
	int status = verdict_status_of(v, s->intact, s->complete, witnessed, s->tombstones);

	if (v->c->json) {
		json_t *o = verdict_json(v, s->intact, completeness_word(s->complete, witnessed, s->tombstones),
					 witnessed, s->tombstones, privsep);
		json_object_set_new(o, "summary", summary_json(s));
		json_object_set_new(o, "newest_head", head_json(&s->head));
		json_object_set_new(o, "outside",
				    json_pack("{s:I,s:I,s:o,s:I}", "given", (json_int_t)given, "found",
					      (json_int_t)s->outside_found, "newest", head_json(&s->outside), "behind",
					      (json_int_t)s->outside_behind));
		json_object_set_new(o, "timestamps", timestamps_json(s));
		set_drawings(v, o, &s->drawings);
		if (given)
			json_object_set_new(o, "expected_head_found", json_boolean(witnessed));
		return print(v, o, status);
	}
	say_verdict(v, s->intact, s->complete, witnessed, s->tombstones);
	printf("recordings:   %" PRIu64 ", %" PRIu64 " open, %" PRIu64 " removed by retention, %" PRIu64
	       " missing, %" PRIu64 " not in the log\n",
	       s->recordings, s->open, s->tombstones, s->missing, s->unknown + s->pending);
	printf("log:          %" PRIu64 " entries, %" PRIu64 " signed heads, %" PRIu64 " entries behind the last one\n",
	       s->entries, s->heads, s->unsigned_entries);
	if (s->merged)
		printf("merged:       %" PRIu64 " entries of other logs\n", s->merged);
	say_heads(s, given);
	say_timestamps(v, s);
	say_drawings(v, &s->drawings);
	say_keys(v);
	say_privsep(privsep);
	return status;
}

int verdict_one(struct verdict *v, const struct verify_result *r, bool alone, const char *privsep)
{
	int status = verdict_status_of(v, r->intact, r->complete, false, 0);

	if (status == VERDICT_WHOLE && r->open)
		status = VERDICT_NOT_SEALED;
	if (v->c->json) {
		json_t *o = verdict_json(v, r->intact, completeness_word(r->complete, false, 0), false, 0, privsep);
		json_object_set_new(o, "log", json_boolean(!alone));
		set_drawings(v, o, &r->drawings);
		return print(v, o, status);
	}
	say_verdict(v, r->intact, r->complete, false, 0);
	printf(alone ? "log:          none: the file alone says so\n" : "outside:      " NO_OUTSIDE "\n");
	say_drawings(v, &r->drawings);
	say_keys(v);
	say_privsep(privsep);
	return status;
}
