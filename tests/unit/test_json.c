// tier: check
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* A value costs the same however short it is: a megabyte of {} would be 80 MiB of memory. */
static void values_are_bounded(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t values;
	} rows[] = {
	    {"7", 1},
	    {"{}", 1},
	    {"[]", 2},
	    {"[1,2]", 3},
	    {"{\"a\":1,\"b\":{}}", 3},
	    {"[{},{\"a\":[1,2]},3]", 7},
	    {"{\"a\":\"\\\"[[,,:{{\"}", 2}, /* what stands in a text is no value */
	};
	const size_t n = 2 * JSON_VALUES_MAX;
	char *wide = malloc(n * 3 + 3);
	struct err e = {0};
	json_t *o = NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(json_count_values(rows[i].text, strlen(rows[i].text)), rows[i].values);
	assert_int_equal(json_parse_values("[1,2]", 5, 5, 2, &o, &e), ERR_TOO_LARGE);
	assert_string_equal(e.message, "JSON of 3 values, 2 are allowed");
	assert_int_equal(json_parse_values("[1,2]", 5, 5, 3, &o, NULL), 0);
	json_decref(o);
	wide[0] = '[';
	for (size_t i = 0; i < n; i++)
		memcpy(wide + 1 + 3 * i, "{},", 3);
	wide[3 * n] = ']';
	assert_int_equal(json_parse(wide, 3 * n + 1, 3 * n + 1, &o, NULL), ERR_TOO_LARGE);
	for (size_t i = 0; i < n; i++)
		memcpy(wide + 1 + 3 * i, " , ", 3); /* nor is it looked at where it is no JSON */
	assert_int_equal(json_parse(wide, 3 * n + 1, 3 * n + 1, &o, NULL), ERR_TOO_LARGE);
	free(wide);
}

static char *nested(char *text, unsigned lists)
{
	memset(text, '[', lists);
	memset(text + lists, ']', lists);
	text[2 * lists] = '\0';
	return text;
}

/* Stored JSON is read again with whatever was put around it; what is deeper is not stored. */
static void what_is_stored_stays_readable(void **state)
{
	char text[200], around[220];
	json_t *o = NULL;
	char *stored;

	(void)state;
	for (unsigned lists = 1; lists <= 32; lists++) {
		o = parsed(nested(text, lists));
		stored = json_text_shallow(o);
		json_decref(o);
		if (lists <= JSON_STORED_DEPTH)
			assert_string_equal(stored, text);
		else
			assert_string_equal(
			    stored, "[[[[[[[[[[[[[[[[\"left out: nested more than 16 levels deep\"]]]]]]]]]]]]]]]]");
		snprintf(around, sizeof(around), "{\"row\":{\"event\":{\"detail\":[%s]}}}", stored);
		json_decref(parsed(around));
		free(stored);
	}
	o = json_pack("{s:o, s:s}", "deep", parsed(nested(text, 20)), "beside", "is kept");
	stored = json_text_shallow(o);
	json_decref(o);
	assert_non_null(strstr(stored, "]]],\"beside\":\"is kept\"}"));
	free(stored);
	assert_int_equal(json_parse_nested(nested(text, 64), 128, 1000, &o, NULL), 0);
	json_decref(o);
	assert_int_equal(json_parse_nested(nested(text, 65), 130, 1000, &o, NULL), ERR_INVAL);
}

