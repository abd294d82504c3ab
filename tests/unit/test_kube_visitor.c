// tier: check
/*
 * An ephemeral container that carries muxlet where the target cannot: what it is made from, and from being added to
 * ending. Against a fake of the cluster: a server of 1.20 has ephemeral containers behind a gate that is off, and newer
 * ones than 1.20 are not at hand here.
 */
#include "control/kube/pods/visitor.h"
#include "tests/lib/provider_rig.h"

#define IMAGE "registry.example/muxlet:1"

static json_t *parse(const char *text)
{
	char copy[4000];
	json_t *o = NULL;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(copy, strlen(copy), sizeof(copy), &o, NULL), 0);
	return o;
}

static const char hardened[] =
    "{'metadata':{'name':'web','uid':'u'},'spec':{'securityContext':{'runAsUser':1001,'runAsGroup':7},'containers':["
    "{'name':'main','securityContext':{'runAsUser':1002,'privileged':true},'volumeMounts':["
    "{'name':'data','mountPath':'/data','mountPropagation':'HostToContainer'},"
    "{'name':'conf','mountPath':'/etc/conf','readOnly':true},"
    "{'name':'data','mountPath':'/part','subPath':'x'},{'name':'data','mountPath':'/q','subPathExpr':'$(Y)'},"
    "{'name':'token','mountPath':'/var/run/secrets/kubernetes.io/serviceaccount','readOnly':true}]},"
    "{'name':'side'}]}}";

static const struct visitor_params params = {
    .target = "main", .image = IMAGE, .pull_policy = "Never", .muxlet = "/usr/local/bin/muxlet"};

static struct visitor_plan plan_of(json_t *pod, const struct visitor_params *p)
{
	struct visitor_plan plan = {0};
	struct err e = {0};

	if (visitor_plan(pod, p, &plan, &e))
		fail_msg("%s", e.message);
	return plan;
}

static void it_is_the_targets_user_and_no_more(void **state)
{
	json_t *pod = parse(hardened), *want;
	struct visitor_plan plan = plan_of(pod, &params);
	char text[64];

	(void)state;
	assert_int_equal(plan.state, VISITOR_ABSENT);
	assert_int_equal(strncmp(plan.name, VISITOR_PREFIX, strlen(VISITOR_PREFIX)), 0);
	want =
	    parse("{'image':'" IMAGE "','imagePullPolicy':'Never','targetContainerName':'main','command':["
		  "'/usr/local/bin/muxlet','--visit','1','--pause'],'terminationMessagePolicy':'FallbackToLogsOnError',"
		  "'securityContext':{'runAsUser':1002,'runAsGroup':7,'runAsNonRoot':true,'privileged':false,"
		  "'allowPrivilegeEscalation':false,'readOnlyRootFilesystem':true,'capabilities':{'drop':['ALL']},"
		  "'seccompProfile':{'type':'RuntimeDefault'}},'volumeMounts':[{'name':'data','mountPath':'/data'},"
		  "{'name':'conf','mountPath':'/etc/conf','readOnly':true}]}");
	snprintf(text, sizeof(text), "%s", plan.name);
	json_object_set_new(want, "name", json_string(text));
	if (!json_equal(want, plan.container))
		fail_msg("%s", json_dumps(plan.container, JSON_INDENT(1)));
	json_decref(want);
	json_decref(plan.container);
	json_decref(pod);
}

/* The same for the same, another for whatever differs. */
static void its_name_is_what_it_is_made_from(void **state)
{
	json_t *pod = parse(hardened);
	struct visitor_params other = params;
	struct visitor_plan a = plan_of(pod, &params), b = plan_of(pod, &params), d, f;

	(void)state;
	other.image = IMAGE "1";
	d = plan_of(pod, &other);
	other = params;
	other.target = "side";
	f = plan_of(pod, &other);
	assert_string_equal(a.name, b.name);
	assert_string_not_equal(a.name, d.name);
	assert_string_not_equal(a.name, f.name);
	json_decref(a.container);
	json_decref(b.container);
	json_decref(d.container);
	json_decref(f.container);
	json_decref(pod);
}

