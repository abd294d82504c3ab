// tier: check
/* Pods of ours: made, awaited, reached, replaced, refused; what holds them, and how they are looked at. */
#include "tests/lib/provider_rig.h"

/* ---- ensure and connect */

static void a_pod_is_made_awaited_and_reached(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(c.creates, 1);
	assert_non_null(json_object_get(c.pods, "muxd-coder"));
	assert_int_equal(r.times, 0);
	assert_int_equal(c.reaches, 0);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder"); /* at once, not at the next poll */
	assert_int_equal(c.reaches, 1);
	assert_string_equal(c.reach->workdir, "/workspace");
	assert_string_equal(c.reach->known, "");
	assert_int_equal(c.reach->leave_s, 0);
	reach_up(1 << 30);
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.info.agent, "coder");
	assert_int_equal(r.info.state, SANDBOX_RUNNING);
	assert_int_equal(r.info.backend, SANDBOX_LINK);
	assert_string_equal(r.info.delivery, "stream");
	assert_true(r.info.cap_enforced && r.info.memory_enforced && !r.info.cpu_enforced && !r.info.pids_enforced);
	assert_true(r.info.epoch > 1700000000000000000ULL);
	end();
}

static const char *image_of_pod(const char *name)
{
	const json_t *pod = json_object_get(c.pods, name);
	const json_t *list = json_object_get(json_object_get(pod, "spec"), "containers");

	return json_get_text(json_array_get(list, 0), "image");
}

/* By its name in sandbox.images; what is not there makes nothing. */
static void a_pod_has_the_image_that_its_agent_has(void **state)
{
	struct result r = {0}, refused = {0}, plain = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder", .image = "py");
	ASK(c.p, on_done, &plain, .op = SANDBOX_ENSURE, .agent = "other", .image = "");
	ASK(c.p, on_done, &refused, .op = SANDBOX_ENSURE, .agent = "third", .image = "registry.example/py:3");
	settle();
	assert_string_equal(image_of_pod("muxd-coder"), "registry.example/py:3");
	assert_string_equal(image_of_pod("muxd-other"), "busybox");
	assert_int_equal(refused.rc, ERR_IMAGE_DENIED);
	assert_non_null(strstr(refused.message, "no ref for registry.example/py:3"));
	assert_null(json_object_get(c.pods, "muxd-third"));
	assert_int_equal(c.creates, 2);
	end();
}

static const char *app_of_pod(const char *name)
{
	const json_t *pod = json_object_get(c.pods, name);

	return json_get_text(json_object_get(json_object_get(pod, "metadata"), "labels"), KUBE_LABEL_APP);
}

/* Each by the question that makes it. */
static void a_pod_has_the_app_that_its_agent_has(void **state)
{
	struct result r = {0}, none = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder", .app_id = "billing");
	ASK(c.p, on_done, &none, .op = SANDBOX_ENSURE, .agent = "other", .app_id = "");
	settle();
	assert_string_equal(app_of_pod("muxd-coder"), "billing");
	assert_string_equal(app_of_pod("muxd-other"), "");
	assert_int_equal(c.creates, 2);
	end();
}

static void assert_resources(const char *pod, const char *wanted)
{
	const json_t *spec = json_object_get(json_object_get(c.pods, pod), "spec");
	const json_t *box = json_array_get(json_object_get(spec, "containers"), 0);
	char *text = json_dumps(json_object_get(box, "resources"), JSON_COMPACT | JSON_SORT_KEYS);

	assert_non_null(text);
	assert_string_equal(text, wanted);
	free(text);
}

