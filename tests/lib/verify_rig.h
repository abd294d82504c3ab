/*
 * verify_rig.h - a small recording, and what verification says about it, for tests of verification.
 *
 * A test gets a struct record of its own (VERIFY_TEST). Static functions, for inclusion by one test.
 */
#ifndef TESTS_LIB_VERIFY_RIG_H
#define TESTS_LIB_VERIFY_RIG_H

#include "tests/lib/recordings.h"

#include "recorder/verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define VERIFY_TEST(f) cmocka_unit_test_setup_teardown(f, verify_setup, verify_teardown)

struct seen {
	unsigned integrity, completeness, notes;
	char codes[4096];  /* " code code ..." */
	uint64_t at;       /* place that should be named */
	bool placed;       /* an integrity finding covers it */
	struct id session; /* should be named */
	bool named;
	unsigned lines; /* recordings reported */
};

static inline void sink(void *arg, const struct verify_finding *f)
{
	struct seen *s = arg;

	if (f->class == VERIFY_INTEGRITY)
		s->integrity++;
	else if (f->class == VERIFY_COMPLETENESS)
		s->completeness++;
	else
		s->notes++;
	assert_true(f->message[0]);
	if (strlen(s->codes) + strlen(f->code) + 2 < sizeof s->codes)
		strcat(strcat(s->codes, " "), f->code);
	if (f->class == VERIFY_INTEGRITY && s->at >= f->pos && s->at < f->pos + f->len)
		s->placed = true;
	if (id_equal(&f->session, &s->session))
		s->named = true;
}

static inline int verify_setup(void **state)
{
	static struct record r;

	record_begin(&r, 7);
	*state = &r;
	return 0;
}

static inline int verify_teardown(void **state)
{
	record_end(*state);
	return 0;
}

static inline struct verify_result check(struct record *r, const char *path, struct seen *s)
{
	struct verify_result result;
	struct err e = {0};

	need(verify_recording(path, &r->keys, true, sink, s, &result, &e), &e, "verify_recording");
	assert_int_equal(result.intact, s->integrity == 0);
	assert_int_equal(result.complete, s->completeness == 0);
	return result;
}

/* Small enough to flip each of its bytes: four blocks, by checkpoints. */
static inline void build_small(struct record *r, unsigned n, struct chain *chain, struct chain_seal *out)
{
	struct id id = record_id(n);
	struct builder *b = record_open(r, &id, "terminal", NULL);
	struct err e = {0};
	char text[64];

	for (int i = 0; i < 4; i++) {
		struct buf state;
		buf_init(&state, 1 << 20);
		snprintf(text, sizeof text, "block %d of the session, and some text\r\n", i);
		record_text(r, b, STREAM_OUTPUT, text);
		record_text(r, b, STREAM_INPUT, "k");
		if (i < 3)
			need(builder_checkpoint(b, &state, &e), &e, "checkpoint");
		buf_finish(&state);
	}
	record_exit(r, b, 0);
	record_seal(r, b, chain, out);
}

#endif
