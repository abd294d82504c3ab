// tier: check
/* Which bytes are kept: a table of sessions, and a random one against a plain description of the rules. */
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/record_rule.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What came out, as text: o:bytes, i:bytes, e:bytes, G(stream,offset,bytes), R for a resize. */
struct out {
	char text[4096];
	size_t n;
	uint64_t seq, offset[STREAM_COUNT];
	struct buf kept[STREAM_COUNT];
	uint64_t gaps, gap_bytes;
	uint8_t gap_sha[32];
};

static const char letters[] = "ioe";

static int emit(void *arg, const struct ring_record *rec, struct err *e)
{
	struct out *o = arg;
	struct event_gap g;

	(void)e;
	assert_true(rec->seq >= o->seq);
	o->seq = rec->seq;
	if (event_extent(rec)) {
		assert_int_equal(rec->offset, o->offset[rec->stream]);
		o->offset[rec->stream] += event_extent(rec);
	}
	if (rec->type == RING_DATA) {
		if (o->n + rec->len + 4 < sizeof o->text)
			o->n += (size_t)sprintf(o->text + o->n, "%c:%.*s ", letters[rec->stream], (int)rec->len,
						(const char *)rec->payload);
		if (o->kept[rec->stream].max)
			assert_int_equal(buf_append(&o->kept[rec->stream], rec->payload, rec->len), 0);
	} else if (rec->type == EVENT_GAP) {
		assert_int_equal(event_gap_decode(rec, &g), 0);
		o->gaps++;
		o->gap_bytes += g.bytes;
		memcpy(o->gap_sha, g.sha256, 32);
		if (o->n + 64 < sizeof o->text)
			o->n += (size_t)sprintf(o->text + o->n, "G(%c,%d,%d) ", letters[rec->stream], (int)rec->offset,
						(int)g.bytes);
	} else if (rec->type == EVENT_MISSING) {
		o->n += (size_t)sprintf(o->text + o->n, "M%d ", (int)event_extent(rec));
	} else if (o->n + 4 < sizeof o->text) {
		o->n += (size_t)sprintf(o->text + o->n, "%c ", rec->type == RING_RESIZE ? 'R' : 'S');
	}
	return 0;
}

static struct ring_record make(uint64_t seq, unsigned type, unsigned stream, const void *p, size_t n)
{
	return (struct ring_record){.seq = seq,
				    .boot_ns = seq * 1000,
				    .type = (uint8_t)type,
				    .stream = (uint8_t)stream,
				    .payload = p,
				    .len = (uint32_t)n};
}

/* script: words "o:abc", "i:x", "e:err", "R", "S", "M9" (journal lacks 9 bytes of output). */
static void play(struct trunc *t, const char *script)
{
	static uint64_t seq;
	char copy[512], *save = NULL;
	struct err e = {0};
	uint8_t count[8];

	snprintf(copy, sizeof copy, "%s", script);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		struct ring_record rec = make(++seq, RING_RESIZE, 0, "\1\0\1\0", 4);
		if (w[0] == 'S')
			rec.type = RING_SECRET;
		if (w[0] == 'M') {
			put_u64(count, (uint64_t)atoi(w + 1));
			rec = make(seq, EVENT_MISSING, STREAM_OUTPUT, count, 8);
			rec.offset = trunc_expected(t, STREAM_OUTPUT);
		}
		if (w[1] == ':') {
			unsigned stream = (unsigned)(strchr(letters, w[0]) - letters);
			rec = make(seq, RING_DATA, stream, w + 2, strlen(w + 2));
			rec.offset = trunc_expected(t, stream);
		}
		assert_int_equal(trunc_put(t, &rec, &e), 0);
	}
}