/* The one that is there has what a server added to it, or what somebody else did. */
static void it_is_known_by_what_it_is(void **state)
{
	json_t *pod = parse(hardened), *spec = json_object_get(pod, "spec"), *security;
	struct visitor_plan plan = plan_of(pod, &params);
	struct err e = {0};

	(void)state;
	security = json_object_get(plan.container, "securityContext");
	json_object_set_new(spec, "ephemeralContainers", json_pack("[o]", plan.container));
	json_object_set_new(security, "procMount", json_string("Default")); /* Kubernetes 1.33 */
	plan = plan_of(pod, &params);
	assert_int_equal(plan.state, VISITOR_WAITING);
	json_object_set_new(security, "procMount", json_string("Unmasked"));
	assert_int_equal(visitor_plan(pod, &params, &plan, &e), ERR_UNSUPPORTED);
	json_object_del(security, "procMount");
	json_object_set_new(json_object_get(security, "capabilities"), "add", json_pack("[s]", "SYS_PTRACE"));
	assert_int_equal(visitor_plan(pod, &params, &plan, &e), ERR_UNSUPPORTED);
	json_decref(pod);
}

static void where_it_cannot_be(void **state)
{
	static const struct {
		const char *pod, *target, *words;
		int rc;
	} cases[] = {
	    {"{'spec':{'shareProcessNamespace':true,'containers':[{'name':'main'}]}}", "main", "share their processes",
	     ERR_UNSUPPORTED},
	    {"{'spec':{'hostPID':true,'containers':[{'name':'main'}]}}", "main", "share their processes",
	     ERR_UNSUPPORTED},
	    {"{'spec':{'containers':[],'initContainers':[{'name':'main'}]}}", "main", "lasts as long", ERR_UNSUPPORTED},
	    {"{}", "main", "no pod", ERR_K8S},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *pod = parse(cases[i].pod);
		struct visitor_plan plan = {0};
		struct err e = {0};

		assert_int_equal(visitor_plan(pod, &params, &plan, &e), cases[i].rc);
		assert_non_null(strstr(e.message, cases[i].words));
		assert_null(plan.container);
		json_decref(pod);
	}
}

/* ---- in the provider */

static char added[64]; /* the name of the last */

static json_t *ephemerals(void)
{
	return json_object_get(json_object_get(json_object_get(c.pods, "web"), "spec"), "ephemeralContainers");
}

/* The newest of the pod's gets a state; the kubelet of the fake. */
static void visitor_is(const char *state)
{
	json_t *list = ephemerals(), *status = json_object_get(json_object_get(c.pods, "web"), "status"), *all;

	assert_true(json_array_size(list) > 0);
	snprintf(added, sizeof(added), "%s",
		 json_string_value(json_object_get(json_array_get(list, json_array_size(list) - 1), "name")));
	all = json_object_get(status, "ephemeralContainerStatuses");
	if (!all)
		json_object_set_new(status, "ephemeralContainerStatuses", all = json_array());
	if (json_array_size(all) == json_array_size(list))
		json_array_remove(all, json_array_size(all) - 1);
	json_array_append_new(all, json_pack("{s:s,s:o}", "name", added, "state", parse(state)));
}

