// tier: check
/* Exports: what each format makes of a session, and what other programs make of the files. */
#include "tests/lib/recordings.h"

#include "base/json.h"
#include "recorder/export/export_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct id session = {{1, 0x9a, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 1}};

/* A list of events as a source. Times: a second apart. */
struct list {
	struct ring_record recs[64];
	size_t n, at;
	uint64_t offset[STREAM_COUNT];
};

static int list_next(void *arg, struct ring_record *out, struct err *e)
{
	struct list *l = arg;

	(void)e;
	if (l->at == l->n)
		return 0;
	*out = l->recs[l->at++];
	return 1;
}

static struct ring_record *add(struct list *l, unsigned type, const void *p, size_t n)
{
	struct ring_record *rec = &l->recs[l->n];

	*rec = (struct ring_record){.seq = l->n + 1,
				    .boot_ns = BOOT + l->n * NS_PER_SEC,
				    .session = session,
				    .type = (uint8_t)type,
				    .payload = p,
				    .len = (uint32_t)n};
	l->n++;
	return rec;
}

static void add_json(struct list *l, unsigned type, const char *s)
{
	add(l, type, s, strlen(s));
}

static void add_data(struct list *l, unsigned stream, const void *p, size_t n)
{
	struct ring_record *rec = add(l, RING_DATA, p, n);

	rec->stream = (uint8_t)stream;
	rec->offset = l->offset[stream];
	l->offset[stream] += n;
}

static void add_text(struct list *l, unsigned stream, const char *s)
{
	add_data(l, stream, s, strlen(s));
}

static void begin(struct list *l)
{
	memset(l, 0, sizeof *l);
	add_json(l, RING_OPEN,
		 "{\"kind\":\"terminal\",\"agent\":\"demo\",\"principal\":\"ann\",\"cols\":100,\"rows\":30,"
		 "\"argv\":[\"/bin/sh\",\"-l\"],\"wall_ns\":1795248000500000000,\"pty\":true}");
}

static int to_buf(void *arg, const void *p, size_t n, struct err *e)
{
	(void)e;
	return buf_append(arg, p, n);
}

static const char *run(struct list *l, enum export_format format, enum export_stream stream, struct buf *out,
		       struct export_result *result)
{
	struct export_source src = {list_next, l};
	struct export_options o = {format, stream};
	struct err e = {0};

	l->at = 0;
	buf_init(out, 1 << 24);
	need(export_run(&src, &o, to_buf, out, result, &e), &e, "export_run");
	assert_int_equal(result->written, buf_len(out));
	return buf_cstr(out);
}

static void text_is(struct list *l, const char *want)
{
	struct export_result result;
	struct buf out;

	assert_string_equal(run(l, EXPORT_TEXT, EXPORT_DEFAULT, &out, &result), want);
	buf_finish(&out);
}

/* A session with everything in it. */
static void full_story(struct list *l)
{
	static uint8_t size[8], gap[EVENT_GAP_SIZE], lost[8], secret[8];
	struct event_gap g = {.bytes = 500, .rule = RULE_TRUNCATED};

	begin(l);
	add_text(l, STREAM_OUTPUT, "$ ");
	add_text(l, STREAM_INPUT, "l\"s\\\r");
	add_text(l, STREAM_OUTPUT, "caf\xc3");
	add_text(l, STREAM_OUTPUT, "\xa9 \xe2\x82");
	add_text(l, STREAM_OUTPUT, "\xac\r\n\033[1m");
	put_u16(size, 120);
	put_u16(size + 2, 40);
	add(l, RING_RESIZE, size, 8);
	add_json(l, RING_EVENT, "{\"event\":\"attach\",\"principal\":\"bob\"}");
	add_json(l, RING_EVENT, "{\"event\":\"pause\"}");
	add_data(l, STREAM_OUTPUT,
		 "a\xff\xfe"
		 "b",
		 4);
	event_gap_encode(&g, gap);
	add(l, EVENT_GAP, gap, sizeof gap)->stream = STREAM_OUTPUT;
	put_u64(lost, 7);
	add(l, EVENT_MISSING, lost, 8)->stream = STREAM_OUTPUT;
	put_u64(secret, 12);
	add(l, RING_SECRET, secret, 8);
	add_text(l, STREAM_STDERR, "oops\n");
	add_data(l, STREAM_OUTPUT, "end\xe2\x82", 5);
	add_json(l, RING_EXIT, "{\"cause\":\"exit\",\"code\":3}");
}