static const struct example {
	struct trunc_rule rule;
	const char *in, *out;
} examples[] = {
    {{RULE_FULL, true, 0, 0}, "o:abc i:x R o:d e:ef", "o:abc i:x R o:d e:ef "},
    /* A round: head and tail of each stream. */
    {{RULE_TRUNCATED, false, 3, 2}, "o:abc", "o:abc "},
    {{RULE_TRUNCATED, false, 3, 2}, "o:abcde", "o:abc o:de "},
    {{RULE_TRUNCATED, false, 3, 2}, "o:abcdef", "o:abc G(o,3,1) o:ef "},
    {{RULE_TRUNCATED, false, 3, 2}, "o:ab o:cd o:ef o:gh", "o:ab o:c G(o,3,3) o:gh "},
    {{RULE_TRUNCATED, false, 3, 2},
     "o:abcdefgh e:12 o:ijkl e:345678 R",
     "o:abc G(o,3,7) e:12 o:kl e:3 G(e,3,3) e:78 R "},
    {{RULE_TRUNCATED, false, 0, 2}, "o:abcd o:e", "G(o,0,3) o:d o:e "},
    {{RULE_TRUNCATED, false, 2, 0}, "o:abcd o:e R", "o:ab G(o,2,3) R "},
    /* Input does not end anything in a round. */
    {{RULE_TRUNCATED, false, 1, 1}, "o:abc i:x o:def", "o:a G(o,1,4) i:x o:f "},
    /* A terminal: each burst between two inputs has budgets of its own. */
    {{RULE_TRUNCATED, true, 2, 1}, "o:abcdef i:x o:ghijkl", "o:ab G(o,2,3) o:f i:x o:gh G(o,8,3) o:l "},
    {{RULE_TRUNCATED, true, 2, 1}, "o:abc i:paste o:d", "o:ab o:c i:pa G(i,2,2) i:e o:d "},
    {{RULE_TRUNCATED, true, 2, 1}, "o:abcdef S o:ghijkl", "o:ab G(o,2,3) o:f S o:gh G(o,8,3) o:l "},
    {{RULE_METADATA, true, 9, 9}, "o:abc i:x R o:d", "G(o,0,4) G(i,0,1) R "},
    /* A hole in the journal is no gap of the rule, and no gap reaches over it. */
    {{RULE_TRUNCATED, false, 1, 1}, "o:abcd M9 o:efgh", "o:a G(o,1,2) o:d M9 G(o,13,3) o:h "},
};

static void sessions_come_out_as_in_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		struct out o = {.n = 0};
		struct trunc *t = NULL;

		assert_int_equal(trunc_create(&examples[i].rule, emit, &o, &t), 0);
		play(t, examples[i].in);
		assert_int_equal(trunc_flush(t, NULL), 0);
		assert_string_equal(o.text, examples[i].out);
		trunc_destroy(t);
	}
}

static void a_state_is_taken_up_anywhere(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
		char script[512], first[512];
		const char *space;

		snprintf(script, sizeof script, "%s", examples[i].in);
		for (space = strchr(script, ' '); space; space = strchr(space + 1, ' ')) {
			struct out o = {.n = 0};
			struct trunc *a = NULL, *b = NULL;
			struct buf saved;

			buf_init(&saved, 1 << 20);
			snprintf(first, sizeof first, "%.*s", (int)(space - script), script);
			assert_int_equal(trunc_create(&examples[i].rule, emit, &o, &a), 0);
			assert_int_equal(trunc_create(&examples[i].rule, emit, &o, &b), 0);
			play(a, first);
			assert_int_equal(trunc_save(a, &saved), 0);
			trunc_destroy(a);
			assert_int_equal(trunc_restore(b, buf_ptr(&saved), buf_len(&saved), NULL), 0);
			play(b, space + 1);
			assert_int_equal(trunc_flush(b, NULL), 0);
			assert_string_equal(o.text, examples[i].out);
			trunc_destroy(b);
			buf_finish(&saved);
		}
	}
}

