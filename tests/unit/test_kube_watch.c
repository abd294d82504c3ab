// tier: check
/*
 * Watches: what a consumer is told, whatever becomes of streams, versions and servers. The server is a fake
 * (tests/lib/fake_apiserver.py); the real one is met in tests/e2e/k8s.
 *
 * A little over the length of a file: one fake server, and what is told of it.
 */
#include "control/kube/client/known.h"
#include "control/kube/client/watch.h"
#include "tests/lib/kube_rig.h"

#define CA       ", certificate-authority: ca.crt"
#define PODS     "/api/v1/namespaces/ns/pods"
#define TOLD_MAX 65536

static const struct kube_ref pods = {.resource = "pods", .namespace_ = "ns"};

/* "+a ~a -a" and "sync." "resync.", in the order they were told. */
struct consumer {
	struct kube_rig *rig;
	struct kube_watch *watch;
	char told[TOLD_MAX];
	size_t len;
	const char *until;
	bool reached;
	int trouble;
	bool troubled, leave;
	char message[ERR_MESSAGE_MAX];
};

static void tell(struct consumer *c, const char *mark, const json_t *o)
{
	const char *name = o ? json_string_value(json_object_get(json_object_get(o, "metadata"), "name")) : "";

	c->len += (size_t)snprintf(c->told + c->len, sizeof(c->told) - c->len, "%s%s%s", c->len ? " " : "", mark, name);
	assert_true(c->len < sizeof(c->told));
	c->reached |= c->until && strcmp(c->told, c->until) == 0;
	if (c->leave) {
		kube_watch_destroy(c->watch);
		c->watch = NULL;
		c->reached = true;
	}
}

static void on_added(void *arg, const json_t *o)
{
	tell(arg, "+", o);
}

static void on_modified(void *arg, const json_t *o)
{
	tell(arg, "~", o);
}

static void on_deleted(void *arg, const json_t *o)
{
	assert_non_null(json_object_get(json_object_get(o, "metadata"), "uid"));
	tell(arg, "-", o);
}

static void on_synced(void *arg, bool resync)
{
	tell(arg, resync ? "resync." : "sync.", NULL);
}

static void on_trouble(void *arg, int rc, const struct err *e)
{
	struct consumer *c = arg;

	c->trouble = rc;
	c->troubled |= rc < 0;
	if (e)
		memcpy(c->message, e->message, sizeof(c->message));
}

static const struct kube_watch_ops ops = {on_added, on_modified, on_deleted, on_synced, on_trouble};
static const struct kube_watch_options quick = {.backoff_ms = 1, .backoff_max_ms = 20};

static int setup(void **state)
{
	struct kube_rig *r = rig_create();
	struct err e = {0};

	rig_start_with(r, "server.crt", "server.key");
	if (rig_connect_as(r, "{token: abc}", CA, NULL, &(struct kube_options){.backoff_ms = 1, .tries = 2}, &e) < 0)
		fail_msg("%s", e.message);
	struct consumer *c = calloc(1, sizeof(*c));
	assert_non_null(c);
	c->rig = r;
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct consumer *c = *state;

	kube_watch_destroy(c->watch);
	rig_destroy(c->rig);
	free(c);
	return 0;
}

static void start(struct consumer *c, const struct kube_watch_options *o)
{
	assert_int_equal(kube_watch_create(c->rig->kube, &pods, o, &ops, c, &c->watch, NULL), 0);
	assert_int_equal(c->len, 0); /* nothing from inside */
}

static void put(struct consumer *c, const char *name)
{
	rig_do(c->rig, "{\"do\":\"put\",\"path\":\"" PODS "/%s\",\"object\":{}}", name);
}

static void drop(struct consumer *c, const char *name)
{
	rig_do(c->rig, "{\"do\":\"remove\",\"path\":\"" PODS "/%s\"}", name);
}