static void v2_tells_the_whole_story(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out;

	(void)state;
	full_story(&l);
	assert_string_equal(
	    run(&l, EXPORT_ASCIICAST_V2, EXPORT_DEFAULT, &out, &result),
	    "{\"version\":2,\"width\":100,\"height\":30,\"timestamp\":1795248000,\"title\":\"terminal of demo by ann\","
	    "\"command\":\"/bin/sh -l\",\"env\":{}}\n"
	    "[1.000000, \"o\", \"$ \"]\n"
	    "[2.000000, \"i\", \"l\\\"s\\\\\\r\"]\n"
	    "[3.000000, \"o\", \"caf\"]\n"
	    "[4.000000, \"o\", \"\xc3\xa9 \"]\n"
	    "[5.000000, \"o\", \"\xe2\x82\xac\\r\\n\\u001b[1m\"]\n"
	    "[6.000000, \"r\", \"120x40\"]\n"
	    "[7.000000, \"m\", \"attach bob\"]\n"
	    "[9.000000, \"o\", \"a\xef\xbf\xbd\xef\xbf\xbd"
	    "b\"]\n"
	    "[10.000000, \"m\", \"500 bytes of output left out (rule truncated)\"]\n"
	    "[11.000000, \"m\", \"7 bytes of output are missing from the journal\"]\n"
	    "[12.000000, \"m\", \"secret input, 12 bytes\"]\n"
	    "[13.000000, \"o\", \"oops\\n\"]\n"
	    "[14.000000, \"o\", \"end\"]\n"
	    "[15.000000, \"o\", \"\xef\xbf\xbd\"]\n"
	    "[15.000000, \"m\", \"4 bytes were not UTF-8 and are shown as U+FFFD\"]\n"
	    "[15.000000, \"m\", \"exit 3 (exit)\"]\n");
	assert_int_equal(result.invalid_bytes, 4);
	assert_int_equal(result.gaps, 1);
	assert_int_equal(result.gap_bytes, 500);
	assert_int_equal(result.missing_bytes, 7);
	assert_true(result.ended);
	buf_finish(&out);
}

static char *run_program(const char *command, int *out_status)
{
	FILE *p = popen(command, "r");
	char *text = calloc(1, 65536);

	if (!p || !text)
		abort();
	if (fread(text, 1, 65535, p) == 65535)
		abort();
	*out_status = pclose(p);
	return text;
}

static char *with_file(const struct buf *b, const char *format, int *out_status)
{
	char path[] = "/tmp/muxd-export-XXXXXX", command[300];
	int fd = mkstemp(path);

	if (fd < 0)
		abort();
	close(fd);
	file_spill(path, buf_ptr(b), buf_len(b));
	snprintf(command, sizeof command, format, path);
	char *text = run_program(command, out_status);
	unlink(path);
	return text;
}

static void v3_passes_a_reader_of_its_specification(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out;
	int status;

	(void)state;
	full_story(&l);
	run(&l, EXPORT_ASCIICAST_V3, EXPORT_DEFAULT, &out, &result);
	char *text = with_file(&out, "python3 tests/lib/asciicast_v3.py %s", &status);
	assert_int_equal(status, 0);
	assert_string_equal(text,
			    "{\"term\": {\"cols\": 100, \"rows\": 30}, "
			    "\"events\": {\"o\": 8, \"i\": 1, \"r\": 1, \"m\": 5, \"x\": 1}, \"seconds\": 15.0}\n");
	free(text);
	text = with_file(&out, "python3 tests/lib/asciicast_v3.py --output %s", &status);
	assert_int_equal(status, 0);
	assert_string_equal(text, "$ caf\xc3\xa9 \xe2\x82\xac\r\n\033[1ma\xef\xbf\xbd\xef\xbf\xbd"
				  "boops\nend\xef\xbf\xbd");
	free(text);
	buf_finish(&out);
}