static void a_damaged_state_is_refused(void **state)
{
	struct trunc_rule rule = {RULE_TRUNCATED, false, 3, 5};
	struct out o = {.n = 0};
	struct trunc *t = NULL;
	struct buf saved;

	(void)state;
	buf_init(&saved, 1 << 20);
	assert_int_equal(trunc_create(&rule, emit, &o, &t), 0);
	play(t, "o:abcdefghijkl e:12 R o:mn");
	assert_int_equal(trunc_save(t, &saved), 0);
	for (size_t n = 0; n < buf_len(&saved); n++)
		assert_int_equal(trunc_restore(t, buf_ptr(&saved), n, NULL), ERR_CORRUPT);
	trunc_destroy(t);
	buf_finish(&saved);
}

static void check_stream(const struct out *o, const uint8_t *all, size_t n, size_t head, size_t tail, struct trunc *t,
			 unsigned stream)
{
	struct trunc_totals totals;
	uint8_t sha[32];

	trunc_totals(t, stream, &totals);
	EVP_Digest(all, n, sha, NULL, EVP_sha256(), NULL);
	assert_memory_equal(totals.sha256, sha, 32);
	assert_int_equal(totals.total, n);
	assert_int_equal(totals.kept + totals.omitted, n);
	if (n <= head + tail) {
		assert_int_equal(totals.omitted, 0);
		return;
	}
	assert_int_equal(totals.kept, head + tail);
	assert_memory_equal(buf_ptr(&o->kept[stream]), all, head);
	assert_memory_equal(buf_ptr(&o->kept[stream]) + head, all + n - tail, tail);
	if (o->gaps == 1) {
		EVP_Digest(all, n - tail, sha, NULL, EVP_sha256(), NULL);
		assert_memory_equal(o->gap_sha, sha, 32);
	}
}

static void random_rounds_keep_head_and_tail(void **state)
{
	static uint8_t all[2][300000];

	(void)state;
	srand(1);
	for (int run = 0; run < 200; run++) {
		struct trunc_rule rule = {RULE_TRUNCATED, false, (uint64_t)(rand() % 3000), (uint64_t)(rand() % 3000)};
		struct out o = {.n = 0};
		struct trunc *t = NULL;
		size_t n[2] = {0};

		for (int s = 0; s < STREAM_COUNT; s++)
			buf_init(&o.kept[s], 1 << 20);
		assert_int_equal(trunc_create(&rule, emit, &o, &t), 0);
		for (uint64_t seq = 1; seq < (uint64_t)(rand() % 200); seq++) {
			unsigned s = rand() % 4 == 0;
			size_t len = (size_t)(rand() % 1500);
			for (size_t k = 0; k < len; k++)
				all[s][n[s] + k] = (uint8_t)('a' + rand() % 26);
			struct ring_record rec = make(seq, RING_DATA, s + 1, all[s] + n[s], len);
			rec.offset = n[s];
			assert_int_equal(trunc_put(t, &rec, NULL), 0);
			n[s] += len;
		}
		assert_int_equal(trunc_flush(t, NULL), 0);
		for (unsigned s = 0; s < 2; s++)
			check_stream(&o, all[s], n[s], rule.head, rule.tail, t, s + 1);
		trunc_destroy(t);
		for (int s = 0; s < STREAM_COUNT; s++)
			buf_finish(&o.kept[s]);
	}
}

