// tier: check
/* What passes the filter before the terminal emulator, and what does not. */
#include "base/buf.h"
#include "base/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Tokens as people write them: text as it is, <BS>, <ESC 7>, <ESC ( 0>, <CSI ? 25 h>, <TITLE x>. */
struct said {
	struct buf text;
	struct filter filter;
};

static void on_text(void *arg, const uint8_t *p, size_t n)
{
	assert_true(n > 0 && n <= FILTER_TEXT_MAX);
	assert_int_equal(buf_append(arg, p, n), 0);
}

static void on_control(void *arg, uint8_t c)
{
	const char *name = c == 8 ? "BS" : c == 9 ? "HT" : c == 10 ? "LF" : c == 13 ? "CR" : c == 14 ? "SO" : "SI";

	assert_int_equal(buf_printf(arg, "<%s>", name), 0);
}

static void on_escape(void *arg, char intermed, char final)
{
	if (intermed)
		assert_int_equal(buf_printf(arg, "<ESC %c %c>", intermed, final), 0);
	else
		assert_int_equal(buf_printf(arg, "<ESC %c>", final), 0);
}

static void on_csi(void *arg, const struct filter_csi *c)
{
	assert_true(c->n >= 1 && c->n <= FILTER_ARGS_MAX);
	buf_append_str(arg, "<CSI ");
	if (c->leader)
		buf_printf(arg, "%c", c->leader);
	for (unsigned i = 0; i < c->n; i++) {
		if (i)
			buf_append_str(arg, c->joined & 1U << i ? ":" : ";");
		if (c->args[i] >= 0)
			buf_printf(arg, "%d", c->args[i]);
	}
	if (c->intermed)
		buf_printf(arg, "%c", c->intermed);
	buf_printf(arg, "%c>", c->final);
}

static void on_title(void *arg, const char *p, size_t n)
{
	assert_int_equal(buf_printf(arg, "<TITLE %.*s>", (int)n, p), 0);
}

static const struct filter_ops ops = {
    .text = on_text, .control = on_control, .escape = on_escape, .csi = on_csi, .title = on_title};

static void begin(struct said *s)
{
	buf_init(&s->text, 1024 * 1024);
	filter_init(&s->filter, &ops, &s->text);
}

struct row {
	const char *in, *out;
};

static const struct row table[] = {
    {"plain", "plain"},
    {"a\b\t\n\v\f\r\016\017z", "a<BS><HT><LF><LF><LF><CR><SO><SI>z"},
    {"\a\x01\x05\x7f|", "|"},
    {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
    /* broken characters become U+FFFD, once for each part that could not become one; C1 controls go */
    {"\xc3(", "\xef\xbf\xbd("},
    {"\xe2\x82(", "\xef\xbf\xbd("},
    {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xc2\x9b"
     "31m",
     "31m"},
    /* control sequences */
    {"\033[31mred\033[m", "<CSI 31m>red<CSI m>"},
    {"\033[38:2::1:2:3m", "<CSI 38:2::1:2:3m>"},
    {"\033[;5H\033[2;3f", "<CSI ;5H><CSI 2;3f>"},
    {"\033[?1049;25h\033[?7l", "<CSI ?1049;25h><CSI ?7l>"},
    {"\033[4 q\033[!p\033[>4;2m", "<CSI 4 q><CSI !p><CSI >4;2m>"},
    {"\033[99999999999999999999A", "<CSI 9999A>"},
    {"\033[1\n2C", "<LF><CSI 12C>"},
    {"\033[31\033[32m", "<CSI 32m>"},
    {"\033[31\030m", "m"},
    {"\033[31\xc3\xa9", "\xc3\xa9"},
    {"\033[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17H.", "<CSI 1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17H>."},
    {"\033[1;2;3;4;5;6;7;8;9;0;1;2;3;4;5;6;7;8;9;0;1;2;3;4;5;6;7;8;9;0;1;2;3m.", "."},
    /* queries, window operations, protected cells, columns as margins, and what nobody knows */
    {"\033[c\033[>c\033[=c\033[5n\033[6n\033[?6n\033[?1$p\033[14t\033[22;0t\033[1\"q\033[1;2$r.", "."},
    {"\033[1;2'}\033[<1m\033[1?h\033[ !p\033[i\033[5y\033[x.", "."},
    /* escape sequences */
    {"\0337\0338\033=\033>\033D\033E\033H\033M\033c\033#8",
     "<ESC 7><ESC 8><ESC =><ESC >><ESC D><ESC E><ESC H><ESC M><ESC c><ESC # 8>"},
    {"\033(0\033)B\033(A", "<ESC ( 0><ESC ) B><ESC ( A>"},
    {"\033Z\033N\033O\033n\033~\033 G\033%G\033#3\033*0\033((0.", "."},
    /* strings: only the title */
    {"\033]0;shell\a\033]2;vim\033\\", "<TITLE shell><TITLE vim>"},
    {"\033]2;a\033[31mb", "<CSI 31m>b"},
    {"\033]2;a\x01\xc3\xa9\xff\a", "<TITLE a\xc3\xa9>"},
    {"\033]1;icon\a\033]52;c;aGk=\a\033]8;;http://x\033\\link\033]8;;\033\\", "link"},
    {"\033]4;1;?\a\033]10;?\033\\.", "."},
    {"\033P$qm\033\\\033_app\033\\\033^pm\033\\\033Xsos\033\\.", "."},
    {"\033Ptext \a stays a string\033\\.", "."},
    {"\033Pbroken off\030.", "."},
};

static void whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct said s;

		begin(&s);
		filter_feed(&s.filter, (const uint8_t *)table[i].in, strlen(table[i].in));
		assert_string_equal(buf_cstr(&s.text), table[i].out);
		assert_true(filter_between(&s.filter));
		buf_finish(&s.text);
	}
}