/* The reader must be able to fail, or the test above says nothing. */
static void the_reader_refuses_what_is_wrong(void **state)
{
	static const char *const wrong[] = {
	    "",
	    "{\"version\":3}\n",
	    "{\"version\":2,\"term\":{\"cols\":80,\"rows\":24}}\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24},\"width\":80}\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[-1, \"o\", \"x\"]\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[1, \"o\"]\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[1, \"r\", \"80\"]\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[1, \"o\", \"\xff\"]\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[1, \"x\", \"0\"]\n[1, \"o\", \"x\"]\n",
	    "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[1, \"o\", \"x\"]",
	};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct buf b;
		int status;

		buf_init(&b, 4096);
		assert_int_equal(buf_append_str(&b, wrong[i]), 0);
		free(with_file(&b, "python3 tests/lib/asciicast_v3.py %s 2>/dev/null", &status));
		assert_int_equal(status, 1 << 8);
		buf_finish(&b);
	}
}

/* It wants a terminal to write to, so it gets one, whose line discipline adds carriage returns. */
static void asciinema_plays_v2(void **state)
{
	static const char want[] = "$ caf\xc3\xa9 \xe2\x82\xac\n\033[1ma\xef\xbf\xbd\xef\xbf\xbd"
				   "boops\nend\xef\xbf\xbd";
	struct export_result result;
	struct list l;
	struct buf out;
	int status;
	size_t n = 0;

	(void)state;
	full_story(&l);
	run(&l, EXPORT_ASCIICAST_V2, EXPORT_DEFAULT, &out, &result);
	char *text = with_file(&out, "LC_ALL=C.UTF-8 script -qec 'asciinema cat %s' /dev/null </dev/null", &status);
	assert_int_equal(status, 0);
	for (const char *p = text; *p; p++)
		if (*p != '\r')
			text[n++] = *p;
	text[n] = '\0';
	assert_string_equal(text, want);
	free(text);
	buf_finish(&out);
}

