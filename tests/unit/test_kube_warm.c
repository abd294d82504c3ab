// tier: check
/*
 * Sandboxes out of a warm pool: claimed, adopted, asleep, awake, wiped; what ends a claim's start and what it waits on.
 * The controllers of agent-sandbox and its extensions are the test.
 */
#include "tests/lib/provider_rig.h"

#define CLAIM "investigation-coder"
#define BOX   "pool-7xk2f" /* nobody derives that name from the agent's */

static void begin_warm_with(uint64_t timeout_ns)
{
	hold = KUBE_HOLD_SANDBOX;
	warm_pool = "python";
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, timeout_ns, true);
	hold = KUBE_HOLD_POD;
	warm_pool = NULL;
	c.served = "v1alpha1 v1beta1";
}

static void begin_warm(void)
{
	begin_warm_with(0);
}

static json_t *parsed(const char *text)
{
	char copy[3000];
	json_t *o = NULL;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *p = copy; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	assert_int_equal(json_parse(copy, strlen(copy), sizeof(copy), &o, NULL), 0);
	return o;
}

static json_t *claim(void)
{
	return json_object_get(c.wants, CLAIM);
}

static const char *meta(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(json_object_get(o, "metadata"), key));
}

static const char *mode(void)
{
	return json_string_value(
	    json_object_get(json_object_get(json_object_get(c.boxes, BOX), "spec"), "operatingMode"));
}

static void set_claim_status(const char *text)
{
	json_object_set_new(claim(), "status", parsed(text));
}

/* A pod of the pool, as it stood before anybody claimed it. */
static void warm_pod(const char *owner, bool labelled)
{
	json_t *pod = parsed("{'metadata':{'name':'" BOX "','namespace':'agents','uid':'uid-warm','labels':{}},"
			     "'spec':{'containers':[{'name':'sandbox'}]}}");
	json_t *m = json_object_get(pod, "metadata");

	json_object_set_new(m, "ownerReferences", json_pack("[{s:s,s:b}]", "uid", owner, "controller", 1));
	if (labelled)
		json_object_set_new(json_object_get(m, "labels"), KUBE_LABEL_ROLE, json_string(KUBE_ROLE_SANDBOX));
	json_object_set_new(c.pods, BOX, pod);
	set_running(BOX, KUBE_CONTAINER, "containerd://warm");
}

/* The controller adopts a Sandbox for the claim, and says so in one write. */
static void adopt(bool keeps)
{
	json_t *box = parsed("{'metadata':{'name':'" BOX "','uid':'uid-box','generation':3,'annotations':"
			     "{'agents.x-k8s.io/pod-name':'" BOX "'}},'spec':{'operatingMode':'Running','podTemplate':"
			     "{'spec':{'containers':[{'name':'sandbox','volumeMounts':[{'name':'work','mountPath':"
			     "'/workspace'}]}]}}}}");

	json_object_set_new(json_object_get(box, "metadata"), "ownerReferences",
			    json_pack("[{s:s,s:b}]", "uid", meta(claim(), "uid"), "controller", 1));
	if (keeps)
		json_object_set_new(json_object_get(box, "spec"), "volumeClaimTemplates",
				    json_pack("[{s:{s:s},s:{}}]", "metadata", "name", "work", "spec"));
	json_object_set_new(c.boxes, BOX, box);
	set_claim_status("{'sandbox':{'name':'" BOX "'},'conditions':[{'type':'Ready','status':'True',"
			 "'observedGeneration':1,'reason':'DependenciesReady','message':''}]}");
}

static void let_it_look(int looks)
{
	int enough = c.gets + looks;

	for (int i = 0; i < 20000 && c.gets < enough; i++) {
		settle();
		usleep(1000);
	}
	assert_true(c.gets >= enough);
}

static bool until_reached(void)
{
	for (int i = 0; i < 20000 && !c.reach; i++) {
		settle();
		usleep(1000);
	}
	return c.reach != NULL;
}

static struct result claimed(bool keeps)
{
	struct result r = {0};

	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_non_null(claim());
	assert_int_equal(r.times, 0);
	adopt(keeps);
	warm_pod("uid-box", true);
	assert_true(until_reached());
	reach_up(0);
	assert_int_equal(r.rc, 0);
	return r;
}

