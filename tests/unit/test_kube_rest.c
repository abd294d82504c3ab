// tier: check
/*
 * Questions to an API server: verbs, refusals, repetitions, faults. The server is a fake
 * (tests/lib/fake_apiserver.py); the real one is met in tests/e2e/k8s.
 */
#include "tests/lib/kube_outcome.h"

/* --- verbs */

static void test_an_object_lives_and_dies(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "x", "data", "a", "1");
	char uid[64];

	connect_as(r, "{token: abc}", CA);
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, "get configmaps/x in ns at https://127.0.0.1:", ": 404 NotFound: \"x\" not found",
	       NULL);
	assert_true(kube_status_is(o.body));
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_int_equal(o.status, 201);
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "create configmaps/x in ns", "AlreadyExists", NULL);
	get(r, &config_x, &o);
	fine(&o);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "a")), "1");
	snprintf(uid, sizeof(uid), "%s",
		 json_string_value(json_object_get(json_object_get(o.body, "metadata"), "uid")));

	struct kube_delete_options other = {.uid = "00000000-0000-0000-0000-000000000000", .grace_s = 0};
	outcome_reset(&o);
	kube_delete(r->kube, &config_x, &other, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "the UID in the precondition", NULL);
	outcome_reset(&o);
	other.uid = uid;
	other.propagation = "Foreground";
	rig_do(r, "{\"do\":\"seen\"}");
	kube_delete(r->kube, &config_x, &other, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	json_t *body = json_loads(json_string_value(json_object_get(json_array_get(seen, 0), "body")), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(body, "propagationPolicy")), "Foreground");
	assert_true(json_is_integer(json_object_get(body, "gracePeriodSeconds")));
	json_decref(body);
	json_decref(seen);
	json_decref(map);
	outcome_reset(&o);
}

static void test_patch(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "name", "x", "data", "a", "1");
	json_t *patch = json_pack("{s:{s:s, s:n}}", "data", "b", "2", "a");

	connect_as(r, "{token: abc}", CA);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	outcome_reset(&o);
	rig_do(r, "{\"do\":\"seen\"}");
	kube_patch(r->kube, &config_x, KUBE_PATCH_MERGE, patch, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}"), *first = json_array_get(seen, 0);
	assert_string_equal(json_string_value(json_object_get(json_object_get(first, "query"), "fieldManager")),
			    "muxd");
	assert_string_equal(json_string_value(json_object_get(json_object_get(first, "headers"), "content-type")),
			    "application/merge-patch+json");
	json_decref(seen);
	assert_null(json_object_get(json_object_get(o.body, "data"), "a"));
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "b")), "2");
	outcome_reset(&o);
	json_object_set_new(patch, "metadata", json_pack("{s:s}", "resourceVersion", "1"));
	kube_patch(r->kube, &config_x, KUBE_PATCH_MERGE, patch, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_CONFLICT, "patch configmaps/x in ns", "the object has been modified", NULL);
	json_decref(map);
	json_decref(patch);
	outcome_reset(&o);
}

static void on_piece(void *arg, const uint8_t *p, size_t n)
{
	struct outcome *o = arg;

	assert_false(o->done);
	if (n == 0) {
		assert_false(o->begun);
		o->begun = true;
	}
	assert_true(o->begun && (n == 0) == (p == NULL));
	for (size_t i = 0; i < n; i++)
		assert_int_equal(p[i], 'l');
	o->streamed += n;
}

