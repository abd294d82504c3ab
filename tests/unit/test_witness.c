// tier: check
/* Heads that others keep: receipts, what a keeper takes and refuses, what a witness is configured with. */
#include "base/conf.h"
#include "base/err.h"
#include "recorder/chain/chain.h"
#include "recorder/chain/receipt.h"
#include "recorder/serve/keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A pusher's log and the keeper of somebody else. */
struct world {
	char dir[64], other[64];
	struct signer *own, *witness;
	struct chain *chain;
	struct keeper *pusher, *keeper;
	struct conf *conf;
};

static void clean(const char *dir)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static json_t *head_of(struct world *w)
{
	struct chain_head h;
	json_t *o = NULL;
	char *text;

	assert_int_equal(chain_sign_head(w->chain, 1000, NULL), 0);
	chain_head(w->chain, &h, NULL);
	text = chain_head_export(&h);
	assert_int_equal(json_parse(text, strlen(text), 4096, &o, NULL), 0);
	free(text);
	return o;
}

static void add(struct world *w, const char *text)
{
	json_t *o = json_pack("{s:s}", "of", text);

	assert_int_equal(chain_append_json(w->chain, CHAIN_DIGEST, NULL, o, NULL), 0);
	json_decref(o);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	uint8_t seed[GRANT_KEY_LEN] = {7}, other[GRANT_KEY_LEN] = {8};
	char text[512], id[ID_STR_LEN];
	struct err e = {0};
	struct id log_id;

	snprintf(w->dir, sizeof w->dir, "/tmp/muxd-witness-XXXXXX");
	snprintf(w->other, sizeof w->other, "/tmp/muxd-witness-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_non_null(mkdtemp(w->other));
	assert_int_equal(signer_create(seed, &w->own, &e), 0);
	assert_int_equal(signer_create(other, &w->witness, &e), 0);
	assert_int_equal(chain_open(w->dir, w->own, &w->chain, NULL, &e), 0);
	chain_log_id(w->chain, &log_id);
	id_format(&log_id, id);
	char *key = base64_encode(signer_public(w->own)->key, GRANT_KEY_LEN, true);
	int n =
	    snprintf(text, sizeof text, "witness:\n  pushers:\n    - {name: a, log_id: %s, keys: [\"%s\"]}\n", id, key);
	free(key);
	assert_int_equal(conf_parse(text, (size_t)n, "test", &w->conf, &e), 0);
	assert_int_equal(keeper_create(w->other, w->witness, NULL, w->conf, &w->keeper, &e), 0);
	assert_int_equal(keeper_create(w->dir, w->own, NULL, w->conf, &w->pusher, &e), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	keeper_destroy(w->keeper);
	keeper_destroy(w->pusher);
	chain_close(w->chain);
	conf_destroy(w->conf);
	signer_destroy(w->own);
	signer_destroy(w->witness);
	clean(w->dir);
	clean(w->other);
	free(w);
	return 0;
}

static const char *take(struct world *w, json_t *q, json_t **answer)
{
	struct err e = {0};

	*answer = NULL;
	if (keeper_take(w->keeper, q, answer, &e))
		return err_name(e.code);
	return json_string_value(json_object_get(*answer, "state"));
}

/* The head, with the entries behind `after`; changed: one byte of them is another. */
static json_t *question(struct world *w, json_t *head, int64_t after, bool changed)
{
	json_t *q = NULL;

	assert_int_equal(keeper_batch(w->pusher, (uint64_t)after,
				      (uint64_t)json_integer_value(json_object_get(head, "seq")), &q, NULL),
			 0);
	if (changed) {
		char *text = strdup(json_string_value(json_object_get(q, "entries")));
		text[100] = text[100] == 'A' ? 'B' : 'A';
		json_object_set_new(q, "entries", json_string(text));
		free(text);
	}
	json_object_set(q, "head", head);
	return q;
}

static void what_extends_is_countersigned(void **state)
{
	struct world *w = *state;
	json_t *head = head_of(w), *q = json_pack("{s:O}", "head", head), *answer;
	int64_t first = json_integer_value(json_object_get(head, "seq"));

	assert_string_equal(take(w, q, &answer), "kept");
	json_decref(answer);
	json_decref(q);
	json_decref(head);

	add(w, "more");
	head = head_of(w);
	q = json_pack("{s:O}", "head", head);
	assert_string_equal(take(w, q, &answer), "more");
	assert_int_equal(json_integer_value(json_object_get(answer, "after")), first);
	json_decref(answer);
	json_decref(q);

	q = question(w, head, first, true);
	assert_string_equal(take(w, q, &answer), "forbidden"); /* not what the log's key signed */
	json_decref(q);
	q = question(w, head, first, false);
	assert_string_equal(take(w, q, &answer), "kept");
	struct chain_head h;
	chain_head(w->chain, &h, NULL);
	json_t *receipt = json_object_get(answer, "receipt");
	assert_int_equal(receipt_check(receipt, &h, signer_public(w->witness)->key, NULL), 0);
	assert_int_equal(receipt_check(receipt, &h, signer_public(w->own)->key, NULL), ERR_TOKEN_FORGED);
	h.seq--;
	assert_int_equal(receipt_check(receipt, &h, signer_public(w->witness)->key, NULL), ERR_CONFLICT);
	json_object_del(receipt, "signature");
	h.seq++;
	assert_int_equal(receipt_check(receipt, &h, signer_public(w->witness)->key, NULL), ERR_INVAL);
	json_decref(answer);
	json_decref(q);
	json_decref(head);
}

/* Two histories: the log is copied, and each goes on in its own way under the same key. */
static void the_second_history_is_refused_and_kept(void **state)
{
	struct world *w = *state;
	json_t *head = head_of(w), *q = json_pack("{s:O}", "head", head), *answer;
	int64_t first = json_integer_value(json_object_get(head, "seq"));
	char command[256];

	assert_string_equal(take(w, q, &answer), "kept");
	json_decref(answer);
	json_decref(q);
	json_decref(head);
	snprintf(command, sizeof command, "cp -a %s/chain %s/old", w->dir, w->dir);
	assert_int_equal(system(command), 0);

	add(w, "one");
	head = head_of(w);
	q = question(w, head, first, false);
	assert_string_equal(take(w, q, &answer), "kept");
	int64_t second = json_integer_value(json_object_get(head, "seq"));
	json_decref(answer);
	json_decref(q);
	json_decref(head);

	chain_close(w->chain);
	snprintf(command, sizeof command, "rm -r %s/chain && mv %s/old %s/chain", w->dir, w->dir, w->dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(chain_open(w->dir, w->own, &w->chain, NULL, NULL), 0);
	add(w, "other");
	head = head_of(w);
	q = json_pack("{s:O}", "head", head); /* as far as the first, and otherwise */
	assert_string_equal(take(w, q, &answer), "fork");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(answer, "newest"), "seq")), second);
	json_decref(answer);
	json_decref(q);
	json_decref(head);

	for (int i = 0; i < 3; i++)
		add(w, "longer");
	head = head_of(w);
	q = question(w, head, second, false); /* beyond it */
	assert_string_equal(take(w, q, &answer), "fork");
	json_decref(answer);
	json_decref(q);

	json_t *list = NULL;
	size_t refused = 0, i;
	const json_t *each;
	assert_int_equal(keeper_heads(w->keeper, json_string_value(json_object_get(head, "log_id")), 100, &list, NULL),
			 0);
	json_array_foreach(json_object_get(list, "heads"), i, each)
	{
		refused += strcmp(json_string_value(json_object_get(each, "state")), "refused") == 0 &&
			   json_object_get(each, "against");
	}
	assert_int_equal(refused, 2);
	json_decref(list);
	json_decref(head);
}

