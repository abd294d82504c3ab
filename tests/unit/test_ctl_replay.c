// tier: check
#include "muxd/ctl/keys.h"
#include "muxd/ctl/player.h"
#include "muxd/ctl/replay_index.h"
#include "muxd/ctl/replay_view.h"
#include "muxd/ctl/vtscan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEC UINT64_C(1000000000)

static void keys_come_from_terminal_bytes(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		int keys[4];
	} rows[] = {
	    {"q", {KEY_QUIT}},
	    {"\x03", {KEY_QUIT}},
	    {" +-.", {KEY_PAUSE, KEY_FASTER, KEY_SLOWER, KEY_STEP}},
	    {"\x1b[D\x1b[C\x1bOA\x1b[B", {KEY_LEFT, KEY_RIGHT, KEY_UP, KEY_DOWN}},
	    {"gG05", {KEY_START, KEY_END, KEY_PERCENT, KEY_PERCENT + 5}},
	    {"\x1b[H\x1b[F\x1b[1~\x1b[4~", {KEY_START, KEY_END, KEY_START, KEY_END}},
	    {"\x1b[1;5Ci", {KEY_RIGHT, KEY_IDLE}},
	    {"zZ", {KEY_NONE}},
	    /* Answers of the terminal to questions in the recording. */
	    {"\x1b[24;80R\x1b[?1;2cs", {KEY_STATUS}},
	    {"\x1b]11;rgb:1234/g/q\x1b\\s", {KEY_STATUS}},
	    {"\x1b]11;rgb:12q\as", {KEY_STATUS}},
	    {"\x1bP1+r\x1b\\?", {KEY_HELP}},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct keys k = {0};
		int n = 0;
		for (const char *p = rows[i].bytes; *p; p++) {
			int key = keys_feed(&k, (uint8_t)*p);
			if (key == KEY_NONE)
				continue;
			assert_true(n < 4);
			assert_int_equal(key, rows[i].keys[n++]);
		}
		assert_true(n == 4 || rows[i].keys[n] == KEY_NONE);
	}
}

static void a_lone_escape_is_forgotten(void **state)
{
	(void)state;
	struct keys k = {0};
	assert_int_equal(keys_feed(&k, 0x1b), KEY_NONE);
	keys_idle(&k);
	assert_int_equal(keys_feed(&k, 'q'), KEY_QUIT);
}

static struct player playing(double speed, uint64_t idle)
{
	struct player p;
	player_init(&p, 100 * SEC, 200 * SEC, speed, idle, 5 * SEC);
	return p;
}

static void events_are_due_by_speed(void **state)
{
	(void)state;
	struct player p = playing(1, 0);
	assert_int_equal(player_wait(&p, 100 * SEC, 5 * SEC), 0);
	assert_true(player_wait(&p, 103 * SEC, 5 * SEC) >= 3 * SEC);
	assert_true(player_wait(&p, 103 * SEC, 5 * SEC) <= 3 * SEC + 1);
	assert_int_equal(player_wait(&p, 103 * SEC, 8 * SEC), 0);
	p = playing(2, 0);
	assert_true(player_wait(&p, 104 * SEC, 6 * SEC) <= 1 * SEC + 1);
	/* Half of the way at 2x, the rest at 3x. */
	player_key(&p, KEY_FASTER, 6 * SEC);
	assert_true(p.speed == 3);
	assert_true(player_wait(&p, 105 * SEC, 6 * SEC) <= 1 * SEC + 1);
	assert_true(player_wait(&p, 105 * SEC, 6 * SEC) >= 1 * SEC - 1);
}

static void time_does_not_drift(void **state)
{
	(void)state;
	struct player p = playing(1, 0);
	uint64_t now = 5 * SEC;
	/* Each event is shown 10 ms late; after a hundred of them it is still 10 ms. */
	for (uint64_t i = 1; i <= 100; i++) {
		uint64_t event = 100 * SEC + i * SEC / 2;
		now += player_wait(&p, event, now) + SEC / 100;
		player_shown(&p, event, now);
	}
	assert_true(now >= 55 * SEC && now < 55 * SEC + SEC / 50);
}

static void silences_are_cut(void **state)
{
	(void)state;
	struct player p = playing(1, 2 * SEC);
	assert_true(player_wait(&p, 190 * SEC, 5 * SEC) <= 2 * SEC + 1);
	player_key(&p, KEY_IDLE, 5 * SEC);
	assert_true(player_wait(&p, 190 * SEC, 5 * SEC) >= 90 * SEC);
	p = playing(1, 0);
	player_key(&p, KEY_IDLE, 5 * SEC);
	assert_true(player_wait(&p, 190 * SEC, 5 * SEC) <= PLAYER_IDLE_DEFAULT + 1);
}