/* ensure of a pod of others, up to where muxlet was found not to run. */
static void arrive(struct result *r)
{
	memset(r, 0, sizeof(*r));
	ephemeral_image = IMAGE;
	begin();
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	ASK(c.p, on_done, r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
}

static void leave(void)
{
	end();
	ephemeral_image = NULL;
}

static void it_is_added_once_and_carries_muxlet(void **state)
{
	struct result r, again = {0};

	(void)state;
	arrive(&r);
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	settle();
	assert_int_equal(c.patches, 1);
	assert_int_equal(r.times, 0); /* it does not run yet */
	visitor_is("{'running':{}}");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.backend, SANDBOX_PLAIN); /* programs go on by exec */
	assert_string_equal(r.info.delivery, "ephemeral");
	assert_string_equal(r.info.visitor, added);
	assert_string_equal(r.info.visitors_added + 1, added);
	assert_string_equal(c.plain_container, "main");
	assert_string_equal(c.plain_visitor, added);
	assert_string_equal(c.plain_muxlet, "/usr/local/bin/muxlet");
	assert_non_null(strstr(r.info.why, "there is no shell; ephemeral container: muxd-visitor-"));
	ASK(c.p, on_done, &again, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	assert_string_equal(again.info.visitor, added);
	assert_string_equal(again.info.visitors_added, "");
	assert_int_equal(c.patches, 1);
	memset(&again, 0, sizeof(again));
	ASK(c.p, on_done, &again, .op = SANDBOX_STAT, .agent = "ns/web/main");
	settle();
	assert_string_equal(again.info.visitor, added);
	leave();
}

/* After a restart of the daemon: what is there is used; what is there under our name and is not ours is not. */
static void the_one_that_is_there_is_used(void **state)
{
	struct result r;
	json_t *kept, *status;

	(void)state;
	arrive(&r);
	reach_fails(ERR_UNSUPPORTED, "x");
	settle();
	visitor_is("{'running':{}}");
	assert_true(until(&r.times));
	kept = json_deep_copy(ephemerals());
	status = json_deep_copy(json_object_get(json_object_get(c.pods, "web"), "status"));
	leave();
	for (int i = 0; i < 2; i++) {
		arrive(&r);
		json_object_set(json_object_get(json_object_get(c.pods, "web"), "spec"), "ephemeralContainers", kept);
		json_object_set(json_object_get(c.pods, "web"), "status", status);
		reach_fails(ERR_UNSUPPORTED, "x");
		assert_true(until(&r.times));
		assert_int_equal(c.patches, 0);
		assert_string_equal(r.info.visitor, i ? "" : added);
		assert_string_equal(r.info.visitors_added, "");
		leave();
		json_object_set_new(json_array_get(kept, 0), "image", json_string("evil"));
	}
	assert_non_null(strstr(r.info.why, "is not as muxd makes it"));
	json_decref(kept);
	json_decref(status);
}

/* Each way is left with its reason, and plain is what is left. */
static void plain_says_why(void **state)
{
	static const struct {
		int refusal;
		const char *state, *words;
	} cases[] = {
	    {ERR_K8S_FORBIDDEN, NULL, "the API server said so: patch pods/ephemeralcontainers"},
	    {ERR_NOT_FOUND, NULL, "this cluster has no ephemeral containers"},
	    {0, "{'terminated':{'exitCode':13,'reason':'Error','message':'Permission denied'}}",
	     "it has ended: Error: Permission denied"},
	    {0, "{'waiting':{'reason':'ErrImageNeverPull','message':'no image'}}", "ErrImageNeverPull: no image"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct result r;

		arrive(&r);
		c.fail_patch = cases[i].refusal;
		reach_fails(ERR_UNSUPPORTED, "there is no shell");
		settle();
		if (cases[i].state)
			visitor_is(cases[i].state);
		assert_true(until(&r.times));
		assert_int_equal(r.rc, 0);
		assert_int_equal(r.info.backend, SANDBOX_PLAIN);
		assert_string_equal(r.info.visitor, "");
		assert_string_equal(c.plain_visitor, "");
		assert_string_equal(r.info.visitors_added + !cases[i].refusal, cases[i].refusal ? "" : added);
		if (!strstr(r.info.why, cases[i].words) || !strstr(r.info.why, "there is no shell"))
			fail_msg("%s", r.info.why);
		leave();
	}
}

/* Who was ended from outside is made again, so often and no more: a pod keeps them all. */
static void so_many_and_no_more(void **state)
{
	struct result r;
	int told = 0;

	(void)state;
	arrive(&r);
	reach_fails(ERR_UNSUPPORTED, "x");
	for (int i = 1; i <= VISITOR_TRIES; i++) {
		assert_true(until(&c.patches));
		while (c.patches < i)
			settle();
		visitor_is("{'terminated':{'exitCode':137,'reason':'Error'}}");
	}
	assert_true(until(&r.times));
	assert_int_equal(c.patches, VISITOR_TRIES);
	assert_string_equal(r.info.visitor, "");
	for (const char *at = r.info.visitors_added; (at = strstr(at, " muxd-visitor-")); at++)
		told++;
	assert_int_equal(told, VISITOR_TRIES);
	leave();
}

enum lost { LOST_ANSWER, LOST_SIGHT, LOST_QUESTION };

/* The first question, or the one that takes its place. */
static void add_and_lose(enum lost what, struct result *first, struct result *second)
{
	memset(second, 0, sizeof(*second));
	arrive(first);
	c.lose_patch = what != LOST_QUESTION;
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	settle();
	assert_int_equal(c.patches, 1);
	visitor_is("{'running':{}}");
	if (what == LOST_SIGHT)
		c.fail_get = ERR_K8S_FORBIDDEN;
	if (what != LOST_QUESTION)
		return;
	ASK(c.p, on_done, second, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(first->rc, ERR_CONFLICT);
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
}

/* A pod of others was changed for good: that is told once, whoever heard of it. */
static void an_addition_is_told_once(void **state)
{
	(void)state;
	for (enum lost what = LOST_ANSWER; what <= LOST_QUESTION; what++) {
		struct result first, second, *r = what == LOST_QUESTION ? &second : &first, again = {0};

		add_and_lose(what, &first, &second);
		assert_true(until(&r->times));
		assert_int_equal(r->rc, 0);
		assert_string_equal(r->info.visitor, what == LOST_SIGHT ? "" : added);
		assert_string_equal(r->info.visitors_added + 1, added);
		ASK(c.p, on_done, &again, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
		assert_true(until(&again.times));
		assert_string_equal(again.info.visitors_added, "");
		leave();
	}
}

/* The container ends, or the daemon, while somebody waits for it. */
static void an_end_in_the_middle(void **state)
{
	struct result r;

	(void)state;
	arrive(&r);
	reach_fails(ERR_UNSUPPORTED, "x");
	settle();
	set_running("web", "main", "containerd://2");
	tell("web");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	leave();
	arrive(&r);
	reach_fails(ERR_UNSUPPORTED, "x");
	settle();
	leave();
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, ERR_CANCELLED);
}

/* Ours have their init container: nothing is added to them. */
static void pods_of_ours_get_none(void **state)
{
	struct result r = {0};

	(void)state;
	ephemeral_image = IMAGE;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder");
	reach_fails(ERR_UNSUPPORTED, "x");
	assert_int_equal(r.rc, 0);
	assert_int_equal(c.patches, 0);
	assert_string_equal(r.info.why, "x");
	leave();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(it_is_the_targets_user_and_no_more),
	    cmocka_unit_test(its_name_is_what_it_is_made_from),
	    cmocka_unit_test(it_is_known_by_what_it_is),
	    cmocka_unit_test(where_it_cannot_be),
	    cmocka_unit_test(it_is_added_once_and_carries_muxlet),
	    cmocka_unit_test(the_one_that_is_there_is_used),
	    cmocka_unit_test(plain_says_why),
	    cmocka_unit_test(so_many_and_no_more),
	    cmocka_unit_test(an_addition_is_told_once),
	    cmocka_unit_test(an_end_in_the_middle),
	    cmocka_unit_test(pods_of_ours_get_none),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