static void test_logs_whole_and_as_a_stream(void **state)
{
	static const struct kube_ref pod = {.resource = "pods", .namespace_ = "ns", .name = "x"};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	char *big = malloc(3000001);

	memset(big, 'l', 3000000);
	big[3000000] = '\0';
	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/pods/x/log\\\\?container=c&tailLines=5$\",\"text\":\"not {json\\n\"}");
	kube_logs(r->kube, &pod, &(struct kube_log_options){.container = "c", .tail_lines = 5}, on_done, &o, NULL,
		  NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_string_equal(o.text, "not {json\n");
	outcome_reset(&o);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"follow=true\",\"text\":\"%s\"}", big);
	kube_logs(r->kube, &pod, &(struct kube_log_options){.tail_lines = -1, .follow = true, .data = on_piece},
		  on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_int_equal(o.streamed, 3000000);
	assert_int_equal(o.len, 0);
	outcome_reset(&o);
	rig_do(
	    r,
	    "{\"do\":\"rule\",\"path\":\"log\",\"status\":400,\"body\":{\"kind\":\"Status\",\"reason\":\"BadRequest\","
	    "\"message\":\"a container name must be specified for pod x, choose one of: [a b]\"}}");
	kube_logs(r->kube, &pod, &(struct kube_log_options){.tail_lines = -1, .follow = true, .data = on_piece},
		  on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S, "400 BadRequest: a container name must be specified", "[a b]", NULL);
	assert_false(o.begun);
	outcome_reset(&o);
	free(big);
}

static void test_names_stay_where_they_belong(void **state)
{
	struct kube_rig *r = *state;
	struct kube_ref bad = config_x, odd = config_x;
	struct outcome o = {0};
	struct err e = {0};

	connect_as(r, "{token: abc}", CA);
	bad.name = "..";
	assert_int_equal(kube_get(r->kube, &bad, on_done, &o, NULL, &e), ERR_INVAL);
	bad.name = "";
	assert_int_equal(kube_get(r->kube, &bad, on_done, &o, NULL, &e), ERR_INVAL);
	bad.name = NULL;
	assert_int_equal(kube_delete(r->kube, &bad, NULL, on_done, &o, NULL, &e), ERR_INVAL);
	odd.name = "../../secrets/a?b=c#d e";
	get(r, &odd, &o);
	failed(&o, ERR_NOT_FOUND, NULL);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	assert_int_equal(json_array_size(seen), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(seen, 0), "path")),
			    CONFIGMAPS "/..%2F..%2Fsecrets%2Fa%3Fb%3Dc%23d%20e");
	json_decref(seen);
	outcome_reset(&o);
}

static void test_one_connection_serves_many(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	size_t i;
	json_t *one;

	connect_as(r, "{token: abc}", CA);
	for (i = 0; i < 50; i++)
		get(r, &config_x, &o);
	json_t *seen = rig_ask(r, "{\"do\":\"seen\"}");
	assert_int_equal(json_array_size(seen), 50);
	json_int_t conn = json_integer_value(json_object_get(json_array_get(seen, 0), "conn"));
	json_array_foreach(seen, i, one) assert_int_equal(json_integer_value(json_object_get(one, "conn")), conn);
	json_decref(seen);
	outcome_reset(&o);
}

/* --- refusals and repetitions */

static void test_refusals_keep_the_servers_words(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"status\":403,\"body\":{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":"
		  "\"configmaps \\\"x\\\" is forbidden: User \\\"ann\\\" cannot get resource \\\"configmaps\\\"\"}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_FORBIDDEN, "403 Forbidden: configmaps \"x\" is forbidden: User \"ann\" cannot get resource",
	       NULL);
	rig_do(r,
	       "{\"do\":\"rule\",\"status\":403,\"text\":\"no\"}"); /* a proxy's, or a webhook's, that names nothing */
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_FORBIDDEN, "(needs the right to get configmaps in ns): 403 no", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":422,\"body\":{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":"
		  "\"Pod \\\"x\\\" is "
		  "invalid\",\"details\":{\"causes\":[{\"field\":\"spec.containers[0].image\",\"message\":\"Required "
		  "value\"}]}}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_INVALID, "422 Invalid: Pod \"x\" is invalid; spec.containers[0].image: Required value",
	       NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":410,\"body\":{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":"
		  "\"too old\"}}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_GONE, "410 Expired: too old", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":501,\"text\":\"<html>oops</html>\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S, "501 without a Status of Kubernetes", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":400,\"text\":\"client sent\\nnonsense\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S, "400 client sent", NULL);
	rig_do(r, "{\"do\":\"rule\",\"status\":302,\"headers\":{\"Location\":\"https://127.0.0.1:1/\"},\"body\":{}}");
	get(r, &config_x, &o); /* followed by nobody */
	failed(&o, ERR_PROTOCOL, "the answer 302 is not what was asked for: it leads elsewhere", NULL);
	assert_int_equal(o.status, 302);
	outcome_reset(&o);
}

