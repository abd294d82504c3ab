// tier: check
/* The form of frames: every one there and back, and what is refused. */
#include "base/bytes.h"
#include "muxd/link/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static struct frame there_and_back(const struct frame *f, char from, uint8_t *text, size_t cap)
{
	const char *why = "";
	struct frame back;
	size_t n = frame_encode(f, text, cap), size;

	memset(&back, 0, sizeof(back));
	assert_true(n >= FRAME_HEADER);
	assert_int_equal(get_u32(text), n - 4);
	assert_int_equal(text[4], f->type);
	for (size_t part = 0; part < n; part++) {
		assert_int_equal(frame_decode(text, part, from, &back, &size, &why), 0);
		assert_int_equal(size, part < FRAME_HEADER ? 0 : n);
	}
	assert_int_equal(frame_decode(text, n, from, &back, &size, &why), 1);
	assert_int_equal(size, n);
	assert_int_equal(back.type, f->type);
	assert_int_equal(back.channel, f->channel);
	assert_int_equal(back.stream, f->stream);
	assert_int_equal(back.offset, f->offset);
	assert_int_equal(back.n, f->n);
	if (f->n)
		assert_memory_equal(back.p, f->p, f->n);
	return back;
}

static void marks_and_numbers(void **state)
{
	static const struct {
		uint8_t type;
		char from;
	} table[] = {{FRAME_EOF, 'H'}, {FRAME_WINDOW, 'H'}, {FRAME_ACK, 'H'}, {FRAME_CONSUMED, 'M'}};
	uint8_t text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct frame f = {.type = table[i].type, .channel = 0xfffffffe, .stream = 2, .offset = UINT64_MAX - 1};

		there_and_back(&f, table[i].from, text, sizeof(text));
	}
	there_and_back(&(struct frame){.type = FRAME_PING, .offset = 77}, 'H', text, sizeof(text));
	there_and_back(&(struct frame){.type = FRAME_PONG, .offset = 77}, 'M', text, sizeof(text));
	assert_int_equal(there_and_back(&(struct frame){.type = FRAME_LISTED, .offset = 3, .u.listed = {7, 9}}, 'M',
					text, sizeof(text))
			     .u.listed.opens,
			 9);
	there_and_back(&(struct frame){.type = FRAME_FORGET, .channel = 3}, 'H', text, sizeof(text));
	assert_int_equal(
	    there_and_back(&(struct frame){.type = FRAME_SIGNAL, .channel = 1, .u.number = 64}, 'H', text, 64).u.number,
	    64);
	assert_int_equal(
	    there_and_back(&(struct frame){.type = FRAME_KILL, .channel = 1, .u.number = CAUSE_TIMEOUT}, 'H', text, 64)
		.u.number,
	    CAUSE_TIMEOUT);
	assert_int_equal(
	    there_and_back(&(struct frame){.type = FRAME_ECHO, .channel = 1, .u.number = ECHO_CANONICAL}, 'M', text, 64)
		.u.number,
	    ECHO_CANONICAL);
}

/* A muxlet from before lists nothing of its life; half of that is no frame. */
static void listed_of_an_older_muxlet(void **state)
{
	struct frame f = {.type = FRAME_LISTED, .offset = 3, .u.listed = {.life = 7, .opens = 9}}, back;
	const char *why;
	uint8_t text[64];
	size_t size, n = frame_encode(&f, text, sizeof(text));

	(void)state;
	assert_int_equal(n, FRAME_HEADER + 24);
	for (size_t fields = 0; fields <= 24; fields++) {
		put_u32(text, (uint32_t)(fields + FRAME_HEADER - 4));
		assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), fields == 8 || fields == 24 ? 1 : -1);
		if (fields == 8)
			assert_int_equal(back.u.listed.life + back.u.listed.opens, 0);
	}
}

static void data_up_to_its_limit(void **state)
{
	uint8_t *text = malloc(FRAME_MAX), *payload = malloc(FRAME_DATA_MAX + 1), head[FRAME_DATA_HEADER];
	struct frame f = {.type = FRAME_DATA, .channel = 9, .stream = 1, .offset = 1 << 20, .p = payload};

	(void)state;
	assert_non_null(text);
	assert_non_null(payload);
	memset(payload, 'd', FRAME_DATA_MAX + 1);
	f.n = FRAME_DATA_MAX;
	there_and_back(&f, 'M', text, FRAME_MAX);
	f.n = 1;
	there_and_back(&f, 'H', text, FRAME_MAX);
	frame_data_header(head, f.channel, f.stream, f.offset, f.n);
	assert_memory_equal(head, text, sizeof(head));
	f.n = FRAME_DATA_MAX + 1;
	assert_int_equal(frame_encode(&f, text, FRAME_MAX), 0);
	f.n = 0;
	assert_int_equal(frame_encode(&f, text, FRAME_MAX), 0);
	f.n = 100;
	assert_int_equal(frame_encode(&f, text, FRAME_DATA_HEADER + 99), 0);
	free(text);
	free(payload);
}