/* Until exactly this was told, and no more; then it is forgotten. */
static void expect(struct consumer *c, const char *told)
{
	c->until = told;
	c->reached = strcmp(c->told, told) == 0;
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));
	     !c->reached && !patience_over(&left);) {
		uv_run(&c->rig->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	if (strcmp(c->told, told) != 0)
		fail_msg("told \"%s\" instead of \"%s\" (%s)", c->told, told, c->message);
	c->until = NULL;
	c->len = 0;
	c->told[0] = '\0';
}

static void until_trouble(struct consumer *c, int rc, const char *why)
{
	rig_until(c->rig, &c->troubled);
	if (c->trouble != rc || !strstr(c->message, why))
		fail_msg("%s: %s", err_name(c->trouble), c->message);
	c->troubled = false;
}

static void until_well(struct consumer *c)
{
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));
	     c->trouble && !patience_over(&left);) {
		uv_run(&c->rig->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
	assert_int_equal(c->trouble, 0);
}

/* --- what is told */

static void test_a_list_then_its_changes(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	put(c, "b");
	start(c, &quick);
	expect(c, "+a +b sync.");
	put(c, "c");
	put(c, "a");
	drop(c, "b");
	expect(c, "+c ~a -b");
	assert_int_equal(kube_watch_count(c->watch), 2);
	drop(c, "a");
	put(c, "a"); /* another object of the same name */
	expect(c, "-a +a");
}

static void test_pages(void **state)
{
	struct consumer *c = *state;
	struct kube_watch_options o = quick;

	o.page = 2;
	for (const char *p = "abcde"; *p; p++)
		put(c, (char[]){*p, '\0'});
	start(c, &o);
	expect(c, "+a +b +c +d +e sync.");
	rig_until_open(c->rig, 1);
	assert_int_equal(rig_seen(c->rig, "GET", "/pods"), 4); /* three pages, one stream */
}

static void test_a_page_that_came_too_late(void **state)
{
	struct consumer *c = *state;
	struct kube_watch_options o = quick;

	o.page = 2;
	for (const char *p = "abcde"; *p; p++)
		put(c, (char[]){*p, '\0'});
	rig_do(c->rig, "{\"do\":\"rule\",\"path\":\"continue=\",\"status\":410,\"body\":{\"kind\":\"Status\","
		       "\"reason\":\"Expired\"}}");
	start(c, &o);
	expect(c, "+a +b +c +d +e sync."); /* the second list repeats nothing */
	assert_false(c->troubled);
}

static void test_selectors(void **state)
{
	struct consumer *c = *state;
	struct kube_watch_options o = quick;

	o.labels = "app=muxd";
	o.fields = "status.phase!=Failed";
	rig_do(c->rig,
	       "{\"do\":\"put\",\"path\":\"" PODS "/mine\",\"object\":{\"metadata\":{\"labels\":{\"app\":\"muxd\"}}}}");
	put(c, "other");
	start(c, &o);
	expect(c, "+mine sync.");
	rig_until_open(c->rig, 1);
	json_t *seen = rig_ask(c->rig, "{\"do\":\"seen\"}");
	json_t *query = json_object_get(json_array_get(seen, 1), "query");
	assert_string_equal(json_string_value(json_object_get(query, "labelSelector")), "app=muxd");
	assert_string_equal(json_string_value(json_object_get(query, "fieldSelector")), "status.phase!=Failed");
	assert_string_equal(json_string_value(json_object_get(query, "allowWatchBookmarks")), "true");
	assert_true(atoi(json_string_value(json_object_get(query, "timeoutSeconds"))) >= 240);
	json_decref(seen);
}

static void test_borders_at_every_byte(void **state)
{
	struct consumer *c = *state;

	rig_do(c->rig, "{\"do\":\"drip\",\"bytes\":1}");
	put(c, "a");
	start(c, &quick);
	expect(c, "+a sync.");
	rig_do(c->rig, "{\"do\":\"put\",\"path\":\"" PODS "/b\",\"object\":{\"data\":\"\\u00fc\\n\\\"}{\"}}");
	put(c, "a");
	expect(c, "+b ~a");
}

static void test_many_objects(void **state)
{
	struct consumer *c = *state;
	char *expected = calloc(1, TOLD_MAX), name[16];
	size_t at = 0;

	for (int i = 0; i < 1200; i++) {
		snprintf(name, sizeof(name), "p%04d", i);
		put(c, name);
		at += (size_t)snprintf(expected + at, TOLD_MAX - at, "+%s ", name);
	}
	snprintf(expected + at, TOLD_MAX - at, "sync.");
	start(c, &quick);
	expect(c, expected);
	free(expected);
}

/* --- streams that end */

static void test_a_stream_that_ends_is_opened_again(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	start(c, &quick);
	expect(c, "+a sync.");
	for (int i = 0; i < 3; i++) {
		rig_until_open(c->rig, 1);
		rig_do(c->rig,
		       i == 1 ? "{\"do\":\"streams\",\"how\":\"reset\"}" : "{\"do\":\"streams\",\"how\":\"end\"}");
		put(c, "a"); /* while nobody watches */
		expect(c, "~a");
	}
	assert_int_equal(c->trouble, 0);
	/* one list alone */
	json_t *seen = rig_ask(c->rig, "{\"do\":\"seen\"}"), *o;
	size_t i, lists = 0;
	json_array_foreach(seen, i, o) lists += !json_object_get(json_object_get(o, "query"), "watch");
	json_decref(seen);
	assert_int_equal(lists, 1);
}

static void test_a_forgotten_version_is_made_up_for(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	put(c, "b");
	put(c, "c");
	start(c, &quick);
	expect(c, "+a +b +c sync.");
	rig_until_open(c->rig, 1);
	/* no stream gets through while the world goes on */
	rig_do(c->rig, "{\"do\":\"rule\",\"path\":\"watch=true\",\"close\":true,\"times\":0}");
	rig_do(c->rig, "{\"do\":\"streams\",\"how\":\"reset\"}");
	rig_until_open(c->rig, 0);
	put(c, "b");
	drop(c, "c");
	put(c, "d");
	drop(c, "a");
	put(c, "a");
	rig_do(c->rig, "{\"do\":\"compact\"}");
	rig_do(c->rig, "{\"do\":\"unrule\"}");
	expect(c, "-a +a ~b +d -c resync.");
	put(c, "e");
	expect(c, "+e");
}

static void test_410_inside_a_stream(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	start(c, &quick);
	expect(c, "+a sync.");
	rig_until_open(c->rig, 1);
	/* what stands behind the error in the same packet is of no interest */
	rig_do(c->rig,
	       "{\"do\":\"line\",\"text\":\"{\\\"type\\\":\\\"ERROR\\\",\\\"object\\\":{\\\"kind\\\":\\\"Status\\\","
	       "\\\"code\\\":410,\\\"reason\\\":\\\"Expired\\\"}}\\nnot json\"}");
	expect(c, "resync.");
	put(c, "b");
	expect(c, "+b");
	assert_int_equal(c->trouble, 0);
}

/* Runs for a while, whatever happens. */
static void run_ms(struct consumer *c, int ms)
{
	while (ms-- > 0) {
		uv_run(&c->rig->loop, UV_RUN_NOWAIT);
		usleep(1000);
	}
}

/* Lists that the server was asked for. */
static int lists(struct consumer *c)
{
	json_t *seen = rig_ask(c->rig, "{\"do\":\"seen\"}"), *o;
	size_t i;
	int n = 0;

	json_array_foreach(seen, i, o) n += !json_object_get(json_object_get(o, "query"), "watch");
	json_decref(seen);
	return n;
}

/* Streams that it was asked for since the last time. */
static int streams(struct consumer *c)
{
	json_t *seen = rig_ask(c->rig, "{\"do\":\"seen\"}"), *o;
	size_t i;
	int n = 0;

	json_array_foreach(seen, i, o) n += json_object_get(json_object_get(o, "query"), "watch") != NULL;
	json_decref(seen);
	return n;
}

/* A server that forgets every version at once (its watch cache is being filled, say) is not asked without a pause. */
static void test_versions_that_are_always_forgotten(void **state)
{
	static const struct kube_watch_options slow = {.backoff_ms = 200, .backoff_max_ms = 10000};
	struct consumer *c = *state;

	rig_do(c->rig, "{\"do\":\"rule\",\"path\":\"watch=true\",\"times\":0,\"status\":410,\"body\":{\"kind\":"
		       "\"Status\",\"reason\":\"Expired\",\"message\":\"too old\",\"code\":410}}");
	start(c, &slow);
	run_ms(c, 2000);
	assert_in_range(lists(c), 1, 20);
	rig_do(c->rig, "{\"do\":\"unrule\"}");
	rig_until_open(c->rig, 1);
	c->len = 0;
	c->told[0] = '\0';
	put(c, "a");
	expect(c, "+a");
}

/* A proxy that has a log-in in between says neither that something went nor that a stream has ended: what is known
 * stays, and it is not asked without a pause. */
static void test_a_proxy_that_wants_a_log_in(void **state)
{
	static const struct kube_watch_options slow = {.backoff_ms = 200, .backoff_max_ms = 10000};
	struct consumer *c = *state;

	put(c, "a");
	start(c, &slow);
	expect(c, "+a sync.");
	rig_until_open(c->rig, 1);
	put(c, "b");
	expect(c, "+b");
	json_decref(rig_ask(c->rig, "{\"do\":\"seen\"}"));
	rig_do(c->rig, "{\"do\":\"rule\",\"times\":0,\"status\":302,\"text\":\"\"}");
	rig_do(c->rig, "{\"do\":\"streams\",\"how\":\"end\"}");
	run_ms(c, 1000);
	assert_in_range(streams(c), 1, 10);
	assert_int_equal(c->trouble, ERR_PROTOCOL);
	rig_do(c->rig, "{\"do\":\"unrule\"}");
	put(c, "d");
	expect(c, "+d");
}

/* The version from which the newest stream that the server has seen goes on; 0: none since the last time. */
static int newest_version(struct consumer *c)
{
	json_t *seen = rig_ask(c->rig, "{\"do\":\"seen\"}"), *o;
	const char *version = NULL;
	size_t i;

	json_array_foreach(seen, i, o)
	{
		json_t *query = json_object_get(o, "query");
		if (json_object_get(query, "watch"))
			version = json_string_value(json_object_get(query, "resourceVersion"));
	}
	int n = version ? atoi(version) : 0;
	json_decref(seen);
	return n;
}

static void test_bookmarks_move_the_version_on(void **state)
{
	struct consumer *c = *state;
	int version = 0, listed = 101; /* the first change in the store */

	put(c, "a");
	rig_do(c->rig, "{\"do\":\"bookmarks\",\"every_ms\":20}");
	start(c, &quick);
	expect(c, "+a sync.");
	/* other objects make the world go on; only bookmarks tell of it */
	for (int i = 0; i < 50; i++)
		rig_do(c->rig, "{\"do\":\"put\",\"path\":\"/api/v1/namespaces/ns/configmaps/x\",\"object\":{}}");
	for (struct patience left = patience_of(RIG_WAIT_S * UINT64_C(1000000000));
	     version <= listed && !patience_over(&left);) {
		run_ms(c, 50);
		rig_do(c->rig, "{\"do\":\"streams\",\"how\":\"end\"}");
		run_ms(c, 50);
		version = newest_version(c);
	}
	assert_true(version > listed);
	assert_string_equal(c->told, "");
}

static int bookmarks(struct consumer *c)
{
	json_t *sent = rig_ask(c->rig, "{\"do\":\"marks\"}");
	int n = (int)json_integer_value(sent);

	json_decref(sent);
	return n;
}

static void test_a_stream_that_falls_silent(void **state)
{
	struct consumer *c = *state;
	struct kube_watch_options o = quick;

	o.silence_ms = 300;
	rig_do(c->rig, "{\"do\":\"bookmarks\",\"every_ms\":50}");
	start(c, &o);
	expect(c, "sync.");
	rig_until_open(c->rig, 1);
	for (int i = 0; bookmarks(c) == 0 && i < 3000; i++)
		run_ms(c, 10);
	run_ms(c, 50); /* it comes in */
	rig_do(c->rig, "{\"do\":\"streams\",\"how\":\"silence\"}");
	put(c, "a");
	expect(c, "+a");
	assert_int_equal(c->trouble, 0);
}

/* --- trouble */

static void test_a_server_that_goes_and_comes(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	start(c, &quick);
	expect(c, "+a sync.");
	rig_until_open(c->rig, 1);
	rig_do(c->rig, "{\"do\":\"rule\",\"path\":\"pods\",\"close\":true,\"times\":0}");
	rig_do(c->rig, "{\"do\":\"streams\",\"how\":\"reset\"}");
	until_trouble(c, ERR_EOF, "watch pods in ns");
	put(c, "b");
	rig_do(c->rig, "{\"do\":\"unrule\"}");
	expect(c, "+b");
	until_well(c);
}

static void test_a_watch_that_is_forbidden(void **state)
{
	struct consumer *c = *state;

	rig_do(c->rig,
	       "{\"do\":\"rule\",\"path\":\"pods\",\"times\":0,\"status\":403,\"body\":{\"kind\":\"Status\",\"reason\":"
	       "\"Forbidden\",\"message\":\"User \\\"ann\\\" cannot list resource \\\"pods\\\"\"}}");
	start(c, &quick);
	until_trouble(c, ERR_K8S_FORBIDDEN, "User \"ann\" cannot list resource \"pods\"");
	put(c, "a");
	rig_do(c->rig, "{\"do\":\"unrule\"}");
	expect(c, "+a sync.");
	until_well(c);
}

static void test_events_that_are_nonsense(void **state)
{
	static const char *const lines[] = {
	    "not json",
	    "[]",
	    "{\\\"type\\\":7,\\\"object\\\":{}}",
	    "{\\\"type\\\":\\\"ADDED\\\"}",
	    "{\\\"type\\\":\\\"ADDED\\\",\\\"object\\\":{\\\"metadata\\\":{\\\"name\\\":\\\"x\\\"}}}",
	};
	struct consumer *c = *state;

	start(c, &quick);
	expect(c, "sync.");
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		rig_until_open(c->rig, 1);
		rig_do(c->rig, "{\"do\":\"line\",\"text\":\"%s\"}", lines[i]);
		until_trouble(c, ERR_PROTOCOL, "watch pods in ns: an event cannot be used");
		until_well(c);
	}
	rig_until_open(c->rig, 1);
	rig_do(c->rig,
	       "{\"do\":\"line\",\"text\":\"{\\\"type\\\":\\\"NEWS\\\",\\\"object\\\":{}}\\n\\n\"}"); /* of a later
													 server */
	put(c, "a");
	expect(c, "+a");
}