/* Images and limits are those of the last configuration. A pod under way goes on with the image it began with. */
static void pods_are_made_as_the_spec_says_now(void **state)
{
	static const struct kube_label later[] = {{"node", "registry.example/node:1"}, {"pi", "registry.example/pi"}};
	static const struct kube_pod_spec now = {
	    .images = later, .nimages = 2, .request_cpu = "20m", .limit_cpu = "3", .limit_memory = "2Gi"};
	static const struct kube_pod_spec none = {.limit_cpu = ""};
	struct result before = {0}, after = {0}, gone = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &before, .op = SANDBOX_ENSURE, .agent = "coder", .image = "py");
	assert_int_equal(kube_provider_renew(c.p, &now), 0);
	ASK(c.p, on_done, &after, .op = SANDBOX_ENSURE, .agent = "other", .image = "pi",
	    .resources = {UINT64_C(8) << 30, 0, 0});
	ASK(c.p, on_done, &gone, .op = SANDBOX_ENSURE, .agent = "third", .image = "py");
	settle();
	assert_string_equal(image_of_pod("muxd-coder"), "registry.example/py:3");
	assert_string_equal(image_of_pod("muxd-other"), "registry.example/pi");
	assert_resources("muxd-other",
			 "{\"limits\":{\"cpu\":\"3\",\"memory\":\"2Gi\"},\"requests\":{\"cpu\":\"20m\"}}");
	assert_int_equal(gone.rc, ERR_IMAGE_DENIED);
	assert_int_equal(kube_provider_renew(c.p, &none), 0);
	ASK(c.p, on_done, &gone, .op = SANDBOX_ENSURE, .agent = "third", .image = "pi");
	assert_int_equal(gone.times, 2);
	assert_int_equal(gone.rc, ERR_IMAGE_DENIED);
	assert_int_equal(c.creates, 2);
	end();
}

/* Limits as asked, at most the configured ones, and requests within them; the others are the configured ones. */
static void a_pod_has_the_resources_that_its_agent_asks_for(void **state)
{
	struct result r = {0}, more = {0};
	static const char *const pods[] = {"muxd-coder", "muxd-other"};
	static const char *const wanted[] = {
	    "{\"limits\":{\"cpu\":\"50m\",\"memory\":\"64Mi\"},\"requests\":{\"memory\":\"64Mi\"}}",
	    "{\"limits\":{\"cpu\":\"16\",\"memory\":\"1Gi\"},\"requests\":{\"memory\":\"256Mi\"}}"};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder", .resources = {64 << 20, 50, 0});
	ASK(c.p, on_done, &more, .op = SANDBOX_ENSURE, .agent = "other", .resources = {UINT64_C(8) << 30, 16000, 0});
	settle();
	for (int i = 0; i < 2; i++)
		assert_resources(pods[i], wanted[i]);
	end();
}