static void a_pause_takes_no_time(void **state)
{
	(void)state;
	struct player p = playing(1, 0);
	assert_int_equal(player_key(&p, KEY_PAUSE, 6 * SEC), ORDER_REDRAW);
	assert_int_equal(p.state, PLAYER_PAUSED);
	assert_int_equal(player_wait(&p, 103 * SEC, 50 * SEC), UINT64_MAX);
	assert_int_equal(player_position(&p, 150 * SEC, 50 * SEC), 101 * SEC);
	player_key(&p, KEY_PAUSE, 60 * SEC);
	assert_int_equal(p.state, PLAYER_PLAYING);
	assert_true(player_wait(&p, 103 * SEC, 60 * SEC) >= 2 * SEC - 1);
	assert_int_equal(player_position(&p, 150 * SEC, 61 * SEC), 102 * SEC);
	/* A step stops at what it showed. */
	assert_int_equal(player_key(&p, KEY_STEP, 61 * SEC), ORDER_STEP);
	assert_int_equal(p.state, PLAYER_PAUSED);
}

static void seeks_stay_inside(void **state)
{
	(void)state;
	static const struct {
		int key;
		uint64_t from, to;
	} rows[] = {
	    {KEY_RIGHT, 150, 155}, {KEY_LEFT, 150, 145}, {KEY_UP, 130, 190},      {KEY_DOWN, 190, 130},
	    {KEY_RIGHT, 198, 200}, {KEY_LEFT, 102, 100}, {KEY_UP, 150, 200},      {KEY_DOWN, 150, 100},
	    {KEY_START, 150, 100}, {KEY_END, 150, 200},  {KEY_PERCENT, 150, 100}, {KEY_PERCENT + 9, 150, 190},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct player p = playing(1, 0);
		player_sought(&p, rows[i].from * SEC, 7 * SEC);
		assert_int_equal(player_key(&p, rows[i].key, 7 * SEC), ORDER_SEEK);
		assert_int_equal(p.target, rows[i].to * SEC);
		player_sought(&p, p.target, 8 * SEC);
		assert_int_equal(player_position(&p, 0, 8 * SEC), rows[i].to * SEC);
	}
}

static void the_end_can_be_left_again(void **state)
{
	(void)state;
	struct player p = playing(1, 0);
	player_done(&p);
	assert_int_equal(player_position(&p, 0, 9 * SEC), 200 * SEC);
	assert_int_equal(player_key(&p, KEY_PAUSE, 9 * SEC), ORDER_NONE);
	assert_int_equal(player_key(&p, KEY_STEP, 9 * SEC), ORDER_NONE);
	assert_int_equal(player_key(&p, KEY_LEFT, 9 * SEC), ORDER_SEEK);
	assert_int_equal(p.target, 195 * SEC);
	player_sought(&p, p.target, 9 * SEC);
	assert_int_equal(p.state, PLAYER_PLAYING);
	assert_int_equal(player_key(&p, KEY_QUIT, 9 * SEC), ORDER_QUIT);
	player_done(&p);
	assert_int_equal(p.state, PLAYER_QUIT);
}

static void speed_has_ends(void **state)
{
	(void)state;
	struct player p = playing(1000, 0);
	assert_true(p.speed == PLAYER_SPEED_MAX);
	player_key(&p, KEY_FASTER, 5 * SEC);
	assert_true(p.speed == PLAYER_SPEED_MAX);
	for (int i = 0; i < 20; i++)
		player_key(&p, KEY_SLOWER, 5 * SEC);
	assert_true(p.speed == PLAYER_SPEED_MIN);
}

static void add(struct replay_index *x, uint64_t moment, const char *text)
{
	assert_int_equal(replay_index_add(x, moment, (const uint8_t *)text, strlen(text)), 0);
}

static void a_short_recording_is_drawn_from_its_start(void **state)
{
	(void)state;
	struct replay_index x;
	replay_index_init(&x);
	add(&x, 10, "hello");
	add(&x, 20, "\x1b[2J");
	assert_int_equal(replay_index_add(&x, 30, NULL, 0), 0);
	assert_int_equal(x.first, 10);
	assert_int_equal(x.last, 30);
	assert_int_equal(x.events, 3);
	assert_int_equal(x.bytes, 9);
	assert_int_equal(replay_index_from(&x, 25), 10);
	assert_int_equal(replay_index_from(&x, 5), 10);
	replay_index_finish(&x);
}

/* 1 KiB an event; clearings at the given ones. */
static void fill(struct replay_index *x, uint64_t n, uint64_t clear_each)
{
	char text[1025];
	memset(text, 'x', 1024);
	text[1024] = '\0';
	for (uint64_t i = 1; i <= n; i++) {
		memcpy(text, clear_each && i % clear_each == 0 ? "\x1b[2J" : "xxxx", 4);
		add(x, i, text);
	}
}