static void test_an_error_inside_a_stream(void **state)
{
	struct consumer *c = *state;

	start(c, &quick);
	expect(c, "sync.");
	rig_until_open(c->rig, 1);
	rig_do(c->rig,
	       "{\"do\":\"line\",\"text\":\"{\\\"type\\\":\\\"ERROR\\\",\\\"object\\\":{\\\"kind\\\":\\\"Status\\\","
	       "\\\"code\\\":500,\\\"message\\\":\\\"etcd is away\\\"}}\"}");
	until_trouble(c, ERR_K8S, "etcd is away");
	put(c, "a");
	expect(c, "+a");
	until_well(c);
}

static void test_an_event_that_is_too_large(void **state)
{
	struct consumer *c = *state;
	struct kube_watch_options o = quick;

	o.event_max = 1000;
	start(c, &o);
	expect(c, "sync.");
	rig_until_open(c->rig, 1);
	rig_do(c->rig, "{\"do\":\"line\",\"text\":\"%02000d\"}", 0);
	until_trouble(c, ERR_TOO_LARGE, "an event is larger than 1000 bytes");
	put(c, "a");
	expect(c, "+a");
}

static void test_lists_that_are_nonsense(void **state)
{
	static const char *const bodies[] = {"7", "{}", "{\"items\":7,\"metadata\":{\"resourceVersion\":\"1\"}}",
					     "{\"metadata\":{\"resourceVersion\":\"1\"}}",
					     "{\"items\":[{}],\"metadata\":{\"resourceVersion\":\"1\"}}"};
	struct consumer *c = *state;

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		rig_do(c->rig, "{\"do\":\"rule\",\"times\":0,\"body\":%s}", bodies[i]);
		start(c, &quick);
		until_trouble(c, ERR_PROTOCOL, " pods in ns");
		kube_watch_destroy(c->watch);
		c->watch = NULL;
		c->trouble = 0;
		rig_do(c->rig, "{\"do\":\"unrule\"}");
	}
	assert_string_equal(c->told, "");
}

