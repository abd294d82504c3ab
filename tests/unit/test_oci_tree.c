// tier: check
/* Layers of an image over each other: who takes what away, what a name may be, and that content nobody names is let go.
 */
#include "control/archive/oci_tree.c"
#include "control/archive/walk.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct fixture {
	struct oci_tree t;
	uint64_t gone;
	unsigned ngone;
};

static void on_gone(void *ctx, uint64_t content)
{
	struct fixture *f = ctx;

	f->gone = content;
	f->ngone++;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	oci_tree_begin(&f->t, 1000, on_gone, f);
	f->t.layer = 1;
	*state = f;
	return f ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	oci_tree_finish(&f->t);
	free(f);
	return 0;
}

static void file(struct fixture *f, const char *path, uint64_t content)
{
	struct err e = {0};

	if (oci_tree_file(&f->t, path, content, &e))
		fail_msg("%s: %s", path, e.message);
}

static void whiteout(struct fixture *f, const char *path)
{
	struct err e = {0};
	bool is = false;

	if (oci_tree_whiteout(&f->t, path, &is, &e) || !is)
		fail_msg("%s: %s", path, e.message);
}

static void refused(int rc, const struct err *e, const char *words)
{
	assert_int_equal(rc, ERR_IMAGE);
	if (!strstr(e->message, words))
		fail_msg("\"%s\" is not in: %s", words, e->message);
}

static bool there(struct fixture *f, const char *path)
{
	return oci_tree_find(&f->t, path) != NULL;
}

static void test_a_name_leads_nowhere(void **state)
{
	static const struct {
		const char *path, *words;
	} bad[] = {{"../x", "leads out"},   {"a/../../x", "leads out"}, {"/x", "absolute"},
		   {"a//b", "empty"},       {"a/./b", "is \".\""},      {"", "no name"},
		   {"./../x", "leads out"}, {"a\nb", "control"},        {"a\x7f", "control"},
		   {"a\xff", "no UTF-8"},   {"a\xc0\xaf", "no UTF-8"}};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};

		refused(oci_tree_file(&f->t, bad[i].path, 1, &e), &e, bad[i].words);
	}
	assert_null(f->t.root.children);
	file(f, "./a/b\xc3\xa9", 1);
	assert_true(there(f, "a"));
}

static void test_a_link_is_never_followed(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};
	bool is;

	assert_int_equal(oci_tree_link(&f->t, "way", "/etc", &e), 0);
	refused(oci_tree_file(&f->t, "way/x", 1, &e), &e, "symbolic link");
	refused(oci_tree_dir(&f->t, "way/d/e", 0, &e), &e, "symbolic link");
	refused(oci_tree_hard(&f->t, "h", "way/passwd", &e), &e, "symbolic link");
	f->t.layer = 2;
	refused(oci_tree_whiteout(&f->t, "way/.wh.x", &is, &e), &e, "symbolic link");
	assert_int_equal(oci_tree_dir(&f->t, "way", 0, &e), 0); /* a layer may put a directory in its place */
	file(f, "way/x", 1);
}

static void test_a_whiteout_takes_what_is_below(void **state)
{
	struct fixture *f = *state;

	file(f, "d/old", 1);
	file(f, "d/keep", 2);
	file(f, "gone/x", 3);
	f->t.layer = 2;
	file(f, "d/new", 4);
	whiteout(f, "d/.wh.old");
	whiteout(f, "d/.wh.new"); /* of the same layer: it stays */
	whiteout(f, ".wh.gone");
	whiteout(f, ".wh.never");
	whiteout(f, "no/such/.wh.dir");
	assert_false(there(f, "d/old"));
	assert_true(there(f, "d/new"));
	assert_true(there(f, "d/keep"));
	assert_false(there(f, "gone"));
	assert_false(there(f, "no"));
	assert_int_equal(f->ngone, 2);
}

static void test_an_opaque_directory_keeps_its_own_layer(void **state)
{
	struct fixture *f = *state;

	file(f, "d/old", 1);
	file(f, "d/sub/old", 2);
	f->t.layer = 2;
	file(f, "d/sub/new", 3);
	whiteout(f, "d/.wh..wh..opq");
	assert_false(there(f, "d/old"));
	assert_false(there(f, "d/sub/old"));
	assert_true(there(f, "d/sub/new"));
	f->t.layer = 3;
	whiteout(f, ".wh..wh..opq");
	assert_null(f->t.root.children);
	assert_int_equal(f->ngone, 3);
}

static void test_tricks_with_whiteouts(void **state)
{
	static const char *const bad[] = {"d/.wh.", "d/.wh..", "d/.wh...", "d/.wh..wh.plnk", "d/.wh..wh..opq.x"};
	struct fixture *f = *state;

	file(f, "d/x", 1);
	f->t.layer = 2;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = {0};
		bool is;

		refused(oci_tree_whiteout(&f->t, bad[i], &is, &e), &e, "takes away no name");
		assert_true(is);
	}
	assert_true(there(f, "d/x"));
}

static void test_twice_in_one_layer(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};

	file(f, "a", 1);
	refused(oci_tree_file(&f->t, "a", 2, &e), &e, "twice");
	refused(oci_tree_dir(&f->t, "a", 0, &e), &e, "twice");
	file(f, "d/x", 3);
	refused(oci_tree_file(&f->t, "d", 4, &e), &e, "twice");
	assert_int_equal(oci_tree_dir(&f->t, "d", 0, &e), 0);
	assert_int_equal(oci_tree_dir(&f->t, "d/", 0, &e), 0);
	f->t.layer = 2;
	file(f, "d", 5);
	assert_int_equal(f->gone, 3);
}

static void test_content_lives_as_long_as_a_name(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};

	file(f, "a", 7);
	assert_int_equal(oci_tree_hard(&f->t, "b", "a", &e), 0);
	refused(oci_tree_hard(&f->t, "c", "missing", &e), &e, "no file that came before");
	refused(oci_tree_hard(&f->t, "c", ".", &e), &e, "no file that came before");
	f->t.layer = 2;
	whiteout(f, ".wh.a");
	assert_int_equal(f->ngone, 0);
	assert_int_equal(oci_tree_hard(&f->t, "b", "b", &e), 0); /* in its own place */
	assert_int_equal(f->ngone, 0);
	f->t.layer = 3;
	whiteout(f, ".wh.b");
	assert_int_equal(f->gone, 7);
	assert_int_equal(f->ngone, 1);
}

static void test_names_are_counted(void **state)
{
	struct fixture *f = *state;
	struct err e = {0};
	char name[16];

	f->t.max = 5;
	for (unsigned i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		file(f, name, i);
	}
	refused(oci_tree_file(&f->t, "one", 1, &e), &e, "more than 5 names");
	f->t.max = 10;
	refused(oci_tree_link(&f->t, "l", "", &e), &e, "no target");
	refused(oci_tree_file(&f->t, ".wh.x", 1, &e), &e, "whiteout");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_a_name_leads_nowhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_link_is_never_followed, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_a_whiteout_takes_what_is_below, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_an_opaque_directory_keeps_its_own_layer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_tricks_with_whiteouts, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_twice_in_one_layer, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_content_lives_as_long_as_a_name, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_names_are_counted, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
