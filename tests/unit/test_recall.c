// tier: check
/* A round that has left memory is told from the record with all that docs/openapi.yaml says of a round. */
#include "base/yamldoc.h"
#include "muxd/hub/broker/recall.h"
#include "muxd/hub/session/session_json.h"
#include "muxd/hub/session/session_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT_MAX (1 << 20)

/* The fields that no finished round of the record has: of one that waits or is held, and what its task has a list of.
 * The streams come behind the rest. */
static const char *const left_out[] = {"waits", "held", "artifacts", "stdout", "stderr"};

static bool is_left_out(const char *field)
{
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (strcmp(left_out[i], field) == 0)
			return true;
	return false;
}

static struct yamldoc *document(void)
{
	FILE *f = fopen("docs/openapi.yaml", "r");
	char *text = malloc(DOCUMENT_MAX);
	struct yamldoc *doc = NULL;
	struct err e = {0};
	size_t n;

	if (!f || !text)
		fail_msg("run it from the top of the tree: docs/openapi.yaml is not here");
	n = fread(text, 1, DOCUMENT_MAX, f);
	assert_in_range(n, 1, DOCUMENT_MAX - 1);
	if (yamldoc_parse(text, n, "docs/openapi.yaml", &doc, &e))
		fail_msg("%s", e.message);
	fclose(f);
	free(text);
	return doc;
}

static struct yamlnode below(struct yamlnode at, const char *key)
{
	struct err e = {0};

	if (yamlnode_get(at, "the document", key, &at, &e))
		fail_msg("%s", e.message);
	assert_false(yamlnode_absent(at));
	return at;
}

static json_t *whole_facts(void)
{
	static const char text[] =
	    "{\"exec_id\":\"e\",\"task\":\"T-1\",\"agent\":\"demo\",\"opened_at\":\"2026-11-29T00:00:00Z\","
	    "\"open\":{\"root\":\"target\",\"snapshot_id\":\"01a1fe36-ffda-756d-8a69-25ab9cf5f3b8\","
	    "\"service\":{\"name\":\"web\"},\"shell\":{\"name\":\"main\",\"id\":\"01a1fe36-ffda-756d-8a69-"
	    "25ab9cf5f3b8\",\"from\":0,\"to\":1},"
	    "\"context\":{\"id\":\"01a1fe36-ffda-756d-8a69-25ab9cf5f3b8\",\"role\":\"interpreter\","
	    "\"language\":\"python\",\"generation\":1},\"mcp\":{\"role\":\"server\",\"server\":\"git\"}},"
	    "\"exit\":{\"cause\":\"exited\",\"code\":0,\"cwd\":\"/workspace\",\"program\":\"/bin/true\","
	    "\"duration_ms\":5}}";
	struct err e = {0};
	json_t *o = NULL;

	if (json_parse(text, strlen(text), sizeof(text), &o, &e))
		fail_msg("%s", e.message);
	return o;
}

static void a_round_has_every_field_of_the_document(void **state)
{
	struct yamldoc *doc = document();
	struct yamlnode fields =
	    below(below(below(below(yamldoc_root(doc), "components"), "schemas"), "Round"), "properties");
	yaml_document_t *y = yamldoc_document(doc);
	yaml_node_t *map = yaml_document_get_node(y, fields.index);
	json_t *facts = whole_facts(), *o;
	struct session_result result;
	struct id id;
	int n = 0;

	(void)state;
	assert_int_equal(id_new(&id), 0);
	session_result_read(json_object_get(facts, "exit"), &result);
	o = recall_round(&id, facts, &result);
	assert_non_null(o);
	for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++, n++) {
		const char *field = yamldoc_scalar(yaml_document_get_node(y, p->key));

		if (!is_left_out(field) && (!json_object_get(o, field) || json_is_null(json_object_get(o, field))))
			fail_msg("a round of the record has no %s", field);
	}
	assert_in_range(n, 15, 100);
	json_decref(o);
	json_decref(facts);
	yamldoc_destroy(doc);
}

/* A page that does not begin at the beginning is not shown as if it did. */
static void a_stream_of_the_record(void **state)
{
	struct session_result r;
	json_t *exit = json_pack("{s:[i,i,i], s:{s:s}}", "totals", 0, 9, 0, "sha256", "stdout", "ab");
	json_t *page =
	    json_pack("{s:i,s:i,s:s,s:s}", "offset", 0, "next_offset", 5, "data", "hello", "encoding", "utf-8");
	json_t *o;

	(void)state;
	session_result_read(exit, &r);
	o = recall_stream(&r, 1, page);
	assert_string_equal(json_string_value(json_object_get(o, "data")), "hello");
	assert_true(json_is_true(json_object_get(o, "truncated")));
	assert_string_equal(json_string_value(json_object_get(o, "sha256")), "ab");
	json_decref(o);
	json_object_set_new(page, "offset", json_integer(4));
	o = recall_stream(&r, 1, page);
	assert_string_equal(json_string_value(json_object_get(o, "data")), "");
	assert_int_equal(json_object_get(o, "data")->refcount, 1); /* and nobody else's */
	json_decref(o);
	json_decref(page);
	json_decref(exit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_round_has_every_field_of_the_document),
	    cmocka_unit_test(a_stream_of_the_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