static void cut_anywhere_it_says_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t at = 0, n = strlen(table[i].in); at <= n; at++) {
			struct said s;

			begin(&s);
			filter_feed(&s.filter, (const uint8_t *)table[i].in, at);
			filter_feed(&s.filter, (const uint8_t *)table[i].in + at, n - at);
			assert_string_equal(buf_cstr(&s.text), table[i].out);
			buf_finish(&s.text);
		}
}

static void long_text_comes_in_whole_characters(void **state)
{
	struct said s;
	char *in = malloc(30001);

	(void)state;
	for (int i = 0; i < 30000; i += 3)
		memcpy(in + i, "\xe6\xbc\xa2", 3);
	in[30000] = '\0';
	begin(&s);
	filter_feed(&s.filter, (const uint8_t *)in, 30000);
	assert_string_equal(buf_cstr(&s.text), in);
	buf_finish(&s.text);
	free(in);
}

static void a_title_ends_at_its_bound(void **state)
{
	char in[2000] = "\033]2;", *out;
	struct said s;

	(void)state;
	memset(in + 4, 'x', 1500);
	strcat(in, "\a|");
	begin(&s);
	filter_feed(&s.filter, (const uint8_t *)in, strlen(in));
	out = strdup(buf_cstr(&s.text));
	assert_int_equal(strlen(out), strlen("<TITLE >|") + FILTER_TITLE_MAX);
	free(out);
	buf_finish(&s.text);
}

static void what_had_begun_is_forgotten_at_a_cut(void **state)
{
	struct said s;

	(void)state;
	begin(&s);
	filter_feed(&s.filter, (const uint8_t *)"\033[31", 4);
	filter_cut(&s.filter);
	filter_feed(&s.filter, (const uint8_t *)"m\xe6\xbc", 3);
	filter_cut(&s.filter);
	filter_feed(&s.filter, (const uint8_t *)"!", 1);
	assert_string_equal(buf_cstr(&s.text), "m!");
	buf_finish(&s.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whole),
	    cmocka_unit_test(cut_anywhere_it_says_the_same),
	    cmocka_unit_test(long_text_comes_in_whole_characters),
	    cmocka_unit_test(a_title_ends_at_its_bound),
	    cmocka_unit_test(what_had_begun_is_forgotten_at_a_cut),
	};
	return cmocka_run_group_tests_name("screen_filter", tests, NULL, NULL);
}
