// tier: check
/* What a pod says about its container: states, reasons in the cluster's words, incarnations. */
#include "control/kube/pods/pod.h"

#include "base/err.h"
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* A pod with one container `main`; single quotes stand for double ones. */
static json_t *pod(const char *spec_more, const char *meta_more, const char *status)
{
	char text[4000];
	json_t *o = NULL;
	struct err e = {0};

	snprintf(text, sizeof(text),
		 "{'metadata':{'name':'p','uid':'u-1','creationTimestamp':'2026-11-21T08:00:00Z'%s},"
		 "'spec':{'containers':[{'name':'main'}]%s},'status':%s}",
		 meta_more, spec_more, status);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	if (json_parse(text, strlen(text), sizeof(text), &o, &e))
		fail_msg("%s", e.message);
	return o;
}

static void states_and_their_reasons(void **state)
{
	static const struct {
		const char *spec, *meta, *status;
		enum pod_state state;
		const char *why;
	} table[] = {
	    {"", "", "{'phase':'Pending'}", POD_WAITING, "Pending: the container has no state yet"},
	    {"", "",
	     "{'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable',"
	     "'message':'0/1 nodes are available: 1 Insufficient cpu.'}]}",
	     POD_WAITING, "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."},
	    {"", "",
	     "{'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{'reason':'ImagePullBackOff',"
	     "'message':'Back-off pulling image'}}}]}",
	     POD_WAITING, "ImagePullBackOff: Back-off pulling image"},
	    {"", "",
	     "{'phase':'Pending','containerStatuses':[{'name':'main','state':{'waiting':{'reason':'ErrImageNeverPull',"
	     "'message':'Container image is not present'}}}]}",
	     POD_HOPELESS, "ErrImageNeverPull: Container image is not present"},
	    {"", "",
	     "{'phase':'Pending','initContainerStatuses':[{'name':'muxlet','state':{'waiting':{'reason':"
	     "'InvalidImageName','message':'x'}}}],'containerStatuses':[{'name':'main','state':{'waiting':{'reason':"
	     "'PodInitializing'}}}]}",
	     POD_HOPELESS, "init container muxlet: InvalidImageName: x"},
	    {"", "",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','ready':true,"
	     "'state':{'running':{}}}]}",
	     POD_RUNNING, ""},
	    /* A sidecar's end is not ours. */
	    {"", "",
	     "{'phase':'Running','containerStatuses':[{'name':'side','state':{'terminated':{'exitCode':1}}},{'name':"
	     "'main','containerID':'containerd://a','state':{'running':{}}}]}",
	     POD_RUNNING, ""},
	    {",'restartPolicy':'Never'", "",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','state':"
	     "{'terminated':{'exitCode':137,'reason':'OOMKilled'}}}]}",
	     POD_ENDED, "OOMKilled: exit code 137"},
	    {",'restartPolicy':'Always'", "",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','state':"
	     "{'terminated':{'exitCode':0,'reason':'Completed'}}}]}",
	     POD_WAITING, "Completed: exit code 0"},
	    {",'restartPolicy':'OnFailure'", "",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','state':"
	     "{'terminated':{'exitCode':0,'reason':'Completed'}}}]}",
	     POD_ENDED, "Completed: exit code 0"},
	    {"", "",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','state':{'waiting':"
	     "{'reason':'CrashLoopBackOff','message':'back-off 10s'}}}]}",
	     POD_WAITING, "CrashLoopBackOff: back-off 10s"},
	    {"", "", "{'phase':'Failed','reason':'Evicted','message':'The node was low on resource: memory.'}",
	     POD_ENDED, "Evicted: The node was low on resource: memory."},
	    {"", "", "{'phase':'Succeeded'}", POD_ENDED, "Succeeded"},
	    {",'restartPolicy':'Always'", ",'deletionTimestamp':'2026-11-21T08:01:00Z'",
	     "{'phase':'Running','containerStatuses':[{'name':'main','containerID':'containerd://a','state':"
	     "{'terminated':{'signal':9,'exitCode':137,'reason':'Error'}}}]}",
	     POD_ENDED, "Error: signal 9"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		json_t *o = pod(table[i].spec, table[i].meta, table[i].status);
		struct pod_view v;
		struct err e = {0};

		assert_int_equal(pod_view(o, NULL, &v, &e), 0);
		if (v.state != table[i].state)
			fail_msg("row %zu: %s", i, pod_state_name(v.state));
		assert_string_equal(v.why, table[i].why);
		assert_string_equal(v.container, "main");
		assert_int_equal(v.created_ns, 1795248000000000000LL);
		json_decref(o);
	}
}

static void which_container_is_meant(void **state)
{
	static const struct {
		const char *spec, *meta, *asked, *found;
		int rc;
		const char *message;
	} table[] = {
	    {"", "", NULL, "main", 0, ""},
	    {"", "", "", "main", 0, ""},
	    {"", "", "main", "main", 0, ""},
	    {"", "", "other", "", ERR_NOT_FOUND, "pod p has no container other, only main"},
	    {",'initContainers':[{'name':'first'}]", "", "first", "first", 0, ""},
	    {",'ephemeralContainers':[{'name':'debug'}]", "", "debug", "debug", 0, ""},
	    {"", ",'annotations':{'kubectl.kubernetes.io/default-container':'main'}", NULL, "main", 0, ""},
	    {"", ",'annotations':{'kubectl.kubernetes.io/default-container':'gone'}", NULL, "", ERR_NOT_FOUND,
	     "pod p has no container gone, only main"},
	};
	struct pod_view v;
	struct err e = {0};
	json_t *o, *list;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		o = pod(table[i].spec, table[i].meta, "{}");
		assert_int_equal(pod_view(o, table[i].asked, &v, &e), table[i].rc);
		if (table[i].rc)
			assert_string_equal(e.message, table[i].message);
		else
			assert_string_equal(v.container, table[i].found);
		json_decref(o);
	}
	o = pod("", "", "{}");
	list = json_object_get(json_object_get(o, "spec"), "containers");
	json_array_append_new(list, json_pack("{s:s}", "name", "proxy"));
	json_array_append_new(list, json_pack("{s:s}", "name", "logs"));
	assert_int_equal(pod_view(o, NULL, &v, &e), ERR_INVAL);
	assert_string_equal(e.message, "pod p has the containers main, proxy and logs: name one of them");
	assert_int_equal(pod_view(o, "proxy", &v, &e), 0);
	json_decref(o);
}

