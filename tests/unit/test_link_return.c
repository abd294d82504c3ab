// tier: check
/* A link that is lost, and the hub that comes back to a real muxlet. */
#include "tests/lib/link_nap.h"
#include "tests/lib/link_rig.h"
#include "tests/lib/own_processes.h"

#include <fcntl.h>
#include <unistd.h>

#define FRESH(r) struct rig *r = rig_create()

static const struct link_channel_info *listed(const struct rig *r, uint32_t channel)
{
	for (size_t i = 0; i < r->nlist; i++)
		if (r->list[i].channel == channel)
			return &r->list[i];
	return NULL;
}

/* The hub is away; it comes back once the only program has ended. */
static void attach_when_ended(struct rig *r)
{
	for (int looks = 0; looks == 0 || (looks < 400 && !r->list[0].exited); looks++) {
		if (looks)
			rig_break(r);
		usleep(50000);
		rig_attach(r);
	}
	assert_true(r->list[0].exited);
}

/* A program waits for this file, so that no test has to be faster than it. */
static char gate[64];

static void gate_shut(void)
{
	snprintf(gate, sizeof(gate), "/tmp/muxd-link-return.%d", (int)getpid());
	(void)unlink(gate);
}

static void gate_open(void)
{
	int fd = open(gate, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	close(fd);
}

/* Behind the gate. */
static const char *gated(const char *before, const char *then)
{
	static char script[400];

	gate_shut();
	snprintf(script, sizeof(script), "%s while [ ! -e %s ]; do sleep 0.02; done; %s", before, gate, then);
	return script;
}

static void resume(struct rig *r, uint32_t channel, uint64_t input_at)
{
	uint64_t have[3] = {input_at, r->ch[channel].next[1], r->ch[channel].next[2]};

	assert_int_equal(link_resume(r->link, channel, have, RIG_WINDOW), 0);
}

static void a_broken_stream_loses_nothing(void **state)
{
	uint8_t *want = malloc(30 * 1000 * 1000);
	size_t n = 0;
	FRESH(r);

	(void)state;
	assert_non_null(want);
	for (int i = 1; n + 12 < 8000000; i++)
		n += (size_t)sprintf((char *)want + n, "%d\n", i);
	rig_open(r, 1, "seq 1 3000000 | head -c 7999990; echo over >&2; read last; exit 9",
		 (struct rig_call){.with_stdin = true});
	for (int round = 0; round < 40 && r->ch[1].next[2] == 0; round++) {
		uint64_t target = r->ch[1].next[1] + 100000 + (uint64_t)round * 4321;

		assert_true(rig_until(r, 10000, r->ch[1].next[1] >= target || r->ch[1].next[2]));
		rig_break(r);
		usleep(round % 3 ? 0 : 30000);
		rig_attach(r);
		assert_non_null(listed(r, 1));
		assert_true(listed(r, 1)->kept_from[1] <= r->ch[1].next[1]);
		resume(r, 1, 0);
	}
	assert_true(rig_until(r, 10000, r->ch[1].next[2]));
	rig_type(r, 1, 0, "x\n", 2);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].exit.code, 9);
	assert_int_equal(r->ch[1].len[1], 7999990);
	assert_memory_equal(r->ch[1].text[1], want, 7999990);
	free(want);
	rig_destroy(r);
}

static void an_end_without_a_hub_is_told_later(void **state)
{
	FRESH(r);
	uint64_t zero[3] = {0};

	(void)state;
	rig_open(r, 1, gated("", "echo alone; exit 4"), (struct rig_call){0});
	rig_sleep(r, 50);
	rig_break(r);
	gate_open();
	attach_when_ended(r);
	assert_int_equal(r->nlist, 1);
	assert_int_equal(r->list[0].exit.code, 4);
	assert_int_equal(r->list[0].produced[1], 6);
	assert_int_equal(link_resume(r->link, 1, zero, 1000), 0);
	assert_int_equal(link_resume(r->link, 1, zero, 1000), ERR_BAD_STATE);
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "alone\n");
	assert_int_equal(link_forget(r->link, 1), 0);
	rig_sleep(r, 50);
	rig_break(r);
	rig_attach(r);
	assert_int_equal(r->nlist, 0);
	rig_destroy(r);
}

static void resuming_before_the_spool_is_refused(void **state)
{
	FRESH(r);
	uint64_t have[3] = {0};

	(void)state;
	rig_open(r, 1, "echo one; sleep $NAP", (struct rig_call){.env = nap_env()});
	assert_true(rig_until(r, 5000, r->ch[1].len[1] == 4));
	rig_sleep(r, 50); /* the ACK frees it */
	rig_break(r);
	rig_attach(r);
	assert_int_equal(listed(r, 1)->kept_from[1], 4);
	assert_int_equal(link_resume(r->link, 1, have, 1000), ERR_INVAL);
	have[1] = 5;
	assert_int_equal(link_resume(r->link, 1, have, 1000), ERR_INVAL);
	assert_int_equal(link_kill(r->link, 1, EXIT_KILLED), 0); /* without a resume */
	assert_int_equal(link_forget(r->link, 1), 0);
	assert_true(rig_until(r, 5000, nappers() == 0));
	rig_destroy(r);
}

