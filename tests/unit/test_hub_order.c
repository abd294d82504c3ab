// tier: check
/* All input of a session goes in one order, whatever waits, and what a password prompt reads is masked: anything typed,
 * by anybody, while the record pauses, answers about the echo come early, late or never, people leave and links break.
 */
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/session/session_input.h"
#include "tests/lib/said_let.h"

#include <signal.h>

#define TYPISTS 3
#define WAIT    (20 * NS_PER_MS)

/* One who types as doors let them: what is not taken stands here, and is offered again when `writable` comes. */
struct typist {
	struct hub_client c;
	struct buf door;
	bool blocked, end_due; /* an end stands behind what is here */
	unsigned writables;    /* seen of it */
};

struct story {
	struct hub_rig *r;
	struct said_let *let;
	struct session *s;
	struct typist who[TYPISTS];
	struct buf want; /* what was taken, in that order */
	struct buf mask; /* for each byte that was journaled: '*' or '.' */
	uint64_t ends[SAID_MARKS], signals[SAID_MARKS];
	size_t nends, nsignals;
	bool record_pauses;
	unsigned held, masked, writes; /* that the story is one */
};

/* Whatever was journaled since the last look went under the mode that holds. */
static void look(struct story *t)
{
	while (buf_len(&t->mask) < t->s->in_offset)
		assert_int_equal(buf_append(&t->mask, t->s->echo_off ? "*" : ".", 1), 0);
	assert_true(buf_len(&t->s->in_queue) <= TYPEAHEAD_MAX);
	if (t->s->ahead.state == TYPEAHEAD_HELD) { /* at the end of a line, and with the next in the queue */
		assert_int_equal(buf_len(&t->want), t->s->in_offset + buf_len(&t->s->in_queue));
		assert_non_null(memchr("\r\n", buf_ptr(&t->want)[t->s->in_offset - 1], 2));
		t->held++;
	}
}

static void turn(struct story *t)
{
	uv_run(&t->r->loop, UV_RUN_NOWAIT);
	look(t);
	hub_record(t->r);
	hub_provide(t->r);
	said_turn(t->let);
}

/* ---- who types */

static void offer(struct story *t, struct typist *w)
{
	if (w->blocked && w->writables == w->c.writables)
		return;
	w->blocked = false;
	w->writables = w->c.writables;
	while (w->c.a && buf_len(&w->door) && !w->blocked) {
		ssize_t took = attachment_input(w->c.a, buf_ptr(&w->door), buf_len(&w->door));

		assert_true(took >= 0);
		w->blocked = took == 0;
		assert_int_equal(buf_append(&t->want, buf_ptr(&w->door), (size_t)took), 0);
		buf_consume(&w->door, (size_t)took);
		look(t);
	}
	if (w->c.a && w->end_due && !buf_len(&w->door)) {
		w->end_due = false;
		if (!t->s->in_eof) /* else it is one with that which waits */
			said_mark(t->ends, &t->nends, buf_len(&t->want));
		assert_int_equal(attachment_input_eof(w->c.a), 0);
		look(t);
	}
}

static void any_text(struct buf *b)
{
	static const char *const pieces[] = {"ls -l",     "\r",        "\n",      "\r\n", "a word", "x\n",
					     "\033[200~", "\033[201~", "\033[20", "0~",   "\003",   "\032"};
	size_t want = buf_len(b) + 1 + (size_t)rand() % (rand() % 8 ? 40 : rand() % 16 ? 300 : 20000);

	while (buf_len(b) < want)
		assert_int_equal(buf_append_str(b, pieces[rand() % (rand() % 4 ? 6 : 12)]), 0);
}

static void types(struct story *t, struct typist *w)
{
	if (!w->c.a || w->end_due || buf_len(&w->door) > 100000)
		return;
	t->writes++;
	any_text(&w->door);
	offer(t, w);
}

static void ends(struct story *t, struct typist *w)
{
	if (w->c.a)
		w->end_due = true;
	offer(t, w);
}

static void comes(struct story *t, struct typist *w)
{
	hub_join(t->r, &w->c, t->s, ROLE_DRIVER);
	w->blocked = w->end_due = false;
	w->writables = 0;
}

