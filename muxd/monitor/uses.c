#include "muxd/monitor/uses.h"

#include "base/clock.h"
#include "base/err.h"
#include "muxd/monitor/edge.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"

#include <string.h>

#define KEY_NS (3600 * (int64_t)NS_PER_SEC) /* so long a start that comes again is the same use */

/* At an edge what counts are leases of its centre. */
static int check_lease(struct monitor *m, const char *token, struct grant *out, struct err *e)
{
	const struct grant_trust t = {&m->keys.set, m->edge.centre, m->layout.instance,
				      (int64_t)m->conf->edge_lease_max_ns};
	struct grant g;
	int rc = grant_trusted(token, strlen(token), &t, floor_now(&m->floor), &g, e);

	if (rc == 0 && edge_has_revoked(&m->edge, &g.id))
		rc = err_set(e, ERR_TOKEN_REVOKED, "the lease was revoked");
	if (rc == 0)
		*out = g;
	return rc;
}

int uses_count(struct monitor *m, const char *token, const struct id *key, struct err *e)
{
	struct grant g;
	int rc = m->edge.on ? check_lease(m, token, &g, e) : issue_check_token(m, token, &g, e);
	struct grants_spend s = {.grant = &g, .n = 1, .key = *key};

	if (rc || !g.bounds.uses)
		return rc;
	s.until_ns = issue_ends(m, &g);
	s.key_until_ns = floor_now(&m->floor) + KEY_NS;
	return grants_spend(m->grants, &s, e);
}