static void one_member_of_what_cannot_be_read(void **state)
{
	static const struct {
		const char *text;
		int rc;
		bool is_true;
	} rows[] = {
	    {"{\"end\":true}", 0, true},
	    {"{\"a\":[[[{\"b\":[]}]]],\"end\":true}", 0, true},
	    {"{\"end\":true,\"a\":\"}]\\\"\"}", 0, true},
	    {"{\"end\":false}", 0, false},
	    {"{\"a\":{\"end\":true}}", 0, false},
	    {"{\"a\":\"\\\"end\\\":true\"}", 0, false},
	    {"{\"a\":\"{\",\"b\":\"end\"}", 0, false},
	    {"{}", 0, false},
	    {"", ERR_INVAL, false},
	    {"[]", ERR_INVAL, false},
	    {"{\"end\":true", ERR_INVAL, false},
	    {"{\"end\":true}}", ERR_INVAL, false},
	    {"{\"end\":true,\"a", ERR_INVAL, false},
	    {"{\"a\\", ERR_INVAL, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool is_true = !rows[i].is_true;

		assert_int_equal(json_scan_true(rows[i].text, strlen(rows[i].text), "end", &is_true), rows[i].rc);
		assert_int_equal(is_true, rows[i].rc ? !rows[i].is_true : rows[i].is_true);
	}
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

/* Our builder makes of valid text what jansson's own makes: every letter in use. */
static void packs_as_jansson_does(void **state)
{
	(void)state;
#define PACK_ROWS(PACK)                                                                                                \
	PACK("{s:s,s:i,s:I,s:b,s:n}", "a", "x", "b", -7, "c", (json_int_t)1 << 40, "d", 1, "e"),                       \
	    PACK("[I,I,I]", (json_int_t)1, (json_int_t)2, (json_int_t)3),                                              \
	    PACK("{s:{s:s,s:[s,s]},s:f}", "o", "k", "v", "l", "one", "two", "f", 0.5),                                 \
	    PACK("{s:s?,s:s*,s:s?}", "null", NULL, "gone", NULL, "there", "t"),                                        \
	    PACK("{ s : s% , s:s# }", "cut", "abcdef", (size_t)3, "also", "abcdef", 2),                                \
	    PACK("{s:o,s:o?,s:o*,s:[o,O?]}", "o", json_integer(1), "p", NULL, "q", NULL, "r", json_true(), NULL),      \
	    PACK("{s:{},s:[]}", "a", "b"), PACK("{}"), PACK("[]"), PACK("s", "plain"),                                 \
	    PACK("{s:s,s:s}", "k", "1", "k", "2")
	json_t *ours[] = {PACK_ROWS(json_pack_utf8)}, *theirs[] = {PACK_ROWS((json_pack))};
#undef PACK_ROWS
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		char *a = json_text(ours[i]), *b = json_text(theirs[i]);
		assert_non_null(b);
		assert_string_equal(a, b);
		free(a);
		free(b);
		json_decref(ours[i]);
		json_decref(theirs[i]);
	}
}

static void mistakes_of_a_format_are_failures(void **state)
{
	(void)state;
	json_t *held = json_integer(1);
	assert_null(json_pack("{s:o,s:O}", "no memory", NULL, "held", held));
	assert_int_equal(held->refcount, 1);
	assert_null(json_pack("{s:o,s:o}", "freed", json_integer(2), "no memory", NULL));
	static const char *const wrong[] = {"{s:", "{s", "[", "{", "z", "", "{}}", "nn", "{i}"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_null(json_pack(wrong[i], "k", "v", NULL));
	json_decref(held);
}

/* Every byte string of up to four bytes of the kinds there are, as value, key, part: built, and read back as JSON. */
static void no_content_makes_building_fail(void **state)
{
	(void)state;
	static const unsigned char kinds[] = {'a',  0x01, '"',  0x80, 0xa9, 0xbf, 0xc0,
					      0xc3, 0xe2, 0xed, 0xf0, 0xf4, 0xff};
	size_t many = sizeof(kinds);
	for (size_t i = 0; i < many * many * many * many; i++) {
		char s[5] = {(char)kinds[i % many], (char)kinds[i / many % many], (char)kinds[i / many / many % many],
			     (char)kinds[i / many / many / many], 0};
		json_t *o = json_pack("{s:s,s:s?,s:s%,s:[s]}", "a", s, "b", s, "c", s, (size_t)3, "d", s), *back = NULL;
		assert_non_null(o);
		assert_int_equal(json_object_set_new(o, s, json_string(s)), 0);
		assert_int_equal(json_object_set(o, s, json_object_get(o, "a")), 0);
		assert_int_equal(json_object_set_new(o, "n", json_stringn(s, 2)), 0);
		char *text = json_text(o);
		assert_non_null(text);
		assert_int_equal(json_parse(text, strlen(text), 1000, &back, NULL), 0);
		assert_int_equal(json_string_length(json_object_get(back, "a")), 4); /* a byte for a byte */
		assert_true(json_equal(o, back));
		free(text);
		json_decref(back);
		json_decref(o);
	}
	json_t *o = json_pack("{s:s,s:s}", "lost", NULL, "kept", "x"); /* a NULL is null, and the rest is there */
	assert_true(json_is_null(json_object_get(o, "lost")));
	assert_string_equal(json_string_value(json_object_get(o, "kept")), "x");
	json_decref(o);
	assert_null(json_string(NULL));
}

/* ---- what is passed on as it is */

static bool scans(const char *text)
{
	static const char *const own[] = {"op", "session", NULL};
	size_t len = 0;

	if (json_scan_object(text, strlen(text), own, &len))
		return len == strcspn(text, "\n");
	assert_int_equal(len, 0);
	return false;
}

static void what_is_usual_is_passed_on(void **state)
{
	static const char *const fine[] = {
	    "{}",
	    "{}\n",
	    "{\"path\":\"d\",\"entries\":[{\"path\":\"d/a\",\"size\":0},{\"path\":{\"base64\":\"/"
	    "w==\"},\"size\":-1}]}\n",
	    "{\"a\":\"caf\u00e9 \\\" \\\\ \\/ \\b\\f\\n\\r\\t \\u001b \U0001f600\x7f\"}",
	    "{\"a\":[],\"b\":{},\"c\":[[],[]],\"d\":[{},{}],\"e\":true,\"f\":false,\"g\":null}",
	    "{\"a\":999999999999999999,\"b\":0,\"c\":-1}",
	    "{\"a\":{\"op\":1,\"session\":2}}",
	    "{\"a\":[[[[[[[1]]]]]]]}",
	    "{\"a\":{\"k\":1},\"b\":{\"k\":1}}",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		if (!scans(fine[i]))
			fail_msg("declined: %s", fine[i]);
}

static void what_is_unusual_is_not(void **state)
{
	static const char *const other[] = {
	    "",
	    "\n",
	    "[]",
	    "1",
	    "\"a\"",
	    " {}",
	    "{} ",
	    "{}\n\n",
	    "{\"a\": 1}",
	    "{\"a\":1,\"a\":2}",
	    "{\"b\":[{\"a\":1,\"c\":2,\"a\":3}]}",
	    "{\"op\":1}",
	    "{\"a\":1,\"session\":{}}",
	    "{\"\\u006fp\":1}",
	    "{\"a\":\"\\u0000\"}",
	    "{\"a\":\"\\ud83d\\ude00\"}",
	    "{\"a\":\"\\u0100\"}",
	    "{\"a\":\"\\x\"}",
	    "{\"a\":\"\x01\"}",
	    "{\"a\":\"\xff\"}",
	    "{\"a\":\"\xc3\"}",
	    "{\"a\":\"\xed\xa0\x80\"}",
	    "{\"a\":\"\\",
	    "{\"a\":\"\\u00",
	    "{\"a\":\"b",
	    "{\"a",
	    "{\"",
	    "{",
	    "{\"a\"}",
	    "{\"a\":}",
	    "{\"a\":1,}",
	    "{,\"a\":1}",
	    "{\"a\":1 ,\"b\":2}",
	    "{\"a\":[1,]}",
	    "{\"a\":[,1]}",
	    "{\"a\":[1 2]}",
	    "{\"a\":[1}}",
	    "{\"a\":{]}",
	    "{\"a\":1}}",
	    "{\"a\":1}{}",
	    "{\"a\":1.5}",
	    "{\"a\":1e5}",
	    "{\"a\":01}",
	    "{\"a\":-0}",
	    "{\"a\":-}",
	    "{\"a\":+1}",
	    "{\"a\":1000000000000000000}",
	    "{\"a\":tru}",
	    "{\"a\":nullx}",
	    "{\"a\":[[[[[[[[1]]]]]]]]}",
	};
	char many[1024] = "{", *p = many + 1;

	(void)state;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		if (scans(other[i]))
			fail_msg("accepted: %s", other[i]);
	for (int i = 0; i < JSON_SCAN_KEYS; i++)
		p += sprintf(p, "%s\"k%d\":0", i ? "," : "", i);
	strcpy(p, "}");
	assert_true(scans(many));
	strcpy(p, ",\"one\":0}");
	assert_false(scans(many));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_usual_is_passed_on),
	    cmocka_unit_test(what_is_unusual_is_not),
	    cmocka_unit_test(takes_one_value_and_nothing_more),
	    cmocka_unit_test(depth_and_size_are_bounded),
	    cmocka_unit_test(values_are_bounded),
	    cmocka_unit_test(what_is_stored_stays_readable),
	    cmocka_unit_test(one_member_of_what_cannot_be_read),
	    cmocka_unit_test(messages_never_quote_the_input),
	    cmocka_unit_test(optional_fields_leave_defaults),
	    cmocka_unit_test(wrong_types_and_ranges_name_the_field),
	    cmocka_unit_test(unknown_fields_are_named),
	    cmocka_unit_test(appends_whole_values_or_nothing),
	    cmocka_unit_test(base64_follows_the_rfc),
	    cmocka_unit_test(base64_has_one_spelling_only),
	    cmocka_unit_test(bytes_say_their_encoding),
	    cmocka_unit_test(packs_as_jansson_does),
	    cmocka_unit_test(mistakes_of_a_format_are_failures),
	    cmocka_unit_test(no_content_makes_building_fail),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