static void a_long_one_from_the_last_clean_screen(void **state)
{
	(void)state;
	struct replay_index x;
	replay_index_init(&x);
	fill(&x, 20000, 1000);
	assert_int_equal(replay_index_from(&x, 19999), 19000);
	assert_int_equal(replay_index_from(&x, 18999), 18000);
	assert_int_equal(replay_index_from(&x, 3000), 1);
	replay_index_finish(&x);
}

static void or_the_last_few_mebibytes(void **state)
{
	(void)state;
	struct replay_index x;
	replay_index_init(&x);
	fill(&x, 20000, 0);
	uint64_t from = replay_index_from(&x, 20000);
	assert_true(from >= 20000 - REPLAY_PUSH_MAX / 1024 - 64 && from < 20000 - REPLAY_PUSH_MAX / 1024 + 192);
	replay_index_finish(&x);
}

static void clearings_are_found_over_event_ends(void **state)
{
	(void)state;
	for (size_t cut = 1; cut < 8; cut++) {
		static const char seq[] = "\x1b[?1049h";
		struct replay_index x;
		char head[10] = "";
		replay_index_init(&x);
		fill(&x, 10000, 0);
		memcpy(head, seq, cut);
		add(&x, 10001, head);
		add(&x, 10002, seq + cut);
		assert_true(x.entries[x.n - 1].clear);
		assert_int_equal(x.entries[x.n - 1].moment, 10002);
		replay_index_finish(&x);
	}
}

static void the_index_is_bounded(void **state)
{
	(void)state;
	struct replay_index x;
	replay_index_init(&x);
	char *big = malloc(70001);
	memset(big, 'y', 70000);
	memcpy(big, "\x1b[2J", 4);
	big[70000] = '\0';
	for (uint64_t i = 1; i <= 200000; i++)
		assert_int_equal(replay_index_add(&x, i, (const uint8_t *)big, 70000), 0);
	assert_true(x.n <= 65536);
	uint64_t from = replay_index_from(&x, 150000);
	assert_true(from <= 150000 && from > 149900);
	free(big);
	replay_index_finish(&x);
}

static void a_line_fits_between_characters_only(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool between, saved;
	} rows[] = {
	    {"abc", true, false},
	    {"\x1b", false, false},
	    {"\x1b[3", false, false},
	    {"\x1b[31m", true, false},
	    {"\x1b]0;title", false, false},
	    {"\x1b]0;title\a", true, false},
	    {"\x1b]0;title\x1b\\", true, false},
	    {"\x1bPq#0\x1b\\x", true, false},
	    {"\xc3", false, false},
	    {"\xc3\xa9", true, false},
	    {"\xf0\x9f\x98", false, false},
	    {"\x1b(", false, false},
	    {"\x1b(B", true, false},
	    {"\x1b\x37", true, true},
	    {"\x1b\x37x\x1b\x38", true, false},
	    {"\x1b[12\x18", true, false},
	    {"\x1b[s", true, true},
	    {"\x1b[sx\x1b[u", true, false},
	    {"\x1b[s\x1b[!p", true, false},
	    {"\x1b[>1u\x1b[s\x1b[?u\x1b[<u\x1b[=1u", true, true},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vtscan s = {0};
		vtscan_feed(&s, (const uint8_t *)rows[i].text, strlen(rows[i].text));
		assert_int_equal(vtscan_between(&s), rows[i].between);
		assert_int_equal(s.saved, rows[i].saved);
	}
}

static void it_is_known_when_the_last_line_scrolls_again(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		unsigned top; /* 0: it does not */
	} rows[] = {
	    {"\x1b[r", 1},          {"\x1b[!p", 1},         {"\033c", 1},    {"\x1b#8", 1},     {"\x1b[;r", 1},
	    {"\x1b[0;0r", 1},       {"\x1b[4r", 4},         {"\x1b[4;r", 4}, {"\x1b[1;24r", 0}, {"\x1b[?1r", 0},
	    {"\x1b[1p", 0},         {"rc!p#8", 0},          {"\x1b]r\a", 0}, {"\x1b[m!p", 0},   {"\x1b[1;24 r", 0},
	    {"\x1b[r\x1b[2;9r", 0}, {"\x1b[2;9r\x1b[r", 1},
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vtscan s = {0}, t = {0};
		size_t n = strlen(rows[i].text);
		for (size_t k = 0; k < n; k++) /* wherever it is cut */
			assert_int_equal(vtscan_feed(&s, (const uint8_t *)rows[i].text + k, 1), 1);
		for (size_t k = 0; k < n;)
			k += vtscan_feed(&t, (const uint8_t *)rows[i].text + k, n - k);
		assert_int_equal(s.whole, rows[i].top > 0);
		assert_int_equal(t.whole, s.whole);
		if (s.whole)
			assert_int_equal(s.top, rows[i].top);
	}
}