/* What its door still had is gone with it, what was taken is not. */
static void leaves(struct story *t, struct typist *w)
{
	buf_clear(&w->door);
	w->end_due = false;
	buf_finish(&w->c.got);
	if (rand() % 2) {
		attachment_cut(w->c.a, CUT_REVOKED, "by the test");
		hub_flush(t->r->hub);
	} else {
		client_leaves(&w->c);
	}
	assert_null(w->c.a);
	look(t);
}

static void calls(struct story *t)
{
	struct buf b;
	size_t took = 0;

	buf_init(&b, 100000);
	any_text(&b);
	if (!t->s->in_eof && buf_len(&b) <= TYPEAHEAD_MAX && !buf_len(&t->s->in_queue)) {
		assert_int_equal(session_queue_input(t->s, buf_ptr(&b), buf_len(&b), &took), 0);
		assert_int_equal(buf_append(&t->want, buf_ptr(&b), took), 0);
	}
	buf_finish(&b);
	look(t);
}

static void signals(struct story *t, struct typist *w)
{
	if (!w->c.a || t->s->state != SESSION_RUNNING)
		return;
	assert_int_equal(attachment_signal(w->c.a, SIGUSR1), 0);
	look(t);
	if (!buf_len(&t->s->in_queue)) /* where nothing can go on, as while the record pauses, it does not wait */
		said_mark(t->signals, &t->nsignals, buf_len(&t->want));
	else
		said_mark(t->signals, &t->nsignals, t->s->in_offset);
}

/* ---- what the terminal and the world do */

static size_t first_line(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] != '\r' && p[i] != '\n')
		i++;
	return i < n ? i + 1 : n;
}

/* The answer. Of what waits for it the first line at least goes at once, and masked if it is that. */
static void answers(struct story *t, enum link_echo mode)
{
	struct session *s = t->s;
	bool held = s->ahead.state == TYPEAHEAD_HELD;
	/* The hub learns of a change of the record with its next look, and late by a slow recorder. */
	bool record = journal_state(t->r->hub->journal) == RECORD_OK;
	bool goes = held && mode == LINK_ECHO_OFF && s->state == SESSION_RUNNING && record && !t->let->lazy;
	uint64_t from = s->in_offset;
	size_t line = first_line(buf_ptr(&s->in_queue), buf_len(&s->in_queue));

	look(t);
	if (s->echo_due) /* the terminal's own answer to the resume comes first */
		return;
	/* Nor while the hub has not heard that the terminal took what was before it. */
	goes = goes && link_input_room(s->agent->link, s->channel, from) >= line;
	session_on_echo(s, mode);
	look(t);
	if (!goes)
		return;
	assert_true(s->in_offset >= from + line);
	for (size_t i = 0; i < line; i++)
		assert_int_equal(buf_ptr(&t->mask)[from + i], '*');
	t->masked++;
}

static void says(struct story *t)
{
	static const char *const texts[] = {"\033[?2004h", "\033[?2004l\r", "$ ", "\033[?200", "\033]133;A\a"};
	const char *p = texts[rand() % 5];

	session_ahead_output(t->s, p, strlen(p));
	look(t);
}

static void ahead_in(struct story *t, uint64_t ms)
{
	uv_timer_t *timer = t->r->hub->aheads->timer;

	if (uv_is_active((uv_handle_t *)timer))
		uv_timer_start(timer, timer->timer_cb, ms, 0);
}

/* Whether nothing is on its way: what a break swallows is not sent again, and is told as lost. */
static bool link_rests(const struct link *l)
{
	struct pollfd in = {.fd = l->fd, .events = POLLIN};

	return !link_queued(l) && poll(&in, 1, 0) == 0;
}

/* Until the hub has noticed it, neither a time nor a word from inside lets input go that is held: it would be lost. */
static void breaks(struct story *t)
{
	struct link *l = t->s->agent->link;

	if (t->s->state != SESSION_RUNNING || t->record_pauses)
		return;
	do {
		turn(t);
		ahead_in(t, 3600 * 1000);
	} while (!link_rests(l));
	assert_int_equal(shutdown(l->fd, SHUT_RDWR), 0);
	while (t->s->state != SESSION_SUSPENDED)
		turn(t);
	ahead_in(t, 1);
}