/* One stream waits for its end while others go on for ever: memory must not grow with them. */
static void waiting_is_bounded(void **state)
{
	struct trunc_rule rule = {RULE_TRUNCATED, false, 10, 1000};
	struct out o = {.n = 0};
	struct trunc *t = NULL;
	struct buf saved;
	struct trunc_totals totals;
	uint64_t offset[2] = {0}, seq = 0;
	static uint8_t data[5000];

	(void)state;
	assert_int_equal(trunc_create(&rule, emit, &o, &t), 0);
	for (int i = 0; i < 100000; i++) {
		struct ring_record rec = make(++seq, RING_EVENT, 0, "{}", 2);
		if (i % 1000 == 0) {
			rec = make(seq, RING_DATA, 1, data, sizeof data);
			rec.offset = offset[0];
			offset[0] += sizeof data;
		}
		assert_int_equal(trunc_put(t, &rec, NULL), 0);
	}
	/* One byte at a time: the tail is bounded by records too. */
	for (int i = 0; i < 100000; i++) {
		struct ring_record rec = make(++seq, RING_DATA, 2, "x", 1);
		rec.offset = offset[1]++;
		assert_int_equal(trunc_put(t, &rec, NULL), 0);
	}
	buf_init(&saved, 64 << 20);
	assert_int_equal(trunc_save(t, &saved), 0);
	assert_true(buf_len(&saved) < 4 << 20);
	buf_finish(&saved);
	assert_int_equal(trunc_flush(t, NULL), 0);
	trunc_totals(t, 1, &totals);
	assert_int_equal(totals.kept + totals.omitted, offset[0]);
	trunc_totals(t, 2, &totals);
	assert_int_equal(totals.kept, 1010);
	trunc_destroy(t);
}

/* A profile's word holds, but below a floor of the configuration, where whichever keeps more does. */
static void a_floor_is_gone_below_by_nobody(void **state)
{
	static const struct {
		struct conf_rule by_conf;
		struct record_rule named;
		enum conf_rule_kind kind;
		uint64_t head, tail;
	} rows[] = {
	    {{.rule = RULE_FULL}, {.kind = RULE_METADATA}, RULE_METADATA, 0, 0},
	    {{.rule = RULE_METADATA}, {.kind = RULE_FULL}, RULE_FULL, 0, 0},
	    {{.rule = RULE_FULL, .floor = true}, {.kind = RULE_METADATA}, RULE_FULL, 0, 0},
	    {{.rule = RULE_FULL, .floor = true}, {.kind = RULE_TRUNCATED, .head = 9}, RULE_FULL, 0, 0},
	    {{.rule = RULE_METADATA, .floor = true}, {.kind = RULE_FULL}, RULE_FULL, 0, 0},
	    {{.rule = RULE_METADATA, .floor = true}, {.kind = RULE_METADATA}, RULE_METADATA, 0, 0},
	    {{.rule = RULE_TRUNCATED, .head = 5, .tail = 6, .floor = true},
	     {.kind = RULE_METADATA},
	     RULE_TRUNCATED,
	     5,
	     6},
	    {{.rule = RULE_TRUNCATED, .head = 5, .tail = 6, .floor = true},
	     {.kind = RULE_TRUNCATED, .head = 9, .tail = 1},
	     RULE_TRUNCATED,
	     9,
	     6},
	    {{.rule = RULE_TRUNCATED, .head = 5, .tail = 6},
	     {.kind = RULE_TRUNCATED, .head = 9, .tail = 1},
	     RULE_TRUNCATED,
	     9,
	     1},
	};
	char any[] = "*";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct conf_rule rule = rows[i].by_conf;
		struct record_rule named = rows[i].named;
		struct trunc_rule r;

		rule.kind = rule.session = any;
		named.given = true;
		trunc_rule_choose(&rule, 1, "agent", "round", false, &named, &r);
		if (r.kind != rows[i].kind)
			fail_msg("row %zu: %d", i, r.kind);
		if (r.kind == RULE_TRUNCATED && (r.head != rows[i].head || r.tail != rows[i].tail))
			fail_msg("row %zu: %llu and %llu", i, (unsigned long long)r.head, (unsigned long long)r.tail);
		/* a rule for everything is none of ports, nor is its floor */
		trunc_rule_choose(&rule, 1, "agent", "port", false, &named, &r);
		assert_int_equal(r.kind, named.kind);
	}
}