/* Two streams to one container: the same secret, socket and id, a higher epoch, and the place is known. */
static void a_stream_is_made_again(void **state)
{
	struct result a, b = {0};
	char socket[64];

	(void)state;
	begin();
	a = ensured("coder", "muxd-coder");
	snprintf(socket, sizeof(socket), "%s", c.reach->name);
	c.reach->ops->ended(c.reach->arg, "cut");
	assert_int_equal(c.reaches_alive, 0);
	ASK(c.p, on_done, &b, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_string_equal(c.reach->known, "/tmp/.muxd-1/muxlet");
	assert_string_equal(c.reach->name, socket);
	assert_memory_equal(c.reach->secret, a.info.secret, sizeof(a.info.secret));
	reach_up(0);
	assert_int_equal(b.rc, 0);
	assert_true(id_equal(&a.info.sandbox_id, &b.info.sandbox_id));
	assert_memory_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	assert_true(b.info.epoch > a.info.epoch);
	assert_int_equal(c.gone, 0);
	end();
}

/* Another daemon with the same master, as after kill -9: the same secret; with another master: another. */
static void secrets_come_from_the_master_and_the_ids(void **state)
{
	struct result a, b, d;

	(void)state;
	begin();
	a = ensured("coder", "muxd-coder");
	end();
	begin();
	b = ensured("coder", "muxd-coder"); /* the fake's ids are the same */
	assert_memory_equal(a.info.secret, b.info.secret, sizeof(a.info.secret));
	d = ensured("other", "muxd-other");
	assert_memory_not_equal(a.info.secret, d.info.secret, sizeof(a.info.secret));
	end();
}

static void a_clock_that_is_set_back_does_not_lower_an_epoch(void **state)
{
	struct result a, b = {0};
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns();

	(void)state;
	begin();
	clock_test_set(boot, wall);
	a = ensured("coder", "muxd-coder");
	clock_test_set(boot, wall - 3600 * (int64_t)NS_PER_SEC);
	ASK(c.p, on_done, &b, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	reach_up(0);
	assert_true(b.info.epoch == a.info.epoch + 1);
	clock_test_reset();
	end();
}

static void claims_come_before_pods(void **state)
{
	struct result r;

	(void)state;
	begin_with(WORKSPACE_CLAIM, KUBE_PIN_AUTO, 0, true);
	r = ensured("coder", "muxd-coder");
	assert_int_equal(c.creates, 2);
	assert_non_null(json_object_get(c.claims, "muxd-coder"));
	tell_deleted("muxd-coder");
	r = ensured("coder", "muxd-coder"); /* the claim is there: the agent's workspace */
	assert_int_equal(r.rc, 0);
	assert_int_equal(c.creates, 3);
	c.fail_create = ERR_K8S_FORBIDDEN;
	tell_deleted("muxd-coder");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_K8S_FORBIDDEN);
	assert_null(json_object_get(c.pods, "muxd-coder"));
	end();
}

static void what_is_over_is_replaced(void **state)
{
	struct result r = {0};
	char first[40];

	(void)state;
	begin();
	ensured("coder", "muxd-coder");
	snprintf(first, sizeof(first), "%s", uid_of("muxd-coder"));
	set_status("muxd-coder", "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}");
	tell("muxd-coder");
	assert_int_equal(c.gone, 1);
	assert_string_equal(c.gone_why, "its container ended: Evicted: disk pressure");
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	assert_true(until(&c.deletes));
	assert_int_equal(c.last_grace, 1);
	while (!uid_of("muxd-coder"))
		settle();
	assert_string_not_equal(uid_of("muxd-coder"), first);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://2");
	tell("muxd-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	end();
}

/* A pod that never began is made anew when the configuration has changed; one that ran is not. */
/* The server is away, or its answer is lost, when the old one is to go. */
static void what_is_over_is_replaced_once_it_can_be(void **state)
{
	static const int codes[] = {ERR_K8S_UNREACHABLE, ERR_K8S_BUSY, ERR_EOF};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct result r = {0};

		begin();
		ensured("coder", "muxd-coder");
		set_status("muxd-coder", "{'phase':'Failed','reason':'Evicted','message':'disk pressure'}");
		tell("muxd-coder");
		c.creates = 0;
		c.fail_delete = codes[i];
		ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
		assert_true(until(&c.creates));
		assert_int_equal(r.times, 0);
		set_running("muxd-coder", KUBE_CONTAINER, "containerd://2");
		tell("muxd-coder");
		reach_up(0);
		assert_int_equal(r.rc, 0);
		end();
	}
}

static void an_outdated_plan_is_replaced(void **state)
{
	struct result r = {0};
	json_t *notes;

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(c.deletes, 0);
	notes = json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "annotations");
	json_object_set_new(notes, KUBE_ANNOTATION_SPEC, json_string("0123"));
	tell("muxd-coder");
	assert_true(until(&c.deletes));
	end();
	assert_int_equal(r.rc, ERR_CANCELLED);
	begin();
	ensured("coder", "muxd-coder");
	notes = json_object_get(json_object_get(json_object_get(c.pods, "muxd-coder"), "metadata"), "annotations");
	json_object_set_new(notes, KUBE_ANNOTATION_SPEC, json_string("0123"));
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	reach_up(0);
	assert_int_equal(r.rc, 0);
	assert_int_equal(c.deletes, 0);
	end();
}

