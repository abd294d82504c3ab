/*
 * kube_outcome.h - what became of one call to a fake API server, on kube_rig.h.
 *
 * Everything static: a test is one file.
 */
#ifndef TESTS_LIB_KUBE_OUTCOME_H
#define TESTS_LIB_KUBE_OUTCOME_H

#include "control/kube/client/status.h"
#include "control/kube/client/verbs.h"
#include "tests/lib/kube_rig.h"

#define CA         ", certificate-authority: ca.crt"
#define CONFIGMAPS "/api/v1/namespaces/ns/configmaps"

/* A label of 64 characters: no resolver asks anybody for it. */
#define NO_NAME "a123456789012345678901234567890123456789012345678901234567890123.test"

RIG_UNUSED static const struct kube_ref config_x = {.resource = "configmaps", .namespace_ = "ns", .name = "x"};

/* What became of one call. */
struct outcome {
	bool done;
	int times, rc, status;
	char message[ERR_MESSAGE_MAX];
	json_t *body;
	char *text;
	size_t len, streamed;
	bool begun;
	struct kube_call *call;
};

RIG_UNUSED static void on_done(void *arg, int rc, const struct err *e, const struct kube_reply *reply)
{
	struct outcome *o = arg;

	o->done = true;
	o->times++;
	o->rc = rc;
	o->status = reply->status;
	if (rc < 0)
		memcpy(o->message, e->message, sizeof(o->message));
	o->body = json_incref((json_t *)(uintptr_t)reply->body);
	o->text = strndup(reply->text ? (const char *)reply->text : "", reply->len);
	o->len = reply->len;
	o->call = NULL;
}

RIG_UNUSED static void outcome_reset(struct outcome *o)
{
	json_decref(o->body);
	free(o->text);
	*o = (struct outcome){0};
}

RIG_UNUSED static void ask_get(struct kube_rig *r, const struct kube_ref *ref, struct outcome *o)
{
	outcome_reset(o);
	assert_int_equal(kube_get(r->kube, ref, on_done, o, &o->call, NULL), 0);
	assert_false(o->done);
}

RIG_UNUSED static void get(struct kube_rig *r, const struct kube_ref *ref, struct outcome *o)
{
	ask_get(r, ref, o);
	rig_until(r, &o->done);
}

RIG_UNUSED static void connect_as(struct kube_rig *r, const char *user, const char *cluster)
{
	struct err e = {0};

	if (rig_connect_as(r, user, cluster, NULL, NULL, &e) < 0)
		fail_msg("%s", e.message);
}

RIG_UNUSED static void fine(const struct outcome *o)
{
	if (o->rc)
		fail_msg("%s", o->message);
	assert_int_equal(o->times, 1);
}

/* It failed so, and the message has all of these words (up to a NULL). */
RIG_UNUSED static void failed(const struct outcome *o, int rc, ...)
{
	const char *word;
	va_list ap;

	if (o->rc != rc)
		fail_msg("%s instead of %s: %s", err_name(o->rc), err_name(rc), o->message);
	assert_int_equal(o->times, 1);
	va_start(ap, rc);
	while ((word = va_arg(ap, const char *)))
		if (!strstr(o->message, word))
			fail_msg("\"%s\" does not say \"%s\"", o->message, word);
	va_end(ap);
}

RIG_UNUSED static int setup(void **state)
{
	struct kube_rig *r = rig_create();

	rig_start_with(r, "server.crt", "server.key");
	*state = r;
	return 0;
}

RIG_UNUSED static int teardown(void **state)
{
	rig_destroy(*state);
	return 0;
}

#define REST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