static void pauses(struct story *t, bool on)
{
	t->record_pauses = on;
	t->r->disk_full = on;
	hub_record(t->r);
}

static void step(struct story *t)
{
	struct typist *w = &t->who[rand() % TYPISTS];

	switch (rand() % 24) {
	case 0 ... 6:
		types(t, w);
		break;
	case 7 ... 11:
		answers(t, (enum link_echo)(rand() % 3));
		break;
	case 12 ... 13:
		says(t);
		break;
	case 14:
		calls(t);
		break;
	case 15:
		ends(t, w);
		break;
	case 16:
		signals(t, w);
		break;
	case 17:
		if (w->c.a)
			(void)attachment_resize(w->c.a, 80 + (unsigned)rand() % 20, 24, 0, 0);
		break;
	case 18:
		t->let->lazy = rand() % 4 == 0;
		said_consumed(t->let);
		break;
	case 19:
		if (rand() % 4 == 0)
			pauses(t, !t->record_pauses);
		break;
	case 20:
		if (w->c.a && rand() % 4 == 0)
			leaves(t, w);
		else if (!w->c.a)
			comes(t, w);
		break;
	case 21:
		if (rand() % 16 == 0)
			breaks(t);
		break;
	default:
		turn(t);
	}
	look(t);
	if (rand() % 3 == 0)
		turn(t);
	for (int i = 0; i < TYPISTS; i++)
		offer(t, &t->who[i]);
}

static bool settled(const struct story *t)
{
	for (int i = 0; i < TYPISTS; i++)
		if (buf_len(&t->who[i].door) || t->who[i].end_due)
			return false;
	return !buf_len(&t->s->in_queue) && !t->s->in_eof && buf_len(&t->let->got) == buf_len(&t->want) &&
	       buf_len(&t->r->input) == buf_len(&t->want) && t->let->nends == t->nends &&
	       t->let->nsignals == t->nsignals;
}

/* Nobody answers any more, and all of it goes all the same. */
static void settle(struct story *t)
{
	uint64_t until = clock_boot_ns() + (getenv("QUICK") ? 5 : 60) * NS_PER_SEC;

	pauses(t, false);
	t->let->lazy = false;
	while (!settled(t) && clock_boot_ns() < until) {
		said_consumed(t->let);
		hub_turn(t->r);
		look(t);
		said_turn(t->let);
		for (int i = 0; i < TYPISTS; i++)
			offer(t, &t->who[i]);
	}
	if (!settled(t))
		fail_msg("state %d, queued %zu, eof %llx, taken %zu, journaled %llu, recorded %zu, came %zu, ends %zu "
			 "of %zu, "
			 "signals %zu of %zu, doors %zu %zu %zu",
			 (int)t->s->state, buf_len(&t->s->in_queue), (unsigned long long)t->s->in_eof,
			 buf_len(&t->want), (unsigned long long)t->s->in_offset, buf_len(&t->r->input),
			 buf_len(&t->let->got), t->let->nends, t->nends, t->let->nsignals, t->nsignals,
			 buf_len(&t->who[0].door), buf_len(&t->who[1].door), buf_len(&t->who[2].door));
}

static void compare(const struct story *t)
{
	const uint8_t *want = buf_ptr(&t->want), *mask = buf_ptr(&t->mask), *record = buf_ptr(&t->r->input);

	assert_memory_equal(buf_ptr(&t->let->got), want, buf_len(&t->want));
	for (size_t i = 0; i < buf_len(&t->want); i++)
		assert_int_equal(record[i], mask[i] == '*' ? '*' : want[i]);
	assert_memory_equal(t->let->ends, t->ends, t->nends * sizeof(t->ends[0]));
	assert_memory_equal(t->let->signals, t->signals, t->nsignals * sizeof(t->signals[0]));
}

static struct story *begin(unsigned seed)
{
	struct story *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	srand(seed);
	t->r = hub_rig_create(NULL);
	t->let = said_create(t->r);
	t->r->hub->conf->typed_ahead_ns = WAIT;
	buf_init(&t->want, 64 << 20);
	buf_init(&t->mask, 64 << 20);
	for (int i = 0; i < TYPISTS; i++)
		buf_init(&t->who[i].door, 1 << 20);
	hub_ask(t->r, &t->who[0].c, SESSION_TERMINAL, "anything", NULL);
	assert_true(hub_until(
	    t->r, (said_turn(t->let), t->who[0].c.opened && t->who[0].c.s && t->who[0].c.s->state == SESSION_RUNNING)));
	t->s = t->who[0].c.s;
	session_on_echo(t->s, LINK_ECHO_KEYS);
	return t;
}