static void the_deadline_tells_the_pods_own_reason(void **state)
{
	struct result r = {0};

	(void)state;
	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 3 * NS_PER_SEC, true);
	c.event = "Unable to attach or mount volumes";
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_status("muxd-coder",
		   "{'phase':'Pending','containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':"
		   "'ImagePullBackOff','message':'Back-off pulling image nosuch'}}}]}");
	tell("muxd-coder"); /* well before the deadline: a look of the provider's own may come after it */
	assert_true(until(&r.times));
	assert_int_equal(r.rc, ERR_SANDBOX_TIMEOUT);
	assert_non_null(strstr(r.message, "ImagePullBackOff: Back-off pulling image nosuch"));
	assert_non_null(strstr(r.message, "FailedMount: Unable to attach or mount volumes"));
	assert_non_null(json_object_get(c.pods, "muxd-coder")); /* to look at, or to become ready later */
	end();
}

static void what_cannot_begin_is_told_at_once(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_status("muxd-coder",
		   "{'phase':'Pending','containerStatuses':[{'name':'sandbox','state':{'waiting':{'reason':"
		   "'InvalidImageName','message':'bad'}}}]}");
	tell("muxd-coder");
	assert_int_equal(r.rc, ERR_SANDBOX_CREATE);
	assert_non_null(strstr(r.message, "InvalidImageName: bad"));
	end();
}

static void refusals_are_the_servers_own(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.fail_get = ERR_K8S_UNREACHABLE;
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_K8S_UNREACHABLE); /* not ERR_NOT_FOUND: sessions wait */
	assert_string_equal(r.message, "the API server said so");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_NOT_FOUND);
	memset(&r, 0, sizeof(r));
	c.fail_create = ERR_K8S_FORBIDDEN;
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_K8S_FORBIDDEN);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "No Agent");
	assert_int_equal(r.rc, ERR_INVAL);
	end();
}

/* The answer to the creation is lost, or somebody else was quicker: one pod, and no error. */
static void a_lost_answer_makes_no_second_pod(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	c.fail_create = ERR_EOF;
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	while (c.creates < 2)
		settle();
	assert_int_equal(json_object_size(c.pods), 1);
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	end();
}

/* The server was killed in the middle of the exec: whoever makes a sandbox waits, whoever comes back to it is told. */
static void an_exec_that_breaks_off_is_begun_again(void **state)
{
	struct result r = {0}, again = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	set_running("muxd-coder", KUBE_CONTAINER, "containerd://1");
	tell("muxd-coder");
	reach_fails(ERR_LINK_LOST, "the connection ended without a word");
	assert_int_equal(r.times, 0);
	while (c.reaches < 2)
		settle();
	reach_up(0);
	assert_int_equal(r.rc, 0);
	c.reach->ops->ended(c.reach->arg, "cut");
	ASK(c.p, on_done, &again, .op = SANDBOX_CONNECT, .agent = "coder");
	settle();
	reach_fails(ERR_LINK_LOST, "the connection ended without a word");
	assert_int_equal(again.times, 1);
	assert_int_equal(again.rc, ERR_LINK_LOST);
	end();
}

static void somebody_elses_pod_is_not_taken(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("muxd-coder", "Always");
	set_running("muxd-coder", "main", "containerd://1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(r.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.reaches, 0);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "x");
	settle();
	assert_int_equal(r.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.deletes, 0);
	end();
}

/* ---- the backend */

static void where_muxlet_cannot_run(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.backend, SANDBOX_PLAIN);
	assert_string_equal(r.info.why,
			    "there is no shell; ephemeral container: kubernetes.ephemeral_image names no image");
	assert_string_equal(c.plain_container, "main");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	assert_int_equal(r.info.backend, SANDBOX_PLAIN); /* it is not tried again in the same container */
	assert_int_equal(c.reaches, 1);
	assert_int_equal(c.plain_opens, 2);
	set_running("web", "main", "containerd://2");
	tell("web");
	assert_int_equal(c.gone, 1);
	ASK(c.p, on_done, &r, .op = SANDBOX_CONNECT, .agent = "ns/web/main");
	settle();
	assert_int_equal(c.reaches, 2); /* but in the next one it is */
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_LINK, 0, true);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	assert_int_equal(c.plain_opens, 0);
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_PLAIN, 0, true);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	assert_int_equal(r.info.backend, SANDBOX_PLAIN);
	assert_int_equal(c.reaches, 0);
	end();

	begin_with(WORKSPACE_EMPTYDIR, KUBE_PIN_AUTO, 0, false);
	other_pod("web", "Always");
	set_running("web", "main", "containerd://1");
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "ns/web/main");
	settle();
	reach_fails(ERR_UNSUPPORTED, "there is no shell");
	assert_int_equal(r.rc, ERR_UNSUPPORTED);
	end();
}

