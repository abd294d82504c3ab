// tier: check
/*
 * A log takes another one in, batch by batch. Whatever ends when, each entry is there once: a batch that comes twice,
 * one whose bytes were written and no more, one of which this log forgot. What is not of one chain is not taken.
 */
#include "base/conf.h"
#include "base/err.h"
#include "recorder/chain/merged.h"
#include "recorder/serve/keeper.h"
#include "recorder/verify/verify_merged.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
	char edge[64], centre[64]; /* record/ of each */
	struct signer *edge_key, *centre_key;
	struct chain *edge_log, *centre_log;
	struct conf *conf;
	struct keeper *keeper, *pusher;
	struct id log_id;
};

static void clean(const char *dir)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static void configure(struct world *w, bool merge)
{
	char text[512], id[ID_STR_LEN], *key = base64_encode(signer_public(w->edge_key)->key, GRANT_KEY_LEN, true);
	int n;

	id_format(&w->log_id, id);
	n = snprintf(text, sizeof text,
		     "witness:\n  pushers:\n    - {name: site, log_id: %s, keys: [\"%s\"], merge: %s}\n", id, key,
		     merge ? "true" : "false");
	free(key);
	assert_int_equal(conf_parse(text, (size_t)n, "test", &w->conf, NULL), 0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof *w);
	uint8_t seed[GRANT_KEY_LEN] = {7}, other[GRANT_KEY_LEN] = {8};

	snprintf(w->edge, sizeof w->edge, "/tmp/muxd-merged-XXXXXX");
	snprintf(w->centre, sizeof w->centre, "/tmp/muxd-merged-XXXXXX");
	assert_true(mkdtemp(w->edge) && mkdtemp(w->centre));
	assert_int_equal(signer_create(seed, &w->edge_key, NULL), 0);
	assert_int_equal(signer_create(other, &w->centre_key, NULL), 0);
	assert_int_equal(chain_open(w->edge, w->edge_key, &w->edge_log, NULL, NULL), 0);
	assert_int_equal(chain_open(w->centre, w->centre_key, &w->centre_log, NULL, NULL), 0);
	chain_log_id(w->edge_log, &w->log_id);
	configure(w, true);
	assert_int_equal(keeper_create(w->centre, w->centre_key, w->centre_log, w->conf, &w->keeper, NULL), 0);
	assert_int_equal(keeper_create(w->edge, w->edge_key, NULL, w->conf, &w->pusher, NULL), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	keeper_destroy(w->keeper);
	keeper_destroy(w->pusher);
	chain_close(w->edge_log);
	chain_close(w->centre_log);
	conf_destroy(w->conf);
	signer_destroy(w->edge_key);
	signer_destroy(w->centre_key);
	clean(w->edge);
	clean(w->centre);
	free(w);
	return 0;
}

/* The recorder of the centre begins anew. */
static void restart(struct world *w)
{
	keeper_destroy(w->keeper);
	chain_close(w->centre_log);
	assert_int_equal(chain_open(w->centre, w->centre_key, &w->centre_log, NULL, NULL), 0);
	assert_int_equal(keeper_create(w->centre, w->centre_key, w->centre_log, w->conf, &w->keeper, NULL), 0);
}

static json_t *head_of(struct world *w)
{
	struct chain_head h;
	char *text;
	json_t *o = NULL;

	assert_int_equal(chain_sign_head(w->edge_log, 1000, NULL), 0);
	chain_head(w->edge_log, &h, NULL);
	text = chain_head_export(&h);
	assert_int_equal(json_parse(text, strlen(text), 4096, &o, NULL), 0);
	free(text);
	return o;
}

static void add(struct world *w, const char *text)
{
	json_t *o = json_pack("{s:s}", "of", text);

	assert_int_equal(chain_append_json(w->edge_log, CHAIN_DIGEST, NULL, o, NULL), 0);
	json_decref(o);
}

static const char *take(struct world *w, json_t *q, int64_t *after)
{
	static char state[32];
	json_t *answer = NULL;
	struct err e = {0};

	if (keeper_take(w->keeper, q, &answer, &e))
		return err_name(e.code);
	snprintf(state, sizeof state, "%s", json_get_text(answer, "state"));
	*after = json_integer_value(json_object_get(answer, "after"));
	json_decref(answer);
	return state;
}

static json_t *batch(struct world *w, json_t *head, int64_t after)
{
	json_t *q = NULL;

	assert_int_equal(keeper_batch(w->pusher, (uint64_t)after,
				      (uint64_t)json_integer_value(json_object_get(head, "seq")), &q, NULL),
			 0);
	json_object_set(q, "head", head);
	return q;
}

/* As the carrier does it. */
static void push(struct world *w)
{
	json_t *head = head_of(w), *q = json_pack("{s:O}", "head", head);
	int64_t after = 0;
	const char *state = take(w, q, &after);

	while (strcmp(state, "more") == 0) {
		json_decref(q);
		q = batch(w, head, after);
		state = take(w, q, &after);
	}
	assert_string_equal(state, "kept");
	json_decref(q);
	json_decref(head);
}

/* Entries of the edge's log in the centre's, by verify: all that stand behind a head, and none twice. */
static uint64_t verified(struct world *w)
{
	struct verify_merged v = {0};
	struct chain_reader *r = NULL;
	struct chain_entry en;
	struct err e = {0};
	uint64_t n;

	assert_int_equal(chain_reader_create(w->centre, 0, &r, NULL), 0);
	while (chain_reader_next(r, &en, NULL) == 1)
		if (en.type == CHAIN_MERGED && verify_merged_take(&v, w->centre, &en, &e))
			fail_msg("%s", e.message);
	chain_reader_destroy(r);
	n = v.entries;
	verify_merged_finish(&v);
	return n;
}

static uint64_t pushed(const struct world *w)
{
	struct chain_head h;

	chain_head(w->edge_log, &h, NULL);
	return h.seq;
}

static void all_of_it_from_the_first_entry_on(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 5; i++) {
		add(w, "more");
		push(w);
		assert_true(verified(w) == pushed(w));
	}
	push(w); /* nothing new */
	assert_true(verified(w) == pushed(w));
	restart(w);
	add(w, "after a restart");
	push(w);
	assert_true(verified(w) == pushed(w));
}

