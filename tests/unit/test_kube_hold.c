// tier: check
/*
 * What holds a pod, as its controller and its API change: versions that are served, go away and come; conditions that
 * end a start and those that it waits on. The controller of agent-sandbox is the test.
 */
#include "tests/lib/provider_rig.h"

#define BOX "investigation-coder"

static void begin_held(enum kube_workspace workspace, const char *served)
{
	hold = KUBE_HOLD_SANDBOX;
	begin_with(workspace, KUBE_PIN_AUTO, 0, true);
	hold = KUBE_HOLD_POD;
	c.served = served;
}

static json_t *box(void)
{
	return json_object_get(c.boxes, BOX);
}

static const char *mode(void)
{
	const json_t *spec = json_object_get(box(), "spec");

	if (json_object_get(spec, "replicas"))
		return json_integer_value(json_object_get(spec, "replicas")) ? "1" : "0";
	return json_string_value(json_object_get(spec, "operatingMode"));
}

/* The controller's part: the pod of the template. */
static void make_pod_of_box(const char *uid)
{
	json_t *pod = json_deep_copy(json_object_get(json_object_get(box(), "spec"), "podTemplate"));

	json_object_update_new(json_object_get(pod, "metadata"),
			       json_pack("{s:s,s:s,s:s}", "name", BOX, "namespace", "agents", "uid", uid));
	json_object_set_new(c.pods, BOX, pod);
	set_status(BOX, "{'phase':'Pending'}");
}

