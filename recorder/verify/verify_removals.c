/*
 * What retention removed: each tombstone against what the log says was in force then, and against what was held.
 *
 * The log is read once more and followed in its order as the recorder followed it (retention_policy.h, holds.h): one
 * that removes on its own authority cannot make its tombstones fit.
 */
#include "base/clock.h"
#include "base/err.h"
#include "recorder/chain/succession.h"
#include "recorder/index/holds.h"
#include "recorder/index/retention_policy.h"
#include "recorder/verify/verify_whole.h"

#include <string.h>

struct removals {
	struct verify_whole *w;
	struct retention_policy policy;
	struct holds holds;
	int64_t sealed_ns; /* when the first recording was sealed; 0: none was */
};

/* What a tombstone says. */
struct tomb {
	const char *rule, *digest, *by;
	int64_t limit_ns, removed_ns, sealed_ns;
	struct hold_subject about;
};

static void read_tomb(const json_t *o, const struct chain_entry *en, struct tomb *t)
{
	*t = (struct tomb){.by = "", .about = {.session = en->session, .ended_ns = INT64_MAX}};
	(void)json_opt_str(o, "rule", &t->rule, NULL);
	(void)json_opt_str(o, "policy", &t->digest, NULL);
	(void)json_opt_str(o, "by", &t->by, NULL);
	(void)json_opt_str(o, "agent", &t->about.agent, NULL);
	(void)json_opt_str(o, "principal", &t->about.principal, NULL);
	(void)json_opt_int(o, "limit_ns", 0, INT64_MAX, &t->limit_ns, NULL);
	(void)json_opt_int(o, "removed_ns", 0, INT64_MAX, &t->removed_ns, NULL);
	(void)json_opt_int(o, "sealed_ns", 0, INT64_MAX, &t->sealed_ns, NULL);
	(void)json_opt_int(o, "opened_ns", 0, INT64_MAX, &t->about.opened_ns, NULL);
	(void)json_opt_int(o, "ended_ns", 0, INT64_MAX, &t->about.ended_ns, NULL);
}

static void list_removal(struct removals *r, const struct chain_entry *en, const struct tomb *t)
{
	char at[40], limit[64], age[64];

	clock_format_utc(t->removed_ns, at, sizeof at);
	clock_format_duration((uint64_t)t->limit_ns, limit, sizeof limit);
	/* To the second: an age is for people here. */
	clock_format_duration((uint64_t)(t->removed_ns - t->sealed_ns) / NS_PER_SEC * NS_PER_SEC, age, sizeof age);
	verify_whole_found(r->w, VERIFY_NOTE, "removed", "", &en->session,
			   "removed %s by rule %s (%s) at an age of %s; configuration %.16s, by %s", at, t->rule, limit,
			   age, t->digest ? t->digest : "", t->by);
}

/* NULL: it fits what was in force. */
static const char *misfit(const struct removals *r, const struct chain_entry *en, const struct tomb *t)
{
	struct retention_policy p = r->policy;

	if (strcmp(t->rule, RETENTION_RULE) != 0)
		return "the log knows no such rule";
	if (t->removed_ns > en->wall_ns + RETENTION_JUMP_NS)
		return "it was removed before the time that its tombstone tells";
	retention_policy_advance(&p, t->removed_ns);
	if (p.retain.now == RETENTION_FOREVER)
		return "recordings were kept for ever then";
	if ((uint64_t)t->limit_ns != p.retain.now)
		return "another limit was in force then";
	if (!t->digest || strcmp(t->digest, p.retain.source.digest) != 0)
		return "another configuration was in force then";
	return retention_policy_due(&p, t->sealed_ns, t->removed_ns) ? NULL : "it was not that old";
}

static void judge_tomb(struct removals *r, const struct chain_entry *en, const json_t *o)
{
	const struct hold *held;
	const char *why;
	char id[ID_STR_LEN];
	struct tomb t;

	read_tomb(o, en, &t);
	if (!t.rule) {
		/* Before configurations stood in the log nothing told of a rule. */
		verify_whole_found(r->w, r->policy.known ? VERIFY_COMPLETENESS : VERIFY_NOTE,
				   r->policy.known ? "removed_unexplained" : "removed", "", &en->session,
				   "removed%s%s, without a word of the rule", *t.by ? " by " : "", t.by);
	} else {
		list_removal(r, en, &t);
		why = misfit(r, en, &t);
		if (why)
			verify_whole_found(r->w, VERIFY_COMPLETENESS, "removed_early", "", &en->session,
					   "removed against what the log says was in force: %s", why);
	}
	held = holds_cover(&r->holds, &t.about);
	if (!held)
		return;
	id_format(&held->id, id);
	verify_whole_found(r->w, VERIFY_COMPLETENESS, "removed_held", "", &en->session, "removed while hold %s kept it",
			   id);
}

/* The recorder's own events begin so; of others only few are ever parsed. */
static bool tells_of_keeping(const struct chain_entry *en)
{
	static const char *const names[] = {"\"" RETENTION_CONFIG_EVENT "\"", "\"" RETENTION_APPLY_EVENT "\"",
					    "\"" RETENTION_CLOCK_EVENT "\""};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (memmem(en->payload, en->len, names[i], strlen(names[i])))
			return true;
	return false;
}

static void verify_removals_take_event(struct removals *r, const struct chain_entry *en, json_t *o)
{
	int64_t at = 0;

	/* The entry may not say that nothing was recorded yet when something was. (One may be sealed while it is on its
	 * way.)
	 */
	(void)json_opt_int(o, "at_ns", 0, INT64_MAX, &at, NULL);
	if (r->sealed_ns && at - r->sealed_ns > RETENTION_JUMP_NS)
		json_object_del(o, "first");
	retention_policy_take(&r->policy, en->journal_seq, o);
}

static int verify_removals_take_entry(void *arg, const struct chain_entry *en, struct err *e)
{
	struct removals *r = arg;
	json_t *o = NULL;
	int rc = 0;

	if (en->type == CHAIN_SEAL && !r->sealed_ns)
		r->sealed_ns = en->wall_ns;
	if (en->type != CHAIN_TOMBSTONE && en->type != CHAIN_HOLD && !(en->type == CHAIN_AUDIT && tells_of_keeping(en)))
		return 0;
	/* What no trusted head vouches for neither excuses nor forbids anything. */
	if (en->type != CHAIN_AUDIT && !succession_vouches(&r->w->log.line, en->seq))
		return 0;
	if (chain_entry_json(en, &o)) {
		if (en->type == CHAIN_HOLD)
			verify_whole_found(r->w, VERIFY_INTEGRITY, "hold_malformed", "", &en->session,
					   "entry %llu of the log is no hold", (unsigned long long)en->seq);
		return 0;
	}
	if (en->type == CHAIN_TOMBSTONE)
		judge_tomb(r, en, o);
	else if (en->type == CHAIN_HOLD)
		rc = holds_take(&r->holds, o, e);
	else
		verify_removals_take_event(r, en, o);
	json_decref(o);
	return rc;
}

int verify_removals(struct verify_whole *w, struct err *e)
{
	struct removals r = {.w = w};

	retention_policy_init(&r.policy);
	int rc = verify_whole_entries(w, verify_removals_take_entry, &r, e);
	holds_finish(&r.holds);
	return rc;
}