/* ---- looking */

static void looks(void **state)
{
	struct result r = {0};

	(void)state;
	begin();
	ASK(c.p, on_done, &r, .op = SANDBOX_STAT, .agent = "coder");
	settle();
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.info.state, SANDBOX_ABSENT);
	ensured("coder", "muxd-coder");
	ASK(c.p, on_done, &r, .op = SANDBOX_STAT, .agent = "coder");
	settle();
	assert_int_equal(r.info.state, SANDBOX_RUNNING);
	assert_string_equal(r.info.delivery, "stream");
	assert_int_equal(r.fd, -1);
	other_pod("stranger", "Always");
	ASK(c.p, on_list, &r, .op = SANDBOX_LIST);
	settle();
	assert_int_equal(r.rc, 0);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.info.agent, "coder");
	end();
}

static void an_end_answers_every_question_once(void **state)
{
	struct result r[6] = {{0}};

	(void)state;
	begin();
	ASK(c.p, on_done, &r[0], .op = SANDBOX_ENSURE, .agent = "a"); /* waits for its pod */
	ASK(c.p, on_done, &r[1], .op = SANDBOX_ENSURE, .agent = "b"); /* is being reached */
	settle();
	set_running("muxd-b", KUBE_CONTAINER, "containerd://1");
	tell("muxd-b");
	ASK(c.p, on_done, &r[2], .op = SANDBOX_CONNECT, .agent = "c"); /* has just been asked */
	ASK(c.p, on_list, &r[3], .op = SANDBOX_LIST);
	ASK(c.p, on_name, &r[4], .op = SANDBOX_RESOLVE, .agent = "ns/pod");
	ASK(c.p, on_done, &r[5], .op = SANDBOX_DESTROY, .agent = "a", .reason = "x");
	end();
	for (int i = 0; i < 6; i++) {
		assert_int_equal(r[i].times, 1);
		assert_int_equal(r[i].rc, ERR_CANCELLED);
	}
}

struct log_result {
	int times, rc;
	char text[100], message[ERR_MESSAGE_MAX];
};

static void on_log(void *arg, const struct sandbox_answer *got)
{
	const struct err *e = got->e;
	const uint8_t *text = got->text;
	size_t n = got->n;
	int rc = got->rc;
	struct log_result *r = arg;

	r->times++;
	r->rc = rc;
	snprintf(r->text, sizeof(r->text), "%.*s", (int)n, text ? (const char *)text : "");
	snprintf(r->message, sizeof(r->message), "%s", e ? e->message : "");
}

static void the_end_of_a_log(void **state)
{
	struct log_result r = {0}, absent = {0}, bad = {0};

	(void)state;
	begin();
	json_object_set_new(c.pods, "web-0", json_object());
	c.log = "one line\nanother line\nthe last line\n";
	ASK(c.p, on_log, &r, .op = SANDBOX_LOG, .agent = "prod/web-0/app", .max = 14);
	settle();
	assert_int_equal(r.times, 1);
	assert_int_equal(r.rc, 0);
	assert_string_equal(r.text, "the last line\n");
	assert_string_equal(c.plain_container, "app");
	ASK(c.p, on_log, &absent, .op = SANDBOX_LOG, .agent = "asleep", .max = 14);
	ASK(c.p, on_log, &bad, .op = SANDBOX_LOG, .agent = "Not a name", .max = 14);
	settle();
	assert_int_equal(absent.rc, ERR_NOT_FOUND);
	assert_non_null(strstr(absent.message, "asleep"));
	assert_int_equal(bad.rc, ERR_INVAL);
	c.log = NULL;
	end();
}

