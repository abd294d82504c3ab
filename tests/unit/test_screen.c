// tier: check
/* The terminal without a screen: what it shows, what is drawn of it, other sizes, and its process. */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/sock.h"
#include "muxd/screen/draw.h"
#include "muxd/screen/frame.h"
#include "muxd/screen/term.h"
#include "muxd/screen/version.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct term *make(int cols, int rows, const char *in)
{
	struct term *t;

	assert_int_equal(term_create(cols, rows, &t), 0);
	term_feed(t, (const uint8_t *)in, strlen(in));
	return t;
}

static void shows(const struct term *t, int row, const char *want)
{
	char text[8192];

	term_row_text(t, row, text, sizeof(text));
	assert_string_equal(text, want);
}

static void cursor_at(const struct term *t, int row, int col)
{
	struct term_view v;

	term_view(t, &v);
	assert_int_equal(v.cursor.row, row);
	assert_int_equal(v.cursor.col, col);
}

static void same_cells(const struct grid *a, const struct grid *b)
{
	assert_int_equal(a->rows, b->rows);
	assert_int_equal(a->cols, b->cols);
	for (int row = 0; row < a->rows; row++)
		for (int col = 0; col < a->cols; col++)
			if (!cell_equal(grid_cell(a, row, col), grid_cell(b, row, col)))
				fail_msg("cell %d,%d differs: U+%04X and U+%04X", row, col,
					 grid_cell(a, row, col)->chars[0], grid_cell(b, row, col)->chars[0]);
}

static void same(const struct term *t, const struct term *u)
{
	struct term_view a, b;

	term_view(t, &a);
	term_view(u, &b);
	assert_int_equal(a.on_alt, b.on_alt);
	same_cells(a.main, b.main);
	if (a.on_alt)
		same_cells(a.alt, b.alt);
	assert_int_equal(a.cursor.row, b.cursor.row);
	assert_int_equal(a.cursor.col, b.cursor.col);
	assert_int_equal(a.modes, b.modes);
	assert_int_equal(a.wrapped, b.wrapped);
	assert_int_equal(a.top, b.top);
	assert_int_equal(a.bottom, b.bottom);
	assert_int_equal(a.cursor_shape, b.cursor_shape);
	assert_int_equal(a.other_keys, b.other_keys);
	assert_true(pen_equal(&a.cursor.pen, &b.cursor.pen));
	assert_string_equal(a.title, b.title);
	for (int i = 0; i <= a.on_alt; i++) {
		assert_int_equal(a.saved[i].set, b.saved[i].set);
		assert_int_equal(a.saved[i].row, b.saved[i].row);
		assert_int_equal(a.saved[i].col, b.saved[i].col);
		assert_true(pen_equal(&a.saved[i].pen, &b.saved[i].pen));
	}
}

static struct term *drawn_again(const struct term *t)
{
	struct term_view v;
	struct term *u;
	struct buf b;

	term_view(t, &v);
	buf_init(&b, 1024 * 1024);
	assert_int_equal(draw_term(t, &b), 0);
	u = make(v.cols, v.rows, "what was here \033[31;44mbefore\033[?1049h\033[2;3r\033(0\033[?6h\033[4h");
	term_feed(u, buf_ptr(&b), buf_len(&b));
	buf_finish(&b);
	return u;
}

static void text_is_where_a_terminal_has_it(void **state)
{
	struct term *t = make(10, 4, "one\r\n\ttab\r\n\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81\x1b[4;8Hxyz");

	(void)state;
	shows(t, 0, "one");
	shows(t, 1, "        ta");
	shows(t, 2, "b");
	shows(t, 3, "\xe6\xbc\xa2\xe5\xad\x97 e\xcc\x81 xyz");
	cursor_at(t, 3, 9);
	term_destroy(t);
}

static void the_alternate_screen_leaves_the_main_one_as_it_was(void **state)
{
	struct term *t = make(10, 3, "main\033[31m\033[?1049h\033[2J\033[3;3Halt");

	(void)state;
	shows(t, 2, "  alt");
	term_feed(t, (const uint8_t *)"\033[?1049l!", 9);
	shows(t, 0, "main!");
	shows(t, 2, "");
	cursor_at(t, 0, 5);
	term_destroy(t);
}