/* --- leaving */

static void test_the_consumer_leaves_inside_its_callback(void **state)
{
	struct consumer *c = *state;

	put(c, "a");
	put(c, "b");
	c->leave = true;
	start(c, &quick);
	rig_until(c->rig, &c->reached); /* in the list */
	assert_string_equal(c->told, "+a");
	c->leave = c->reached = false;
	c->len = 0;
	c->told[0] = '\0';
	start(c, &quick);
	expect(c, "+a +b sync.");
	rig_until_open(c->rig, 1);
	c->leave = true;
	c->reached = false;
	put(c, "c");
	put(c, "d");
	rig_until(c->rig, &c->reached); /* in the stream */
	assert_string_equal(c->told, "+c");
}

/* --- what is known */

static json_t *object(const char *ns, const char *name, const char *uid, const char *version)
{
	return json_pack("{s:{s:s, s:s, s:s, s:s}}", "metadata", "namespace", ns, "name", name, "uid", uid,
			 "resourceVersion", version);
}

static enum known_change update(struct known *k, json_t *o, json_t **old)
{
	enum known_change change = KNOWN_SAME;

	assert_int_equal(known_update(k, o, &change, old), 0);
	json_decref(o);
	return change;
}

static void test_known_objects(void **state)
{
	struct known k = {.list = 1};
	json_t *old, *gone;

	(void)state;
	assert_int_equal(update(&k, object("n", "a", "1", "1"), &old), KNOWN_ADDED);
	assert_int_equal(update(&k, object("m", "a", "2", "1"), &old), KNOWN_ADDED); /* another namespace */
	assert_int_equal(update(&k, object("n", "a", "1", "1"), &old), KNOWN_SAME);
	assert_int_equal(update(&k, object("n", "a", "1", "2"), &old), KNOWN_MODIFIED);
	assert_null(old);
	assert_int_equal(update(&k, object("n", "a", "3", "3"), &old), KNOWN_REPLACED);
	gone = object("n", "a", "1", "2");
	assert_true(json_equal(old, gone));
	assert_false(known_remove(&k, gone)); /* that one is known no more */
	json_decref(gone);
	json_decref(old);
	k.list++;
	assert_int_equal(update(&k, object("n", "a", "3", "3"), &old), KNOWN_SAME);
	gone = known_sweep(&k);
	assert_string_equal(json_string_value(json_object_get(json_object_get(gone, "metadata"), "namespace")), "m");
	json_decref(gone);
	assert_null(known_sweep(&k));
	assert_int_equal(known_count(&k), 1);
	known_finish(&k);
	assert_int_equal(known_count(&k), 0);
}

#define WATCH(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WATCH(test_a_list_then_its_changes),
	    WATCH(test_pages),
	    WATCH(test_a_page_that_came_too_late),
	    WATCH(test_selectors),
	    WATCH(test_borders_at_every_byte),
	    WATCH(test_many_objects),
	    WATCH(test_a_stream_that_ends_is_opened_again),
	    WATCH(test_a_forgotten_version_is_made_up_for),
	    WATCH(test_410_inside_a_stream),
	    WATCH(test_versions_that_are_always_forgotten),
	    WATCH(test_a_proxy_that_wants_a_log_in),
	    WATCH(test_bookmarks_move_the_version_on),
	    WATCH(test_a_stream_that_falls_silent),
	    WATCH(test_a_server_that_goes_and_comes),
	    WATCH(test_a_watch_that_is_forbidden),
	    WATCH(test_events_that_are_nonsense),
	    WATCH(test_an_error_inside_a_stream),
	    WATCH(test_an_event_that_is_too_large),
	    WATCH(test_lists_that_are_nonsense),
	    WATCH(test_the_consumer_leaves_inside_its_callback),
	    cmocka_unit_test(test_known_objects),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