static void what_is_no_pod_is_refused(void **state)
{
	static const char *const texts[] = {"{}",
					    "{\"metadata\":{\"uid\":\"x\"}}",
					    "{\"kind\":\"Status\"}",
					    "[]",
					    "{\"metadata\":{\"uid\":5},\"spec\":{\"containers\":[]}}",
					    "{\"metadata\":{\"uid\":\"x\"},\"spec\":{\"containers\":[]}}",
					    "{\"metadata\":{\"uid\":\"x\"},\"spec\":{\"containers\":[1,2]}}"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct pod_view v = {.why = "untouched"};
		struct err e = {0};
		json_t *o = NULL;

		assert_int_equal(json_parse(texts[i], strlen(texts[i]), 1000, &o, &e), 0);
		assert_true(pod_view(o, NULL, &v, &e) < 0);
		assert_string_equal(v.why, "untouched");
		json_decref(o);
	}
}

/* A container writes its own last message: nothing in it may move a terminal's cursor. */
static void last_messages_are_hostile(void **state)
{
	json_t *o =
	    pod(",'restartPolicy':'Never'", "",
		"{'phase':'Running','containerStatuses':[{'name':'main','containerID':'c','state':{'terminated':"
		"{'exitCode':1,'reason':'Error','message':'\\u001b[2J\\n\\u00e4\\u009b31m'}}}]}");
	struct pod_view v;

	(void)state;
	assert_int_equal(pod_view(o, NULL, &v, NULL), 0);
	assert_string_equal(v.why, "Error: exit code 1, ?[2J?????31m");
	json_decref(o);
}

/* Pod and container make an incarnation; nothing else does. */
static void incarnations(void **state)
{
	struct pod_view a = {.uid = "u", .container_id = "c"}, b = a, c = a, d = a;
	struct id ia, ib, ic, id;
	char text[ID_STR_LEN];

	(void)state;
	strcpy(b.container_id, "c2");
	strcpy(c.uid, "u2");
	strcpy(d.why, "something");
	pod_incarnation(&a, &ia);
	pod_incarnation(&b, &ib);
	pod_incarnation(&c, &ic);
	pod_incarnation(&d, &id);
	assert_false(id_equal(&ia, &ib));
	assert_false(id_equal(&ia, &ic));
	assert_false(id_equal(&ib, &ic));
	assert_true(id_equal(&ia, &id));
	id_format(&ia, text);
	assert_int_equal(text[14], '8');
	assert_non_null(strchr("89ab", text[19]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(states_and_their_reasons),
	    cmocka_unit_test(which_container_is_meant),
	    cmocka_unit_test(what_is_no_pod_is_refused),
	    cmocka_unit_test(last_messages_are_hostile),
	    cmocka_unit_test(incarnations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
