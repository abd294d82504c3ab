// tier: check
/*
 * The first byte chooses: the definition of a workflow, the body of a lease, the body of a run, a workflowId. What is
 * accepted must hold what a run relies on; what is refused must be named, a definition's fault with its place.
 */
#include "base/err.h"
#include "base/json.h"
#include "control/work/body.h"
#include "control/work/workflow.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_step(const json_t *o, size_t i)
{
	struct workflow_step s;
	size_t k;
	json_t *v;

	workflow_step(o, i, &s);
	if (!s.argv + !s.shell + !s.source != 2 || (s.source && !workflow_runner(s.language)))
		abort();
	json_array_foreach((json_t *)(uintptr_t)s.argv, k, v) if (!json_is_string(v)) abort();
	if (s.argv && !*json_string_value(json_array_get(s.argv, 0)))
		abort();
	if ((s.cwd && s.cwd[0] != '/') || s.timeout_s > 3600)
		abort();
}

static int definition(const json_t *o, struct err *e)
{
	const struct workflow_limits l = {.timeout_max_s = 3600, .memory_max = 1 << 20};
	int rc = workflow_check(o, &l, e);
	char name[WORKFLOW_NAME_MAX + 1];
	int64_t version;

	if (rc) {
		if (e->message[0] != '/')
			abort();
		return rc;
	}
	if (!workflow_steps(o) || workflow_timeout_s(o) > 3600 ||
	    workflow_id_parse(json_string_value(json_object_get(o, "name")), name, &version, NULL) || version)
		abort();
	for (size_t i = 0; i < workflow_steps(o); i++)
		check_step(o, i);
	return 0;
}

static int bodies(const json_t *o, bool run, struct err *e)
{
	const struct work_limits l = {60, 600, 60, 600};
	struct lease_row lease = {0};
	struct run_body r;
	int rc = run ? run_body(o, &l, &r, e) : lease_body(o, &l, &lease, e);

	if (!rc && !run && (lease.ttl_s < 1 || lease.ttl_s > 600 || !*lease.user || !*lease.request))
		abort();
	if (!rc && run &&
	    (!r.token_len || r.token_len > WORK_TOKEN_MAX || strchr(r.run, '/') || r.asked_timeout_s > 600))
		abort();
	return rc;
}

static void id(const uint8_t *p, size_t n)
{
	char text[256], name[WORKFLOW_NAME_MAX + 1];
	int64_t version = -1;
	struct err e = {0};

	if (n >= sizeof(text))
		return;
	memcpy(text, p, n);
	text[n] = '\0';
	if (workflow_id_parse(text, name, &version, &e) == 0 ? version < 0 || !*name : !e.message[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *o = NULL;
	struct err e = {0};
	int rc;

	if (size == 0)
		return 0;
	if (data[0] == 'i') {
		id(data + 1, size - 1);
		return 0;
	}
	rc = json_parse(data + 1, size - 1, 1 << 20, &o, &e);
	if (!rc)
		rc = data[0] == 'w' ? definition(o, &e) : json_is_object(o) ? bodies(o, data[0] == 'r', &e) : 0;
	if (rc && (e.code != rc || !e.message[0]))
		abort();
	json_decref(o);
	return 0;
}