static void hello_and_proof(void **state)
{
	struct frame f = {
	    .type = FRAME_HELLO,
	    .u.hello = {.major = 1, .minor = 2, .features = 5, .epoch = 1ull << 60, .nonce = {1, 2}, .proof = {3}}};
	struct frame back;
	uint8_t text[128], one[FRAME_TRANSCRIPT], two[FRAME_TRANSCRIPT];

	(void)state;
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_memory_equal(&back.u.hello, &f.u.hello, sizeof(f.u.hello));
	text[FRAME_HEADER] ^= 1;
	{
		const char *why;
		size_t size;

		assert_int_equal(frame_decode(text, sizeof(text), 'M', &back, &size, &why), -1); /* the magic */
	}
	f.u.hello.proof[0] = 9; /* a proof is not part of what is proven */
	frame_transcript("muxd-hub", &back.u.hello, &f.u.hello, one);
	f.u.hello.proof[0] = 8;
	frame_transcript("muxd-hub", &back.u.hello, &f.u.hello, two);
	assert_memory_equal(one, two, sizeof(one));
	f.u.hello.nonce[31] ^= 1;
	frame_transcript("muxd-hub", &back.u.hello, &f.u.hello, two);
	assert_memory_not_equal(one, two, sizeof(one));
	frame_transcript("muxd-let", &back.u.hello, &f.u.hello, one);
	assert_memory_not_equal(one, two, sizeof(one));
}

static void open_carries_its_strings(void **state)
{
	static const char *const argv[] = {"/bin/sh", "", "three words here", NULL}, *const env[] = {"A=b", "C=", NULL};
	struct frame f = {.type = FRAME_OPEN, .channel = 4}, back;
	struct frame_open *o = &f.u.open;
	const char *at;
	uint8_t text[512];

	(void)state;
	*o = (struct frame_open){.session = "0123456789abcde",
				 .flags = OPEN_PTY | OPEN_LOGIN,
				 .cols = 80,
				 .rows = 24,
				 .timeout_ms = 1000,
				 .grace_ms = 20,
				 .window = 1 << 16,
				 .argc = 3,
				 .envc = 2,
				 .cwd = "/tmp",
				 .argv = argv,
				 .env = env};
	back = there_and_back(&f, 'H', text, sizeof(text));
	assert_memory_equal(back.u.open.session, o->session, 16);
	assert_int_equal(back.u.open.flags, o->flags);
	assert_int_equal(back.u.open.cols, 80);
	assert_int_equal(back.u.open.rows, 24);
	assert_int_equal(back.u.open.timeout_ms, 1000);
	assert_int_equal(back.u.open.grace_ms, 20);
	assert_int_equal(back.u.open.window, 1 << 16);
	assert_string_equal(back.u.open.cwd, "/tmp");
	at = back.u.open.strings;
	for (int i = 0; i < 5; i++, at += strlen(at) + 1)
		assert_string_equal(at, i < 3 ? argv[i] : env[i - 3]);
	o->idle_ms = 77; /* not said without its flag, and then nothing moves */
	assert_int_equal(there_and_back(&f, 'H', text, sizeof(text)).u.open.idle_ms, 0);
	o->flags |= OPEN_IDLE;
	back = there_and_back(&f, 'H', text, sizeof(text));
	assert_int_equal(back.u.open.idle_ms, 77);
	assert_string_equal(back.u.open.cwd, "/tmp");
	o->argc = 0;
	assert_int_equal(frame_encode(&f, text, sizeof(text)), 0);
}

static void open_with_other_strings_than_it_says(void **state)
{
	static const char *const argv[] = {"a", "b", NULL};
	struct frame f = {.type = FRAME_OPEN, .channel = 4, .u.open = {.argc = 2, .cwd = "", .argv = argv}}, back;
	const size_t counts = FRAME_HEADER + 4 + 16 + 10 + 24;
	const char *why;
	uint8_t text[256];
	size_t n, size;

	(void)state;
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(n, counts + 8 + 5);
	for (uint32_t argc = 0; argc < 5; argc++) {
		put_u32(text + counts, argc);
		assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), argc == 2 ? 1 : -1);
	}
	put_u32(text + counts, 0xffffffff); /* with envc 3 the sum wraps to 2 in 32 bits */
	put_u32(text + counts + 4, 3);
	assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), -1);
	put_u32(text + counts, 2);
	put_u32(text + counts + 4, 0);
	text[n - 1] = 'x'; /* no NUL at the end */
	assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), -1);
}

