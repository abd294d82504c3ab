#include "muxd/base/buf.h"
#include "muxd/base/err.h"
#include "muxd/base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *text, json_t **out, struct err *e)
{
	return json_parse(text, strlen(text), 1000, out, e);
}

static json_t *parsed(const char *text)
{
	json_t *o = NULL;
	assert_int_equal(parse(text, &o, NULL), 0);
	return o;
}

static void takes_one_value_and_nothing_more(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int rc;
	} rows[] = {
	    {"{}", 0},
	    {" [1, 2] \n", 0},
	    {"7", 0},
	    {"\"x\"", 0},
	    {"", ERR_INVAL},
	    {"{} {}", ERR_INVAL},
	    {"{\"a\":1,\"a\":2}", ERR_INVAL},
	    {"{\"a\":\"\xff\"}", ERR_INVAL},
	    {"{\"a\":\"\\u0000\"}", ERR_INVAL},
	    {"{\"a\":", ERR_INVAL},
	    {"{'a':1}", ERR_INVAL},
	    {"[1e999]", ERR_INVAL},
	    {"[99999999999999999999]", ERR_INVAL},
	    {"nul", ERR_INVAL},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = NULL;
		assert_int_equal(parse(rows[i].text, &o, NULL), rows[i].rc);
		assert_true((o != NULL) == (rows[i].rc == 0));
		json_decref(o);
	}
}

static void depth_and_size_are_bounded(void **state)
{
	(void)state;
	char text[100] = "";
	json_t *o = NULL;
	memset(text, '[', 32);
	memset(text + 32, ']', 32);
	assert_int_equal(parse(text, &o, NULL), 0);
	json_decref(o);
	memset(text, '[', 33);
	memset(text + 33, ']', 33);
	assert_int_equal(parse(text, &o, NULL), ERR_INVAL);
	/* Brackets in a string are not nesting. */
	memset(text, '[', 66);
	text[0] = text[65] = '"';
	assert_int_equal(parse(text, &o, NULL), 0);
	json_decref(o);
	assert_int_equal(json_parse("[1,2,3]", 7, 6, &o, NULL), ERR_TOO_LARGE);
	char *deep = malloc(1000000);
	memset(deep, '[', 1000000);
	assert_int_equal(json_parse(deep, 1000000, 1000000, &o, NULL), ERR_INVAL);
	free(deep);
}

static void messages_never_quote_the_input(void **state)
{
	(void)state;
	struct err e = {0};
	json_t *o = NULL;
	assert_int_equal(parse("{\"token\": s3cr3t}", &o, &e), ERR_INVAL);
	assert_null(strstr(e.message, "s3cr3t"));
	assert_non_null(strstr(e.message, "line 1"));
}

static void optional_fields_leave_defaults(void **state)
{
	(void)state;
	json_t *o = parsed("{\"s\":\"x\",\"n\":5,\"b\":true,\"z\":null,\"f\":1.5}");
	const char *s = "default";
	int64_t n = 9;
	bool b = false;
	assert_int_equal(json_opt_str(o, "none", &s, NULL), 0);
	assert_int_equal(json_opt_str(o, "z", &s, NULL), 0);
	assert_string_equal(s, "default");
	assert_int_equal(json_opt_int(o, "none", 0, 10, &n, NULL), 0);
	assert_int_equal(n, 9);
	assert_int_equal(json_opt_str(o, "s", &s, NULL), 0);
	assert_string_equal(s, "x");
	assert_int_equal(json_opt_int(o, "n", 5, 5, &n, NULL), 0);
	assert_int_equal(n, 5);
	assert_int_equal(json_opt_bool(o, "b", &b, NULL), 0);
	assert_true(b);
	json_decref(o);
}

static void wrong_types_and_ranges_name_the_field(void **state)
{
	(void)state;
	json_t *o = parsed("{\"s\":\"x\",\"n\":5,\"f\":1.5}");
	const char *s = "kept";
	int64_t n = 9;
	bool b = true;
	struct err e = {0};
	assert_int_equal(json_opt_str(o, "n", &s, &e), ERR_INVAL);
	assert_string_equal(e.message, "\"n\" is not a string");
	assert_int_equal(json_opt_int(o, "f", 0, 10, &n, &e), ERR_INVAL);
	assert_string_equal(e.message, "\"f\" is not a whole number");
	assert_int_equal(json_opt_int(o, "n", 6, 10, &n, &e), ERR_INVAL);
	assert_string_equal(e.message, "\"n\" is 5, 6 to 10 is allowed");
	assert_int_equal(json_opt_bool(o, "n", &b, &e), ERR_INVAL);
	assert_int_equal(json_need_str(o, "none", &s, &e), ERR_INVAL);
	assert_string_equal(e.message, "\"none\" is missing");
	assert_int_equal(json_need_int(o, "none", 0, 1, &n, &e), ERR_INVAL);
	assert_string_equal(s, "kept");
	assert_int_equal(n, 9);
	json_t *list = parsed("[1]");
	assert_int_equal(json_opt_str(list, "s", &s, &e), ERR_INVAL);
	assert_int_equal(json_need_str(NULL, "s", &s, &e), ERR_INVAL);
	json_decref(list);
	json_decref(o);
}