/* The words of a proxy, or half an answer: whoever takes it for an empty list, or for a thing that is gone, ends what runs
 * and makes what there is. */
static void test_half_an_answer_is_none(void **state)
{
	static const struct kube_ref configs = {.resource = "configmaps", .namespace_ = "ns"};
	static const struct {
		const char *verb, *answer;
		bool fine;
	} rows[] = {{"get", "\"text\":\"\"", false},
		    {"get", "\"body\":{}", false},
		    {"get", "\"body\":[]", false},
		    {"get", "\"body\":{\"metadata\":{\"name\":\"x\"}}", false},
		    {"get", "\"body\":{\"metadata\":{\"name\":\"x\",\"uid\":7}}", false},
		    {"get", "\"body\":{\"metadata\":{\"name\":\"x\",\"uid\":\"u\"}}", true},
		    {"list", "\"text\":\"\"", false},
		    {"list", "\"body\":{\"metadata\":{\"resourceVersion\":\"1\"}}", false},
		    {"list", "\"body\":{\"items\":{}}", false},
		    {"list", "\"body\":{\"items\":null}", true},
		    {"list", "\"status\":307,\"text\":\"\"", false},
		    {"patch", "\"text\":\"\"", false},
		    {"patch", "\"status\":302,\"text\":\"\"", false},
		    {"create", "\"text\":\"\"", false},
		    {"delete", "\"status\":303,\"text\":\"\"", false},
		    {"delete", "\"text\":\"\"", true}};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *some = json_object();

	connect_as(r, "{token: abc}", CA);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		static const struct kube_list_options all = {0};
		char verb = rows[i].verb[0];

		outcome_reset(&o);
		rig_do(r, "{\"do\":\"rule\",%s}", rows[i].answer);
		assert_int_equal(verb == 'g'   ? kube_get(r->kube, &config_x, on_done, &o, NULL, NULL)
				 : verb == 'l' ? kube_list(r->kube, &configs, &all, on_done, &o, NULL, NULL)
				 : verb == 'p'
				     ? kube_patch(r->kube, &config_x, KUBE_PATCH_MERGE, some, on_done, &o, NULL, NULL)
				 : verb == 'c' ? kube_create(r->kube, &configs, some, on_done, &o, NULL, NULL)
					       : kube_delete(r->kube, &config_x, NULL, on_done, &o, NULL, NULL),
				 0);
		rig_until(r, &o.done);
		if (o.rc != (rows[i].fine ? 0 : ERR_PROTOCOL))
			fail_msg("%s of %s: %s", rows[i].verb, rows[i].answer, err_name(o.rc));
	}
	json_decref(some);
	outcome_reset(&o);
}

static void test_retry_after_is_kept(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "x");
	time_t before;

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"status\":429,\"headers\":{\"Retry-After\":1},\"body\":{}}");
	before = time(NULL);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	fine(&o);
	assert_true(time(NULL) > before);
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 2);
	rig_do(r,
	       "{\"do\":\"rule\",\"status\":503,\"body\":{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":1}}}");
	get(r, &config_x, &o);
	fine(&o);
	assert_int_equal(rig_seen(r, "GET", "/x"), 2);
	/* longer than the caller can wait: told at once */
	rig_do(r, "{\"do\":\"rule\",\"status\":429,\"headers\":{\"Retry-After\":3600},\"text\":\"busy\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_BUSY, "429 busy", NULL);
	json_decref(map);
	outcome_reset(&o);
}

static void test_tries_are_counted(void **state)
{
	static const struct kube_options quick = {.tries = 3, .backoff_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "y");

	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &quick, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"times\":0,\"status\":503,\"text\":\"no\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_K8S_BUSY, "503 no", NULL);
	assert_int_equal(rig_seen(r, "GET", "/x"), 3);
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S_BUSY, NULL); /* it may have been done: a create is not repeated */
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 1);
	rig_do(r, "{\"do\":\"unrule\"}");
	rig_do(r, "{\"do\":\"rule\",\"status\":500,\"text\":\"etcdserver: leader changed\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL); /* the second time */
	assert_int_equal(rig_seen(r, "GET", "/x"), 2);
	rig_do(r, "{\"do\":\"rule\",\"status\":500,\"text\":\"failed calling webhook\"}");
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_K8S, "500 failed calling webhook", NULL);
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 1);
	json_decref(map);
	outcome_reset(&o);
}

