// tier: check
/*
 * What the API server says of claims, snapshots, their contents, Sandbox and SandboxClaim objects. The first byte
 * chooses; `q` is a quantity. A view that is refused leaves its result alone and says why; one that is taken has a
 * name, ends within its bounds and holds no control characters in what people read.
 */
#include "base/err.h"
#include "base/json.h"
#include "control/kube/pods/agentsandbox.h"
#include "control/kube/pods/claim.h"
#include "control/kube/pods/sandboxclaim.h"
#include "control/kube/pods/snapshot.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void is_text(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	must(n < size);
	for (size_t i = 0; i < n; i++)
		must((unsigned char)s[i] >= 32 && (unsigned char)s[i] < 127);
}

static void refused(int rc, const struct err *e)
{
	must(rc < 0 && e->code == rc && e->message[0]);
}

static void a_claim(const json_t *o)
{
	struct claim_view v[2];
	const struct claim_view *best = NULL;
	struct err e = {0};
	int rc = claim_view(o, &v[0], &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	must(v[0].name[0] && v[0].uid[0] && claim_state_name(v[0].state)[0]);
	v[1] = v[0];
	rc = claim_choose(v, 1, &best, &e);
	must(!rc && (best == &v[0]) == (v[0].state != CLAIM_NEXT && !v[0].deleting));
	rc = claim_choose(v, 2, &best, &e);
	must((rc == ERR_K8S_CONFLICT) == (v[0].state != CLAIM_NEXT && !v[0].deleting));
	must(claim_next_generation(v, 2) > v[0].generation);
}

static void a_snapshot(const json_t *o)
{
	struct sandbox_snapshot d;
	struct snapshot_view v;
	struct err e = {0};
	int rc = snapshot_view(o, &v, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	is_text(v.error, sizeof(v.error));
	snapshot_describe(&v, &d);
	must(d.ready ? v.content[0] && v.ready == SNAPSHOT_READY && !v.deleting : d.detail[0] != '\0');
	rc = snapshot_is_content_of(o, &v, "ns", &e);
	must(rc == 0 || rc == ERR_SNAPSHOT);
}

static void a_sandbox(const json_t *o)
{
	struct agentsandbox_view v;
	struct err e = {0};
	int rc = agentsandbox_view(o, &v, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	must(v.uid[0]);
	is_text(v.why, sizeof(v.why));
	is_text(v.pod, sizeof(v.pod));
	must(strnlen(v.owner, sizeof(v.owner)) < sizeof(v.owner) &&
	     strnlen(v.claim, sizeof(v.claim)) < sizeof(v.claim));
	must(v.verdict == AGENTSANDBOX_WAITS || v.why[0]); /* a start never ends without a word */
}

static void a_sandbox_claim(const json_t *o)
{
	struct sandboxclaim_view v;
	struct err e = {0};
	int rc = sandboxclaim_view(o, &v, &e);

	if (rc) {
		refused(rc, &e);
		return;
	}
	must(v.uid[0] && (!v.failed || v.why[0]));
	is_text(v.why, sizeof(v.why));
	is_text(v.sandbox, sizeof(v.sandbox));
}

static void a_quantity(const uint8_t *p, size_t n)
{
	char text[64];
	uint64_t out = 7;
	int rc;

	if (n >= sizeof(text))
		return;
	memcpy(text, p, n);
	text[n] = '\0';
	rc = kube_quantity(text, &out);
	must(rc == 0 || out == 7);
	must(rc == 0 || rc == ERR_INVAL || rc == ERR_TOO_LARGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *o = NULL;

	if (size < 1)
		return 0;
	if (data[0] == 'q') {
		a_quantity(data + 1, size - 1);
		return 0;
	}
	if (json_parse(data + 1, size - 1, 64 * 1024, &o, NULL))
		return 0;
	if (data[0] == 'c')
		a_claim(o);
	else if (data[0] == 's')
		a_snapshot(o);
	else if (data[0] == 'w')
		a_sandbox_claim(o);
	else
		a_sandbox(o);
	json_decref(o);
	return 0;
}
