// tier: check
/*
 * What comes from a container before it is a link, and what the API server says of a pod. The first byte chooses: a
 * Pod object, the answer of a script, muxlet's first line. Whatever comes, texts end within their bounds, hold no
 * control characters, and a view that is refused leaves nothing behind.
 */
#include "base/err.h"
#include "base/json.h"
#include "control/kube/pods/deliver.h"
#include "control/kube/pods/pod.h"
#include "control/kube/pods/spec.h"
#include "control/kube/pods/visitor.h"

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
		must((unsigned char)s[i] >= 32 && s[i] != 127);
}

static void a_visitor(const json_t *pod)
{
	static const struct visitor_params p = {.target = "main", .image = "i", .muxlet = "/m"};
	struct visitor_plan plan = {0};
	struct err e = {0};
	int rc = visitor_plan(pod, &p, &plan, &e);

	must(rc <= 0 && (!rc || (e.code == rc && e.message[0] && !plan.container)));
	must((!rc && plan.state == VISITOR_ABSENT) == (plan.container != NULL));
	is_text(plan.name, sizeof(plan.name));
	is_text(plan.why, sizeof(plan.why));
	json_decref(plan.container);
}

static void a_pod(const uint8_t *p, size_t n)
{
	static const char *const containers[] = {NULL, "main", KUBE_CONTAINER};
	json_t *o = NULL;

	if (json_parse(p, n, 64 * 1024, &o, NULL))
		return;
	for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++) {
		struct pod_view v;
		struct id id;
		struct err e = {0};
		int rc = pod_view(o, containers[i], &v, &e);

		if (rc) {
			must(rc < 0 && e.code == rc && e.message[0]);
			continue;
		}
		must(v.uid[0] && v.container[0]);
		must(strnlen(v.why, sizeof(v.why)) < sizeof(v.why));
		must(strnlen(v.container_id, sizeof(v.container_id)) < sizeof(v.container_id));
		must(!containers[i] || strncmp(v.container, containers[i], sizeof(v.container) - 1) == 0);
		must(v.state != POD_RUNNING || !v.why[0]);
		pod_incarnation(&v, &id);
		must(!id_is_nil(&id) && pod_state_name(v.state)[0]);
	}
	(void)pod_is_sandbox_of(o, "coder");
	a_visitor(o);
	json_decref(o);
}

static void a_script(const char *p, size_t n)
{
	struct deliver_answer a;

	if (deliver_parse(p, n, &a))
		return;
	is_text(a.path, sizeof(a.path));
	is_text(a.machine, sizeof(a.machine));
	must((a.kind == DELIVER_NONE) == (a.path[0] == '\0'));
	must(a.place >= -1 && a.place < DELIVER_PLACES);
}

static void a_first_line(const char *p, size_t n)
{
	struct deliver_joined j;

	if (deliver_joined(p, n, &j) == 0)
		is_text(j.version, sizeof(j.version));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	if (data[0] == 'p')
		a_pod(data + 1, size - 1);
	else if (data[0] == 's')
		a_script((const char *)data + 1, size - 1);
	else
		a_first_line((const char *)data + 1, size - 1);
	return 0;
}