static void finish(struct story *t)
{
	said_consumed(t->let);
	for (int i = 0; i < TYPISTS; i++) {
		buf_finish(&t->who[i].door);
		if (t->who[i].c.a)
			client_leaves(&t->who[i].c);
		buf_finish(&t->who[i].c.got);
	}
	buf_finish(&t->want);
	buf_finish(&t->mask);
	hub_rig_destroy(t->r);
	said_destroy(t->let);
	free(t);
}

/* STORIES, SEED: how many, from which. */
static void what_goes_in_comes_out(void **state)
{
	unsigned stories = getenv("STORIES") ? (unsigned)atoi(getenv("STORIES")) : 6;
	unsigned seed = getenv("SEED") ? (unsigned)atoi(getenv("SEED")) : 1;
	unsigned held = 0, masked = 0, signalled = 0, ended = 0;

	(void)state;
	for (unsigned i = 0; i < stories; i++) {
		struct story *t = begin(seed + i);

		for (unsigned k = 0; k < 3000; k++)
			step(t);
		settle(t);
		compare(t);
		held += t->held, masked += t->masked, ended += (unsigned)t->nends, signalled += (unsigned)t->nsignals;
		finish(t);
	}
	assert_true(held > 0 && masked > 0 && ended > 0 && signalled > 0);
	printf("  held %u times, %u of them for a password, %u ends, %u signals\n", held, masked, ended, signalled);
}

/* A program asks for a password while the link is down: what is typed waits until the terminal has said so. */
static void what_a_prompt_reads_behind_a_break_is_masked(void **state)
{
	static const char word[] = "secret\r";
	struct story *t = begin(1);
	uint64_t from;

	(void)state;
	t->let->mute = true;
	breaks(t);
	assert_true(hub_until(t->r, (said_turn(t->let), t->s->state == SESSION_RUNNING)));
	from = t->s->in_offset;
	assert_int_equal(attachment_input(t->who[0].c.a, word, strlen(word)), 0);
	hub_turns(t->r, 50);
	assert_int_equal(t->s->in_offset, from);
	said_echo(t->let, ECHO_CANONICAL);
	assert_true(hub_until(t->r, t->who[0].c.writables > 0));
	assert_int_equal(attachment_input(t->who[0].c.a, word, strlen(word)), strlen(word));
	assert_true(hub_until(t->r, (said_turn(t->let), buf_len(&t->let->got) == strlen(word))));
	assert_memory_equal(buf_ptr(&t->let->got), word, strlen(word));
	assert_true(hub_until(t->r, buf_len(&t->r->input) == from + strlen(word)));
	assert_memory_equal(buf_ptr(&t->r->input) + from, "*******", strlen(word));
	finish(t);
}

/* A terminal that was closed inside tells no mode any more: input waits for a while, and not for ever. */
static void a_terminal_that_tells_nothing_is_not_waited_for_long(void **state)
{
	struct story *t = begin(1);

	(void)state;
	t->let->mute = true;
	breaks(t);
	assert_true(hub_until(t->r, (said_turn(t->let), t->s->state == SESSION_RUNNING)));
	assert_true(t->s->echo_due > clock_boot_ns());
	assert_int_equal(attachment_input(t->who[0].c.a, "x\r", 2), 0);
	assert_true(hub_until(t->r, (said_turn(t->let), t->who[0].c.writables > 0)));
	assert_int_equal(attachment_input(t->who[0].c.a, "x\r", 2), 2);
	assert_true(hub_until(t->r, (said_turn(t->let), buf_len(&t->let->got) == 2)));
	finish(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_goes_in_comes_out),
					   cmocka_unit_test(what_a_prompt_reads_behind_a_break_is_masked),
					   cmocka_unit_test(a_terminal_that_tells_nothing_is_not_waited_for_long)};

	return cmocka_run_group_tests_name("hub_order", tests, NULL, NULL);
}
