// tier: check
/* Names find their provider. Both legs are FAKES here: each says its own name and answers at once. */
#include "base/err.h"
#include "muxd/net/route_provider.h"
#include "tests/lib/asks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct leg {
	struct sandbox_provider base;
	const char *name;
	const char *fails; /* its list does, saying this */
	int *destroyed;
	char asked[AGENT_NAME_MAX + 40];
};

/* What it was asked, in words. */
static void leg_note(struct leg *l, const struct sandbox_ask *q)
{
	snprintf(l->asked, sizeof(l->asked), "%s %s%s%s%s", sandbox_op_name(q->op), q->from ? q->from : "",
		 q->read_only ? " read-only" : "", q->from ? " to " : "", q->agent);
	if (q->op == SANDBOX_DESTROY)
		assert_string_equal(q->reason, "why");
}

static void leg_list(struct leg *l, sandbox_done *done, void *arg)
{
	struct sandbox_info info = {0};
	struct err e = {0};

	snprintf(info.agent, sizeof(info.agent), "%s", l->name);
	if (l->fails)
		err_set(&e, ERR_K8S_UNREACHABLE, "%s", l->fails);
	sandbox_answer(done, arg, e.code, &e, &info, -1);
}

static void leg_take(struct leg *l, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct sandbox_snapshot s = {.id = *q->snapshot, .ready = true};

	assert_int_equal(q->timeout_ns, 7);
	snprintf(s.agent, sizeof(s.agent), "%s", q->agent);
	snprintf(s.name, sizeof(s.name), "%s", l->name);
	sandbox_answer_snapshots(done, arg, 0, NULL, &s, 1);
}

static void leg_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct leg *l = (struct leg *)p;
	struct sandbox_info info = {.state = SANDBOX_RUNNING};
	char whole[AGENT_NAME_MAX + 10];

	if (q->op == SANDBOX_LIST) {
		leg_list(l, done, arg);
		return;
	}
	leg_note(l, q);
	snprintf(whole, sizeof(whole), "%s/main", q->agent);
	snprintf(info.agent, sizeof(info.agent), "%s", q->agent);
	snprintf(info.detail, sizeof(info.detail), "%s", l->name);
	if (q->op == SANDBOX_RESOLVE)
		done(arg, &(struct sandbox_answer){.name = whole, .fd = -1});
	else if (q->op == SANDBOX_TAKE)
		leg_take(l, q, done, arg);
	else
		sandbox_answer(done, arg, 0, NULL, &info, -1);
}

static void leg_destroy(struct sandbox_provider *p)
{
	struct leg *l = (struct leg *)p;

	*l->destroyed = *l->destroyed * 10 + (strcmp(l->name, "cluster") == 0 ? 2 : 1);
}

static const struct sandbox_provider_ops leg_ops = {.ask = leg_ask, .destroy = leg_destroy};
#define LEG_CAN                                                                                                        \
	(SANDBOX_CAN(SANDBOX_ENSURE) | SANDBOX_CAN(SANDBOX_CONNECT) | SANDBOX_CAN(SANDBOX_STAT) |                      \
	 SANDBOX_CAN(SANDBOX_DESTROY) | SANDBOX_CAN(SANDBOX_LIST))
#define LOCAL_CAN                                                                                                      \
	(LEG_CAN | SANDBOX_CAN(SANDBOX_TAKE) | SANDBOX_CAN(SANDBOX_RESTORE) | SANDBOX_CAN(SANDBOX_DROP_WORKSPACE))

struct rig {
	int destroyed;
	struct leg local, cluster;
	struct sandbox_provider *p;
	/* the last answer */
	int rc;
	char message[ERR_MESSAGE_MAX], text[600];
	size_t n;
};

static void on_done(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *info = got->info;
	int fd = got->fd;
	int rc = got->rc;
	struct rig *r = arg;

	assert_int_equal(fd, -1);
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->text, sizeof(r->text), "%s", info ? info->detail : "");
}
static void on_list(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_info *list = got->info;
	size_t n = got->n;
	int rc = got->rc;
	struct rig *r = arg;

	r->rc = rc;
	r->n = n;
	r->text[0] = '\0';
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	for (size_t i = 0; i < n; i++)
		strcat(strcat(r->text, list[i].agent), " ");
}
static void on_name(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const char *name = got->name;
	int rc = got->rc;
	struct rig *r = arg;

	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->text, sizeof(r->text), "%s", name ? name : "");
}