static struct result held(void)
{
	struct result r = {0};

	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_non_null(box());
	make_pod_of_box("uid-pod");
	set_running(BOX, KUBE_CONTAINER, "containerd://1");
	tell(BOX);
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

/* ---- what is served */

static void the_best_that_is_served_is_spoken(void **state)
{
	static const struct {
		const char *served, *version, *awake, *asleep;
	} table[] = {{"v1alpha1 v1beta1", "v1beta1", "Running", "Suspended"},
		     {"v1beta1", "v1beta1", "Running", "Suspended"},
		     {"v1 v1beta1 v1alpha1", "v1beta1", "Running", "Suspended"},
		     {"v1alpha1", "v1alpha1", "1", "0"}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		begin_held(WORKSPACE_EMPTYDIR, table[i].served);
		held();
		assert_string_equal(c.version, table[i].version);
		assert_string_equal(mode(), table[i].awake);
		ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
		assert_true(until(&r.times));
		assert_int_equal(r.rc, 0);
		assert_string_equal(mode(), table[i].asleep);
		assert_int_equal(c.groups, 1); /* once, and not for each call */
		end();
	}
}

static void a_configured_version_is_not_asked_for(void **state)
{
	(void)state;
	sandbox_api = KUBE_SANDBOX_V1ALPHA1;
	begin_held(WORKSPACE_EMPTYDIR, "v1alpha1 v1beta1");
	sandbox_api = KUBE_SANDBOX_AUTO;
	held();
	assert_string_equal(c.version, "v1alpha1");
	assert_int_equal(c.groups, 0);
	end();
}

static void what_is_not_served_is_said(void **state)
{
	static const struct {
		enum kube_sandbox_api api;
		const char *served, *words;
	} table[] = {
	    {KUBE_SANDBOX_AUTO, NULL, "the cluster knows no Sandbox (agents.x-k8s.io): install agent-sandbox"},
	    {KUBE_SANDBOX_AUTO, "v2 v3", "serves agents.x-k8s.io as v2, v3, and muxd speaks v1beta1 and v1alpha1"},
	    {KUBE_SANDBOX_AUTO, "", "serves agents.x-k8s.io as nothing"},
	    {KUBE_SANDBOX_V1BETA1, "v1alpha1", "the cluster knows no Sandbox (agents.x-k8s.io/v1beta1)"},
	    {KUBE_SANDBOX_V1ALPHA1, NULL, "404 page not found"}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		sandbox_api = table[i].api;
		begin_held(WORKSPACE_EMPTYDIR, table[i].served);
		sandbox_api = KUBE_SANDBOX_AUTO;
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		assert_int_equal(r.times, 1); /* at once */
		assert_int_equal(r.rc, ERR_UNSUPPORTED);
		if (!strstr(r.message, table[i].words))
			fail_msg("no '%s' in: %s", table[i].words, r.message);
		end();
	}
}

static void call(unsigned what, struct result *r)
{
	if (what == 0)
		ASK(c.p, on_done, r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	else if (what == 1)
		ASK(c.p, on_done, r, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	else
		ASK(c.p, on_done, r, .op = SANDBOX_ENSURE, .agent = "coder");
}

/* Whatever is asked then fails by name, nothing is touched, and the next call speaks what there is by now. */
static void a_version_goes_away_while_it_runs(void **state)
{
	static const char *const left[] = {"v1alpha1", "v1beta1", NULL};

	(void)state;
	for (unsigned what = 0; what < 3; what++)
		for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
			struct result r = {0}, next = {0};

			begin_held(WORKSPACE_CLAIM, i == 1 ? "v1alpha1" : "v1beta1");
			held();
			if (what == 2)
				json_object_del(c.pods, BOX); /* it ended by itself: a start makes it again */
			c.served = left[i];
			c.deletes = 0;
			call(what, &r);
			settle();
			assert_int_equal(r.times, 1);
			assert_int_equal(
			    r.rc,
			    ERR_K8S_GONE); /* not `unsupported`, which would have the workspace removed another way */
			assert_non_null(strstr(r.message, "is not served any more"));
			assert_non_null(strstr(r.message, "404 page not found")); /* the cluster's words */
			assert_int_equal(c.deletes, 0);
			assert_non_null(json_object_get(c.claims, "muxd-coder"));
			assert_non_null(box());
			assert_int_equal(c.groups, 1);
			call(what, &next);
			if (what == 2)
				settle();
			else
				assert_true(until(&next.times));
			assert_int_equal(c.groups, 2);
			if (left[i])
				assert_string_equal(c.version, left[i]);
			if (what < 2)
				assert_int_equal(next.rc, left[i] ? 0 : ERR_UNSUPPORTED);
			end();
		}
}

/* A start that waits already hears of it, too. */
static void a_version_goes_away_under_a_start(void **state)
{
	struct result r = {0};

	(void)state;
	begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(r.times, 0);
	c.served = NULL;
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_K8S_GONE);
	end();
}

/* ---- conditions */

/* generation: 1 is the object's, which was made by this start. */
static void set_conditions(const char *text)
{
	char copy[2000];
	json_t *o = NULL;

	snprintf(copy, sizeof(copy), "{'conditions':[%s]}", text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(copy, strlen(copy), sizeof(copy), &o, NULL), 0);
	json_object_set_new(box(), "status", o);
}

#define COND(type, status, generation, reason, message)                                                                \
	"{'type':'" type "','status':'" status "','observedGeneration':" #generation ",'reason':'" reason              \
	"','message':'" message "'}"

static void what_ends_a_start(void **state)
{
	static const struct {
		const char *conditions, *words;
	} table[] = {
	    {COND("Ready", "False", 1, "MultiplePods", "2 pods are controlled by it"),
	     "cannot begin: MultiplePods: 2 pods are controlled by it"},
	    {COND("Ready", "False", 1, "SandboxExpired", "Sandbox has expired"), "cannot begin: SandboxExpired"},
	    {COND("Suspended", "True", 1, "PodTerminated", "x") "," COND("Ready", "False", 1, "MultiplePods", "words"),
	     "MultiplePods: words"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		set_conditions(table[i].conditions);
		assert_true(until(&r.times));
		assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
		if (!strstr(r.message, table[i].words))
			fail_msg("no '%s' in: %s", table[i].words, r.message);
		end();
	}
}

/* So many questions more, each behind a wait of the provider's own. */
static void let_it_look(int looks)
{
	int enough = c.gets + looks;

	for (int i = 0; i < 20000 && c.gets < enough; i++) {
		settle();
		usleep(1000);
	}
	assert_true(c.gets >= enough);
}

static void what_a_start_waits_on(void **state)
{
	static const char *const table[] = {
	    COND("Ready", "False", 1, "DependenciesNotReady", "Pod does not exist"),
	    COND("Ready", "False", 1, "ReconcilerError", "Error seen: conflict"),
	    COND("Ready", "False", 0, "MultiplePods", "of its life before"), /* observedGeneration is older */
	    "{'type':'Ready','status':'False','reason':'MultiplePods','message':'which life it means is not said'}",
	    COND("Finished", "True", 0, "PodFailed", "of its life before"),
	    COND("Finished", "True", 1, "PodFailed", "a pod that is gone by now"),
	    COND("Suspended", "True", 1, "PodTerminated", "lingers"),
	    COND("PodScheduled", "False", 1, "Unschedulable", "0/1 nodes are available"),
	    COND("Ready", "True", 1, "DependenciesReady", "the watch has not told yet"),
	    COND("Ready", "Unknown", 1, "MultiplePods", "not known"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		set_conditions(table[i]);
		let_it_look(2);
		if (r.times)
			fail_msg("%s: %s", table[i], r.message);
		make_pod_of_box("uid-pod");
		set_running(BOX, KUBE_CONTAINER, "containerd://1");
		tell(BOX);
		assert_non_null(c.reach); /* and goes on as soon as there is a pod */
		reach_up(0);
		assert_int_equal(r.rc, 0);
		end();
	}
}

/* At the deadline the words are those that say most. */
static void the_reason_of_the_scheduler_is_told(void **state)
{
	struct result r = {0};

	(void)state;
	hold = KUBE_HOLD_SANDBOX;
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 2 * NS_PER_SEC, true);
	hold = KUBE_HOLD_POD;
	c.served = "v1beta1";
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_conditions(COND("Ready", "False", 1, "DependenciesNotReady", "Pod exists with phase: Pending") "," COND(
	    "PodScheduled", "False", 1, "Unschedulable", "0/3 nodes are available"));
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_SANDBOX_TIMEOUT);
	assert_non_null(strstr(r.message, "Unschedulable: 0/3 nodes are available"));
	end();
}

/* A pod that ends at its start ends the start; it stays, the next start takes it away, and another comes. */
static void a_pod_that_ends_at_its_start(void **state)
{
	static const struct {
		const char *phase, *reason;
	} table[] = {{"Failed", "PodFailed"}, {"Succeeded", "PodSucceeded"}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0}, next = {0};
		char status[100], conditions[400];

		begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		make_pod_of_box("uid-first");
		snprintf(status, sizeof(status), "{'phase':'%s','message':'the node is full'}", table[i].phase);
		set_status(BOX, status);
		snprintf(
		    conditions, sizeof(conditions),
		    "{'type':'Finished','status':'True','observedGeneration':1,'reason':'%s','message':'Pod ended'}",
		    table[i].reason);
		set_conditions(conditions);
		tell(BOX);
		assert_int_equal(r.times, 1); /* at once */
		assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
		assert_non_null(strstr(r.message, "the node is full"));
		assert_non_null(strstr(r.message, table[i].reason));
		assert_int_equal(c.deletes, 0);
		ASK(c.p, on_done, &next, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		assert_int_equal(c.deletes, 1);
		assert_null(json_object_get(c.pods, BOX));
		let_it_look(1);
		assert_int_equal(next.times,
				 0); /* the old Finished stands there still: it is no verdict on this start */
		make_pod_of_box("uid-second");
		set_running(BOX, KUBE_CONTAINER, "containerd://2");
		tell(BOX);
		reach_up(0);
		assert_int_equal(next.rc, 0);
		end();
	}
}

/* The controller makes another at once, which ends as well: nobody deletes pods until the deadline. */
static void pods_that_end_one_after_the_other(void **state)
{
	struct result r = {0};

	(void)state;
	begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
	held();
	set_status(BOX, "{'phase':'Failed','message':'first'}");
	c.reach->ops->ended(c.reach->arg, "cut");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(c.deletes, 1);
	make_pod_of_box("uid-second");
	set_status(BOX, "{'phase':'Failed','message':'second'}");
	tell(BOX);
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
	assert_non_null(strstr(r.message, "second"));
	assert_int_equal(c.deletes, 1);
	end();
}

/* A Sandbox that is deleted under a start is made again; somebody else's in its place is not waited for. */
static void a_sandbox_that_goes_under_a_start(void **state)
{
	struct result r = {0};

	(void)state;
	begin_held(WORKSPACE_EMPTYDIR, "v1beta1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	json_object_del(c.boxes, BOX);
	for (int i = 0; i < 20000 && !box(); i++) {
		settle();
		usleep(1000);
	}
	assert_non_null(box());
	assert_int_equal(r.times, 0);
	json_object_set_new(json_object_get(json_object_get(box(), "metadata"), "annotations"), KUBE_ANNOTATION_AGENT,
			    json_string("writer"));
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_K8S_CONFLICT);
	end();
}

/* ---- a pod template of which the server drops a field: the start ends with its name, and nothing but the workspace
 * stays */

static void is_told_and_gone(const struct result *r)
{
	assert_int_equal(r->rc, ERR_FIELD_DROPPED);
	assert_non_null(strstr(r->message, "dropped /spec/hostUsers, which the pod template asks for"));
	assert_int_equal(json_object_size(c.pods), 0);
	assert_int_equal(json_object_size(c.claims), 1);
	assert_int_equal(c.reaches, 0);
}

/* The template is the agent's own: the configured one says something else. */
static const char own_text[] = "{\"spec\":{\"hostUsers\":false}}";

static json_t *template_of(bool own)
{
	return own ? json_pack("{s:{s:{s:s}}}", "spec", "nodeSelector", "disk", "ssd")
		   : json_pack("{s:{s:b}}", "spec", "hostUsers", 0);
}

static void say_own(bool own)
{
	char effective[SANDBOX_DIGEST_LEN];
	struct err e = {0};

	assert_int_equal(c.p->ops->pod_template(c.p, "coder", own ? own_text : "", true, effective, &e), 0);
	assert_int_equal(strlen(effective), 64);
}

static json_t *spec_of_pod(const char *key)
{
	return json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "spec"), key);
}