/* ---- held by a Sandbox, whose controller is the test */

static const char *str_at(const json_t *o, const char *a, const char *b, const char *d)
{
	const json_t *at = json_object_get(json_object_get(o, a), b);

	return json_string_value(d ? json_object_get(at, d) : at);
}

static json_int_t replicas(const json_t *o)
{
	const json_t *n = json_object_get(json_object_get(o, "spec"), "replicas");

	assert_true(json_is_integer(n));
	return json_integer_value(n);
}

static void a_sandbox_holds_the_pod(void **state)
{
	struct result r = {0};
	json_t *box, *pod, *spec;

	(void)state;
	hold = KUBE_HOLD_SANDBOX;
	begin();
	hold = KUBE_HOLD_POD;
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	assert_int_equal(json_object_size(c.pods), 0);
	box = json_object_get(c.boxes, "investigation-coder");
	assert_non_null(box);
	spec = json_object_get(box, "spec");
	assert_string_equal(str_at(box, "metadata", "labels", "thread-id"), "coder");
	assert_int_equal(replicas(box), 1);
	assert_null(json_object_get(spec, "shutdownTime")); /* whatever the configuration says: its agent has no end */
	assert_null(json_object_get(spec, "shutdownPolicy"));
	pod = json_deep_copy(json_object_get(spec, "podTemplate"));
	json_object_update_new(
	    json_object_get(pod, "metadata"),
	    json_pack("{s:s,s:s,s:s}", "name", "investigation-coder", "namespace", "agents", "uid", "uid-pod"));
	json_object_set_new(c.pods, "investigation-coder", pod);
	set_running("investigation-coder", KUBE_CONTAINER, "containerd://1");
	tell("investigation-coder");
	reach_up(0);
	assert_int_equal(r.rc, 0);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "test");
	assert_true(until(&r.times));
	assert_int_equal(r.rc, 0);
	assert_int_equal(replicas(c.patch), 0);
	assert_string_equal(str_at(c.patch, "metadata", "uid", NULL), str_at(box, "metadata", "uid", NULL));
	assert_int_equal(c.gone, 0);
	memset(&r, 0, sizeof(r));
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder"); /* there already: woken */
	settle();
	assert_int_equal(replicas(c.patch), 1);
	end();
}

static const json_t *patched(const char *key)
{
	return json_object_get(json_object_get(c.patch, "spec"), key);
}

static void a_sandbox_ends_by_itself_when_it_is_told(void **state)
{
	const int64_t at = INT64_C(1800000000) * (int64_t)NS_PER_SEC;
	struct result r = {0}, again = {0};
	json_t *spec;

	(void)state;
	hold = KUBE_HOLD_SANDBOX;
	begin();
	hold = KUBE_HOLD_POD;
	c.p->ops->set_end(c.p, "coder", at, false);
	ASK(c.p, on_done, &r, .op = SANDBOX_ENSURE, .agent = "coder");
	settle();
	spec = json_object_get(json_object_get(c.boxes, "investigation-coder"), "spec");
	assert_string_equal(json_string_value(json_object_get(spec, "shutdownTime")), "2027-01-15T08:00:00Z");
	assert_string_equal(json_string_value(json_object_get(spec, "shutdownPolicy")), "Delete");
	assert_int_equal(c.patches, 0);
	c.p->ops->set_end(c.p, "coder", at, true); /* the same */
	settle();
	assert_int_equal(c.patches, 0);
	c.p->ops->set_end(c.p, "coder", at + 3600 * (int64_t)NS_PER_SEC, true);
	settle();
	assert_int_equal(c.patches, 1);
	assert_string_equal(json_string_value(patched("shutdownTime")), "2027-01-15T09:00:00Z");
	c.p->ops->set_end(c.p, "coder", 0, true); /* none any more */
	settle();
	assert_true(json_is_null(patched("shutdownTime")));
	assert_true(json_is_null(patched("shutdownPolicy")));
	c.p->ops->set_end(c.p, "coder", at, false);
	ASK(c.p, on_done, &again, .op = SANDBOX_ENSURE, .agent = "coder"); /* there already: woken with it */
	settle();
	assert_string_equal(json_string_value(patched("shutdownTime")), "2027-01-15T08:00:00Z");
	end();
}