/* A keeper that starts again knows what it had; a line that a crash tore is passed over. */
static void a_torn_line_costs_nothing(void **state)
{
	struct world *w = *state;
	json_t *head = head_of(w), *q = json_pack("{s:O}", "head", head), *answer;
	char path[256];
	FILE *f;

	assert_string_equal(take(w, q, &answer), "kept");
	json_decref(answer);
	json_decref(q);
	snprintf(path, sizeof path, "%s/witnessed/%s.heads", w->other,
		 json_string_value(json_object_get(head, "log_id")));
	f = fopen(path, "a");
	fputs("{\"state\":\"kept\",\"he", f);
	fclose(f);
	assert_int_equal(keeper_configure(w->keeper, w->conf, NULL), 0);
	add(w, "more");
	json_t *next = head_of(w);
	q = question(w, next, json_integer_value(json_object_get(head, "seq")), false);
	assert_string_equal(take(w, q, &answer), "kept");
	json_decref(answer);
	json_decref(q);
	json_decref(next);
	json_decref(head);
}

/* Whatever stands in a question: an answer or an error, and the last head is as it was. */
static void hostile_questions(void **state)
{
	static const char *const texts[] = {
	    "{}",
	    "{\"head\":7}",
	    "{\"head\":{}}",
	    "{\"head\":{\"log_id\":\"x\",\"seq\":1,\"hash\":\"\",\"wall_ns\":1,\"kid\":\"\",\"signature\":\"\"}}",
	};
	struct world *w = *state;
	json_t *answer, *head = head_of(w);

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		json_t *q = NULL;
		assert_int_equal(json_parse(texts[i], strlen(texts[i]), 4096, &q, NULL), 0);
		assert_string_equal(take(w, q, &answer), "invalid_request");
		json_decref(q);
	}
	json_object_set_new(head, "wall_ns", json_integer(1));
	json_t *q = json_pack("{s:O}", "head", head);
	assert_string_equal(take(w, q, &answer), "forbidden"); /* its signature is for another */
	json_decref(q);
	json_decref(head);
}

