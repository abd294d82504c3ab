// tier: check
/* Pods of others, and how pods end: restarts, deletions, lost nodes. */
#include "tests/lib/provider_rig.h"

/* ---- pods of others */

static void pods_of_others_are_neither_made_nor_ended(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.creates, 0);
	other_pod("web", "Always");
	set_status("web", "{'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{'reason':"
			  "'ErrImagePull','message':'no such image'}}}]}");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(r.rc, ERR_BAD_STATE); /* at once: nobody waits for what others may never do */
	assert_non_null(strstr(r.message, "ErrImagePull: no such image"));
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(c.reach->leave_s, KP_LEAVE_S);
	assert_string_equal(c.reach->workdir, "-");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	assert_false(r.info.cap_enforced);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "ns/web/main", .reason = "x");
	settle();
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_int_equal(c.deletes, 0);
	end();
}

static void names_become_whole(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Always");
	ASK(c.p, on_name, &r, .op = SANDBOX_RESOLVE, .agent = "ns/web");
	settle();
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.name, "ns/web/main");
	json_array_append_new(json_object_get(json_object_get(json_object_get(c.pods, "web"), "spec"), "containers"),
			      json_pack("{s:s}", "name", "proxy"));
	ASK(c.p, on_name, &r, .op = SANDBOX_RESOLVE, .agent = "ns/web");
	settle();
	assert_int_equal(r.rc, ERR_INVAL);
	assert_string_equal(r.message, "pod web has the containers main and proxy: name one of them");
	ASK(c.p, on_name, &r, .op = SANDBOX_RESOLVE, .agent = "ns/gone");
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	ASK(c.p, on_name, &r, .op = SANDBOX_RESOLVE, .agent = "coder");
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.times, 4);
	end();
}

/* ---- ends */

static struct result reached_web(void)
{
	struct result r = {0};

	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

static void a_restart_or_a_deletion_is_told_at_once(void **state)
{
	struct result a, b = {0};

	(void)state;
	begin();
	a = reached_web();
	tell("web"); /* nothing new */
	assert_int_equal(c.gone, 0);
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'OOMKilled'}}}]}");
	tell("web");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_agent, "ns/web/main");
	assert_string_equal(c.gone_why, "its container was restarted: OOMKilled: exit code 137");
	assert_int_equal(c.reaches_alive, 0); /* the stream is cut */
	tell("web");
	assert_int_equal(c.gone, 1); /* once */
	set_running("web", "main", "containerd://2");
	tell("web");
	ASK(c.p, on_done, &b, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	assert_string_equal(c.reach->known, ""); /* another container: what was known of the first is not true of it */
	reach_up(0);
	assert_false(id_equal(&a.info.sandbox_id, &b.info.sandbox_id));
	assert_memory_not_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	tell_deleted("web");
	assert_int_equal(c.gone, 2);
	assert_string_equal(c.gone_why, "its pod was deleted");
	end();
}

/* The stream breaks first and the hub comes back before the watch has told: the cause is told all the same, and once.
 */
static void who_comes_back_first_hears_the_cause(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	reached_web();
	c.reach->ops->ended(c.reach->arg, "cut");
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'Error'}}}]}");
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container was restarted: Error: exit code 137");
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	tell("web");
	assert_int_equal(c.gone, 1);
	end();
}

/* The kubelet says first that the container is gone; the API server learns it later, and says why. */
static void the_kubelet_knows_before_the_api_server(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	reached_web();
	c.reach->ops->ended(c.reach->arg, "cut");
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	reach_fails(ERR_NOT_FOUND, "container not found");
	settle();
	assert_int_equal(r.times, 0);
	set_status("web",
		   "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://1','state':"
		   "{'terminated':{'exitCode':137,'reason':'Error'}}}]}");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container was restarted: Error: exit code 137");
	end();
}

/* The way in fails each time as the runtime tells of a container that has ended; `most` times, or until it is answered.
 */