static void somebody_elses_sandbox_is_left_alone(void **state)
{
	struct result ended = {0}, wiped = {0}, again = {0};
	json_t *box;

	(void)state;
	hold = KUBE_HOLD_SANDBOX;
	begin();
	hold = KUBE_HOLD_POD;
	box = json_pack("{s:{s:s,s:{s:s}},s:{s:i}}", "metadata", "uid", "uid-box", "annotations", KUBE_ANNOTATION_AGENT,
			"writer", "spec", "replicas", 1);
	json_object_set_new(c.boxes, "investigation-coder", box);
	ASK(c.p, on_done, &ended, .op = SANDBOX_DESTROY, .agent = "coder", .reason = "test");
	ASK(c.p, on_done, &wiped, .op = SANDBOX_WIPE, .agent = "coder", .reason = "test");
	c.p->ops->set_end(c.p, "coder", INT64_C(1800000000) * (int64_t)NS_PER_SEC, true);
	settle();
	assert_int_equal(ended.rc, ERR_K8S_CONFLICT);
	assert_non_null(strstr(ended.message, "investigation-coder"));
	assert_int_equal(wiped.rc, ERR_K8S_CONFLICT);
	assert_int_equal(c.patches + c.deletes, 0);
	json_object_set_new(json_object_get(json_object_get(box, "metadata"), "annotations"), KUBE_ANNOTATION_AGENT,
			    json_string("coder"));
	ASK(c.p, on_done, &again, .op = SANDBOX_WIPE, .agent = "coder", .reason = "test");
	assert_true(until(&again.times));
	assert_int_equal(again.rc, 0);
	assert_string_equal(c.last_uid, "uid-box"); /* the one that was looked at, and no other of its name */
	assert_null(json_object_get(c.boxes, "investigation-coder"));
	end();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pod_is_made_awaited_and_reached),
	    cmocka_unit_test(a_pod_has_the_image_that_its_agent_has),
	    cmocka_unit_test(a_pod_has_the_app_that_its_agent_has),
	    cmocka_unit_test(pods_are_made_as_the_spec_says_now),
	    cmocka_unit_test(a_pod_has_the_resources_that_its_agent_asks_for),
	    cmocka_unit_test(a_stream_is_made_again),
	    cmocka_unit_test(secrets_come_from_the_master_and_the_ids),
	    cmocka_unit_test(a_clock_that_is_set_back_does_not_lower_an_epoch),
	    cmocka_unit_test(claims_come_before_pods),
	    cmocka_unit_test(what_is_over_is_replaced),
	    cmocka_unit_test(what_is_over_is_replaced_once_it_can_be),
	    cmocka_unit_test(an_outdated_plan_is_replaced),
	    cmocka_unit_test(the_deadline_tells_the_pods_own_reason),
	    cmocka_unit_test(what_cannot_begin_is_told_at_once),
	    cmocka_unit_test(refusals_are_the_servers_own),
	    cmocka_unit_test(a_lost_answer_makes_no_second_pod),
	    cmocka_unit_test(an_exec_that_breaks_off_is_begun_again),
	    cmocka_unit_test(somebody_elses_pod_is_not_taken),
	    cmocka_unit_test(where_muxlet_cannot_run),
	    cmocka_unit_test(looks),
	    cmocka_unit_test(an_end_answers_every_question_once),
	    cmocka_unit_test(the_end_of_a_log),
	    cmocka_unit_test(a_sandbox_holds_the_pod),
	    cmocka_unit_test(a_sandbox_ends_by_itself_when_it_is_told),
	    cmocka_unit_test(somebody_elses_sandbox_is_left_alone),
	};

	(void)log_setup("test", "error", LOG_TEXT, 2, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