static void a_batch_that_comes_twice_is_there_once(void **state)
{
	struct world *w = *state;
	json_t *head, *q;
	int64_t after = 0;

	add(w, "one");
	head = head_of(w);
	q = batch(w, head, 0);
	assert_string_equal(take(w, q, &after), "kept");
	assert_string_equal(take(w, q, &after), "kept");
	restart(w);
	assert_string_equal(take(w, q, &after), "kept");
	json_decref(q);
	json_decref(head);
	assert_true(verified(w) == pushed(w));
}

static off_t file_of(const struct world *w, char path[FILE_PATH_MAX])
{
	struct stat st;

	assert_int_equal(merged_path(w->centre, &w->log_id, path, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* Its bytes were written, and the centre was killed before its log had it. */
static void bytes_that_the_log_does_not_know_are_written_anew(void **state)
{
	struct world *w = *state;
	char path[FILE_PATH_MAX];
	int fd;

	add(w, "one");
	push(w);
	(void)file_of(w, path);
	fd = open(path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0 && write(fd, "half a batch", 12) == 12);
	close(fd);
	restart(w);
	add(w, "two");
	push(w);
	assert_true(verified(w) == pushed(w));
}

/* The head was kept, and the entry of the log was cut off with a torn end: the edge sends the batch again. */
static void a_log_that_forgot_a_batch_is_given_it_again(void **state)
{
	struct world *w = *state;
	char command[256];

	add(w, "one");
	push(w);
	snprintf(command, sizeof command, "cp -a %s/chain %s/old", w->centre, w->centre);
	assert_int_equal(system(command), 0);
	add(w, "two");
	push(w);
	keeper_destroy(w->keeper);
	chain_close(w->centre_log);
	snprintf(command, sizeof command, "rm -r %s/chain && mv %s/old %s/chain", w->centre, w->centre, w->centre);
	assert_int_equal(system(command), 0);
	assert_int_equal(chain_open(w->centre, w->centre_key, &w->centre_log, NULL, NULL), 0);
	assert_int_equal(keeper_create(w->centre, w->centre_key, w->centre_log, w->conf, &w->keeper, NULL), 0);
	push(w);
	assert_true(verified(w) == pushed(w));
	add(w, "three");
	push(w);
	assert_true(verified(w) == pushed(w));
}

/* Under the edge's signature, but of a chain whose head the edge's key never signed. */
static void entries_of_another_chain_are_not_taken(void **state)
{
	struct world *w = *state;
	uint8_t bytes[MERGED_SIGNED], sig[SIGN_LEN], *p = NULL;
	json_t *head, *q;
	int64_t after = 0;
	char *text;
	size_t n = 0;

	add(w, "one");
	head = head_of(w);
	add(w, "two");
	json_decref(head);
	head = head_of(w);
	q = batch(w, head, 0);
	text = strdup(json_get_text(q, "entries"));
	assert_int_equal(base64_decode(text, strlen(text), true, &p, &n), 0);
	p[CHAIN_HASH + 40] ^= 1; /* within the first entry's payload */
	free(text);
	text = base64_encode(p, n, true);
	json_object_set_new(q, "entries", json_string(text));
	free(text);
	merged_message(&w->log_id, 0, p, n, bytes);
	assert_int_equal(signer_sign(w->edge_key, MERGED_PURPOSE, bytes, sizeof bytes, sig, NULL), 0);
	text = base64_encode(sig, sizeof sig, true);
	json_object_set_new(q, "signature", json_string(text));
	free(text);
	free(p);
	assert_string_equal(take(w, q, &after), "token_signature");
	json_decref(q);
	json_decref(head);
	assert_true(verified(w) == 0);
	push(w);
	assert_true(verified(w) == pushed(w));
}

static void configure_anew(struct world *w, bool merge)
{
	conf_destroy(w->conf);
	configure(w, merge);
	assert_int_equal(keeper_configure(w->keeper, w->conf, NULL), 0);
}

/* The edge has its key and its log's id, and writes the log anew from the first entry on. */
static void write_log_anew(struct world *w)
{
	uint8_t bytes[16];
	char command[256];

	memcpy(bytes, w->log_id.b, sizeof bytes);
	keeper_destroy(w->pusher);
	chain_close(w->edge_log);
	snprintf(command, sizeof command, "rm -r %s/chain && mv %s/begun %s/chain", w->edge, w->edge, w->edge);
	assert_int_equal(system(command), 0);
	assert_int_equal(chain_open(w->edge, w->edge_key, &w->edge_log, NULL, NULL), 0);
	chain_log_id(w->edge_log, &w->log_id);
	assert_memory_equal(bytes, w->log_id.b, sizeof bytes);
	assert_int_equal(keeper_create(w->edge, w->edge_key, NULL, w->conf, &w->pusher, NULL), 0);
}

/* A centre that kept heads alone begins to merge: what the edge sends then is the history that those heads are of. */
static void another_history_than_that_of_kept_heads_is_not_taken(void **state)
{
	struct world *w = *state;
	json_t *head, *q;
	char command[256];
	int64_t after = 0;

	configure_anew(w, false);
	snprintf(command, sizeof command, "cp -a %s/chain %s/begun", w->edge, w->edge);
	assert_int_equal(system(command), 0);
	add(w, "what was done");
	push(w);
	write_log_anew(w);
	configure_anew(w, true);
	for (int i = 0; i < 5; i++)
		add(w, "nothing was done");
	head = head_of(w);
	q = batch(w, head, 0);
	assert_string_equal(take(w, q, &after), "fork");
	json_decref(q);
	json_decref(head);
	assert_true(verified(w) == 0);
}

/* A writer of the folder changes nothing unnoticed. */
static void a_changed_byte_is_found(void **state)
{
	struct world *w = *state;
	struct verify_merged v = {0};
	struct chain_reader *r = NULL;
	struct chain_entry en;
	char path[FILE_PATH_MAX];
	int fd, damaged = 0;
	off_t size;

	add(w, "one");
	push(w);
	size = file_of(w, path);
	for (off_t at = 0; at < size; at += 37) {
		uint8_t was, now;

		fd = open(path, O_RDWR);
		assert_int_equal(pread(fd, &was, 1, at), 1);
		now = was ^ 1;
		assert_int_equal(pwrite(fd, &now, 1, at), 1);
		assert_int_equal(chain_reader_create(w->centre, 0, &r, NULL), 0);
		damaged = 0;
		while (chain_reader_next(r, &en, NULL) == 1)
			damaged +=
			    en.type == CHAIN_MERGED && verify_merged_take(&v, w->centre, &en, NULL) == ERR_CORRUPT;
		assert_true(damaged > 0);
		chain_reader_destroy(r);
		verify_merged_finish(&v);
		assert_int_equal(pwrite(fd, &was, 1, at), 1);
		close(fd);
	}
	assert_true(verified(w) == pushed(w));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(all_of_it_from_the_first_entry_on),
	    TEST(a_batch_that_comes_twice_is_there_once),
	    TEST(bytes_that_the_log_does_not_know_are_written_anew),
	    TEST(a_log_that_forgot_a_batch_is_given_it_again),
	    TEST(entries_of_another_chain_are_not_taken),
	    TEST(another_history_than_that_of_kept_heads_is_not_taken),
	    TEST(a_changed_byte_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
