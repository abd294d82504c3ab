// tier: check
/* A configuration as text: every key is in it, secrets are not, and what changed is told key by key. */
#include "base/conf_table.h"
#include "base/conf_text.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct conf *parsed(const char *text)
{
	struct conf *c = NULL;
	struct err e = {0};

	if (conf_parse(text, strlen(text), "test", &c, &e))
		fail_msg("%s", e.message);
	return c;
}

static void every_key_is_in_it(void **state)
{
	struct conf *c = parsed("");
	json_t *o = conf_values(c);
	size_t n;
	const struct conf_key *keys = conf_keys(&n);

	(void)state;
	assert_non_null(o);
	assert_int_equal(json_object_size(o), n);
	for (size_t i = 0; i < n; i++)
		if (!json_object_get(o, keys[i].path))
			fail_msg("%s is not in the text", keys[i].path);
	json_decref(o);
	conf_destroy(c);
}

static void one_text_for_one_configuration(void **state)
{
	struct conf *a = parsed("record:\n  retain: 48h\nlog:\n  level: debug\n"),
		    *b = parsed("# said otherwise\nlog: {level: debug}\nrecord: {retain: 2d}\n");
	char *x = conf_text(a), *y = conf_text(b);

	(void)state;
	assert_string_equal(x, y);
	assert_non_null(strstr(x, "\"record.retain\":\"2d\""));
	assert_non_null(strstr(x, "\"record.retain_wait\":\"1d\""));
	free(x);
	free(y);
	conf_destroy(a);
	conf_destroy(b);
}

static void passwords_are_not_in_it(void **state)
{
	struct conf *c =
	    parsed("sandbox: {shell: \"/bin/sh\"}\n"
		   "kubernetes: {kubeconfig: \"/etc/x\", context: \"https://joe:geheim@h:1/p?a=http://u:geheim@i\"}\n");
	char *x = conf_text(c);

	(void)state;
	assert_null(strstr(x, "geheim"));
	assert_non_null(strstr(x, "https://(secret)@h:1/p?a=http://(secret)@i"));
	free(x);
	conf_destroy(c);
}

static void what_changed_key_by_key(void **state)
{
	struct conf *a = parsed("record: {retain: 30d}\n"),
		    *b = parsed("record: {retain: 1s, rules: [{kind: staff, rule: metadata}]}\n");
	json_t *x = conf_values(a), *y = conf_values(b), *d;
	char *text;

	(void)state;
	json_object_del(x, "log.level"); /* as from a version that did not have it */
	json_object_set_new(x, "old.key", json_string("v"));
	d = conf_changes(x, y);
	assert_int_equal(json_array_size(d), 4);
	text = json_text(d);
	assert_non_null(strstr(text, "{\"key\":\"record.retain\",\"old\":\"30d\",\"new\":\"1s\"}"));
	assert_non_null(strstr(text, "{\"key\":\"log.level\",\"new\":\"info\"}"));
	assert_non_null(strstr(text, "{\"key\":\"old.key\",\"old\":\"v\"}"));
	assert_non_null(strstr(text, "\"record.rules\""));
	free(text);
	json_decref(d);
	d = conf_changes(y, y);
	assert_int_equal(json_array_size(d), 0);
	json_decref(d);
	json_decref(x);
	json_decref(y);
	conf_destroy(a);
	conf_destroy(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_key_is_in_it),
	    cmocka_unit_test(one_text_for_one_configuration),
	    cmocka_unit_test(passwords_are_not_in_it),
	    cmocka_unit_test(what_changed_key_by_key),
	};
	return cmocka_run_group_tests_name("conf_text", tests, NULL, NULL);
}
