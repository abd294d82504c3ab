#define LOG_SUBSYS "policy"
#include "muxd/hub/access/policy.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/session_state.h"
#include "policy/profile.h"

#include <stdlib.h>
#include <string.h>

#define PART_MAX ((size_t)24 * 1024) /* bytes of text in one event: escaped it fits a record of the ring */

struct policies {
	struct policy *in_force, *next; /* next waits for the journal; NULL: none */
	json_t *by;                     /* who loaded it */
	bool waits, known;              /* known: some policy, or that there is none, has been journaled */
	size_t told;                    /* bytes of next's text that the journal has, in so many parts */
	int parts;
};

struct policies *policies_create(void)
{
	return calloc(1, sizeof(struct policies));
}

void policies_destroy(struct policies *x)
{
	if (!x)
		return;
	policy_destroy(x->in_force);
	policy_destroy(x->next);
	json_decref(x->by);
	free(x);
}

json_t *policy_describe(const struct policy *p)
{
	return json_pack("{s:s,s:s,s:I,s:I,s:s}", "version", p->version, "sha256", p->sha256, "bytes",
			 (json_int_t)p->text_len, "profiles", (json_int_t)p->nprofiles, "otherwise",
			 p->otherwise_deny ? "deny" : "as_granted");
}

/* Not cut inside a character. */
static size_t part_length(const char *text, size_t left)
{
	size_t n = left < PART_MAX ? left : PART_MAX;

	while (n < left && n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

/*
 * The whole text, in as many events as it takes; the log has it before the policy decides anything. Where the journal
 * has no room for the rest, that goes on with the part that it did not take.
 */
static int tell_text(struct hub *h, const struct policy *p)
{
	struct policies *x = hub_policies(h);

	while (x->told < p->text_len) {
		size_t at = x->told, n = part_length(p->text + at, p->text_len - at);
		int rc = audit_event(h, "policy.text", NULL, NULL, "ok",
				     json_pack("{s:s,s:i,s:I,s:s%}", "version", p->version, "part", x->parts + 1,
					       "offset", (json_int_t)at, "text", p->text + at, n));

		if (rc)
			return rc;
		x->told += n;
		x->parts++;
	}
	return 0;
}

static int tell_load(struct hub *h, const struct policy *p, json_t *by)
{
	json_t *d = p ? policy_describe(p) : json_pack("{s:n}", "version");
	int rc = p ? tell_text(h, p) : 0;

	if (d && p)
		json_object_set_new(d, "parts", json_integer(hub_policies(h)->parts));
	if (d && by)
		json_object_set(d, "by", by);
	if (rc) {
		json_decref(d);
		return rc;
	}
	return audit_event(h, "policy.load", NULL, NULL, "ok", d);
}

int hub_policy_settle(struct hub *h, struct err *e)
{
	struct policies *x = hub_policies(h);

	if (!x->waits)
		return 0;
	if (tell_load(h, x->next, x->by))
		return x->known ? 0
				: err_set(e, ERR_RECORD_UNAVAILABLE,
					  "the policy is not in the record yet: nothing is allowed until it is");
	policy_destroy(x->in_force);
	x->in_force = x->next;
	x->next = NULL;
	x->waits = false;
	x->known = true;
	if (x->in_force)
		log_info(NULL, "policy %s is in force, %zu profiles", x->in_force->version, x->in_force->nprofiles);
	else
		log_info(NULL, "there is no policy in force: everything is as granted");
	return 0;
}

const struct policy *hub_policy(const struct hub *h)
{
	return hub_policies(h)->in_force;
}

const struct policy *hub_policy_of_ends(const struct hub *h)
{
	const struct policies *x = hub_policies(h);

	return x->waits && !x->known ? x->next : x->in_force;
}

bool hub_policy_waits(const struct hub *h)
{
	return hub_policies(h)->waits;
}

static bool policy_is_same(const struct policy *a, const struct policy *b)
{
	return a && b ? strcmp(a->sha256, b->sha256) == 0 : a == b;
}

void hub_set_policy(struct hub *h, struct policy *p, json_t *by)
{
	struct policies *x = hub_policies(h);

	policy_destroy(x->next);
	x->next = NULL;
	x->waits = false;
	x->told = 0;
	x->parts = 0;
	if ((x->known || !p) && policy_is_same(x->in_force, p)) { /* a reload that changed something else */
		policy_destroy(p);
		return;
	}
	json_decref(x->by);
	x->by = json_incref(by);
	x->next = p;
	x->waits = true;
	(void)hub_policy_settle(h, NULL);
}