static void a_sandbox_is_claimed_and_adopted(void **state)
{
	struct result r;
	json_t *spec;

	(void)state;
	begin_warm();
	r = claimed(false);
	assert_string_equal(json_string_value(json_object_get(claim(), "apiVersion")),
			    "extensions.agents.x-k8s.io/v1beta1");
	spec = json_object_get(claim(), "spec");
	assert_string_equal(json_string_value(json_object_get(json_object_get(spec, "warmPoolRef"), "name")), "python");
	assert_null(json_object_get(spec, "env")); /* either would be a cold start, and refused by most templates */
	assert_null(json_object_get(spec, "volumeClaimTemplates"));
	assert_null(json_object_get(spec, "lifecycle"));
	assert_null(json_object_get(json_object_get(spec, "additionalPodMetadata"), "labels")); /* refused by default */
	assert_int_equal(json_object_size(c.boxes),
			 1); /* the controller's: muxd makes no Sandbox, no pod and no claim */
	assert_int_equal(json_object_size(c.pods), 1);
	assert_int_equal(json_object_size(c.claims), 0);
	assert_int_equal(c.creates, 1);
	assert_string_equal(r.info.pod, BOX);
	assert_string_equal(c.reach->container, KUBE_CONTAINER);
	assert_int_equal(c.patches, 0);
	end();
}

/* Its pod ends: the watch tells of a pod of that name, and the hub hears it as of any other. */
static void its_end_is_told(void **state)
{
	(void)state;
	begin_warm();
	claimed(false);
	tell_deleted(BOX);
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_agent, "coder");
	end();
}

