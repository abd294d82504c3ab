// tier: check
#include "base/err.h"
#include "base/utf8.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_code_has_a_name_of_its_own(void **state)
{
	(void)state;
	for (int c = ERR_BASE_ + 1; c < ERR_END_; c++) {
		assert_int_equal(err_by_name(err_name(c)), c);
		assert_true(err_http_status(c) >= 400 && err_http_status(c) < 600);
		assert_true(err_exit_code(c) > 0 && err_exit_code(c) < 256);
		size_t n = strlen(err_hint(c));
		assert_true(n > 10 && err_hint(c)[n - 1] == '.');
	}
}

static void numbers_outside_the_table_are_internal(void **state)
{
	(void)state;
	assert_string_equal(err_name(0), "ok");
	assert_int_equal(err_exit_code(0), 0);
	assert_int_equal(err_http_status(0), 200);
	static const int odd[] = {1, -1, ERR_BASE_, ERR_END_, -100000, 2147483647};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
		assert_string_equal(err_name(odd[i]), "internal");
	assert_int_equal(err_by_name("no_such_code"), 0);
	assert_int_equal(err_by_name(NULL), 0);
}

static void set_fills_and_returns_the_code(void **state)
{
	(void)state;
	struct err e = {0};
	assert_int_equal(err_set(&e, ERR_TOKEN_EXPIRED, "grant of %s", "ann"), ERR_TOKEN_EXPIRED);
	assert_int_equal(e.code, ERR_TOKEN_EXPIRED);
	assert_string_equal(e.message, "grant of ann");
	assert_int_equal(err_set(NULL, ERR_INVAL, "x"), ERR_INVAL);
	/* An error may be told again with more around it. */
	err_set(&e, ERR_INVAL, "resume: %s", e.message);
	assert_string_equal(e.message, "resume: grant of ann");
}

static void messages_are_printable_text(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} rows[] = {
	    {"a\nb\x1b[2Jc", "a\\nb\\x1b[2Jc"}, {"caf\xc3\xa9", "caf\xc3\xa9"}, {"\xc3", ""}, {"a\xff\xfez", "a??z"},
	    {"c1 \xc2\x9b!", "c1 \\u{9b}!"},    {"\xed\xa0\x80", "???"},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e;
		err_set(&e, ERR_INVAL, "%s", rows[i].in);
		assert_string_equal(e.message, rows[i].out);
	}
}

/* A precision in a format cuts by bytes; the message has whole characters all the same. */
static void a_cut_inside_a_message_leaves_whole_characters(void **state)
{
	(void)state;
	struct err e = {0};
	err_set(&e, ERR_INVAL, "\"%.3s\" is not known", "a\xc3\xa9\xc3\xa9");
	assert_string_equal(e.message, "\"a\xc3\xa9\" is not known");
	err_set(&e, ERR_INVAL, "\"%.4s\" is not known", "a\xc3\xa9\xc3\xa9");
	assert_string_equal(e.message, "\"a\xc3\xa9\" is not known");
	err_sys(&e, EIO, "open %.5s", "\xe2\x82\xac\xe2\x82\xac");
	assert_ptr_equal(strstr(e.message, "open \xe2\x82\xac: "), e.message);
}