static struct rig *rig_make(bool with_cluster, bool agents_in_cluster)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct route_legs legs = {.local = &r->local.base, .agents_in_cluster = agents_in_cluster};

	r->local =
	    (struct leg){.base = {.ops = &leg_ops, .can = LOCAL_CAN}, .name = "local", .destroyed = &r->destroyed};
	r->cluster = (struct leg){.base = {.ops = &leg_ops, .can = LEG_CAN | SANDBOX_CAN(SANDBOX_RESOLVE)},
				  .name = "cluster",
				  .destroyed = &r->destroyed};
	if (with_cluster)
		legs.cluster = &r->cluster.base;
	assert_int_equal(route_provider_create(&legs, &r->p), 0);
	return r;
}

static void rig_end(struct rig *r, int destroyed)
{
	r->p->ops->destroy(r->p);
	assert_int_equal(r->destroyed, destroyed);
	free(r);
}

static void agents_are_where_the_configuration_says(void **state)
{
	(void)state;
	for (int in_cluster = 0; in_cluster < 2; in_cluster++) {
		struct rig *r = rig_make(true, in_cluster);

		ASK(r->p, on_done, r, .op = SANDBOX_ENSURE, .agent = "demo");
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		ASK(r->p, on_done, r, .op = SANDBOX_CONNECT, .agent = "demo");
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		ASK(r->p, on_done, r, .op = SANDBOX_STAT, .agent = "demo");
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		ASK(r->p, on_done, r, .op = SANDBOX_DESTROY, .agent = "demo", .reason = "why");
		assert_string_equal(in_cluster ? r->cluster.asked : r->local.asked, "destroy demo");
		rig_end(r, 21);
	}
}

static void pods_are_in_the_cluster(void **state)
{
	struct rig *r = rig_make(true, false);

	(void)state;
	ASK(r->p, on_done, r, .op = SANDBOX_ENSURE, .agent = "ns/pod/main");
	assert_string_equal(r->text, "cluster");
	assert_string_equal(r->cluster.asked, "ensure ns/pod/main");
	ASK(r->p, on_name, r, .op = SANDBOX_RESOLVE, .agent = "ns/pod");
	assert_string_equal(r->text, "ns/pod/main");
	ASK(r->p, on_name, r, .op = SANDBOX_RESOLVE, .agent = "demo");
	assert_string_equal(r->text, "demo");
	rig_end(r, 21);
}

static void without_a_cluster_a_pod_is_refused_with_the_key(void **state)
{
	static const char text[] = "ns/pod is a pod, and this daemon has no cluster: set kubernetes.kubeconfig";
	struct rig *r = rig_make(false, false);

	(void)state;
	ASK(r->p, on_done, r, .op = SANDBOX_ENSURE, .agent = "ns/pod");
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	assert_string_equal(r->message, text);
	ASK(r->p, on_done, r, .op = SANDBOX_CONNECT, .agent = "ns/pod");
	assert_string_equal(r->message, text);
	ASK(r->p, on_done, r, .op = SANDBOX_STAT, .agent = "ns/pod");
	assert_string_equal(r->message, text);
	ASK(r->p, on_done, r, .op = SANDBOX_DESTROY, .agent = "ns/pod", .reason = "why");
	assert_string_equal(r->message, text);
	ASK(r->p, on_name, r, .op = SANDBOX_RESOLVE, .agent = "ns/pod");
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	ASK(r->p, on_done, r, .op = SANDBOX_ENSURE, .agent = "demo");
	assert_string_equal(r->text, "local");
	rig_end(r, 1);
}

