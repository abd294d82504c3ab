// tier: check
/* Lists of a store and of a workspace: what counts in them. */
#include "base/err.h"
#include "control/filespace/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_kept(void *arg, const char *path)
{
	return strcmp(path, arg) == 0;
}

static json_t *page_of(unsigned files, unsigned deletions)
{
	json_t *list = json_array();
	char path[32];

	for (unsigned i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "f%u", i);
		json_array_append_new(list,
				      json_pack("{s:s,s:i,s:i,s:s}", "path", path, "size", 1, "updated_at", 5, "sha256",
						"0000000000000000000000000000000000000000000000000000000000000000"));
	}
	for (unsigned i = 0; i < deletions; i++) {
		snprintf(path, sizeof(path), "d%u", i);
		json_array_append_new(list, json_pack("{s:s,s:b,s:i}", "path", path, "deleted", 1, "updated_at", 5));
	}
	return json_pack("{s:o,s:n,s:i}", "files", list, "next", "now", 9);
}

/* A store keeps its deletions for ever: they count toward nothing, and those that nobody asks about are dropped. */
static void test_deletions_do_not_count(void **state)
{
	char kept[] = "d7";
	const struct filespace_bounds b = {
	    .files_max = 3, .size_max = 10, .wanted = is_kept, .arg = kept, .wanted_max = 1};
	struct filespace_list list = {0};
	struct filespace_page page = {.list = &list};
	json_t *body = page_of(3, 50);
	struct err e = {0};

	(void)state;
	assert_int_equal(filespace_wire_page(body, &b, &page, &e), 0);
	assert_true(filespace_list_sort(&list));
	assert_int_equal(list.n, 4);
	assert_true(filespace_list_find(&list, "d7")->side.deleted);
	/* One file more, on the next page, is one too many. */
	assert_int_equal(filespace_wire_page(body, &b, &page, &e), ERR_TOO_LARGE);
	json_decref(body);
	filespace_list_finish(&list);
}

/* One page after the other, and each says the same: a store fills nobody's memory. */
static void test_what_is_told_again_and_again_has_an_end(void **state)
{
	char kept[] = "d7";
	const struct filespace_bounds b = {.files_max = 300,
					   .size_max = 10,
					   .wanted = is_kept,
					   .arg = kept,
					   .wanted_max = 2},
				      few = {.files_max = 300, .size_max = 10, .bytes_max = 200};
	struct filespace_list list = {0};
	struct filespace_page page = {.list = &list};
	json_t *body = page_of(0, 50), *files = page_of(3, 0);
	struct err e = {0};

	(void)state;
	assert_int_equal(filespace_wire_page(body, &b, &page, &e), 0);
	assert_int_equal(filespace_wire_page(body, &b, &page, &e), 0);
	assert_int_equal(filespace_wire_page(body, &b, &page, &e), ERR_FILESPACE);
	assert_int_equal(list.n, 2);
	page.bytes = 0;
	assert_int_equal(filespace_wire_page(files, &few, &page, &e), ERR_TOO_LARGE); /* 3 * (80 + 2) */
	json_decref(body);
	json_decref(files);
	filespace_list_finish(&list);
}

/* A second name of a file takes no room. */
static void test_used_once_per_inode(void **state)
{
	const struct filespace_file a = {.inode = 5, .used = 4096, .size = UINT64_C(1) << 31},
				    b = {.inode = 6, .used = 512};
	struct filespace_list list = {0};

	(void)state;
	assert_int_equal(filespace_list_used(&list), 0);
	assert_int_equal(filespace_list_add(&list, "a", &a), 0);
	assert_int_equal(filespace_list_add(&list, "b", &b), 0);
	assert_int_equal(filespace_list_add(&list, "c", &a), 0);
	assert_int_equal(filespace_list_used(&list), 4096 + 512);
	filespace_list_finish(&list);
}

static void test_now_is_checked(void **state)
{
	static const char *const wrong[] = {"{}", "{\"now\":-1}", "{\"now\":9223372036854775807}", "{\"now\":\"1\"}"};
	int64_t now = 7;
	struct err e;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		json_t *o = json_loads(wrong[i], 0, NULL);

		assert_int_equal(filespace_wire_now(o, &now, &e), ERR_FILESPACE);
		assert_int_equal(now, 7);
		json_decref(o);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_deletions_do_not_count),
	    cmocka_unit_test(test_what_is_told_again_and_again_has_an_end),
	    cmocka_unit_test(test_used_once_per_inode),
	    cmocka_unit_test(test_now_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