static void a_long_message_is_cut_at_a_character(void **state)
{
	(void)state;
	char text[1001];
	for (size_t i = 0; i < 1000; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	text[1000] = '\0';
	struct err e;
	err_set(&e, ERR_INVAL, "%s", text);
	assert_int_equal(strlen(e.message), ERR_MESSAGE_MAX - 2);
	assert_null(strchr(e.message, '?'));
}

static void system_errors_keep_their_meaning(void **state)
{
	(void)state;
	static const struct {
		int errnum, code;
	} rows[] = {
	    {ENOSPC, ERR_DISK_FULL}, {EADDRINUSE, ERR_ADDR_IN_USE}, {EACCES, ERR_PERMISSION}, {EPERM, ERR_PERMISSION},
	    {ENOMEM, ERR_NOMEM},     {ENOENT, ERR_NOT_FOUND},       {EAGAIN, ERR_AGAIN},      {EIO, ERR_SYS},
	    {EPIPE, ERR_EOF},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e = {0};
		assert_int_equal(err_sys(&e, rows[i].errnum, "open %s", "x"), rows[i].code);
		assert_int_equal(e.code, rows[i].code);
		assert_non_null(strstr(e.message, "open x: "));
		assert_non_null(strstr(e.message, strerror(rows[i].errnum)));
	}
}

static void utf8_takes_well_formed_characters_only_and_gives_them_back(void **state)
{
	(void)state;
	static const struct {
		const char *in;
		size_t n, step;
		uint32_t cp;
	} rows[] = {
	    {"a", 1, 1, 'a'},
	    {"\xc3\xa9", 2, 2, 0xe9},
	    {"\xe2\x82\xac", 3, 3, 0x20ac},
	    {"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
	    {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
	    {"\xc3\xa9", 1, 0, 0},         /* cut */
	    {"\xc0\x80", 2, 0, 0},         /* overlong NUL */
	    {"\xe0\x80\xaf", 3, 0, 0},     /* overlong */
	    {"\xf0\x80\x80\x80", 4, 0, 0}, /* overlong */
	    {"\xed\xbf\xbf", 3, 0, 0},     /* surrogate */
	    {"\xf4\x90\x80\x80", 4, 0, 0}, /* past the end */
	    {"\x80", 1, 0, 0},
	    {"\xff", 1, 0, 0},
	    {"", 0, 0, 0},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint32_t cp = 0;
		assert_int_equal(utf8_step((const uint8_t *)rows[i].in, rows[i].n, &cp), rows[i].step);
		assert_int_equal(cp, rows[i].cp);
		if (rows[i].step) {
			char out[4];

			assert_int_equal(utf8_put(cp, out), rows[i].step);
			assert_memory_equal(out, rows[i].in, rows[i].step);
		}
	}
}

static void an_error_again_keeps_what_kubernetes_said(void **state)
{
	struct err why = {0}, e = {0};

	(void)state;
	err_set(&why, ERR_K8S_FORBIDDEN, "post pods: 403 Forbidden: no");
	why.kube = (struct err_kube){.code = 403, .at = 26, .reason = "Forbidden"};
	assert_string_equal(why.message + why.kube.at, "no");
	assert_int_equal(err_again(&e, ERR_SANDBOX_CREATE, &why, NULL), ERR_SANDBOX_CREATE);
	assert_int_equal(e.code, ERR_SANDBOX_CREATE);
	assert_string_equal(e.message + e.kube.at, "no");
	assert_int_equal(err_again(&e, ERR_K8S, &why, "agent \"a\""), ERR_K8S);
	assert_string_equal(e.message, "agent \"a\": post pods: 403 Forbidden: no");
	assert_string_equal(e.message + e.kube.at, "no");
	assert_string_equal(e.kube.reason, "Forbidden");
	err_again(&e, ERR_TIMEOUT, NULL, NULL);
	assert_string_equal(e.message, "timeout");
	assert_int_equal(e.kube.code, 0);
	err_set(&why, ERR_INVAL, "another");
	assert_int_equal(why.kube.code, 0);
	assert_int_equal(err_again(NULL, ERR_INVAL, &why, NULL), ERR_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_code_has_a_name_of_its_own),
	    cmocka_unit_test(numbers_outside_the_table_are_internal),
	    cmocka_unit_test(set_fills_and_returns_the_code),
	    cmocka_unit_test(messages_are_printable_text),
	    cmocka_unit_test(a_cut_inside_a_message_leaves_whole_characters),
	    cmocka_unit_test(a_long_message_is_cut_at_a_character),
	    cmocka_unit_test(system_errors_keep_their_meaning),
	    cmocka_unit_test(an_error_again_keeps_what_kubernetes_said),
	    cmocka_unit_test(utf8_takes_well_formed_characters_only_and_gives_them_back),
	};
	return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