static void a_dropped_field_ends_the_start_of_a_pod(void **state)
{
	(void)state;
	for (int own = 0; own < 2; own++) {
		json_t *t = template_of(own);
		struct result r = {0}, again = {0};

		pod_template = t;
		begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
		pod_template = NULL;
		json_decref(t);
		c.dropping = "hostUsers";
		say_own(own);
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		assert_true(until(&r.times));
		is_told_and_gone(&r);
		c.dropping = NULL; /* a server that knows it */
		say_own(own);
		ASK(c.p, on_done, &again, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		assert_true(json_is_false(spec_of_pod("hostUsers")));
		assert_int_equal(json_object_size(spec_of_pod("nodeSelector")), own);
		end();
	}
}

static void begin_dropping(json_t *t)
{
	pod_template = t;
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
	pod_template = NULL;
	json_decref(t);
	c.dropping = "hostUsers";
}

/* The removal is tried until it is done; one that cannot be done is told behind what was dropped. */
static void a_pod_that_lacks_something_is_never_started(void **state)
{
	static const struct {
		int rc;
		const char *words;
	} refusals[] = {{ERR_K8S_UNREACHABLE, NULL}, {ERR_EOF, NULL}, {ERR_K8S_FORBIDDEN, "it may be there still"}};

	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct result r = {0}, again = {0};

		begin_dropping(template_of(false));
		c.fail_delete = refusals[i].rc;
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		assert_true(until(&r.times));
		if (!refusals[i].words) {
			is_told_and_gone(&r);
		} else {
			assert_int_equal(r.rc, ERR_FIELD_DROPPED);
			assert_non_null(strstr(r.message, refusals[i].words));
			set_running("muxd-coder", KUBE_CONTAINER, "containerd://1"); /* as after a kill of the daemon */
			ASK(c.p, on_done, &again, .op = SANDBOX_ENSURE, .agent = "coder");
			assert_true(until(&again.times));
			is_told_and_gone(&again);
		}
		end();
	}
}

