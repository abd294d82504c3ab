// tier: check
/* A file on its way, as the hub keeps it: bounds, the line ahead of a get, the trailer of a put. */
#include "base/err.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct transfer *make(enum file_op op, uint64_t size)
{
	struct file_spec spec = {.op = op, .path = "a/b", .mode = 0640, .size = size, .parents = true};
	struct transfer *t = NULL;

	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), 0);
	return t;
}

static void what_is_refused_at_once(void **state)
{
	static char longest[4097];
	struct file_spec spec = {.op = FILE_PUT, .path = "", .mode = -1, .size = UINT64_MAX};
	struct transfer *t = NULL;

	(void)state;
	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), ERR_INVAL);
	memset(longest, 'a', 4096);
	spec.path = longest;
	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), ERR_INVAL);
	longest[4095] = '\0';
	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), 0);
	transfer_destroy(t);
	spec.mode = 010000;
	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), ERR_INVAL);
}

static void free_list(char **v)
{
	for (char **p = v; *p; p++)
		free(*p);
	free(v);
}

static void what_muxlet_is_asked(void **state)
{
	static const char *const put[] = {"muxlet", "--put", "a/b", "--mode", "640", "--size", "7", "--parents", NULL};
	struct transfer *t = make(FILE_PUT, 7);
	char **v = transfer_argv(t);

	(void)state;
	for (size_t i = 0; put[i] || v[i]; i++)
		assert_string_equal(v[i], put[i]);
	free_list(v);
	transfer_destroy(t);
	t = make(FILE_GET, 0);
	v = transfer_argv(t);
	assert_string_equal(v[1], "--get");
	assert_null(v[3]);
	free_list(v);
	transfer_destroy(t);
}

static int head_of(const char *text, struct transfer **out)
{
	size_t content;

	*out = make(FILE_GET, 0);
	return transfer_output(*out, (const uint8_t *)text, strlen(text), &content);
}

static void the_line_ahead_of_a_get(void **state)
{
	static const char *const bad[] = {
	    "muxlet-file 1 5 644\nhello",
	    "muxlet-file 2 5 644 0\nhello",
	    "muxlet-file 1 -5 644 0\n",
	    "muxlet-file 1 5 8 0\nhello",
	    "muxlet-file 1 5 17777 0\n",
	    "muxlet-file 1 5 644 0 x\n",
	    "muxlet-file 1 9999999999999999999 644 0\n",
	    "\n",
	    "muxlet-file 1 5 644 \t0\n",
	    "muxlet-file 1 5 644 0\nhello!",
	    "hello"
	    "hellohellohellohellohellohellohellohellohellohellohellohello"
	    "hellohellohellohellohellohellohellohellohellohellohellohello",
	};
	static const char good[] = "muxlet-file 1 5 644 1700000000\nhello";
	struct transfer *t;
	size_t content, all = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (head_of(bad[i], &t) != ERR_PROTOCOL)
			fail_msg("taken: %s", bad[i]);
		transfer_destroy(t);
	}
	for (size_t piece = 1; piece <= strlen(good); piece++) {
		t = make(FILE_GET, 0);
		all = 0;
		for (size_t at = 0; at < strlen(good); at += piece) {
			size_t n = strlen(good) - at < piece ? strlen(good) - at : piece;

			assert_int_equal(transfer_output(t, (const uint8_t *)good + at, n, &content), 0);
			all += content;
		}
		assert_int_equal(all, 5);
		assert_int_equal(t->size, 5);
		assert_int_equal(t->mode, 0644);
		transfer_destroy(t);
	}
}

static void a_put_is_what_was_announced(void **state)
{
	struct transfer *t = make(FILE_PUT, 5);

	(void)state;
	assert_int_equal(transfer_input(t, (const uint8_t *)"hel", 3), 0);
	assert_int_equal(transfer_input(t, (const uint8_t *)"lo!", 3), ERR_TOO_LARGE);
	assert_int_equal(transfer_input(t, (const uint8_t *)"lo", 2), 0);
	assert_int_equal(transfer_complete(t), 0);
	assert_true(t->trailer_due);
	assert_memory_equal(t->trailer, "\x05\0\0\0\0\0\0\0\x2c\xf2\x4d\xba", 12); /* SHA-256 of hello */
	transfer_destroy(t);
	t = make(FILE_PUT, 5);
	assert_int_equal(transfer_input(t, (const uint8_t *)"hell", 4), 0);
	assert_int_equal(transfer_complete(t), ERR_EOF);
	assert_false(t->trailer_due);
	transfer_destroy(t);
}

/* ---- operations */

static struct transfer *operation(enum file_op op, const char *answer)
{
	json_t *request = json_pack("{s:b}", "parents", 1);
	struct file_spec spec = {
	    .op = op, .path = "a\xff", .to = "b", .mode = -1, .size = UINT64_MAX, .request = request};
	struct transfer *t = NULL;
	size_t content = 1;

