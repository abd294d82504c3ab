// tier: check
/* Keys that wait for the daemon's next start: which they are, here and in the manual, and that a reload leaves them. */
#include "base/conf_start.h"
#include "base/conf_table.h"
#include "base/conf_text.h"
#include "base/err.h"
#include "base/slurp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Whatever a key may be, here it is something else than its default. */
static void change(struct conf *c, const struct conf_key *k)
{
	void *field = (char *)c + k->offset;

	switch (k->type) {
	case CONF_STRING:
	case CONF_CHOICE:
		free(*(char **)field);
		*(char **)field = strdup("something else");
		break;
	case CONF_FLAG:
	case CONF_BOOL:
		*(bool *)field = !*(bool *)field;
		break;
	case CONF_NUMBER:
	case CONF_SIZE32:
		*(uint32_t *)field += 1;
		break;
	case CONF_SIZE:
	case CONF_DURATION:
		*(uint64_t *)field += 1000000000;
		break;
	case CONF_LIST:
		if (strcmp(k->path, "kubernetes.labels") == 0)
			assert_int_equal(conf_label_add(c, "team", "blue"), 0);
		break;
	}
}

static void a_reload_leaves_what_waits_and_takes_the_rest(void **state)
{
	struct conf *started, *fresh;
	json_t *old, *file, *kept;
	size_t n;
	const struct conf_key *keys = conf_keys(&n);
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_create(&started), 0);
	assert_int_equal(conf_create(&fresh), 0);
	for (size_t i = 0; i < n; i++)
		change(fresh, &keys[i]);
	old = conf_values(started);
	file = conf_values(fresh);
	assert_int_equal(conf_keep_started(fresh, started, &e), 0);
	kept = conf_values(fresh);
	for (size_t i = 0; i < n; i++) {
		const json_t *was = json_object_get(old, keys[i].path), *read = json_object_get(file, keys[i].path);

		/* Of lists the labels alone can wait, conf_start.c. */
		if (keys[i].type == CONF_LIST && strcmp(keys[i].path, "kubernetes.labels") != 0)
			assert_false(conf_key_waits(&keys[i]));
		else if (json_equal(was, read))
			fail_msg("%s is not changed by this test", keys[i].path);
		if (!json_equal(json_object_get(kept, keys[i].path), conf_key_waits(&keys[i]) ? was : read))
			fail_msg("%s is not what it has to be", keys[i].path);
	}
	json_decref(old);
	json_decref(file);
	json_decref(kept);
	conf_destroy(started);
	conf_destroy(fresh);
}

static void labels_come_back(void **state)
{
	struct conf *started, *fresh;
	struct err e = {0};

	(void)state;
	assert_int_equal(conf_create(&started), 0);
	assert_int_equal(conf_create(&fresh), 0);
	assert_int_equal(conf_label_add(started, "team", "blue"), 0);
	assert_int_equal(conf_label_add(fresh, "other", "one"), 0);
	assert_int_equal(conf_keep_started(fresh, started, &e), 0);
	assert_int_equal(fresh->kubernetes_nlabels, 1);
	assert_string_equal(fresh->kubernetes_labels[0].key, "team");
	assert_string_equal(fresh->kubernetes_labels[0].value, "blue");
	conf_destroy(started);
	conf_destroy(fresh);
}

static void what_waits_is_named(void **state)
{
	static const char one[] = "log: {level: debug}\nkubernetes: {namespace: a}\n",
			  two[] = "sandbox: {memory: 1GiB}\nkubernetes: {namespace: b, admission_namespaces: a}\n";
	struct conf *started = NULL, *fresh = NULL;
	char names[64], few[12];

	(void)state;
	assert_int_equal(conf_parse(one, strlen(one), "one", &started, NULL), 0);
	assert_int_equal(conf_parse(two, strlen(two), "two", &fresh, NULL), 0);
	conf_waiting(started, started, names, sizeof(names));
	assert_string_equal(names, "");
	conf_waiting(fresh, started, names, sizeof(names));
	assert_string_equal(names, "sandbox.memory, kubernetes.namespace");
	conf_waiting(fresh, started, few, sizeof(few));
	assert_int_equal(strncmp(few, names, strlen(few)), 0);
	conf_destroy(started);
	conf_destroy(fresh);
}

/* Is the key, or its section, among the words from..to? */
static bool is_told(const char *from, const char *to, const char *key)
{
	static const char between[] = " ,.\n";

	for (const char *p = from; p < to; p += strspn(p, between)) {
		size_t n = strcspn(p, between), k = strlen(key), section = strcspn(key, ".");

		while (p + n < to && p[n] == '.' && !strchr(between, p[n + 1])) /* a dot in a key */
			n += 1 + strcspn(p + n + 1, between);
		if ((n == k && strncmp(p, key, k) == 0) || (n == section && strncmp(p, key, section) == 0))
			return true;
		p += n;
	}
	return false;
}

/* From the top of the tree, where `make unit` runs. */
static void the_manual_names_what_waits(void **state)
{
	char *page = NULL;
	size_t len = 0, n;
	const struct conf_key *keys = conf_keys(&n);
	const char *from, *but, *to;

	(void)state;
	assert_int_equal(slurp_file("docs/man/muxd.conf.5", 0, 1 << 20, &page, &len, NULL), 0);
	from = strstr(page, "\nThe keys of\n");
	but = from ? strstr(from, "except") : NULL;
	to = but ? strstr(but, "\n.Pp\n") : NULL;
	assert_non_null(to);
	for (size_t i = 0; i < n; i++)
		if ((is_told(from, but, keys[i].path) && !is_told(but, to, keys[i].path)) != conf_key_waits(&keys[i]))
			fail_msg("muxd.conf(5) says otherwise of %s: whether a reload takes it", keys[i].path);
	slurp_free(page, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reload_leaves_what_waits_and_takes_the_rest),
	    cmocka_unit_test(labels_come_back),
	    cmocka_unit_test(what_waits_is_named),
	    cmocka_unit_test(the_manual_names_what_waits),
	};

	return cmocka_run_group_tests_name("conf_start", tests, NULL, NULL);
}