static void what_libvterm_would_answer_or_break_on_is_not_there(void **state)
{
	struct term *t = make(10, 3, "\033[c\033[6n\033P$qm\033\\\033[b\033[99b\033[?1$pok");

	(void)state;
	shows(t, 0, "ok");
	term_feed(t, (const uint8_t *)"\033[3b", 4);
	shows(t, 0, "okkkk");
	term_destroy(t);
}

static const char *const screens[] = {
    "",
    "hello\r\nworld",
    "\033[1;31;48;5;200mx\033[38;2;1;2;3;4:3;58:2::9:8:7my\033[0;7;9;53;21mz\033[22;27;5;8;3;2m!\033[90;107m?",
    "\033[44m\033[2J\033[3;5Hblue\033[0K\033[41m\033[1;1H\033[5X",
    "full line to the edge....\033[31m", /* 25 columns: waits to wrap */
    "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5"
    "\xad\x97"
    "\xe6\xbc\xa2\xe5\xad\x97.\xe6\xbc\xa2",
    "e\xcc\x81o\xcc\x88\xcc\xa7 \xf0\x9f\x98\x80\xef\xb8\x8f",
    "main \033[32m\0337\033[?1049h\033[33malt\033[?25l\033[6 q\033[2;4r\033[?6h\033[?1h\033=\033[?1002;1006;2004;1004h",
    "entered\033[?47hby 47",
    "\033[3g\033[4G\033H\033[12G\033H\r\033[4h\033[20h\033[?5h\033[?7l\033[>4;2m",
    "\033(0lqqk\033)0\016x\017\033[2;2H\0337\033(B",
    "\033]2;title \xc3\xa9\a\033#8\033[2;2H\033[1J",
    "\033[2;4r\033[2;24H\xe5\xad\x97\033#8",                     /* a wide one that waits to wrap, and is overwritten */
    "\033[2;24H\xe5\xad\x97\033[S\033[3;24H\xe5\xad\x97\033[1L", /* ... or scrolled away */
    "\033[3;24H\xe5\xad\x97\033[2;25Hx\033[S",                   /* and one that comes under a cursor that waits */
};

static void drawn_into_another_terminal_it_is_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++) {
		struct term *t = make(25, 6, screens[i]), *u = drawn_again(t);

		same(t, u);
		/* ... and goes on the same */
		term_feed(t, (const uint8_t *)"more\t\r\n\0338x\033[?1049lback", 23);
		term_feed(u, (const uint8_t *)"more\t\r\n\0338x\033[?1049lback", 23);
		same(t, u);
		term_destroy(t);
		term_destroy(u);
	}
}

static void another_size_keeps_what_fits_and_the_cursor(void **state)
{
	struct term *t = make(20, 5, "1\r\n2\r\n3\r\n4\r\n5 and some more\033[2;4r\033[5;18H");

	(void)state;
	assert_int_equal(term_resize(t, 10, 3), 0);
	shows(t, 0, "3");
	shows(t, 2, "5 and some");
	cursor_at(t, 2, 9);
	term_feed(t, (const uint8_t *)"\r\nnew", 5); /* the region is the screen again */
	shows(t, 0, "4");
	shows(t, 2, "new");
	assert_int_equal(term_resize(t, 30, 8), 0);
	shows(t, 0, "4");
	cursor_at(t, 2, 3);
	term_destroy(t);
}

static void sizes_are_kept_within_bounds(void **state)
{
	static const int sizes[][2] = {{0, 0}, {1, 1}, {2, 2}, {65535, 65535}, {-1, 500}, {1000, 2}, {2, 500}};
	struct term *t = make(80, 24, "\xe6\xbc\xa2 text\0337\033[24;80H\033[10;24r");
	struct term_view v;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(term_resize(t, sizes[i][0], sizes[i][1]), 0);
		term_feed(t, (const uint8_t *)"\0338\xe6\xbc\xa2\033[999;999Hx\n\033M\t", 19);
		term_view(t, &v);
		assert_in_range(v.cols, TERM_SIZE_MIN, TERM_COLS_MAX);
		assert_in_range(v.rows, TERM_SIZE_MIN, TERM_ROWS_MAX);
	}
	term_destroy(t);
}

