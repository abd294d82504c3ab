// tier: check
/*
 * A start whose word to muxlet was lost: whether it came is known by where it stands in muxlet's life, and what never
 * came may be asked for again with the same exec_id. One row for each moment at which net can die, then each is asked
 * again: the command adds a byte to a file, and in the end there is one.
 */
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/link/agent_link.h"
#include "muxd/hub/session/session_json.h"
#include "tests/lib/hub_rig.h"

#include <sys/stat.h>

#define FRESH(name) struct hub_rig *name = hub_rig_create(NULL)

struct once {
	struct hub_rig *r;
	char file[100], command[160];
	struct id first;
	json_t *open; /* of the first start, as the record has it */
};

static void ask_once(struct once *o, struct hub_client *c)
{
	struct exec_spec spec = {.kind = SESSION_ROUND,
				 .agent = "box",
				 .command = o->command,
				 .exec_id = "once-1",
				 .head = UINT64_MAX,
				 .tail = UINT64_MAX};
	struct request rq = hub_request();

	memset(c, 0, sizeof(*c));
	broker_open(o->r->hub, &rq, &spec, NULL, NULL, client_opened, c);
}

static struct session *only_round(const struct once *o)
{
	struct session *s = TAILQ_FIRST(hub_sessions(o->r->hub));

	assert_non_null(s);
	return s;
}

static long size_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (long)st.st_size;
}

/* The sandbox is up, so that a start is one step; nothing else was begun in it yet. */
static void once_begin(struct once *o)
{
	struct hub_client c;

	memset(o, 0, sizeof(*o));
	o->r = hub_rig_create(NULL);
	snprintf(o->file, sizeof(o->file), "%s/once", o->r->dir);
	snprintf(o->command, sizeof(o->command), "printf x >>%s", o->file);
	hub_open(o->r, &c, SESSION_ROUND, "true");
	assert_true(hub_until(o->r, json_array_size(o->r->exits) == 1));
	buf_finish(&c.got);
}

static void once_end(struct once *o)
{
	unlink(o->file);
	json_decref(o->open);
	hub_rig_destroy(o->r);
}

/* ---- moments */

/* The intent is in the ring; the frame is not in the socket. */
static void before_the_word(struct once *o, struct hub_client *c)
{
	struct session *s;

	ask_once(o, c);
	s = only_round(o);
	buf_consume(&s->agent->link->out, buf_len(&s->agent->link->out));
}

/* muxlet has it, and its answer was not read: muxlet stands still while the hub writes, or the same turn could read it.
 */
static void behind_the_word(struct once *o, struct hub_client *c)
{
	int status;

	assert_int_equal(kill(o->r->let->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(o->r->let->pid, &status, WUNTRACED), o->r->let->pid);
	ask_once(o, c);
	uv_run(&o->r->loop, UV_RUN_NOWAIT);
	assert_int_equal(kill(o->r->let->pid, SIGCONT), 0);
	while (!size_of(o->file))
		usleep(1000);
	(void)c;
}

/* The round has ended, and muxlet forgot it; the record lost its end. */
static void behind_its_end(struct once *o, struct hub_client *c)
{
	ask_once(o, c);
	assert_true(hub_until(o->r, json_array_size(o->r->exits) == 2));
}

static void kill_net(struct once *o, bool marked)
{
	struct session *s = only_round(o);
	json_t *open = session_open_json(s), *entry;
	struct err e = {0};

	assert_non_null(json_object_get(open, "start"));
	if (!marked)
		json_object_del(open, "start");
	o->first = s->id;
	entry = json_pack("{s:s,s:O,s:[i,i,i]}", "session", s->id_text, "open", open, "offsets", 0, 0, 0);
	o->open = open;
	hub_rig_again(o->r);
	assert_int_equal(session_restore(o->r->hub, entry, &e), 0);
	agent_reconnect(only_round(o)->agent);
	json_decref(entry);
}

/* The sandbox's muxlet began anew under the same name, as one in a pod may that was left alone. */
static void another_muxlet(struct once *o)
{
	hub_end_muxlet(o->r->let);
	o->r->let = calloc(1, sizeof(*o->r->let));
	assert_non_null(o->r->let);
	rig_start_muxlet(o->r->let, NULL);
	memcpy(o->r->info.secret, o->r->let->secret, sizeof(o->r->info.secret));
}

/* ---- the table */

enum first { GONE, SAME, UNKNOWN };

static const struct row {
	const char *name;
	void (*moment)(struct once *o, struct hub_client *c);
	bool marked, renewed;
	enum first first; /* the start never came: another round runs; it is that round; nobody knows */
	long bytes;
} rows[] = {
    {"before the word", before_the_word, true, false, GONE, 1},
    {"behind the word", behind_the_word, true, false, SAME, 1},
    {"its end is lost", behind_its_end, true, false, UNKNOWN, 1},
    {"before the word, a record without the mark", before_the_word, false, false, UNKNOWN, 0},
    {"before the word, another muxlet", before_the_word, true, true, UNKNOWN, 0},
};

static void ended_as(struct once *o, const struct row *row)
{
	struct session *s = hub_session_find(o->r->hub, &o->first);
	const struct session_result *how;

	assert_non_null(s);
	assert_true(hub_until(o->r, session_result(s)));
	how = session_result(s);
	assert_int_equal(how->cause, row->first == GONE   ? EXIT_NOT_STARTED
				     : row->first == SAME ? EXIT_EXITED
							  : EXIT_UNKNOWN);
	assert_int_equal(how->refused, row->first == GONE ? ERR_DID_NOT_RUN : 0);
}

static void a_start_is_asked_for_again(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct hub_client c;
		struct session *now;
		struct once o;

		print_message("  %s\n", row->name);
		once_begin(&o);
		row->moment(&o, &c);
		kill_net(&o, row->marked);
		if (row->renewed)
			another_muxlet(&o);
		ask_once(&o, &c); /* ahead of the link: it waits for what that shows */
		assert_int_equal(c.opened, !row->marked);
		assert_true(hub_until(o.r, c.opened));
		assert_int_equal(c.rc, 0);
		ended_as(&o, row);
		now = c.s;
		assert_non_null(now);
		assert_int_equal(id_equal(&now->id, &o.first), row->first != GONE);
		assert_true(hub_until(o.r, session_result(now)));
		assert_int_equal(size_of(o.file), row->bytes);
		ask_once(&o, &c); /* and the answer stands */
		assert_int_equal(c.opened, 1);
		assert_true(c.s == now);
		once_end(&o);
	}
}