static void reach_finds_no_container(const struct result *r, int most)
{
	struct patience left = patience_of(30 * NS_PER_SEC);

	while (most > 0 && !r->times && !patience_over(&left)) {
		if (c.reaches_alive) {
			reach_fails(ERR_BAD_STATE, "failed to create exec: container not created");
			most--;
		}
		settle();
		usleep(2000);
	}
	assert_true(most == 0 || r->times);
}

/* The runtime has ended the container, and the API server has not heard of it: who asked gets the next pod. */
static void the_runtime_knows_before_the_kubelet(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	c.reach->ops->ended(c.reach->arg, "cut");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	reach_finds_no_container(&r, 2);
	assert_int_equal(r.times, 0);
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 1);
	while (c.creates < 2 && !r.times)
		settle();
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://2");
	tell("muxd-coder");
	reach_up(0);
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	end();
}

/* A node that has lost its containers and tells nobody: the deadline ends it, and it is asked ever less often. */
static void a_container_that_is_gone_and_runs(void **state)
{
	struct result r = {0};

	(void)state;
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 3 * NS_PER_SEC, true);
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder");
	reach_finds_no_container(&r, 100);
	assert_int_equal(r.rc, ERR_SANDBOX_TIMEOUT);
	assert_non_null(strstr(r.message, "container not created"));
	assert_in_range(c.reaches, 2, 6);
	end();
}

/* A watch that is behind tells of the time before the stream came up: a look at the pod says what is true. */
static void an_old_word_ends_nothing(void **state)
{
	json_t *old;

	(void)state;
	begin();
	reached_web();
	old = json_deep_copy(json_object_get(c.pods, "web"));
	json_object_set_new(old, "status", json_pack("{s:s}", "phase", "Pending"));
	for (struct kube_watch *w = LIST_FIRST(&c.watches); w; w = LIST_NEXT(w, entry))
		if (w->fields[0])
			w->ops->modified(w->arg, old);
	settle();
	assert_int_equal(c.gone, 0);
	json_object_set_new(json_object_get(old, "metadata"), "uid", json_string("uid-of-an-earlier-one"));
	for (struct kube_watch *w = LIST_FIRST(&c.watches); w; w = LIST_NEXT(w, entry))
		if (w->fields[0])
			w->ops->deleted(w->arg, old);
	settle();
	assert_int_equal(c.gone, 0);
	json_decref(old);
	end();
}

static void a_pod_that_ends_while_it_is_reached(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Never");
	set_running("web", "main", "containerd://1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(c.reaches_alive, 1);
	tell_deleted("web");
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	assert_int_equal(c.reaches_alive, 0);
	assert_int_equal(c.gone, 0); /* nothing was linked: there is nothing to end */
	end();
}

static int watches(void)
{
	struct kube_watch *w;
	int n = 0;

	LIST_FOREACH(w, &c.watches, entry)
	n++;
	return n;
}

/* Names that nobody comes back to cost nothing: no watch, no memory. One with a stream stays. */
static void names_are_forgotten_in_the_end(void **state)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();
	struct result r = {0};

	(void)state;
	begin();
	clock_test_set(boot, wall);
	reached_web();
	assert_int_equal(watches(), 2);
	clock_test_set(boot + 3600 * NS_PER_SEC, wall);
	ensured("coder", "muxd-coder");
	assert_int_equal(watches(), 2); /* an hour of use */
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	reach_fails(ERR_K8S_UNREACHABLE, "no route");
	clock_test_set(boot + 2 * 3600 * NS_PER_SEC, wall);
	ensured("other", "muxd-other");
	assert_int_equal(watches(), 1);
	clock_test_reset();
	end();
}

static void destroying_waits_for_the_kubelet(void **state)
{
	struct result r = {0};

	(void)state;
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, 0); /* gone already is no error */
	ensured("coder", "muxd-coder");
	c.lingering = true;
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(c.deletes, 1);
	assert_int_equal(c.last_grace, 1);
	assert_int_equal(r.times, 0);
	tell_deleted("muxd-coder");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.state, SANDBOX_ABSENT);
	assert_non_null(json_object_get(c.claims, "muxd-coder")); /* the workspace stays */
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, 0);
	assert_null(json_object_get(c.claims, "muxd-coder"));
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, 0);
	end();
}