	assert_int_equal(transfer_create(&spec, NULL, &t, NULL), 0);
	json_decref(request);
	assert_int_equal(transfer_output(t, (const uint8_t *)answer, strlen(answer), &content), 0);
	assert_int_equal(content, 0); /* nobody is shown it before the end */
	return t;
}

static int ended_with(struct transfer *t, int code, struct err *e)
{
	struct session_result r = {.cause = EXIT_EXITED, .code = code};

	memset(e, 0, sizeof(*e));
	return transfer_result(t, "demo", &r, e);
}

static void an_operation_is_asked_and_answered(void **state)
{
	struct transfer *t =
	    operation(FILE_MOVE, "{\"entry\":{},\"changes\":[{\"path\":\"b\",\"before\":null,\"after\":null}],"
				 "\"changes_left_out\":3}\n");
	char **v = transfer_argv(t);
	struct err e;
	json_t *o;

	(void)state;
	assert_string_equal(v[1], "--fs");
	assert_string_equal(v[2], "{\"op\":\"move\",\"path\":{\"base64\":\"Yf8=\"},\"parents\":true}");
	assert_null(v[3]);
	free_list(v);
	assert_int_equal(ended_with(t, 0, &e), 0);
	o = transfer_json(t);
	assert_int_equal(json_array_size(json_object_get(o, "changes")), 1);
	assert_int_equal(json_integer_value(json_object_get(o, "changes_left_out")), 3);
	assert_string_equal(json_string_value(json_object_get(o, "to")), "b");
	json_decref(o);
	o = transfer_take_reply(t);
	assert_non_null(json_object_get(o, "entry"));
	assert_null(transfer_take_reply(t)); /* once */
	json_decref(o);
	transfer_destroy(t);
}

/* The answer of a sandbox is an object or nothing, of a bounded size, and its sentence has no controls. */
static void an_answer_is_not_believed(void **state)
{
	static const char *const bad[] = {"", "[]", "{", "{} {}", "no"};
	static uint8_t piece[64 * 1024];
	struct transfer *t;
	size_t content, n = 0;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		t = operation(FILE_STAT, bad[i]);
		assert_int_equal(ended_with(t, 0, &e), ERR_TRANSFER);
		transfer_destroy(t);
	}
	t = operation(FILE_STAT, "{\"changes\":{\"a\":1},\"changes_left_out\":\"x\"}");
	assert_int_equal(ended_with(t, 0, &e), 0);
	assert_null(t->changes);
	transfer_destroy(t);
	t = operation(FILE_LIST, "");
	while (transfer_output(t, piece, sizeof(piece), &content) == 0)
		assert_true((n += sizeof(piece)) <= TRANSFER_ANSWER_MAX);
	transfer_destroy(t);
}

#define STATE(more)         "{\"type\":\"file\",\"size\":5,\"mode\":\"0644\"" more "}"
#define CHANGE(path, after) "{\"path\":" path ",\"before\":null,\"after\":" after "}"