static void test_cut_answers(void **state)
{
	static const struct kube_options quick = {.tries = 3, .backoff_ms = 1};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	json_t *map = json_pack("{s:{s:s}}", "metadata", "name", "x");

	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &quick, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"times\":2,\"text\":\"{\\\"a\\\": 1234567890}\",\"cut\":5}");
	get(r, &config_x, &o);
	failed(&o, ERR_NOT_FOUND, NULL); /* the third time */
	assert_int_equal(rig_seen(r, "GET", "/x"), 3);
	rig_do(r, "{\"do\":\"rule\",\"times\":0,\"method\":\"POST\",\"body\":{},\"cut\":1}");
	outcome_reset(&o);
	kube_create(r->kube, &config_x, map, on_done, &o, NULL, NULL);
	rig_until(r, &o.done);
	failed(&o, ERR_EOF, "the answer was cut", "whether it was done is not known", NULL);
	assert_int_equal(rig_seen(r, "POST", "/configmaps"), 1);
	json_decref(map);
	outcome_reset(&o);
}

static void test_a_silent_answer_stops_nobody_else(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0}, other = {0};
	struct kube_request hurried = {.method = "GET", .path = CONFIGMAPS "/x", .deadline_ms = 600};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/x$\",\"hang\":true,\"times\":0}");
	assert_int_equal(kube_request(r->kube, &hurried, on_done, &o, NULL, NULL), 0);
	ask_get(r, &(struct kube_ref){.resource = "configmaps", .namespace_ = "ns", .name = "y"}, &other);
	rig_until(r, &o.done);
	rig_until(r, &other.done);
	failed(&o, ERR_TIMEOUT, "GET " CONFIGMAPS "/x at https://127.0.0.1:", "no answer in 600 ms", NULL);
	failed(&other, ERR_NOT_FOUND, NULL);
	outcome_reset(&o);
	outcome_reset(&other);
}

static void test_a_slow_body_byte_by_byte(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"drip\",\"bytes\":1}");
	rig_do(r, "{\"do\":\"put\",\"path\":\"" CONFIGMAPS "/x\",\"object\":{\"data\":{\"a\":\"gr\\u00fc\\u00dfe\"}}}");
	get(r, &config_x, &o);
	fine(&o);
	assert_string_equal(json_string_value(json_object_get(json_object_get(o.body, "data"), "a")),
			    "gr\xc3\xbc\xc3\x9f"
			    "e");
	outcome_reset(&o);
}

#define OBJECT "{\\\"metadata\\\":{\\\"name\\\":\\\"x\\\",\\\"uid\\\":\\\"u\\\"}}"

static void test_answers_that_are_too_large_or_no_json(void **state)
{
	static const struct kube_options small = {.answer_max = 1000};
	struct kube_rig *r = *state;
	struct outcome o = {0};
	struct err e = {0};
	char text[1001 - 35]; /* behind an object of that length */

	memset(text, ' ', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(rig_connect_as(r, "{token: abc}", CA, NULL, &small, &e), 0);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"" OBJECT "%s\"}", text);
	get(r, &config_x, &o);
	fine(&o);
	assert_int_equal(o.len, 1000);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"" OBJECT "%s.\"}", text);
	get(r, &config_x, &o);
	failed(&o, ERR_TOO_LARGE, "larger than 1000 bytes", NULL);
	rig_do(r, "{\"do\":\"rule\",\"text\":\"{\\\"a\\\":\"}");
	get(r, &config_x, &o);
	failed(&o, ERR_PROTOCOL, "get configmaps/x in ns", "not JSON", NULL);
	outcome_reset(&o);
}

/* --- leaving */