/* A deletion that the server did not hear is said again, with the grace that it had: no node is to blame. */
static void an_end_that_was_not_heard_is_said_again(void **state)
{
	struct result r = {0};
	int heard;

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	c.lingering = true;
	c.fail_delete = ERR_K8S_UNREACHABLE;
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	assert_true(until(&c.deletes));
	c.deletes = 0;
	assert_true(until(&c.deletes));
	assert_int_equal(c.last_grace, 1);
	heard = c.gets + 3;
	for (int i = 0; i < 20000 && c.gets < heard; i++) {
		settle();
		usleep(1000);
	}
	assert_int_equal(c.deletes, 1); /* and not once more when it was heard */
	tell_deleted("muxd-coder");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	end();
}

/* The pod went and another of its name came, between the look and the deletion: the other is not touched. */
static void only_the_pod_that_was_seen_is_ended(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	c.fail_delete = ERR_K8S_CONFLICT;
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, 0);
	assert_non_null(json_object_get(c.pods, "muxd-coder"));
	end();
}

/* ---- nodes that are lost */

static struct result ensured_on_a_node(const char *agent, const char *pod)
{
	struct result r = {0};

	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = agent);
	settle();
	json_object_set_new(json_object_get(json_object_get(c.pods, pod), "spec"), "nodeName", json_string("node-1"));
	set_running(pod, KUBE_CONTAINER, "containerd://1");
	tell(pod);
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

static void a_pod_that_went_with_its_node_says_so(void **state)
{
	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its pod was deleted: node node-1 is no longer in the cluster");
	c.node = json_pack("{s:{s:[{s:s,s:s,s:s}]}}", "status", "conditions", "type", "Ready", "status", "Unknown",
			   "message", "Kubelet stopped posting node status.");
	ensured_on_a_node("coder", "muxd-coder");
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 2);
	assert_string_equal(c.gone_why,
			    "its pod was deleted: node node-1 is not ready: Kubelet stopped posting node status.");
	ensured_on_a_node("coder", "muxd-coder");
	c.fail_get = ERR_K8S_FORBIDDEN; /* who may not look at nodes */
	tell_deleted("muxd-coder");
	assert_int_equal(c.gone, 3);
	assert_string_equal(c.gone_why, "its pod was deleted");
	end();
}

/* Whoever comes back hears of the end first, even before the watch does. */
static void the_cause_comes_before_the_next_start(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	json_object_del(c.pods, "muxd-coder");
	c.creates = 0;
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	assert_true(until(&c.gone));
	assert_non_null(strstr(c.gone_why, "no longer in the cluster"));
	assert_int_equal(c.creates, 0);
	assert_true(until(&c.creates));
	assert_int_equal(c.gone, 1);
	end();
}

static void taken_out(int fail_delete)
{
	struct result r = {0};
	char first[40];

	begin();
	ensured_on_a_node("coder", "muxd-coder");
	snprintf(first, sizeof(first), "%s", uid_of("muxd-coder"));
	c.lingering = true;
	json_object_set_new(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "deletionTimestamp",
			    json_string("2020-11-21T08:00:00Z"));
	tell("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its pod was deleted, and its node node-1 does not answer");
	ASK(c.p, on_done, &r, .op = SANDBOX_STAT, .agent = "coder");
	settle();
	assert_int_equal(r.info.state, SANDBOX_RUNNING);
	assert_true(r.info.ending);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	c.creates = 0;
	c.fail_delete = fail_delete;
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	assert_true(until(&c.creates));
	assert_int_equal(c.last_grace, 0);
	settle();
	assert_string_not_equal(uid_of("muxd-coder"), first);
	end();
}

/* Also where the server is away when it is taken out of the cluster. */
static void a_pod_that_its_node_never_confirms_is_not_waited_for(void **state)
{
	(void)state;
	taken_out(0);
	taken_out(ERR_K8S_UNREACHABLE);
}