/* Of the changes in an answer those go into the record that have muxlet's form; the others are counted. */
static void changes_are_not_believed(void **state)
{
	static const char *const good[] = {
	    CHANGE("\"a\"", STATE("")),
	    CHANGE("{\"base64\":\"Yf8=\"}",
		   STATE(",\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"")),
	    CHANGE("\"a\"", "null"),
	};
	static const char *const bad[] = {
	    "1",
	    "[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]",
	    CHANGE("[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]", STATE("")),
	    CHANGE("{\"base64\":[[]]}", STATE("")),
	    CHANGE("{\"base64\":\"Yf8=\",\"more\":{}}", STATE("")),
	    CHANGE("\"a\"", STATE(",\"more\":[[[[[[[[[[]]]]]]]]]]")),
	    CHANGE("\"a\"", "[]"),
	    CHANGE("\"a\"", "{}"),
	    CHANGE("\"a\"", STATE(",\"sha256\":{\"a\":{\"a\":{}}}")),
	    "{\"path\":\"a\",\"before\":null}",
	};
	char text[8192] = "{\"changes\":[", *p = text + strlen(text);
	struct transfer *t;
	struct err e;
	json_t *o;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		p += sprintf(p, "%s,%s,", bad[i], good[i % 3]);
	sprintf(p - 1, "],\"changes_left_out\":3}\n");
	t = operation(FILE_MOVE, text);
	assert_int_equal(ended_with(t, 0, &e), 0);
	assert_int_equal(json_array_size(t->changes), sizeof(bad) / sizeof(bad[0]));
	assert_int_equal(t->changes_left_out, 3 + sizeof(bad) / sizeof(bad[0]));
	for (size_t i = 0; i < json_array_size(t->changes); i++) {
		char *said = json_text(json_array_get(t->changes, i));

		assert_string_equal(said, good[i % 3]);
		free(said);
	}
	o = transfer_take_reply(t); /* whoever asked is told the same */
	assert_true(json_equal(json_object_get(o, "changes"), t->changes));
	assert_int_equal(json_integer_value(json_object_get(o, "changes_left_out")), t->changes_left_out);
	json_decref(o);
	transfer_destroy(t);
}

static void assert_text(struct transfer *t, const char *want, bool want_more)
{
	struct err e;
	struct buf b;
	bool more;

	buf_init(&b, 100);
	assert_int_equal(ended_with(t, 0, &e), 0);
	assert_true(transfer_take_text(t, &b, &more));
	assert_string_equal(buf_cstr(&b), want);
	assert_int_equal(more, want_more);
	assert_int_equal(b.max, 100);
	assert_false(transfer_take_text(t, &b, &more)); /* once */
	assert_null(transfer_take_reply(t));
	buf_finish(&b);
	transfer_destroy(t);
}

static void assert_no_text(struct transfer *t, int code, const char *key)
{
	struct err e;
	struct buf b;
	json_t *o;
	bool more;

	buf_init(&b, 100);
	(void)ended_with(t, code, &e);
	assert_false(transfer_take_text(t, &b, &more));
	o = transfer_take_reply(t);
	assert_non_null(json_object_get(o, key));
	json_decref(o);
	transfer_destroy(t);
}

/* The answer of an operation that only looks is passed on as text; what muxlet never writes is read as an object.
 */
static void a_look_is_passed_on(void **state)
{
	struct transfer *t = operation(FILE_LIST, "{\"entries\":[]}\n");
	struct err e;
	json_t *o;

	(void)state;
	assert_text(t, "{\"entries\":[]", true);
	assert_text(operation(FILE_GLOB, "{}"), "{", false);
	assert_no_text(operation(FILE_LIST, "{\"entries\": []}"), 0, "entries");
	assert_no_text(operation(FILE_LIST, "{\"entries\":[],\"agent\":\"another\"}"), 0,
		       "agent"); /* the door's word replaces it */
	assert_no_text(operation(FILE_LIST, "{\"error\":\"no\"}"), ENOENT, "error");
	assert_no_text(operation(FILE_MOVE, "{\"entry\":{}}"), 0, "entry");
	t = operation(FILE_LIST, "{\"entries\":[1]}\n");
	assert_int_equal(ended_with(t, 0, &e), 0);
	assert_true(t->reply_bytes >= 15);
	o = transfer_take_reply(t);
	assert_int_equal(json_array_size(json_object_get(o, "entries")), 1);
	assert_null(transfer_take_reply(t));
	json_decref(o);
	transfer_destroy(t);
}

static void a_refusal_has_its_code(void **state)
{
	static const struct {
		int errnum, code;
	} table[] = {
	    {EXDEV, ERR_PATH_OUTSIDE}, {ENOTDIR, ERR_NOT_A_DIRECTORY},
	    {EEXIST, ERR_FILE_EXISTS}, {ENOTEMPTY, ERR_NOT_EMPTY},
	    {ERANGE, ERR_RANGE},       {ECANCELED, ERR_FILE_CHANGED},
	    {ENOMSG, ERR_PATCH},       {EFBIG, ERR_TOO_LARGE},
	    {EMSGSIZE, ERR_TOO_LARGE}, {ENOSPC, ERR_NO_SPACE},
	    {EACCES, ERR_FILE_DENIED}, {ENOENT, ERR_NO_FILE},
	    {EINVAL, ERR_INVAL},       {ENOSYS, ERR_UNSUPPORTED},
	    {EIO, ERR_TRANSFER},       {255, ERR_TRANSFER},
	};
	struct transfer *t;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		t = operation(FILE_WRITE, "{\"error\":\"why it was\",\"sha256\":\"ab\"}");
		assert_int_equal(ended_with(t, table[i].errnum, &e), table[i].code);
		assert_non_null(strstr(e.message, "in demo: why it was"));
		transfer_destroy(t);
	}
	t = make(FILE_GET, 0); /* a transfer's reasons are its own */
	assert_int_equal(ended_with(t, ENOTDIR, &e), ERR_NO_FILE);
	transfer_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_refused_at_once),
	    cmocka_unit_test(what_muxlet_is_asked),
	    cmocka_unit_test(the_line_ahead_of_a_get),
	    cmocka_unit_test(a_put_is_what_was_announced),
	    cmocka_unit_test(an_operation_is_asked_and_answered),
	    cmocka_unit_test(an_answer_is_not_believed),
	    cmocka_unit_test(changes_are_not_believed),
	    cmocka_unit_test(a_look_is_passed_on),
	    cmocka_unit_test(a_refusal_has_its_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
