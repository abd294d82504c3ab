// tier: check
/* Keys by name: the bytes that xterm sends, in both ways of its cursor keys, and what is no key. */
#include "base/buf.h"
#include "base/err.h"
#include "muxd/doors/https/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int say(const char *key, bool application, char out[64])
{
	struct err e = {0};
	struct buf b;
	int rc;

	buf_init(&b, 63);
	rc = key_put(key, strlen(key), application, &b, &e);
	memcpy(out, buf_len(&b) ? (const char *)buf_ptr(&b) : "", buf_len(&b));
	out[buf_len(&b)] = '\0';
	buf_finish(&b);
	return rc;
}

static void keys_are_what_xterm_sends(void **state)
{
	static const struct {
		const char *key, *usual, *application;
	} rows[] = {
	    {"Enter", "\r", "\r"},
	    {"enter", "\r", "\r"},
	    {"Escape", "\033", "\033"},
	    {"Tab", "\t", "\t"},
	    {"S-Tab", "\033[Z", "\033[Z"},
	    {"BTab", "\033[Z", "\033[Z"},
	    {"BSpace", "\177", "\177"},
	    {"Space", " ", " "},
	    {"Up", "\033[A", "\033OA"},
	    {"Left", "\033[D", "\033OD"},
	    {"Home", "\033[H", "\033OH"},
	    {"End", "\033[F", "\033OF"},
	    {"C-Up", "\033[1;5A", "\033[1;5A"},
	    {"Shift-Right", "\033[1;2C", "\033[1;2C"},
	    {"Ctrl-Alt-Left", "\033[1;7D", "\033[1;7D"},
	    {"PageUp", "\033[5~", "\033[5~"},
	    {"PPage", "\033[5~", "\033[5~"},
	    {"NPage", "\033[6~", "\033[6~"},
	    {"C-PgDn", "\033[6;5~", "\033[6;5~"},
	    {"DC", "\033[3~", "\033[3~"},
	    {"Insert", "\033[2~", "\033[2~"},
	    {"F1", "\033OP", "\033OP"},
	    {"S-F1", "\033[1;2P", "\033[1;2P"},
	    {"F5", "\033[15~", "\033[15~"},
	    {"F12", "\033[24~", "\033[24~"},
	    {"C-c", "\003", "\003"},
	    {"Ctrl-C", "\003", "\003"},
	    {"^c", "\003", "\003"},
	    {"Ctrl+C", "\003", "\003"},
	    {"C-[", "\033", "\033"},
	    {"C-\\", "\034", "\034"},
	    {"C-?", "\177", "\177"},
	    {"M-x", "\033x", "\033x"},
	    {"Alt-Enter", "\033\r", "\033\r"},
	    {"C-M-c", "\033\003", "\033\003"},
	    {"a", "a", "a"},
	    {"^", "^", "^"},
	    {"-", "-", "-"},
	    {"\xc3\xa9", "\xc3\xa9", "\xc3\xa9"},
	    {"M-\xc3\xa9", "\033\xc3\xa9", "\033\xc3\xa9"},
	    {"text:ls -l", "ls -l", "ls -l"},
	    {"text:Enter", "Enter", "Enter"},
	    {"text:", "", ""},
	    {"text:text:", "text:", "text:"},
	};
	char got[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(say(rows[i].key, false, got), 0);
		assert_string_equal(got, rows[i].usual);
		assert_int_equal(say(rows[i].key, true, got), 0);
		assert_string_equal(got, rows[i].application);
	}
}

/* Ctrl-Space and Ctrl-@ send a NUL. */
static void a_key_may_be_a_nul(void **state)
{
	static const char *const keys[] = {"C-Space", "C-@", "C-2"};

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct err e = {0};
		struct buf b;

		buf_init(&b, 16);
		assert_int_equal(key_put(keys[i], strlen(keys[i]), false, &b, &e), 0);
		assert_int_equal(buf_len(&b), 1);
		assert_int_equal(buf_ptr(&b)[0], 0);
		buf_finish(&b);
	}
}

static void what_is_no_key_sends_nothing(void **state)
{
	static const char *const keys[] = {
	    "",     "Entre", "ab", "C-",       "C-ab",   "C-\xc3\xa9",       "F0",      "F13", "C-Enter", "Shift-a",
	    "\033", "\n",    "M-", "C-M-nope", "Text:a", "\xc3\xa9\xc3\xa9", "C-Escape"};
	char got[64];

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		assert_int_equal(say(keys[i], false, got), ERR_INVAL);
		if (strncmp(keys[i], "M-", 2) != 0 && strncmp(keys[i], "C-M-", 4) != 0)
			assert_string_equal(got, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_are_what_xterm_sends),
	    cmocka_unit_test(a_key_may_be_a_nul),
	    cmocka_unit_test(what_is_no_key_sends_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
