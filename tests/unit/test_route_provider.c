// tier: check
/* Names find their provider. Both legs are FAKES here: each says its own name and answers at once. */
#include "base/err.h"
#include "muxd/net/route_provider.h"

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

static void answer(struct sandbox_provider *p, const char *what, const char *agent, sandbox_done *done, void *arg)
{
	struct leg *l = (struct leg *)p;
	struct sandbox_info info = {.state = SANDBOX_RUNNING};

	snprintf(l->asked, sizeof(l->asked), "%s %s", what, agent);
	snprintf(info.agent, sizeof(info.agent), "%s", agent);
	snprintf(info.detail, sizeof(info.detail), "%s", l->name);
	done(arg, 0, NULL, &info, -1);
}
static void leg_ensure(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	answer(p, "ensure", agent, done, arg);
}
static void leg_connect(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	answer(p, "connect", agent, done, arg);
}
static void leg_stat(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	answer(p, "stat", agent, done, arg);
}
static void leg_end(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	assert_string_equal(reason, "why");
	answer(p, "end", agent, done, arg);
}
static void leg_list(struct sandbox_provider *p, sandbox_list_done *done, void *arg)
{
	struct leg *l = (struct leg *)p;
	struct sandbox_info info = {0};
	struct err e = {0};

	snprintf(info.agent, sizeof(info.agent), "%s", l->name);
	if (l->fails) {
		err_set(&e, ERR_K8S_UNREACHABLE, "%s", l->fails);
		done(arg, e.code, &e, NULL, 0);
	} else {
		done(arg, 0, NULL, &info, 1);
	}
}
static void leg_resolve(struct sandbox_provider *p, const char *name, sandbox_name_done *done, void *arg)
{
	char whole[AGENT_NAME_MAX + 10];

	(void)p;
	snprintf(whole, sizeof(whole), "%s/main", name);
	done(arg, 0, NULL, whole);
}
static void leg_destroy(struct sandbox_provider *p)
{
	struct leg *l = (struct leg *)p;

	*l->destroyed = *l->destroyed * 10 + (strcmp(l->name, "cluster") == 0 ? 2 : 1);
}

static void leg_take(struct sandbox_provider *p, const char *agent, const struct id *id, uint64_t timeout_ns,
		     sandbox_snapshots_done *done, void *arg)
{
	struct leg *l = (struct leg *)p;
	struct sandbox_snapshot s = {.id = *id, .ready = true};

	assert_int_equal(timeout_ns, 7);
	snprintf(l->asked, sizeof(l->asked), "take %s", agent);
	snprintf(s.agent, sizeof(s.agent), "%s", agent);
	snprintf(s.name, sizeof(s.name), "%s", l->name);
	done(arg, 0, NULL, &s, 1);
}
static void leg_restore(struct sandbox_provider *p, const char *agent, const char *from, const struct id *id,
			bool read_only, uint64_t timeout_ns, sandbox_done *done, void *arg)
{
	char what[AGENT_NAME_MAX + 30];

	(void)id, (void)timeout_ns;
	snprintf(what, sizeof(what), "restore %s%s to", from, read_only ? " read-only" : "");
	answer(p, what, agent, done, arg);
}
static void leg_drop_workspace(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	answer(p, "drop", agent, done, arg);
}

static const struct sandbox_provider_ops local_ops = {.ensure = leg_ensure,
						      .connect = leg_connect,
						      .stat = leg_stat,
						      .destroy_sandbox = leg_end,
						      .list = leg_list,
						      .snapshot_take = leg_take,
						      .restore = leg_restore,
						      .drop_workspace = leg_drop_workspace,
						      .destroy = leg_destroy};
static const struct sandbox_provider_ops cluster_ops = {.ensure = leg_ensure,
							.connect = leg_connect,
							.stat = leg_stat,
							.destroy_sandbox = leg_end,
							.list = leg_list,
							.resolve = leg_resolve,
							.destroy = leg_destroy};

struct rig {
	int destroyed;
	struct leg local, cluster;
	struct sandbox_provider *p;
	/* the last answer */
	int rc;
	char message[ERR_MESSAGE_MAX], text[600];
	size_t n;
};

static void on_done(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	struct rig *r = arg;

	assert_int_equal(fd, -1);
	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->text, sizeof(r->text), "%s", info ? info->detail : "");
}
static void on_list(void *arg, int rc, const struct err *e, const struct sandbox_info *list, size_t n)
{
	struct rig *r = arg;

	r->rc = rc;
	r->n = n;
	r->text[0] = '\0';
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	for (size_t i = 0; i < n; i++)
		strcat(strcat(r->text, list[i].agent), " ");
}
static void on_name(void *arg, int rc, const struct err *e, const char *name)
{
	struct rig *r = arg;

	r->rc = rc;
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
	snprintf(r->text, sizeof(r->text), "%s", name ? name : "");
}