static void unknown_fields_are_named(void **state)
{
	(void)state;
	static const char *const keys[] = {"a", "b", NULL};
	struct err e = {0};
	json_t *o = parsed("{\"a\":1}"), *p = parsed("{\"a\":1,\"c\":2}");
	assert_int_equal(json_only_keys(o, keys, &e), 0);
	assert_int_equal(json_only_keys(p, keys, &e), ERR_INVAL);
	assert_string_equal(e.message, "\"c\" is not a known field");
	json_decref(o);
	json_decref(p);
}

static void appends_whole_values_or_nothing(void **state)
{
	(void)state;
	json_t *o = parsed("{\"a\":[1,2]}");
	struct buf b;
	buf_init(&b, 12);
	assert_int_equal(json_append(&b, o), 0);
	assert_string_equal(buf_cstr(&b), "{\"a\":[1,2]}");
	assert_int_equal(json_append(&b, o), ERR_TOO_LARGE);
	assert_int_equal(buf_len(&b), 11);
	assert_int_equal(json_append(&b, NULL), ERR_INVAL);
	char *text = json_text(o);
	assert_string_equal(text, "{\"a\":[1,2]}");
	free(text);
	buf_finish(&b);
	json_decref(o);
}

static void base64_follows_the_rfc(void **state)
{
	(void)state;
	static const struct {
		const char *in, *std, *url;
	} rows[] = {
	    {"", "", ""},
	    {"f", "Zg==", "Zg"},
	    {"fo", "Zm8=", "Zm8"},
	    {"foo", "Zm9v", "Zm9v"},
	    {"foob", "Zm9vYg==", "Zm9vYg"},
	    {"\xfb\xff\xfe", "+//+", "-__-"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int url = 0; url < 2; url++) {
			const char *want = url ? rows[i].url : rows[i].std;
			char *text = base64_encode(rows[i].in, strlen(rows[i].in), url);
			uint8_t *back = NULL;
			size_t len = 99;
			assert_string_equal(text, want);
			assert_int_equal(base64_decode(text, strlen(text), url, &back, &len), 0);
			assert_int_equal(len, strlen(rows[i].in));
			assert_memory_equal(back, rows[i].in, len);
			free(back);
			free(text);
		}
	}
}

static void base64_has_one_spelling_only(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool url;
	} wrong[] = {
	    {"Zg", false},   {"Zg=", false},   {"Zh==", false},  {"Zm9=", false},     {"Z===", false},
	    {"====", false}, {"Zm 9v", false}, {"-__-", false},  {"+//+", true},      {"Zg==", true},
	    {"Zh", true},    {"Z", true},      {"Zm9v\n", true}, {"Zg==Zg==", false},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint8_t *out = NULL;
		size_t len = 7;
		assert_int_equal(base64_decode(wrong[i].text, strlen(wrong[i].text), wrong[i].url, &out, &len),
				 ERR_INVAL);
		assert_null(out);
	}
}

static void bytes_say_their_encoding(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		size_t n;
		const char *data, *encoding;
	} rows[] = {
	    {"plain \xc3\xa9\n", 9, "plain \xc3\xa9\n", "utf-8"},
	    {"", 0, "", "utf-8"},
	    {"\xff\xfe", 2, "//4=", "base64"},
	    {"a\0b", 3, "YQBi", "base64"},
	    {"\xc3", 1, "ww==", "base64"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *o = json_object();
		assert_int_equal(json_set_bytes(o, "data", "encoding", (const uint8_t *)rows[i].in, rows[i].n), 0);
		assert_string_equal(json_string_value(json_object_get(o, "data")), rows[i].data);
		assert_string_equal(json_string_value(json_object_get(o, "encoding")), rows[i].encoding);
		json_decref(o);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(takes_one_value_and_nothing_more),      cmocka_unit_test(depth_and_size_are_bounded),
	    cmocka_unit_test(messages_never_quote_the_input),        cmocka_unit_test(optional_fields_leave_defaults),
	    cmocka_unit_test(wrong_types_and_ranges_name_the_field), cmocka_unit_test(unknown_fields_are_named),
	    cmocka_unit_test(appends_whole_values_or_nothing),       cmocka_unit_test(base64_follows_the_rfc),
	    cmocka_unit_test(base64_has_one_spelling_only),          cmocka_unit_test(bytes_say_their_encoding),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