static void exit_list_and_resume(void **state)
{
	struct frame_exit x = {.cause = CAUSE_NOT_STARTED, .code = -1, .error = 2, .at = "exec", .total = {1, 2, 3}};
	struct frame f = {.type = FRAME_EXIT, .channel = 1, .u.exit = x}, back;
	const char *why;
	uint8_t text[256];
	size_t size, n;

	(void)state;
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_int_equal(back.u.exit.code, -1);
	assert_string_equal(back.u.exit.at, "exec");
	assert_memory_equal(back.u.exit.total, x.total, sizeof(x.total));
	memset(f.u.exit.at, 'a', FRAME_AT_LEN);
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_int_equal(strlen(back.u.exit.at), FRAME_AT_LEN - 1);
	f.u.exit.cause = CAUSE_IDLE_TIMEOUT + 1;
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), -1);

	f = (struct frame){.type = FRAME_LIST, .channel = 8};
	f.u.list = (struct frame_list){.session = "abc", .flags = LIST_EXITED, .consumed = 4, .exit = x};
	f.u.list.kept_from[1] = 5;
	f.u.list.produced[1] = 5;
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_memory_equal(back.u.list.session, "abc", 4);
	assert_int_equal(back.u.list.produced[1], 5);
	assert_int_equal(back.u.list.exit.error, 2);
	f.u.list.kept_from[1] = 6; /* a spool that begins after its end */
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), -1);

	f = (struct frame){.type = FRAME_RESUME, .channel = 8, .u.resume = {{1, 2, 3}, 4}};
	back = there_and_back(&f, 'H', text, sizeof(text));
	assert_memory_equal(&back.u.resume, &f.u.resume, sizeof(f.u.resume));
}

static void texts_are_cut_and_secrets_are_not(void **state)
{
	static uint8_t big[FRAME_SECRET_MAX + 1], text[FRAME_MAX];
	struct frame f = {.type = FRAME_GOODBYE, .u.opened.code = CODE_STALE, .p = big, .n = 1000}, back;
	const char *why;
	size_t size, n;

	(void)state;
	memset(big, 't', sizeof(big));
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), 1);
	assert_int_equal(back.n, FRAME_TEXT_MAX);
	assert_int_equal(back.u.opened.code, CODE_STALE);
	f = (struct frame){.type = FRAME_OPENED, .channel = 5, .p = big, .n = 3, .u.opened = {CODE_LIMIT, 1234}};
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_int_equal(back.u.opened.pid, 1234);
	f = (struct frame){.type = FRAME_SECRET, .channel = 5, .p = big, .n = FRAME_SECRET_MAX, .u.fd = 9};
	back = there_and_back(&f, 'H', text, sizeof(text));
	assert_int_equal(back.u.fd, 9);
	f.n++;
	assert_int_equal(frame_encode(&f, text, sizeof(text)), 0);
}

static void paths_of_begun(void **state)
{
	static uint8_t text[FRAME_MAX], big[FRAME_BEGUN_MAX + 1];
	static const char paths[] = "/a\xff\0/b";
	struct frame f = {.type = FRAME_BEGUN, .channel = 5, .p = (const uint8_t *)paths, .n = sizeof(paths) - 1}, back;
	const char *why;
	size_t size, n;

	(void)state;
	back = there_and_back(&f, 'M', text, sizeof(text));
	assert_int_equal(back.n, sizeof(paths) - 1);
	assert_memory_equal(back.p, paths, back.n);
	f.n = 3; /* without the NUL between them */
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), -1);
	f.n = 0;
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'M', &back, &size, &why), -1);
	f.p = big; /* nothing but NULs: both are unknown */
	f.n = FRAME_BEGUN_MAX;
	assert_int_equal(there_and_back(&f, 'M', text, sizeof(text)).n, FRAME_BEGUN_MAX);
	f.n++;
	assert_int_equal(frame_encode(&f, text, sizeof(text)), 0);
	f.n = 1;
	n = frame_encode(&f, text, sizeof(text));
	assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), -1); /* muxlet's alone */
}