/* Every way to cut a text into two and three records gives the same characters, and counts the same bytes. */
static void characters_survive_every_cut(void **state)
{
	static const char whole[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xffz\xf0\x9f\x98\xc0\xed\xa0\x80\xf4\x90";
	size_t n = sizeof whole - 1;

	(void)state;
	for (size_t i = 0; i <= n; i++) {
		for (size_t j = i; j <= n; j++) {
			struct export_result result;
			struct list l;
			struct buf out;

			begin(&l);
			add_data(&l, STREAM_OUTPUT, whole, i);
			add_data(&l, STREAM_OUTPUT, whole + i, j - i);
			add_data(&l, STREAM_OUTPUT, whole + j, n - j);
			assert_string_equal(run(&l, EXPORT_TEXT, EXPORT_DEFAULT, &out, &result),
					    "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd"
					    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\n");
			assert_int_equal(result.invalid_bytes, 10);
			buf_finish(&out);
		}
	}
}

static int keep(void *arg, uint32_t cp, const uint8_t *p, size_t n)
{
	(void)cp;
	return buf_append(arg, p, n);
}

/* What the "o" lines of a cast say, one after the other. */
static void said_by(const char *cast, struct buf *out)
{
	for (const char *line = strchr(cast, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
		size_t n = (size_t)(strchr(line, '\n') - line);
		json_t *o = json_loadb(line, n, JSON_ALLOW_NUL, NULL);

		assert_non_null(o);
		if (strcmp(json_string_value(json_array_get(o, 1)), "o") == 0)
			need(buf_append(out, json_string_value(json_array_get(o, 2)),
					json_string_length(json_array_get(o, 2))),
			     NULL, "append");
		json_decref(o);
	}
}

/* 3,000 strings of whatever programs write, cut anywhere: a cast says the same characters as a walk over all of it. */
static void a_cast_says_every_character(void **state)
{
	static const char *const pieces[] = {"plain text, ", "\"\\\r\n",         "\033[1;31m",   "\t\b\a", "\xc3\xa9",
					     "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\x9b",     "\xff",   "\xc3",
					     "\xe2\x82",     "\xf0\x9f",         "\xed\xa0\x80", "\x7f"};
	static char whole[4096];

	(void)state;
	srand(20261123);
	for (int turn = 0; turn < 3000; turn++) {
		struct export_utf8 u = {.n = 0};
		struct export_result result;
		struct list l;
		struct buf out, want, got;
		uint64_t invalid = 0;
		size_t n = 0;

		for (int i = rand() % 40; i >= 0; i--) {
			const char *piece = pieces[(size_t)rand() % (sizeof pieces / sizeof *pieces)];
			memcpy(whole + n, piece, strlen(piece));
			n += strlen(piece);
			if (rand() % 20 == 0)
				whole[n++] = '\0';
		}
		begin(&l);
		for (size_t at = 0, end; at < n; at = end) {
			end = l.n == 60 ? n : at + 1 + (size_t)rand() % (n - at);
			add_data(&l, STREAM_OUTPUT, whole + at, end - at);
		}
		buf_init(&want, 1 << 20);
		buf_init(&got, 1 << 20);
		need(export_utf8_feed(&u, (const uint8_t *)whole, n, true, keep, &want, &invalid), NULL, "feed");
		said_by(run(&l, EXPORT_ASCIICAST_V2, EXPORT_DEFAULT, &out, &result), &got);
		assert_int_equal(buf_len(&got), buf_len(&want));
		if (n)
			assert_memory_equal(buf_ptr(&got), buf_ptr(&want), buf_len(&want));
		assert_int_equal(result.invalid_bytes, invalid);
		buf_finish(&out);
		buf_finish(&want);
		buf_finish(&got);
	}
}

static void times_never_go_back_and_add_up(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out;
	double sum = 0;

	(void)state;
	begin(&l);
	for (int i = 0; i < 20; i++) {
		add_text(&l, STREAM_OUTPUT, "x");
		l.recs[l.n - 1].boot_ns = BOOT + (uint64_t)(i + 1) * 333333333;
	}
	l.recs[10].boot_ns = 0; /* another boot's clock */
	const char *p = run(&l, EXPORT_ASCIICAST_V3, EXPORT_DEFAULT, &out, &result);
	while ((p = strstr(p, "\n["))) {
		double interval = atof(p + 2);
		assert_true(interval >= 0);
		sum += interval;
		p++;
	}
	assert_true(sum > 6.666665 && sum < 6.666667);
	buf_finish(&out);
}

static void text_is_readable(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
	    {"plain\r\nlines\n", "plain\nlines\n"},
	    {"no end", "no end\n"},
	    {"\033[1;31mred\033[0m \033]0;title\007x\033]8;;http://h\033\\y\r\n", "red xy\n"},
	    {"10%\r50%\r100%\r\n", "100%\n"},
	    {"long line\rab\033[K\r\n", "ab\n"},
	    {"abc\b\bX\r\n", "aXc\n"},
	    {"abc\033[2DX\033[CY\r\n", "aXcY\n"},
	    {"ab\033[5Gz\r\n", "ab  z\n"},
	    {"abcdef\r\033[2Pgh\r\n", "ghef\n"},
	    {"ac\033[D\033[@b\r\n", "abc\n"},
	    {"one\033[5;1Htwo\033[2Jthree", "one\ntwo\nthree\n"},
	    {"\033(B\033)0\033=\033>a\033cb", "a\nb\n"},
	    {"\033P1;2q#0;2;sixel\033\\after\n", "after\n"},
	    {"a\tb\x07\x00\n", "a\tb\n"},
	    {"\xc2\x9b"
	     "1mC1\n",
	     "C1\n"},
	    {"\033[12\030x\n", "x\n"},
	    {"\xe4\xbd\xa0\xe5\xa5\xbd\r\xe4\xbd\xa0\n", "\xe4\xbd\xa0\xe5\xa5\xbd\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct list l;
		begin(&l);
		add_text(&l, STREAM_OUTPUT, cases[i].in);
		text_is(&l, cases[i].out);
		/* The same byte by byte, which every state has to bear. */
		begin(&l);
		for (const char *p = cases[i].in; *p; p++)
			add_data(&l, STREAM_OUTPUT, p, 1);
		text_is(&l, cases[i].out);
	}
}

static void an_unfinished_string_does_not_hide_the_rest(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out, in;

	(void)state;
	buf_init(&in, 1 << 20);
	assert_int_equal(buf_append_str(&in, "\033]0;never ends "), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_append_str(&in, "word "), 0);
	assert_int_equal(buf_append_str(&in, "\nlast line\n"), 0);
	begin(&l);
	add_data(&l, STREAM_OUTPUT, buf_ptr(&in), buf_len(&in));
	assert_non_null(strstr(run(&l, EXPORT_TEXT, EXPORT_DEFAULT, &out, &result), "last line\n"));
	buf_finish(&out);
	buf_finish(&in);
}

/* Each Enter ends a line; what else was pressed is there to be seen, and to be told from letters. */
static void what_was_typed_is_readable(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out;

	(void)state;
	begin(&l);
	add_json(&l, RING_EVENT, "{\"event\":\"attach\",\"principal\":\"bob\"}");
	add_json(&l, RING_EVENT, "{\"event\":\"input\",\"principal\":\"ann\"}");
	add_text(&l, STREAM_INPUT, "ls -l\rgit st\x7f\x7f");
	add_text(&l, STREAM_OUTPUT, "not this\r\n");
	add_text(&l, STREAM_INPUT, "status\r\033[A\x03\r\n\ncaf\xc3");
	add_text(&l, STREAM_INPUT, "\xa9\ta \xe2\x80\xae\r");
	add_text(&l, STREAM_INPUT, "exit");
	add_json(&l, RING_EVENT, "{\"event\":\"input\",\"principal\":\"b\\u202eob\"}");
	add_text(&l, STREAM_INPUT, "\r");
	assert_string_equal(run(&l, EXPORT_TEXT, EXPORT_INPUT, &out, &result),
			    "[ann types]\nls -l\ngit st\\x7f\\x7fstatus\n\\x1b[A\\x03\n\ncaf\xc3\xa9\ta "
			    "\\u{202e}\nexit\n[b\\u{202e}ob types]\n\n");
	buf_finish(&out);
}

static void a_line_without_end_is_handed_on_in_pieces(void **state)
{
	struct export_result result;
	static char big[100000];
	struct list l;
	struct buf out;

	(void)state;
	memset(big, 'x', sizeof big);
	begin(&l);
	add_data(&l, STREAM_OUTPUT, big, sizeof big);
	run(&l, EXPORT_TEXT, EXPORT_DEFAULT, &out, &result);
	assert_int_equal(buf_len(&out), sizeof big + 1);
	assert_memory_equal(buf_ptr(&out), big, sizeof big);
	buf_finish(&out);
}

static void raw_is_the_bytes(void **state)
{
	static const struct {
		enum export_stream stream;
		const char *want;
	} cases[] = {
	    {EXPORT_DEFAULT, "one\xff"
			     "err two"},
	    {EXPORT_OUTPUT, "one\xff"
			    "err two"},
	    {EXPORT_STDOUT, "one\xfftwo"},
	    {EXPORT_STDERR, "err "},
	    {EXPORT_INPUT, "typed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct export_result result;
		struct list l;
		struct buf out;

		begin(&l);
		add_text(&l, STREAM_OUTPUT, "one\xff");
		add_text(&l, STREAM_INPUT, "typed");
		add_text(&l, STREAM_STDERR, "err ");
		add_text(&l, STREAM_OUTPUT, "two");
		assert_string_equal(run(&l, EXPORT_RAW, cases[i].stream, &out, &result), cases[i].want);
		buf_finish(&out);
	}
}

static void json_leaves_nothing_out(void **state)
{
	struct export_result result;
	struct list l;
	struct buf out;
	size_t lines = 0;

	(void)state;
	full_story(&l);
	const char *p = run(&l, EXPORT_JSON, EXPORT_DEFAULT, &out, &result);
	assert_non_null(strstr(p, "\"data\":\"Y2Fmww==\",\"encoding\":\"base64\""));
	assert_non_null(strstr(p, "\"body\":{\"event\":\"pause\"}"));
	assert_non_null(strstr(p, "\"time\":\"2026-11-21T08:00:15.500Z\""));
	assert_non_null(strstr(p, "\"cols\":120,\"rows\":40"));
	while (*p) {
		const char *end = strchr(p, '\n');
		json_t *o = NULL;
		assert_non_null(end);
		assert_int_equal(json_parse(p, (size_t)(end - p), 1 << 20, &o, NULL), 0);
		json_decref(o);
		p = end + 1;
		lines++;
	}
	assert_int_equal(lines, l.n);
	buf_finish(&out);
}

static void signals_and_unknown_ends(void **state)
{
	static const struct {
		const char *exit, *want;
	} cases[] = {
	    {"{\"cause\":\"killed\",\"signal\":\"TERM\"}", "\"x\", \"143\""},
	    {"{\"cause\":\"killed\",\"code\":-1,\"signal\":\"SIGKILL\"}", "\"x\", \"137\""},
	    {"{\"cause\":\"killed\",\"signal\":2}", "\"x\", \"130\""},
	    {"{\"cause\":\"lost\",\"code\":-1}", "\"m\", \"end (lost)\""},
	    {"{\"cause\":\"unknown\",\"code\":null,\"signal\":null}", "\"m\", \"end (unknown)\""},
	    {"no json", "\"m\", \"end (unknown)\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct export_result result;
		struct list l;
		struct buf out;

		begin(&l);
		add_json(&l, RING_EXIT, cases[i].exit);
		assert_non_null(strstr(run(&l, EXPORT_ASCIICAST_V3, EXPORT_DEFAULT, &out, &result), cases[i].want));
		buf_finish(&out);
	}
}

static int full_disk(void *arg, const void *p, size_t n, struct err *e)
{
	(void)arg;
	(void)p;
	(void)n;
	return err_set(e, ERR_DISK_FULL, "no space");
}

static void errors_come_through(void **state)
{
	struct export_options o = {EXPORT_RAW, EXPORT_DEFAULT};
	struct export_result result;
	struct list l;
	struct export_source src = {list_next, &l};
	struct err e = {0};

	(void)state;
	begin(&l);
	add_text(&l, STREAM_OUTPUT, "x");
	assert_int_equal(export_run(&src, &o, full_disk, NULL, &result, &e), ERR_DISK_FULL);
	assert_string_equal(e.message, "no space");
	memset(&l, 0, sizeof l);
	assert_int_equal(export_run(&src, &o, full_disk, NULL, &result, &e), ERR_CORRUPT);
	add_text(&l, STREAM_OUTPUT, "x");
	l.at = 0;
	assert_int_equal(export_run(&src, &o, full_disk, NULL, &result, &e), ERR_CORRUPT);
}

/* From a sealed file: the same bytes come out that went in. */
static int next_of_recording(void *arg, struct ring_record *out, struct err *e)
{
	return recording_next(arg, out, e);
}

static void a_recording_on_disk_is_a_source(void **state)
{
	struct record r;
	struct id id = record_id(1);
	struct recording *rd = NULL;
	struct export_source src;
	struct export_options o = {EXPORT_RAW, EXPORT_STDOUT};
	struct export_result result;
	struct chain_seal seal;
	static uint8_t data[300000];
	struct err e = {0};
	char path[256];
	struct buf out;

	(void)state;
	record_begin(&r, 7);
	struct builder *b = record_open(&r, &id, "round", NULL);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t i = 0; i < sizeof data; i += 30000)
		record_data(&r, b, STREAM_OUTPUT, data + i, 30000);
	record_exit(&r, b, 0);
	record_seal(&r, b, NULL, &seal);
	record_path(&r, &seal, path);
	need(recording_open(path, &rd, &e), &e, "open");
	src = (struct export_source){.next = next_of_recording, .arg = rd};
	buf_init(&out, 1 << 20);
	need(export_run(&src, &o, to_buf, &out, &result, &e), &e, "export");
	assert_int_equal(buf_len(&out), sizeof data);
	assert_memory_equal(buf_ptr(&out), data, sizeof data);
	assert_true(result.ended);
	recording_close(rd);
	buf_finish(&out);
	record_end(&r);
}

static void names_of_formats_and_streams(void **state)
{
	enum export_format f;
	enum export_stream s;
	struct err e = {0};

	(void)state;
	assert_int_equal(export_format_parse("asciicast-v3", &f, &e), 0);
	assert_int_equal(f, EXPORT_ASCIICAST_V3);
	assert_int_equal(export_format_parse("gif", &f, &e), ERR_INVAL);
	assert_int_equal(export_stream_parse("stderr", &s, &e), 0);
	assert_int_equal(s, EXPORT_STDERR);
	assert_int_equal(export_stream_parse("", &s, &e), ERR_INVAL);
}

int main(void)
{
#define T(f) cmocka_unit_test(f)
	const struct CMUnitTest tests[] = {
	    T(v2_tells_the_whole_story),
	    T(v3_passes_a_reader_of_its_specification),
	    T(the_reader_refuses_what_is_wrong),
	    T(asciinema_plays_v2),
	    T(characters_survive_every_cut),
	    T(a_cast_says_every_character),
	    T(times_never_go_back_and_add_up),
	    T(text_is_readable),
	    T(what_was_typed_is_readable),
	    T(an_unfinished_string_does_not_hide_the_rest),
	    T(a_line_without_end_is_handed_on_in_pieces),
	    T(raw_is_the_bytes),
	    T(json_leaves_nothing_out),
	    T(signals_and_unknown_ends),
	    T(errors_come_through),
	    T(a_recording_on_disk_is_a_source),
	    T(names_of_formats_and_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