static void a_claim_sleeps_and_wakes(void **state)
{
	struct result slept = {0}, looked = {0}, tied = {0}, woken = {0};

	(void)state;
	begin_warm();
	claimed(true);
	ASK(c.p, on_done, &slept, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "idle");
	assert_true(until(&slept.times));
	assert_int_equal(slept.rc, 0);
	assert_true(slept.info.has_workspace); /* volumeClaimTemplates of the template outlive the pod */
	assert_string_equal(mode(), "Suspended");
	assert_non_null(claim());
	assert_int_equal(c.gone, 0);
	ASK(c.p, on_done, &looked, .op = SANDBOX_STAT, .agent = "coder");
	settle();
	assert_int_equal(looked.rc, 0);
	assert_int_equal(looked.info.state, SANDBOX_STOPPED);
	assert_true(looked.info.has_workspace);
	ASK(c.p, on_done, &tied, .op = SANDBOX_CONNECT, .agent = "coder"); /* who only comes back does not wake it */
	settle();
	assert_int_equal(tied.rc, ERR_NOT_FOUND);
	assert_string_equal(mode(), "Suspended");
	ASK(c.p, on_done, &woken, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_string_equal(mode(), "Running");
	assert_int_equal(c.creates, 1); /* the same claim, the same Sandbox */
	warm_pod("uid-box", true);
	assert_true(until_reached());
	reach_up(0);
	assert_int_equal(woken.rc, 0);
	end();
}

/* ---- wiped is wiped */

static struct result wiped(uint64_t timeout_ns)
{
	struct result r = {0};

	ASK(c.p, on_done, &r, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x", .timeout_ns = timeout_ns);
	assert_true(until(&r.times));
	return r;
}

/* The cluster takes all of it away, once the claim is deleted. */
static void collect(void)
{
	json_object_del(c.boxes, BOX);
	json_object_del(c.wants, CLAIM);
}

static void work_claim(const char *more)
{
	char text[300];

	snprintf(text, sizeof(text),
		 "{'metadata':{'name':'work-" BOX "','uid':'uid-pvc'},'spec':{%s},'status':{'phase':'Bound'}}", more);
	json_object_set_new(c.claims, "work-" BOX, parsed(text));
}

/* Everything goes with the claim, and it is wiped when all of it is gone, the volume of the template's claim included.
 */
static void a_claim_is_wiped(void **state)
{
	struct result r = {0};

	(void)state;
	begin_warm();
	claimed(true);
	work_claim("");
	ASK(c.p, on_done, &r, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	for (int i = 0; i < 20000 && !meta(claim(), "deletionTimestamp"); i++) {
		settle();
		usleep(1000);
	}
	assert_string_equal(mode(), "Suspended"); /* so that its controller does not make the pod again */
	assert_null(json_object_get(c.pods, BOX));
	let_it_look(3);
	assert_int_equal(r.times, 0); /* its Sandbox is there still */
	collect();
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_null(json_object_get(c.claims, "work-" BOX));
	assert_int_equal(wiped(0).rc, 0); /* gone already */
	end();
}

/* Late is late for whoever asks again, too: the claim is there until all of it is gone. */
static void a_late_wipe_is_not_done_by_asking_again(void **state)
{
	struct result r;

	(void)state;
	begin_warm();
	claimed(true);
	work_claim("");
	for (int i = 0; i < 2; i++) {
		r = wiped(NS_PER_SEC);
		assert_int_equal(r.rc, ERR_TIMEOUT);
		assert_non_null(strstr(r.message, BOX " does not go away"));
	}
	collect();
	assert_int_equal(wiped(0).rc, 0);
	end();
}

/* The claim stays as well, so that every wipe finds the data by it; nothing runs in it, and nothing ends it. */
static void data_that_would_stay_keeps_its_claim(void **state)
{
	json_t *life;
	struct result r;

	(void)state;
	begin_warm();
	c.p->ops->set_end(c.p, "coder", INT64_C(1800000000) * (int64_t)NS_PER_SEC, false);
	claimed(true);
	work_claim("'volumeName':'v'");
	json_object_set_new(
	    c.claims, "v",
	    parsed("{'metadata':{'name':'v','uid':'uid-v'},'spec':{'persistentVolumeReclaimPolicy':'Retain','local':{"
		   "'path':'/mnt/disk7'},'claimRef':{'namespace':'agents','name':'work-" BOX "','uid':'uid-pvc'}}}"));
	for (int i = 0; i < 2; i++) {
		r = wiped(0);
		assert_int_equal(r.rc, ERR_DATA_KEPT);
		assert_non_null(strstr(r.message, "PersistentVolume v stays with claim work-" BOX));
		assert_non_null(claim());
		assert_null(meta(claim(), "deletionTimestamp"));
		assert_non_null(json_object_get(c.claims, "work-" BOX));
		assert_string_equal(mode(), "Suspended");
		assert_null(json_object_get(c.pods, BOX));
	}
	life = json_object_get(json_object_get(claim(), "spec"), "lifecycle");
	assert_true(json_is_null(json_object_get(life, "shutdownTime")));
	json_object_del(c.claims, "v"); /* its maker has emptied it */
	json_object_del(c.boxes, BOX);
	assert_int_equal(wiped(0).rc, 0);
	assert_null(claim());
	end();
}

/* ---- what ends a start, and what it waits on */

#define READY(generation, reason)                                                                                      \
	"{'conditions':[{'type':'Ready','status':'False','observedGeneration':" #generation ",'reason':'" reason       \
	"','message':'words of the controller'}]}"

static void reasons_that_fail_and_reasons_that_wait(void **state)
{
	static const struct {
		const char *status;
		bool fails;
	} table[] = {{READY(1, "TemplateNotFound"), true},
		     {READY(1, "WarmPoolNotFound"), true},
		     {READY(1, "InvalidMetadata"), true},
		     {READY(1, "EnvVarsInjectionRejected"), true},
		     {READY(1, "VolumeClaimTemplatesError"), true},
		     {READY(1, "ClaimExpired"), true},
		     {READY(1, "SandboxExpired"), true},
		     {READY(0, "WarmPoolNotFound"), false}, /* of an earlier generation */
		     {READY(1, "AdoptionConflict"), false},
		     {READY(1, "SandboxCreatePending"), false},
		     {READY(1, "SandboxMissing"), false},
		     {READY(1, "SandboxNotReady"), false},
		     {READY(1, "ReconcilerError"), false},
		     {READY(1, "SomethingNew"), false},
		     {"{}", false}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		begin_warm();
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		set_claim_status(table[i].status);
		if (table[i].fails) {
			assert_true(until(&r.times));
			assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
			assert_non_null(strstr(r.message, "words of the controller"));
		} else {
			let_it_look(2);
			if (r.times)
				fail_msg("%s: %s", table[i].status, r.message);
			adopt(false);
			warm_pod("uid-box", true);
			assert_true(until_reached()); /* and goes on from there */
			reach_up(0);
			assert_int_equal(r.rc, 0);
		}
		end();
	}
}

static void the_deadline_tells_the_controllers_words(void **state)
{
	static const struct {
		const char *status, *words;
	} table[] = {{READY(1, "SandboxMissing"), "SandboxMissing: words of the controller"},
		     {"{}", "do the controllers of agent-sandbox and its extensions run?"}};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct result r = {0};

		begin_warm_with(NS_PER_SEC);
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		set_claim_status(table[i].status);
		assert_true(until(&r.times));
		assert_int_equal(r.rc, ERR_SANDBOX_TIMEOUT);
		if (!strstr(r.message, table[i].words))
			fail_msg("no '%s' in: %s", table[i].words, r.message);
		end();
	}
}

static void a_refused_claim_is_told_in_the_clusters_words(void **state)
{
	static const int codes[] = {ERR_K8S_FORBIDDEN, ERR_K8S_INVALID};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct result r = {0};

		begin_warm();
		c.fail_create = codes[i];
		c.refused = "403 Forbidden: ValidatingAdmissionPolicy 'quota' denied request: no more claims today";
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		settle();
		assert_int_equal(r.times, 1);
		assert_int_equal(r.rc, codes[i]);
		assert_non_null(strstr(r.message, "no more claims today"));
		end();
	}
}

static void what_the_cluster_does_not_know_is_said(void **state)
{
	struct result r = {0}, w = {0};

	(void)state;
	begin_warm();
	c.unknown = "sandboxclaims";
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	ASK(c.p, on_done, &w, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(r.message, "extensions.agents.x-k8s.io/v1beta1"));
	assert_non_null(strstr(r.message, "404 page not found"));
	assert_int_equal(w.rc, ERR_UNSUPPORTED);
	end();
}

/* ---- what is not its own */

static void what_is_somebody_elses_is_left_alone(void **state)
{
	struct result a = {0}, b = {0}, d = {0};

	(void)state;
	begin_warm();
	json_object_set_new(c.wants, CLAIM,
			    parsed("{'metadata':{'name':'" CLAIM "','uid':'uid-x','generation':1},'spec':{}}"));
	ASK(c.p, on_done, &a, .op = SANDBOX_ENSURE, .agent = "coder");
	ASK(c.p, on_done, &b, .op = SANDBOX_WIPE, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(a.rc, ERR_K8S_CONFLICT);
	assert_int_equal(b.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.deletes + c.patches, 0);
	json_object_del(c.wants, CLAIM);
	ASK(c.p, on_done, &d, .op = SANDBOX_ENSURE,
	    .agent = "coder"); /* a Sandbox that is not the claim's, whatever its status says */
	settle();
	adopt(false);
	json_object_set_new(json_object_get(json_object_get(c.boxes, BOX), "metadata"), "ownerReferences",
			    json_array());
	assert_true(until(&d.times));
	assert_int_equal(d.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.patches, 0);
	end();
}

static void a_pod_of_another_sandbox_or_template(void **state)
{
	struct result other = {0}, bare = {0};

	(void)state;
	begin_warm();
	ASK(c.p, on_done, &other, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	adopt(false);
	warm_pod("uid-of-another", true);
	assert_true(until(&other.times));
	assert_int_equal(other.rc, ERR_K8S_CONFLICT);
	warm_pod("uid-box", false);
	ASK(c.p, on_done, &bare, .op = SANDBOX_ENSURE, .agent = "coder");
	assert_true(until(&bare.times));
	assert_int_equal(bare.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(bare.message, "the template of warm pool python has to carry it"));
	assert_int_equal(c.reaches, 0);
	end();
}

/* ---- its end, and its Sandbox's trouble */

static void a_claim_ends_when_it_is_told(void **state)
{
	const int64_t at = INT64_C(1800000000) * (int64_t)NS_PER_SEC;
	const json_t *life;

	(void)state;
	begin_warm();
	c.p->ops->set_end(c.p, "coder", at, false);
	claimed(false);
	life = json_object_get(json_object_get(claim(), "spec"), "lifecycle");
	assert_string_equal(json_string_value(json_object_get(life, "shutdownTime")), "2027-01-15T08:00:00Z");
	assert_string_equal(json_string_value(json_object_get(life, "shutdownPolicy")), "Delete");
	assert_int_equal(c.patches, 0);
	c.p->ops->set_end(c.p, "coder", at, true); /* the same */
	settle();
	assert_int_equal(c.patches, 0);
	c.p->ops->set_end(c.p, "coder", 0, true);
	settle();
	assert_int_equal(c.patches, 1);
	life = json_object_get(json_object_get(c.patch, "spec"), "lifecycle");
	assert_true(json_is_null(json_object_get(life, "shutdownTime")));
	assert_true(json_is_null(json_object_get(life, "shutdownPolicy")));
	end();
}

static void its_sandbox_cannot_begin(void **state)
{
	struct result r = {0};

	(void)state;
	begin_warm();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	adopt(false);
	json_object_set_new(json_object_get(c.boxes, BOX), "status",
			    parsed("{'conditions':[{'type':'Ready','status':'False','observedGeneration':3,'reason':"
				   "'MultiplePods','message':'two of them'}]}"));
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
	assert_non_null(strstr(r.message, "MultiplePods: two of them"));
	end();
}

static void a_pool_needs_sandboxes(void **state)
{
	struct kube_provider_params p = {.spec = {.ns = "agents", .image = "busybox", .warm_pool = "python"}};
	json_t *over = json_object();
	struct sandbox_provider *out = NULL;
	struct err e = {0};

	(void)state;
	begin();
	assert_int_equal(kube_provider_create(&p, &out, &e), ERR_CONFIG);
	assert_non_null(strstr(e.message, "kubernetes.hold: sandbox"));
	p.spec.hold = KUBE_HOLD_SANDBOX;
	p.spec.pod_template = over;
	assert_int_equal(kube_provider_create(&p, &out, &e),
			 ERR_CONFIG); /* it would say nothing, and nobody would know */
	assert_non_null(strstr(e.message, "SandboxTemplate of python"));
	json_decref(over);
	assert_null(out);
	end();
}

/* Snapshots are said to be none, which lets a stop go on where the workspace stays, and keeps it from going where not.
 */
static void copies_are_refused_by_name(void **state)
{
	struct result r = {0};
	struct id id = {0};

	(void)state;
	begin_warm();
	ASK(c.p, on_done, &r, .op = SANDBOX_RESTORE, .agent = "coder", .from = "coder", .snapshot = &id,
	    .timeout_ns = NS_PER_SEC);
	settle();
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_non_null(strstr(r.message, "kubernetes.warm_pool"));
	assert_null(c.p->workspace_goes);
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_sandbox_is_claimed_and_adopted),
	    cmocka_unit_test(its_end_is_told),
	    cmocka_unit_test(a_claim_sleeps_and_wakes),
	    cmocka_unit_test(a_claim_is_wiped),
	    cmocka_unit_test(a_late_wipe_is_not_done_by_asking_again),
	    cmocka_unit_test(data_that_would_stay_keeps_its_claim),
	    cmocka_unit_test(reasons_that_fail_and_reasons_that_wait),
	    cmocka_unit_test(the_deadline_tells_the_controllers_words),
	    cmocka_unit_test(a_refused_claim_is_told_in_the_clusters_words),
	    cmocka_unit_test(what_the_cluster_does_not_know_is_said),
	    cmocka_unit_test(what_is_somebody_elses_is_left_alone),
	    cmocka_unit_test(a_pod_of_another_sandbox_or_template),
	    cmocka_unit_test(a_claim_ends_when_it_is_told),
	    cmocka_unit_test(its_sandbox_cannot_begin),
	    cmocka_unit_test(a_pool_needs_sandboxes),
	    cmocka_unit_test(copies_are_refused_by_name),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