/* Anybody who may can take a label from a pod that runs: that is no field which a server has dropped. */
static void a_label_that_is_gone_by_now_ends_nothing(void **state)
{
	struct result r = {0};

	(void)state;
	begin_dropping(json_pack("{s:{s:{s:s}},s:{s:b}}", "metadata", "labels", "team", "red", "spec", "hostUsers", 0));
	c.dropping = NULL;
	(void)ensured("coder", "muxd-coder");
	(void)json_object_del(
	    json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "labels"), "team");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	reach_up(0);
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	end();
}

/* What was said ahead of one start is nothing to the next one, nor to another agent's; what was refused, to none. */
static void an_own_template_is_good_for_one_start(void **state)
{
	char effective[SANDBOX_DIGEST_LEN] = "", without[SANDBOX_DIGEST_LEN] = "";
	struct err e = {0};

	(void)state;
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 0, true);
	assert_int_equal(c.p->ops->pod_template(c.p, "coder", "{\"spec\":{\"hostNetwork\":true}}", true, effective, &e),
			 ERR_INVAL);
	assert_memory_equal(e.message, "/spec/hostNetwork is not for a template", 39);
	assert_int_equal(c.p->ops->pod_template(c.p, "coder", "", false, without, &e), 0);
	assert_string_equal(without, "");
	assert_int_equal(c.p->ops->pod_template(c.p, "coder", own_text, false, effective, &e), 0);
	for (int said = 0; said < 3; said++) {
		struct result r = {0};

		if (said == 1)
			say_own(true);
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = said ? "coder" : "other");
		settle();
		set_running(said ? "muxd-coder" : "muxd-other", KUBE_CONTAINER, "containerd://1");
		tell(said ? "muxd-coder" : "muxd-other");
		reach_up(said);
		assert_true(until(&r.times));
		assert_int_equal(r.rc, 0);
		if (said == 1)
			assert_true(json_is_false(spec_of_pod("hostUsers")));
		if (said == 2)
			assert_null(spec_of_pod("hostUsers"));
		if (said)
			tell_deleted("muxd-coder");
	}
	end();
}