/* As an OPEN has it, and whatever else may stand there. */
static void a_rule_is_read_from_an_open(void **state)
{
	static const struct {
		const char *open;
		int rc;
		bool given;
		enum conf_rule_kind kind;
		uint64_t head, tail;
	} rows[] = {
	    {"{}", 0, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":\"metadata\",\"by\":\"a/record\"}}", 0, true, RULE_METADATA, 0, 0},
	    {"{\"record\":{\"rule\":\"truncated\",\"head\":0,\"tail\":7}}", 0, true, RULE_TRUNCATED, 0, 7},
	    {"{\"record\":\"metadata\"}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":\"nothing\"}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":2}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":\"truncated\",\"head\":1}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":\"truncated\",\"head\":-1,\"tail\":1}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	    {"{\"record\":{\"rule\":\"full\",\"head\":1,\"tail\":1}}", ERR_INVAL, false, RULE_FULL, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct record_rule r = {.given = true}, again;
		struct err e = {0};
		json_t *o = NULL, *back;

		assert_int_equal(json_parse(rows[i].open, strlen(rows[i].open), 1000, &o, NULL), 0);
		if (record_rule_read(o, &r, &e) != rows[i].rc || r.given != rows[i].given || r.kind != rows[i].kind ||
		    r.head != rows[i].head || r.tail != rows[i].tail)
			fail_msg("%s: %s", rows[i].open, e.message);
		json_decref(o);
		if (!r.given)
			continue;
		back = json_pack("{s:o}", "record", record_rule_json(&r));
		assert_int_equal(record_rule_read(back, &again, NULL), 0);
		assert_memory_equal(&again, &r, sizeof(r));
		json_decref(back);
	}
}

static void rules_are_chosen_first_match_first(void **state)
{
	char agent[] = "agent", round[] = "round", any[] = "*", staff[] = "staff";
	static char port[] = "port";
	const struct conf_rule every = {.kind = any, .session = any, .rule = RULE_FULL};
	const struct conf_rule named = {.kind = any, .session = port, .rule = RULE_FULL};
	struct conf_rule rules[] = {{agent, round, RULE_TRUNCATED, 10, 20, false},
				    {staff, any, RULE_FULL, 0, 0, false},
				    {any, any, RULE_METADATA, 0, 0, false}};
	struct trunc_rule r;

	(void)state;
	trunc_rule_choose(rules, 3, "agent", "round", false, NULL, &r);
	assert_int_equal(r.kind, RULE_TRUNCATED);
	assert_int_equal(r.tail, 20);
	assert_false(r.burst);
	trunc_rule_choose(rules, 3, "staff", "terminal", true, NULL, &r);
	assert_int_equal(r.kind, RULE_FULL);
	assert_true(r.burst);
	trunc_rule_choose(rules, 3, "agent", "exec", true, NULL, &r);
	assert_int_equal(r.kind, RULE_METADATA);
	assert_true(r.burst);
	/* whole files and what servers say: by their own name alone */
	trunc_rule_choose(NULL, 0, "agent", "file", false, NULL, &r);
	assert_int_equal(r.kind, RULE_METADATA);
	trunc_rule_choose(NULL, 0, "agent", "port", false, NULL, &r);
	assert_int_equal(r.kind, RULE_METADATA);
	trunc_rule_choose(&every, 1, "agent", "port", false, NULL, &r);
	assert_int_equal(r.kind, RULE_METADATA);
	trunc_rule_choose(&named, 1, "agent", "port", false, NULL, &r);
	assert_int_equal(r.kind, RULE_FULL);
	trunc_rule_choose(rules, 1, "auditor", "exec", false, NULL, &r);
	assert_int_equal(r.kind, RULE_FULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_floor_is_gone_below_by_nobody),
	    cmocka_unit_test(a_rule_is_read_from_an_open),
	    cmocka_unit_test(sessions_come_out_as_in_the_table),
	    cmocka_unit_test(a_state_is_taken_up_anywhere),
	    cmocka_unit_test(a_damaged_state_is_refused),
	    cmocka_unit_test(random_rounds_keep_head_and_tail),
	    cmocka_unit_test(waiting_is_bounded),
	    cmocka_unit_test(rules_are_chosen_first_match_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