static void what_breaks_the_form(void **state)
{
	static const struct {
		const char *what;
		uint32_t length;
		uint8_t type, flags;
		char from;
		int rc;
	} table[] = {
	    {"no type", 1, FRAME_PING, 0, 'H', -1},
	    {"empty", 0, FRAME_PING, 0, 'H', -1},
	    {"the largest", FRAME_MAX - 4, FRAME_DATA, 0, 'M', 0},
	    {"too large", FRAME_MAX - 3, FRAME_DATA, 0, 'M', -1},
	    {"4 GiB", 0xffffffff, FRAME_DATA, 0, 'M', -1},
	    {"the largest OPEN", FRAME_OPEN_MAX - 4, FRAME_OPEN, 0, 'H', 0},
	    {"too large an OPEN", FRAME_OPEN_MAX - 3, FRAME_OPEN, 0, 'H', -1},
	    {"muxlet opens", 200, FRAME_OPEN, 0, 'M', -1},
	    {"hub lists", 200, FRAME_LIST, 0, 'H', -1},
	    {"unknown", 5, 200, 0, 'M', 0},
	    {"unknown, critical", 5, 200, FRAME_CRITICAL, 'M', -1},
	    {"type 0", 5, 0, FRAME_CRITICAL, 'M', -1},
	    {"known, critical", 10, FRAME_PING, FRAME_CRITICAL, 'M', 0},
	};
	struct frame f;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		uint8_t head[FRAME_HEADER];
		const char *why = NULL;
		size_t size;
		int rc;

		put_u32(head, table[i].length);
		head[4] = table[i].type;
		head[5] = table[i].flags;
		rc = frame_decode(head, sizeof(head), table[i].from, &f, &size, &why);
		if (rc != table[i].rc || (rc < 0) != (why != NULL))
			fail_msg("%s: %d", table[i].what, rc);
	}
}

static void longer_is_taken_and_shorter_is_not(void **state)
{
	struct frame f = {.type = FRAME_RESIZE, .channel = 2, .u.resize = {1, 2, 3, 4}}, back;
	const char *why;
	uint8_t text[64] = {0};
	size_t n = frame_encode(&f, text, sizeof(text)), size;

	(void)state;
	put_u32(text, (uint32_t)(n - 4 + 7)); /* fields that a later version appended */
	assert_int_equal(frame_decode(text, n + 7, 'H', &back, &size, &why), 1);
	assert_int_equal(size, n + 7);
	assert_int_equal(back.u.resize.ypixel, 4);
	put_u32(text, (uint32_t)(n - 5));
	assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), -1);
}

static void bounds_of_fields(void **state)
{
	struct frame back;
	const char *why;
	uint8_t text[64];
	size_t size, n;
	static const struct frame bad[] = {
	    {.type = FRAME_FORGET, .channel = 0},
	    {.type = FRAME_SIGNAL, .channel = 1, .u.number = 0},
	    {.type = FRAME_SIGNAL, .channel = 1, .u.number = 65},
	    {.type = FRAME_KILL, .channel = 1, .u.number = 8},
	    {.type = FRAME_ACK, .channel = 1, .stream = 3},
	    {.type = FRAME_DATA, .channel = 1, .stream = 3, .p = (const uint8_t *)"x", .n = 1},
	    {.type = FRAME_DATA, .channel = 1, .offset = UINT64_MAX, .p = (const uint8_t *)"x", .n = 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		n = frame_encode(&bad[i], text, sizeof(text));
		assert_true(n > 0);
		assert_int_equal(frame_decode(text, n, 'H', &back, &size, &why), -1);
	}
}

static void types_have_names(void **state)
{
	(void)state;
	assert_string_equal(frame_type_name(FRAME_DATA), "DATA");
	assert_string_equal(frame_type_name(FRAME_GOODBYE), "GOODBYE");
	assert_string_equal(frame_type_name(0), "?");
	assert_string_equal(frame_type_name(255), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(marks_and_numbers),
	    cmocka_unit_test(listed_of_an_older_muxlet),
	    cmocka_unit_test(data_up_to_its_limit),
	    cmocka_unit_test(hello_and_proof),
	    cmocka_unit_test(open_carries_its_strings),
	    cmocka_unit_test(open_with_other_strings_than_it_says),
	    cmocka_unit_test(exit_list_and_resume),
	    cmocka_unit_test(texts_are_cut_and_secrets_are_not),
	    cmocka_unit_test(paths_of_begun),
	    cmocka_unit_test(what_breaks_the_form),
	    cmocka_unit_test(longer_is_taken_and_shorter_is_not),
	    cmocka_unit_test(bounds_of_fields),
	    cmocka_unit_test(types_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