/* 4,000 lines in colours, in one block and byte by byte: only the second draws them all. */
static void long_plain_output_may_be_shortened_and_looks_the_same(void **state)
{
	struct term *t = make(40, 10, "\033[35mbefore"), *u = make(40, 10, "\033[35mbefore");
	struct buf b;

	(void)state;
	buf_init(&b, 1024 * 1024);
	for (int i = 0; i < 4000; i++)
		buf_printf(
		    &b, "%s\033[3%dm%d\033[K %.*s\r\n", i % 7 ? "" : "\033[1;44m", i % 8, i, i % 90,
		    "a line of a flood that is sometimes longer than the screen is wide, \xe6\xbc\xa2\xe5\xad\x97");
	term_feed(t, buf_ptr(&b), buf_len(&b));
	for (size_t i = 0; i < buf_len(&b); i++)
		term_feed(u, buf_ptr(&b) + i, 1);
	same(t, u);
	term_destroy(t);
	term_destroy(u);
	buf_finish(&b);
}

/* ---- the process */

struct process {
	pid_t pid;
	int fd;
	struct buf out, in;
};

static void process_start(struct process *p)
{
	int fds[2];

	assert_int_equal(sock_pair(SOCK_STREAM, fds), 0);
	p->pid = fork();
	assert_true(p->pid >= 0);
	if (p->pid == 0) {
		dup2(fds[1], 3);
		execl(BUILD_DIR "/muxd-screen", "muxd-screen", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	p->fd = fds[0];
	buf_init(&p->out, 4 * 1024 * 1024);
	buf_init(&p->in, 4 * 1024 * 1024);
}

static void process_say(struct process *p)
{
	while (buf_len(&p->out)) {
		ssize_t n = send(p->fd, buf_ptr(&p->out), buf_len(&p->out), MSG_NOSIGNAL);

		assert_true(n > 0);
		buf_consume(&p->out, (size_t)n);
	}
}

static void say_open(struct process *p, uint64_t offset, int cols, int rows)
{
	uint8_t head[12];

	put_u64(head, offset);
	put_u16(head + 8, (uint16_t)cols);
	put_u16(head + 10, (uint16_t)rows);
	assert_int_equal(screen_frame_put(&p->out, SCREEN_OPEN, head, sizeof(head), NULL, 0), 0);
}

static void say_feed(struct process *p, uint64_t offset, const char *text)
{
	uint8_t head[8];

	put_u64(head, offset);
	assert_int_equal(screen_frame_put(&p->out, SCREEN_FEED, head, sizeof(head), text, strlen(text)), 0);
}

static void say_shoot(struct process *p, uint32_t tag)
{
	uint8_t head[4];

	put_u32(head, tag);
	assert_int_equal(screen_frame_put(&p->out, SCREEN_SHOOT, head, sizeof(head), NULL, 0), 0);
}

static struct screen_frame hear(struct process *p)
{
	struct screen_frame f;
	size_t size;

	while (screen_frame_next(&p->in, &f, &size) == 0) {
		uint8_t some[65536];
		ssize_t n = read(p->fd, some, sizeof(some));

		assert_true(n > 0);
		assert_int_equal(buf_append(&p->in, some, (size_t)n), 0);
	}
	return f;
}

static int process_end(struct process *p)
{
	int status = 0;

	close(p->fd);
	assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
	buf_finish(&p->out);
	buf_finish(&p->in);
	return status;
}

static void a_worker_draws_what_it_was_fed(void **state)
{
	struct process p;
	struct screen_frame f;
	struct term *t;

	(void)state;
	process_start(&p);
	say_open(&p, 1000, 20, 4);
	say_feed(&p, 1000, "hello \033[31mwor");
	say_feed(&p, 1014, "ld");
	say_shoot(&p, 7);
	process_say(&p);
	f = hear(&p);
	assert_int_equal(f.type, SCREEN_SHOT);
	assert_int_equal(get_u32(f.payload), 7);
	assert_int_equal(get_u64(f.payload + 4), 1016);
	assert_int_equal(get_u16(f.payload + 12), 20);
	assert_int_equal(get_u16(f.payload + 14), 4);
	assert_int_equal(term_create(20, 4, &t), 0);
	term_feed(t, f.payload + SCREEN_SHOT_HEAD, f.len - SCREEN_SHOT_HEAD);
	shows(t, 0, "hello world");
	cursor_at(t, 0, 11);
	term_destroy(t);
	assert_int_equal(process_end(&p), 0);
}

/*
 * What is drawn changed, or libvterm did: keyframes drawn before cannot be compared with what is drawn now. If that is
 * meant: raise SCREEN_DRAWING for a change of muxd's, and put the new version here.
 */
static void the_drawing_is_of_this_version(void **state)
{
	char version[VERSION_MAX], again[VERSION_MAX];

	(void)state;
	assert_int_equal(version_of_drawing(version), 0);
	assert_int_equal(version_of_drawing(again), 0);
	assert_string_equal(version, again);
	assert_string_equal(version, "1-dcf85cfc");
}

static void a_worker_says_by_which_drawing(void **state)
{
	char version[VERSION_MAX];
	struct process p;
	struct screen_frame f;

	(void)state;
	assert_int_equal(version_of_drawing(version), 0);
	process_start(&p);
	say_open(&p, 0, 20, 4);
	assert_int_equal(screen_frame_put(&p.out, SCREEN_WHICH, NULL, 0, NULL, 0), 0);
	process_say(&p);
	f = hear(&p);
	assert_int_equal(f.type, SCREEN_DRAWS);
	assert_int_equal(f.len, strlen(version));
	assert_memory_equal(f.payload, version, f.len);
	assert_int_equal(process_end(&p), 0);
}

static void a_worker_takes_no_nonsense(void **state)
{
	static const struct {
		const char *what;
		uint8_t bytes[24];
		size_t n;
	} table[] = {
	    {"a shot of nothing", {5, 0, 0, 0, 'S', 1, 0, 0, 0}, 9},
	    {"no type", {0, 0, 0, 0}, 4},
	    {"too long", {0xff, 0xff, 0xff, 0xff, 'F'}, 5},
	    {"unknown", {13, 0, 0, 0, 'O', 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 24, 0, 1, 0, 0, 0, '?'}, 22},
	    {"a version of something",
	     {13, 0, 0, 0, 'O', 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 24, 0, 2, 0, 0, 0, 'V', 1},
	     23},
	    {"a hole", {13, 0, 0, 0, 'O', 0, 0, 0, 0, 0, 0, 0, 0, 80, 0, 24, 0, 1, 0, 0, 0, 'F'}, 22},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct process p;
		uint8_t byte;
		int status;

		process_start(&p);
		assert_int_equal(send(p.fd, table[i].bytes, table[i].n, MSG_NOSIGNAL), table[i].n);
		assert_int_equal(read(p.fd, &byte, 1), 0);
		status = process_end(&p);
		assert_true(WIFEXITED(status));
		assert_int_not_equal(WEXITSTATUS(status), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_is_where_a_terminal_has_it),
	    cmocka_unit_test(the_alternate_screen_leaves_the_main_one_as_it_was),
	    cmocka_unit_test(what_libvterm_would_answer_or_break_on_is_not_there),
	    cmocka_unit_test(drawn_into_another_terminal_it_is_the_same),
	    cmocka_unit_test(another_size_keeps_what_fits_and_the_cursor),
	    cmocka_unit_test(sizes_are_kept_within_bounds),
	    cmocka_unit_test(long_plain_output_may_be_shortened_and_looks_the_same),
	    cmocka_unit_test(a_worker_draws_what_it_was_fed),
	    cmocka_unit_test(the_drawing_is_of_this_version),
	    cmocka_unit_test(a_worker_says_by_which_drawing),
	    cmocka_unit_test(a_worker_takes_no_nonsense),
	};
	return cmocka_run_group_tests_name("screen", tests, NULL, NULL);
}