/* ... also where the controller's pod runs before anybody has looked at it. */
static void a_dropped_field_ends_the_start_of_a_sandbox(void **state)
{
	(void)state;
	for (int turn = 0; turn < 4; turn++) {
		bool running = turn & 1, own = turn & 2;
		json_t *t = template_of(own);
		struct result r = {0};

		pod_template = t;
		begin_held(WORKSPACE_CLAIM, "v1beta1");
		pod_template = NULL;
		json_decref(t);
		say_own(own);
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		assert_string_equal(mode(), "Running");
		make_pod_of_box("uid-pod");
		(void)json_object_del(json_object_get(json_object_get(c.pods, BOX), "spec"), "hostUsers");
		if (running)
			set_running(BOX, KUBE_CONTAINER, "containerd://1");
		tell(BOX);
		assert_true(until(&r.times));
		is_told_and_gone(&r);
		assert_string_equal(mode(), "Suspended");
		end();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_best_that_is_served_is_spoken),
	    cmocka_unit_test(a_configured_version_is_not_asked_for),
	    cmocka_unit_test(what_is_not_served_is_said),
	    cmocka_unit_test(a_version_goes_away_while_it_runs),
	    cmocka_unit_test(a_version_goes_away_under_a_start),
	    cmocka_unit_test(what_ends_a_start),
	    cmocka_unit_test(what_a_start_waits_on),
	    cmocka_unit_test(the_reason_of_the_scheduler_is_told),
	    cmocka_unit_test(a_pod_that_ends_at_its_start),
	    cmocka_unit_test(pods_that_end_one_after_the_other),
	    cmocka_unit_test(a_sandbox_that_goes_under_a_start),
	    cmocka_unit_test(a_dropped_field_ends_the_start_of_a_pod),
	    cmocka_unit_test(a_pod_that_lacks_something_is_never_started),
	    cmocka_unit_test(a_label_that_is_gone_by_now_ends_nothing),
	    cmocka_unit_test(an_own_template_is_good_for_one_start),
	    cmocka_unit_test(a_dropped_field_ends_the_start_of_a_sandbox),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
