#define LOG_SUBSYS "policy"
#include "muxd/hub/access/policy.h"

#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/record/audit.h"
#include "policy/profile.h"

#include <string.h>

#define PART_MAX ((size_t)24 * 1024) /* bytes of text in one event: escaped it fits a record of the ring */

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
	while (h->policy_told < p->text_len) {
		size_t at = h->policy_told, n = part_length(p->text + at, p->text_len - at);
		int rc = audit_event(h, "policy.text", NULL, NULL, "ok",
				     json_pack("{s:s,s:i,s:I,s:s%}", "version", p->version, "part", h->policy_parts + 1,
					       "offset", (json_int_t)at, "text", p->text + at, n));

		if (rc)
			return rc;
		h->policy_told += n;
		h->policy_parts++;
	}
	return 0;
}

static int tell_load(struct hub *h, const struct policy *p, json_t *by)
{
	json_t *d = p ? policy_describe(p) : json_pack("{s:n}", "version");
	int rc = p ? tell_text(h, p) : 0;

	if (d && p)
		json_object_set_new(d, "parts", json_integer(h->policy_parts));
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
	if (!h->policy_waits)
		return 0;
	if (tell_load(h, h->policy_next, h->policy_by))
		return h->policy_known ? 0
				       : err_set(e, ERR_RECORD_UNAVAILABLE,
						 "the policy is not in the record yet: nothing is allowed until it is");
	policy_destroy(h->policy);
	h->policy = h->policy_next;
	h->policy_next = NULL;
	h->policy_waits = false;
	h->policy_known = true;
	if (h->policy)
		log_info(NULL, "policy %s is in force, %zu profiles", h->policy->version, h->policy->nprofiles);
	else
		log_info(NULL, "there is no policy in force: everything is as granted");
	return 0;
}

static bool policy_is_same(const struct policy *a, const struct policy *b)
{
	return a && b ? strcmp(a->sha256, b->sha256) == 0 : a == b;
}

void hub_set_policy(struct hub *h, struct policy *p, json_t *by)
{
	policy_destroy(h->policy_next);
	h->policy_next = NULL;
	h->policy_waits = false;
	h->policy_told = 0;
	h->policy_parts = 0;
	if ((h->policy_known || !p) && policy_is_same(h->policy, p)) { /* a reload that changed something else */
		policy_destroy(p);
		return;
	}
	json_decref(h->policy_by);
	h->policy_by = json_incref(by);
	h->policy_next = p;
	h->policy_waits = true;
	(void)hub_policy_settle(h, NULL);
}

void hub_policy_finish(struct hub *h)
{
	policy_destroy(h->policy);
	policy_destroy(h->policy_next);
	json_decref(h->policy_by);
}