static void configuration_is_checked(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"witnesses:\n  - {name: a, kind: file}\n", "goes with path"},
	    {"witnesses:\n  - {name: a, kind: https, url: \"http://x\"}\n", "https://"},
	    {"witnesses:\n  - {name: a, kind: muxd, url: \"https://x\"}\n", "needs the key"},
	    {"witnesses:\n  - {name: A, kind: file, path: /x}\n", "lower-case"},
	    {"witnesses:\n  - {name: a, kind: file, path: x}\n", "absolute"},
	    {"witnesses:\n  - {name: a, kind: file, path: /x, interval: 10s, refuse_after: 5s}\n", "refuse_after"},
	    {"witnesses:\n  - {name: a, kind: file, path: /x}\n  - {name: a, kind: file, path: /y}\n", "twice"},
	    {"witnesses:\n  - {name: a, kind: other, path: /x}\n", "none of file, https"},
	    {"witnesses:\n  - {name: a, kind: [x]}\n", "kind"},
	    {"witnesses:\n  - {name: a, kind: file, path: /x, tsa_ca: /y}\n", "goes without tsa_ca"},
	    {"witnesses:\n  - {name: a, kind: syslog, address: \"h:6514\"}\n", "goes with ca"},
	    {"witnesses:\n  - {name: a, kind: syslog, address: h, ca: /x}\n", "HOST:PORT"},
	    {"witnesses:\n  - {name: a, kind: syslog, address: \"a:b:1\", ca: /x}\n", "HOST:PORT"},
	    {"witnesses:\n  - {name: a, kind: syslog, address: \"h:65536\", ca: /x}\n", "HOST:PORT"},
	    {"witnesses:\n  - {name: a, kind: syslog, address: \"h:1\", ca: /x, certificate: /y}\n", "go together"},
	    {"witnesses:\n  - {name: a, kind: timestamp, url: \"http://x\"}\n", "goes with tsa_ca"},
	    {"witnesses:\n  - {name: a, kind: s3, url: \"https://x/b\", region: r, credential: /c}\n",
	     "goes with lock"},
	    {"witnesses:\n  - {name: a, kind: s3, url: \"https://x/b\", region: r, credential: /c, lock: 1h}\n",
	     "a day at least"},
	    {"witnesses:\n  - {name: a, kind: s3, url: \"https://x/b\", credential: /c, lock: 30d}\n",
	     "goes with region"},
	    {"witnesses:\n  - {name: a, kind: s3, url: \"https://x/b\", region: \"r:s3\", credential: /c, lock: 30d}\n",
	     "is no region"},
	    {"witnesses:\n  - {name: a, kind: s3, url: \"http://x/b\", region: r, credential: /c, lock: 30d}\n",
	     "begins with https"},
	    {"witnesses:\n  - {name: a, kind: file, path: /x, lock: 30d}\n", "no other does"},
	    {"witnesses:\n  - {name: a, kind: timestamp, url: \"ftp://x\", tsa_ca: /x}\n", "https://"},
	    {"witness:\n  pushers:\n    - {name: a, log_id: x, keys: []}\n", "log id"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct conf *c = NULL;
		struct err e = {0};
		assert_int_equal(conf_parse(bad[i].text, strlen(bad[i].text), "t", &c, &e), ERR_CONFIG);
		if (!strstr(e.message, bad[i].says))
			fail_msg("%s", e.message);
	}
}

/* Of all kinds, one alone is sent more than heads. */
static void entries_are_for_another_muxd_alone(void **state)
{
	static const char *const heads_alone[] = {"file", "https", "syslog", "timestamp", "s3", "", "none"};

	(void)state;
	assert_true(conf_witness_takes_entries("muxd"));
	for (size_t i = 0; i < sizeof heads_alone / sizeof heads_alone[0]; i++)
		assert_false(conf_witness_takes_entries(heads_alone[i]));
}

#define WITNESS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITNESS_TEST(what_extends_is_countersigned), WITNESS_TEST(the_second_history_is_refused_and_kept),
	    WITNESS_TEST(a_torn_line_costs_nothing),     WITNESS_TEST(hostile_questions),
	    cmocka_unit_test(configuration_is_checked),  cmocka_unit_test(entries_are_for_another_muxd_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