static void and_where_that_begins(void **state)
{
	(void)state;
	static const uint8_t text[] = "ab\x1b[rcd\x1b[!pe";
	struct vtscan s = {0};
	assert_int_equal(vtscan_feed(&s, text, 12), 5); /* right behind it */
	s.whole = false;
	assert_int_equal(vtscan_feed(&s, text + 5, 7), 6);
	assert_true(s.whole);
	assert_int_equal(vtscan_feed(&s, text + 11, 1), 1);

	static const uint8_t saved[] = "\0337\033[r\0338x";
	struct vtscan t = {0};
	assert_int_equal(vtscan_feed(&t, saved, 8), 7); /* not before the place is free again */
	assert_true(t.whole && !t.saved);
}

static void a_region_below_the_picture_is_as_good_as_whole(void **state)
{
	(void)state;
	struct vtscan s = {.rows = 24};
	vtscan_feed(&s, (const uint8_t *)"\x1b[2;24r", 7);
	assert_false(s.whole);
	vtscan_feed(&s, (const uint8_t *)"\x1b[3;999r", 8);
	assert_true(s.whole);
	assert_int_equal(s.top, 3);
}

static void a_moment_has_the_size_of_its_terminal(void **state)
{
	(void)state;
	struct replay_index x;
	unsigned cols = 0, rows = 0;
	replay_index_init(&x);
	replay_index_resize(&x, 80, 24);
	fill(&x, 6000, 0);
	replay_index_resize(&x, 132, 50);
	for (uint64_t i = 6001; i <= 12000; i++)
		add(&x, i, i % 100 ? "x" : "\x1b[2J");
	replay_index_size(&x, replay_index_from(&x, 3000), &cols, &rows);
	assert_int_equal(cols, 80);
	assert_int_equal(rows, 24);
	replay_index_size(&x, replay_index_from(&x, 12000), &cols, &rows);
	assert_int_equal(cols, 132);
	assert_int_equal(rows, 50);
	replay_index_finish(&x);
}

static void the_status_line_fits_the_terminal(void **state)
{
	(void)state;
	struct player p;
	char line[512];
	player_init(&p, 100 * SEC, 3761 * SEC, 2, 2 * SEC, 0);
	struct replay_view v = {.player = &p,
				.position = 1930 * SEC,
				.wall_ns = INT64_C(1795248100) * 1000000000,
				.cols = 120,
				.who = "demo ann bash",
				.notice = ""};
	size_t n = replay_view_line(&v, line, sizeof(line));
	assert_int_equal(n, strlen(line));
	assert_string_equal(line,
			    " PLAY 2x idle<2s 30:30/1:01:01 [===============---------------] 2026-11-21T08:01:40Z  "
			    "demo ann bash");
	for (unsigned cols = 1; cols < 130; cols++) {
		v.cols = cols;
		assert_true(replay_view_line(&v, line, sizeof(line)) < (cols ? cols : 1) + (cols == 0));
	}
	v.cols = 200;
	v.notice = "resized to 80x24";
	p.state = PLAYER_PAUSED;
	replay_view_line(&v, line, sizeof(line));
	assert_non_null(strstr(line, "resized to 80x24"));
	assert_null(strstr(line, "demo"));
	assert_memory_equal(line, " PAUSE", 6);
	replay_view_ascii("a\x1b[2J\xc3\xa9z", line, sizeof(line));
	assert_string_equal(line, "a?[2J?z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_come_from_terminal_bytes),
	    cmocka_unit_test(a_lone_escape_is_forgotten),
	    cmocka_unit_test(events_are_due_by_speed),
	    cmocka_unit_test(time_does_not_drift),
	    cmocka_unit_test(silences_are_cut),
	    cmocka_unit_test(a_pause_takes_no_time),
	    cmocka_unit_test(seeks_stay_inside),
	    cmocka_unit_test(the_end_can_be_left_again),
	    cmocka_unit_test(speed_has_ends),
	    cmocka_unit_test(a_short_recording_is_drawn_from_its_start),
	    cmocka_unit_test(a_long_one_from_the_last_clean_screen),
	    cmocka_unit_test(or_the_last_few_mebibytes),
	    cmocka_unit_test(clearings_are_found_over_event_ends),
	    cmocka_unit_test(the_index_is_bounded),
	    cmocka_unit_test(a_line_fits_between_characters_only),
	    cmocka_unit_test(it_is_known_when_the_last_line_scrolls_again),
	    cmocka_unit_test(and_where_that_begins),
	    cmocka_unit_test(a_region_below_the_picture_is_as_good_as_whole),
	    cmocka_unit_test(a_moment_has_the_size_of_its_terminal),
	    cmocka_unit_test(the_status_line_fits_the_terminal),
	};
	return cmocka_run_group_tests_name("ctl_replay", tests, NULL, NULL);
}