/* Nobody is told that it runs: who waited hears that it did not, whether it has an exec_id or not. */
static void a_link_that_breaks_under_a_start(void **state)
{
	struct hub_client c;
	struct session *s;
	struct once o;

	(void)state;
	once_begin(&o);
	before_the_word(&o, &c);
	s = only_round(&o);
	hub_break(o.r, s);
	assert_true(hub_until(o.r, c.opened));
	assert_int_equal(c.rc, ERR_DID_NOT_RUN);
	assert_non_null(strstr(c.why, "nothing of it ran"));
	ask_once(&o, &c);
	assert_true(hub_until(o.r, c.opened));
	assert_int_equal(c.rc, 0);
	assert_true(hub_until(o.r, session_result(c.s)));
	assert_int_equal(size_of(o.file), 1);
	once_end(&o);
}

/* The link stays away for longer than a caller waits: the round is not given up, and the next call hears of it. */
static void a_link_that_stays_away(void **state)
{
	struct hub_client c;
	struct session *s;
	struct once o;

	(void)state;
	once_begin(&o);
	before_the_word(&o, &c);
	s = only_round(&o);
	o.r->deaf = true;
	hub_break(o.r, s);
	s->opened_boot_ns = 0; /* as if it had been asked for long ago */
	assert_true(hub_until(o.r, c.opened));
	assert_int_equal(c.rc, ERR_LINK_LOST);
	assert_int_equal(s->state, SESSION_SUSPENDED);
	ask_once(&o, &c);
	o.r->deaf = false;
	assert_true(hub_until(o.r, c.opened));
	assert_int_equal(c.rc, 0);
	assert_true(hub_until(o.r, session_result(c.s)));
	assert_int_equal(size_of(o.file), 1);
	once_end(&o);
}

/* Another hub hears of it from the record: the exec_id is free. */
static void the_record_frees_the_exec_id(void **state)
{
	static const struct {
		const char *refused;
		bool free;
	} ends[] = {{NULL, false},
		    {"program_not_found", false},
		    {"did_not_run", true},
		    {"limit_reached", true},
		    {"unavailable", true}};
	struct err e = {0};
	FRESH(r);

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		char id[ID_STR_LEN], exec_id[16];
		struct id session;
		json_t *entry;

		assert_int_equal(id_new(&session), 0);
		id_format(&session, id);
		snprintf(exec_id, sizeof(exec_id), "e-%zu", i);
		entry = json_pack("{s:s,s:b,s:{s:s,s:s,s:s,s:s},s:{s:s,s:i,s:s*}}", "session", id, "ended", 1, "open",
				  "agent", "box", "principal", "tester", "exec_id", exec_id, "digest", "d", "exit",
				  "cause", "not_started", "code", -1, "refused", ends[i].refused);
		assert_non_null(entry);
		assert_int_equal(session_restore(r->hub, entry, &e), 0);
		assert_int_equal(exec_ids_find(r->hub->exec_ids, "box", -1, "tester", exec_id) == NULL, ends[i].free);
		json_decref(entry);
	}
	hub_rig_destroy(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_start_is_asked_for_again),
	    cmocka_unit_test(a_link_that_breaks_under_a_start),
	    cmocka_unit_test(a_link_that_stays_away),
	    cmocka_unit_test(the_record_frees_the_exec_id),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