#define EVICTED "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}"

/* The watch tells of an end once, and the look behind it fails: it is looked at again until that succeeds. */
static void an_end_is_not_forgotten_when_nobody_can_look(void **state)
{
	(void)state;
	begin();
	reached_web();
	set_status("web", EVICTED);
	c.fail_get = ERR_K8S_UNREACHABLE;
	tell("web");
	assert_int_equal(c.gone, 0);
	c.fail_get = ERR_K8S_UNREACHABLE; /* and once more */
	assert_true(until(&c.gone));
	assert_string_equal(c.gone_why, "its container ended: Evicted: disk pressure");
	settle();
	assert_int_equal(c.gone, 1);
	end();
}

/* An end that is told while an earlier look is out, whose answer knows nothing of it. */
static void an_end_behind_a_look_is_looked_at_again(void **state)
{
	json_t *old;

	(void)state;
	begin();
	reached_web();
	old = json_deep_copy(json_object_get(c.pods, "web"));
	json_object_set_new(old, "status", json_pack("{s:s}", "phase", "Pending"));
	c.hold_back = "pods";
	for (struct kube_watch *w = LIST_FIRST(&c.watches); w; w = LIST_NEXT(w, entry))
		if (w->fields[0])
			w->ops->modified(w->arg, old);
	json_decref(old);
	set_status("web", EVICTED);
	tell("web");
	c.hold_back = NULL;
	settle();
	assert_true(until(&c.gone));
	assert_string_equal(c.gone_why, "its container ended: Evicted: disk pressure");
	end();
}

/* Somebody comes back while the sandbox is ended, and the pod is gone before its node has told why: told once. */
static void who_comes_back_to_what_is_ended_is_told(void **state)
{
	struct result back = {0}, over = {0};

	(void)state;
	begin();
	ensured_on_a_node("coder", "muxd-coder");
	c.reach->ops->ended(c.reach->arg, "cut");
	ASK(c.p, on_done, &back, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_int_equal(c.reaches_alive, 1);
	c.lingering = true;
	ASK(c.p, on_done, &over, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(c.deletes, 1);
	c.hold_back = "nodes";
	tell_deleted("muxd-coder");
	assert_true(until(&over.times));
	assert_int_equal(over.rc, 0);
	assert_int_equal(back.times, 1);
	assert_int_equal(back.rc, ERR_NOT_FOUND);
	c.hold_back = NULL;
	settle();
	assert_int_equal(back.times, 1);
	assert_int_equal(c.reaches_alive, 0);
	assert_int_equal(c.gone, 0); /* it did not end by itself */
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pods_of_others_are_neither_made_nor_ended),
	    cmocka_unit_test(names_become_whole),
	    cmocka_unit_test(a_restart_or_a_deletion_is_told_at_once),
	    cmocka_unit_test(who_comes_back_first_hears_the_cause),
	    cmocka_unit_test(the_kubelet_knows_before_the_api_server),
	    cmocka_unit_test(the_runtime_knows_before_the_kubelet),
	    cmocka_unit_test(a_container_that_is_gone_and_runs),
	    cmocka_unit_test(an_old_word_ends_nothing),
	    cmocka_unit_test(a_pod_that_ends_while_it_is_reached),
	    cmocka_unit_test(names_are_forgotten_in_the_end),
	    cmocka_unit_test(destroying_waits_for_the_kubelet),
	    cmocka_unit_test(an_end_that_was_not_heard_is_said_again),
	    cmocka_unit_test(only_the_pod_that_was_seen_is_ended),
	    cmocka_unit_test(a_pod_that_went_with_its_node_says_so),
	    cmocka_unit_test(the_cause_comes_before_the_next_start),
	    cmocka_unit_test(a_pod_that_its_node_never_confirms_is_not_waited_for),
	    cmocka_unit_test(who_comes_back_to_what_is_ended_is_told),
	    cmocka_unit_test(an_end_is_not_forgotten_when_nobody_can_look),
	    cmocka_unit_test(an_end_behind_a_look_is_looked_at_again),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