static struct rig *rig_make(bool with_cluster, bool agents_in_cluster)
{
	struct rig *r = calloc(1, sizeof(*r));
	struct route_legs legs = {.local = &r->local.base, .agents_in_cluster = agents_in_cluster};

	r->local = (struct leg){.base.ops = &local_ops, .name = "local", .destroyed = &r->destroyed};
	r->cluster = (struct leg){.base.ops = &cluster_ops, .name = "cluster", .destroyed = &r->destroyed};
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

		r->p->ops->ensure(r->p, "demo", on_done, r);
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		r->p->ops->connect(r->p, "demo", on_done, r);
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		r->p->ops->stat(r->p, "demo", on_done, r);
		assert_string_equal(r->text, in_cluster ? "cluster" : "local");
		r->p->ops->destroy_sandbox(r->p, "demo", "why", on_done, r);
		assert_string_equal(in_cluster ? r->cluster.asked : r->local.asked, "end demo");
		rig_end(r, 21);
	}
}

static void pods_are_in_the_cluster(void **state)
{
	struct rig *r = rig_make(true, false);

	(void)state;
	r->p->ops->ensure(r->p, "ns/pod/main", on_done, r);
	assert_string_equal(r->text, "cluster");
	assert_string_equal(r->cluster.asked, "ensure ns/pod/main");
	r->p->ops->resolve(r->p, "ns/pod", on_name, r);
	assert_string_equal(r->text, "ns/pod/main");
	r->p->ops->resolve(r->p, "demo", on_name, r);
	assert_string_equal(r->text, "demo");
	rig_end(r, 21);
}

static void without_a_cluster_a_pod_is_refused_with_the_key(void **state)
{
	static const char text[] = "ns/pod is a pod, and this daemon has no cluster: set kubernetes.kubeconfig";
	struct rig *r = rig_make(false, false);

	(void)state;
	r->p->ops->ensure(r->p, "ns/pod", on_done, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	assert_string_equal(r->message, text);
	r->p->ops->connect(r->p, "ns/pod", on_done, r);
	assert_string_equal(r->message, text);
	r->p->ops->stat(r->p, "ns/pod", on_done, r);
	assert_string_equal(r->message, text);
	r->p->ops->destroy_sandbox(r->p, "ns/pod", "why", on_done, r);
	assert_string_equal(r->message, text);
	r->p->ops->resolve(r->p, "ns/pod", on_name, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	r->p->ops->ensure(r->p, "demo", on_done, r);
	assert_string_equal(r->text, "local");
	rig_end(r, 1);
}

static void a_list_is_of_both(void **state)
{
	struct rig *r = rig_make(true, false);

	(void)state;
	r->p->ops->list(r->p, on_list, r);
	assert_int_equal(r->rc, 0);
	assert_string_equal(r->text, "local cluster ");
	assert_string_equal(r->message, "");
	r->cluster.fails = "no route to the API server";
	r->p->ops->list(r->p, on_list, r);
	assert_int_equal(r->rc, 0);
	assert_string_equal(r->text, "local ");
	assert_string_equal(r->message, "no route to the API server");
	r->local.fails = "the monitor is gone";
	r->p->ops->list(r->p, on_list, r);
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
	r->p->ops->wipe(r->p, "demo", "why", on_done, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	rig_end(r, 21);
}

static void on_snapshot(void *arg, int rc, const struct err *e, const struct sandbox_snapshot *list, size_t n)
{
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
	r->p->ops->snapshot_take(r->p, "demo", &id, 7, on_snapshot, r);
	assert_string_equal(r->text, "local");
	assert_string_equal(r->local.asked, "take demo");
	r->p->ops->restore(r->p, "copy", "demo", &id, true, 7, on_done, r);
	assert_string_equal(r->local.asked, "restore demo read-only to copy");
	r->p->ops->drop_workspace(r->p, "demo", on_done, r);
	assert_string_equal(r->local.asked, "drop demo");
	/* Between two backends nothing is copied, and what a leg lacks is named. */
	r->p->ops->restore(r->p, "copy", "ns/pod/main", &id, true, 7, on_done, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	r->p->ops->snapshot_take(r->p, "ns/pod/main", &id, 7, on_snapshot, r);
	assert_int_equal(r->rc, ERR_UNSUPPORTED);
	rig_end(r, 21);
}

/* Agents in a cluster that has no snapshots: who asks by looking for the calls finds none. */
static void without_snapshots_there_are_no_such_calls(void **state)
{
	struct rig *r = rig_make(true, true);

	(void)state;
	assert_null(r->p->ops->snapshot_take);
	assert_null(r->p->ops->snapshot_list);
	assert_null(r->p->ops->snapshot_drop);
	assert_null(r->p->ops->restore);
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