static void a_list_is_of_both(void **state)
{
	struct rig *r = rig_make(true, false);

	(void)state;
	ASK(r->p, on_list, r, .op = SANDBOX_LIST);
	assert_int_equal(r->rc, 0);
	assert_string_equal(r->text, "local cluster ");
	assert_string_equal(r->message, "");
	r->cluster.fails = "no route to the API server";
	ASK(r->p, on_list, r, .op = SANDBOX_LIST);
	assert_int_equal(r->rc, 0);
	assert_string_equal(r->text, "local ");
	assert_string_equal(r->message, "no route to the API server");
	r->local.fails = "the monitor is gone";
	ASK(r->p, on_list, r, .op = SANDBOX_LIST);
	assert_int_equal(r->rc, ERR_K8S_UNREACHABLE);
	assert_int_equal(r->n, 0);
	rig_end(r, 21);
}

static void seen_gone(void *arg, const char *agent, const struct id *sandbox_id, const char *why)
{
	struct rig *r = arg;

	(void)sandbox_id;
	snprintf(r->text, sizeof(r->text), "%s: %s", agent, why);
}

static void an_end_is_passed_on(void **state)
{
	struct rig *r = rig_make(true, false);
	struct id id = {{1}};

	(void)state;
	r->cluster.base.gone(r->cluster.base.gone_arg, "ns/pod/main", &id, "nobody listens: no harm");
	r->p->gone = seen_gone;
	r->p->gone_arg = r;
	r->cluster.base.gone(r->cluster.base.gone_arg, "ns/pod/main", &id, "evicted");
	assert_string_equal(r->text, "ns/pod/main: evicted");
	ASK(r->p, on_done, r, .op = SANDBOX_WIPE, .agent = "demo", .reason = "why");
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	rig_end(r, 21);
}

static void on_snapshot(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const struct sandbox_snapshot *list = got->snapshots;
	size_t n = got->n;
	int rc = got->rc;
	struct rig *r = arg;

	r->rc = rc;
	r->n = n;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->text, sizeof(r->text), "%s", n ? list[0].name : "");
}

static void snapshots_are_where_agents_are(void **state)
{
	struct rig *r = rig_make(true, false);
	struct id id = {{1}};

	(void)state;
	ASK(r->p, on_snapshot, r, .op = SANDBOX_TAKE, .agent = "demo", .snapshot = &id, .timeout_ns = 7);
	assert_string_equal(r->text, "local");
	assert_string_equal(r->local.asked, "take demo");
	ASK(r->p, on_done, r, .op = SANDBOX_RESTORE, .agent = "copy", .from = "demo", .snapshot = &id,
	    .read_only = true, .timeout_ns = 7);
	assert_string_equal(r->local.asked, "restore demo read-only to copy");
	ASK(r->p, on_done, r, .op = SANDBOX_DROP_WORKSPACE, .agent = "demo");
	assert_string_equal(r->local.asked, "drop workspace demo");
	/* Between two backends nothing is copied, and what a leg lacks is named. */
	ASK(r->p, on_done, r, .op = SANDBOX_RESTORE, .agent = "copy", .from = "ns/pod/main", .snapshot = &id,
	    .read_only = true, .timeout_ns = 7);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	ASK(r->p, on_snapshot, r, .op = SANDBOX_TAKE, .agent = "ns/pod/main", .snapshot = &id, .timeout_ns = 7);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	rig_end(r, 21);
}

/* Agents in a cluster that has no snapshots: who asks by looking for the calls finds none. */
static void without_snapshots_there_are_no_such_calls(void **state)
{
	struct rig *r = rig_make(true, true);

	(void)state;
	assert_false(sandbox_can(r->p, SANDBOX_TAKE));
	assert_false(sandbox_can(r->p, SANDBOX_SNAPSHOTS));
	assert_false(sandbox_can(r->p, SANDBOX_DROP));
	assert_false(sandbox_can(r->p, SANDBOX_RESTORE));
	rig_end(r, 21);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(snapshots_are_where_agents_are),
	    cmocka_unit_test(without_snapshots_there_are_no_such_calls),
	    cmocka_unit_test(agents_are_where_the_configuration_says),
	    cmocka_unit_test(pods_are_in_the_cluster),
	    cmocka_unit_test(without_a_cluster_a_pod_is_refused_with_the_key),
	    cmocka_unit_test(a_list_is_of_both),
	    cmocka_unit_test(an_end_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