static void undelivered_keys_are_not_sent_again(void **state)
{
	static uint8_t keys[150000];
	FRESH(r);
	uint64_t consumed;

	(void)state;
	memset(keys, 'a', sizeof(keys));
	for (size_t i = 79; i < sizeof(keys); i += 80)
		keys[i] = '\n';
	rig_open(r, 1,
		 gated("stty -echo; echo ready;", "while read l; do case $l in NEW*) echo \"$l\"; exit;; esac; done"),
		 (struct rig_call){.pty = true});
	assert_true(rig_until(r, 5000, strstr(rig_text(r, 1, 1), "ready")));
	rig_type(r, 1, 0, keys, sizeof(keys));
	assert_true(rig_until(r, 20000, r->ch[1].consumed > 0));
	rig_break(r);
	rig_attach(r);
	consumed = listed(r, 1)->input_consumed;
	assert_true(consumed > 0 && consumed < sizeof(keys));
	gate_open();
	/* A gap wider than the input window must not stop input either. */
	resume(r, 1, consumed + 5 * LINK_INPUT_WINDOW);
	rig_type(r, 1, consumed + 5 * LINK_INPUT_WINDOW, "\nNEW keys\n", 10);
	rig_wait_exit(r, 1);
	assert_non_null(strstr(rig_text(r, 1, 1), "NEW keys"));
	assert_int_equal(r->ch[1].exit.total[0], consumed + 10);
	rig_destroy(r);
}

static void the_stdin_of_a_round_is_sent_again(void **state)
{
	static uint8_t text[200000];
	FRESH(r);
	uint64_t consumed;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)('a' + i % 26);
	rig_open(r, 1, gated("", "cat"), (struct rig_call){.with_stdin = true});
	rig_type(r, 1, 0, text, sizeof(text)); /* a pipe takes 64 KiB, the rest waits in muxlet */
	assert_true(rig_until(r, 20000, r->ch[1].consumed > 0));
	rig_break(r);
	rig_attach(r);
	consumed = listed(r, 1)->input_consumed;
	assert_true(consumed > 0 && consumed < sizeof(text));
	gate_open();
	resume(r, 1, consumed);
	assert_int_equal(rig_type(r, 1, consumed, text + consumed, sizeof(text) - consumed), sizeof(text));
	assert_int_equal(link_input_eof(r->link, 1, sizeof(text)), 0);
	rig_wait_exit(r, 1);
	assert_int_equal(r->ch[1].len[1], sizeof(text));
	assert_memory_equal(r->ch[1].text[1], text, sizeof(text));
	rig_destroy(r);
}

static void input_that_waits_without_a_hub_is_delivered(void **state)
{
	static uint8_t text[200000];
	FRESH(r);
	uint64_t zero[3] = {0};

	(void)state;
	memset(text, 'z', sizeof(text));
	rig_open(r, 1, gated("", "head -c 200000 | wc -c"), (struct rig_call){.with_stdin = true});
	rig_type(r, 1, 0, text, sizeof(text));
	assert_true(rig_until(r, 20000, r->ch[1].consumed > 0));
	rig_break(r);
	gate_open();
	attach_when_ended(r);
	assert_int_equal(r->list[0].input_consumed, sizeof(text));
	assert_int_equal(link_resume(r->link, 1, zero, 1000), 0);
	rig_wait_exit(r, 1);
	assert_string_equal(rig_text(r, 1, 1), "200000\n");
	rig_destroy(r);
}

static void the_newest_epoch_wins(void **state)
{
	FRESH(r);
	struct link *old = r->link;

	(void)state;
	rig_new_link(r);
	assert_int_equal(link_attach(r->link, rig_dial(r), r->epoch), 0); /* the same epoch: too old */
	assert_true(rig_until(r, 5000, r->downs));
	assert_int_equal(r->down_rc, ERR_CONFLICT);
	assert_int_equal(link_state(old), LINK_UP);
	r->downs = 0;
	r->epoch++;
	assert_int_equal(link_attach(r->link, rig_dial(r), 0), 0); /* a clock set back: by now the link knows better */
	assert_true(rig_until(r, 5000, r->ups == 2 && r->downs == 1));
	assert_int_equal(link_state(old), LINK_IDLE);
	assert_int_equal(r->down_rc, ERR_CONFLICT);
	r->downs = 0;
	link_destroy(old);
	rig_destroy(r);
}

static void a_wrong_secret_opens_nothing(void **state)
{
	FRESH(r);
	struct link *right = r->link;

	(void)state;
	r->secret[7] ^= 1;
	rig_new_link(r);
	r->secret[7] ^= 1;
	assert_int_equal(link_attach(r->link, rig_dial(r), 99), 0);
	assert_true(rig_until(r, 5000, r->downs));
	assert_int_equal(r->down_rc, ERR_PROTOCOL); /* a peer that does not know the secret is not our muxlet */
	assert_int_equal(link_state(r->link), LINK_CUT);
	assert_int_equal(link_attach(r->link, rig_dial(r), 100), ERR_BAD_STATE);
	assert_int_equal(link_state(right), LINK_UP);
	link_destroy(r->link);
	r->link = right;
	rig_open(r, 1, "exit 0", (struct rig_call){0});
	rig_wait_exit(r, 1);
	rig_destroy(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_broken_stream_loses_nothing),
	    cmocka_unit_test(an_end_without_a_hub_is_told_later),
	    cmocka_unit_test(resuming_before_the_spool_is_refused),
	    cmocka_unit_test(undelivered_keys_are_not_sent_again),
	    cmocka_unit_test(the_stdin_of_a_round_is_sent_again),
	    cmocka_unit_test(input_that_waits_without_a_hub_is_delivered),
	    cmocka_unit_test(the_newest_epoch_wins),
	    cmocka_unit_test(a_wrong_secret_opens_nothing),
	};

	own_processes();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	gate_shut();
	return failed;
}