static void test_cancel(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"hang\":true,\"times\":0}");
	ask_get(r, &config_x, &o);
	kube_cancel(o.call); /* before anything was sent */
	failed(&o, ERR_CANCELLED, "get configmaps/x in ns: cancelled", NULL);
	ask_get(r, &config_x, &o);
	for (int i = 0; i < 3000 && rig_seen(r, "GET", "/x") == 0; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
	kube_cancel(o.call); /* while it waits for an answer */
	failed(&o, ERR_CANCELLED, NULL);
	outcome_reset(&o);
}

static void test_destroy_ends_every_call_once(void **state)
{
	struct kube_rig *r = *state;
	struct outcome o[20] = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"hang\":true,\"times\":10}");
	for (int i = 0; i < 20; i++)
		ask_get(r, &config_x, &o[i]);
	bool any = false;
	for (int i = 0; i < 3000 && !any; i++) {
		uv_run(&r->loop, UV_RUN_NOWAIT);
		usleep(1000);
		for (int j = 0; j < 20; j++)
			any |= o[j].done;
	}
	rig_disconnect(r);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(o[i].times, 1);
		assert_true(o[i].rc == ERR_CANCELLED || o[i].rc == ERR_NOT_FOUND);
		outcome_reset(&o[i]);
	}
}

struct leaver {
	struct kube_rig *rig;
	struct outcome o;
};

static void leave(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct leaver *l = arg;

	on_done(&l->o, rc, e, reply);
	rig_disconnect(l->rig);
}

static void leave_in_stream(void *arg, const uint8_t *p, size_t n)
{
	struct leaver *l = arg;

	(void)p;
	if (n)
		rig_disconnect(l->rig);
}

static void done_in_stream(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	on_done(&((struct leaver *)arg)->o, rc, e, reply);
}

static void test_the_client_may_be_destroyed_by_its_callbacks(void **state)
{
	struct kube_rig *r = *state;
	struct leaver l = {.rig = r};
	struct outcome other = {0};

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"/y\",\"hang\":true,\"times\":0}");
	ask_get(r, &(struct kube_ref){.resource = "configmaps", .namespace_ = "ns", .name = "y"}, &other);
	kube_get(r->kube, &config_x, leave, &l, NULL, NULL);
	rig_until(r, &l.o.done);
	failed(&other, ERR_CANCELLED, NULL);
	outcome_reset(&l.o);
	outcome_reset(&other);

	connect_as(r, "{token: abc}", CA);
	rig_do(r, "{\"do\":\"rule\",\"path\":\"log\",\"text\":\"lllll\"}");
	kube_logs(r->kube, &(struct kube_ref){.resource = "pods", .namespace_ = "ns", .name = "x"},
		  &(struct kube_log_options){.tail_lines = -1, .data = leave_in_stream}, done_in_stream, &l, NULL,
		  NULL);
	rig_until(r, &l.o.done);
	failed(&l.o, ERR_CANCELLED, NULL);
	outcome_reset(&l.o);
}

static void test_a_hundred_at_once(void **state)
{
	struct kube_rig *r = *state;
	static struct outcome o[100];

	connect_as(r, "{token: abc}", CA);
	for (int i = 0; i < 100; i++)
		ask_get(r, &config_x, &o[i]);
	for (int i = 0; i < 100; i++) {
		rig_until(r, &o[i].done);
		failed(&o[i], ERR_NOT_FOUND, NULL);
		outcome_reset(&o[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    REST(test_an_object_lives_and_dies),
	    REST(test_patch),
	    REST(test_logs_whole_and_as_a_stream),
	    REST(test_names_stay_where_they_belong),
	    REST(test_one_connection_serves_many),
	    REST(test_refusals_keep_the_servers_words),
	    REST(test_half_an_answer_is_none),
	    REST(test_retry_after_is_kept),
	    REST(test_tries_are_counted),
	    REST(test_cut_answers),
	    REST(test_a_silent_answer_stops_nobody_else),
	    REST(test_a_slow_body_byte_by_byte),
	    REST(test_answers_that_are_too_large_or_no_json),
	    REST(test_cancel),
	    REST(test_destroy_ends_every_call_once),
	    REST(test_the_client_may_be_destroyed_by_its_callbacks),
	    REST(test_a_hundred_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
