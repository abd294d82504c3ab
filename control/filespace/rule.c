#include "control/filespace/rule.h"

#include <stddef.h>
#include <string.h>

const char *filespace_verdict_name(enum filespace_verdict v)
{
	static const char *const names[] = {"nothing",      "agree",       "copy_up", "copy_down",
					    "delete_there", "delete_here", "forget"};

	return names[v];
}

static bool has(const struct filespace_side *s)
{
	return s->key[0] != '\0';
}

static bool same(const struct filespace_side *a, const struct filespace_side *b)
{
	return strcmp(a->key, b->key) == 0;
}

/* No clock of a sandbox's is believed beyond what is known anyway. */
static int64_t held_between(int64_t t, int64_t low, int64_t high)
{
	return t < low ? low : t > high ? high : t;
}

/* The workspace has it, the store has not. */
static enum filespace_verdict only_here(const struct filespace_side *here, const struct filespace_side *there,
					const struct filespace_side *last, int64_t now_ms, bool *out_conflict)
{
	if (!there->deleted || there->at_ms <= last->at_ms) /* never there, lost, or deleted before the agreement */
		return FILESPACE_COPY_UP;
	if (same(here, last))
		return FILESPACE_DELETE_HERE;
	*out_conflict = true;
	return held_between(there->at_ms, last->at_ms, now_ms) > held_between(here->at_ms, last->at_ms, now_ms)
		   ? FILESPACE_DELETE_HERE
		   : FILESPACE_COPY_UP;
}

/* The store has it, the workspace has not: when it went, nobody knows. */
static enum filespace_verdict only_there(const struct filespace_side *there, const struct filespace_side *last,
					 bool *out_conflict)
{
	if (!has(last))
		return FILESPACE_COPY_DOWN;
	if (same(there, last) && there->at_ms <= last->at_ms)
		return FILESPACE_DELETE_THERE;
	*out_conflict = true;
	return FILESPACE_COPY_DOWN;
}

enum filespace_verdict filespace_rule(const struct filespace_side *here, const struct filespace_side *there,
				      const struct filespace_side *last, int64_t now_ms, bool *out_conflict)
{
	static const struct filespace_side none = {.at_ms = INT64_MIN};

	if (!last || (!has(last) && !last->deleted))
		last = &none;
	*out_conflict = false;
	if (!has(here) && !has(there))
		return has(last) ? FILESPACE_FORGET : FILESPACE_NOTHING;
	if (!has(there))
		return only_here(here, there, last, now_ms, out_conflict);
	if (!has(here))
		return only_there(there, last, out_conflict);
	if (same(here, there))
		return same(here, last) && there->at_ms == last->at_ms ? FILESPACE_NOTHING : FILESPACE_AGREE;
	if (same(here, last))
		return FILESPACE_COPY_DOWN;
	if (same(there, last))
		return FILESPACE_COPY_UP;
	*out_conflict = true;
	return held_between(here->at_ms, last->at_ms, now_ms) > held_between(there->at_ms, last->at_ms, now_ms)
		   ? FILESPACE_COPY_UP
		   : FILESPACE_COPY_DOWN;
}

int64_t filespace_restored_at(const struct filespace_side *here, const struct filespace_side *before,
			      const struct filespace_restored *r)
{
	int64_t at = here->at_ms < r->at_ms ? here->at_ms : r->at_ms;

	/* An agreement that was made behind the snapshot is newer than all that is in it. */
	if (before && (has(before) || before->deleted) && r->agreed_ms > r->at_ms && before->at_ms <= at)
		at = before->at_ms - 1;
	return at;
}

enum filespace_verdict filespace_rule_restored(const struct filespace_side *here, const struct filespace_side *there,
					       const struct filespace_side *before, const struct filespace_restored *r,
					       int64_t now_ms, bool *out_conflict)
{
	struct filespace_side held = *here;

	if (before && has(here) && same(here, before))
		return filespace_rule(here, there, before, now_ms, out_conflict);
	held.at_ms = filespace_restored_at(here, before, r);
	return filespace_rule(&held, there, NULL, now_ms, out_conflict);
}
