// tier: check, slice SEEDS=5 MINUTES=1 CALLS=24000, whole SEEDS=60
/* Failed log-ins become few audit events that leave nothing out, whatever comes and whenever it is killed. */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/record/repeats.h"
#include "muxd/hub/record/repeats_file.h"
#include "policy/grant.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define T0   (1000 * NS_PER_SEC)
#define WALL INT64_C(1790000000000000000)

/* The state of a process, and the part that outlives it. */
struct world {
	struct repeats *f;
	char *kept[REPEATS_SLOTS];
	json_t *written; /* events of the audit log */
	uint64_t firsts;
	bool full, dies_after_write;
};

static int on_write(void *arg, const json_t *event)
{
	struct world *w = arg;

	if (w->full)
		return ERR_AGAIN;
	assert_true(strlen(json_string_value(json_object_get(event, "event"))) > 0);
	json_array_append(w->written, json_deep_copy(event));
	json_decref(json_array_get(w->written, json_array_size(w->written) - 1));
	return 0;
}

static void on_keep(void *arg, enum repeats_of of, size_t slot, const char *text, size_t n)
{
	struct world *w = arg;

	(void)of;
	assert_true(slot < REPEATS_SLOTS && n <= REPEATS_EVENT_MAX);
	if (w->dies_after_write)
		return;
	free(w->kept[slot]);
	w->kept[slot] = n ? strndup(text, n) : NULL;
}

static const struct repeats_ops ops = {.write = on_write, .keep = on_keep};

static void begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->written = json_array();
	assert_int_equal(repeats_create(REPEATS_LOGINS, &ops, w, &w->f), 0);
}

static void end(struct world *w)
{
	repeats_destroy(w->f);
	for (size_t i = 0; i < REPEATS_SLOTS; i++)
		free(w->kept[i]);
	json_decref(w->written);
}

/* kill -9, and the next start. */
static void kill_it_of(struct world *w, enum repeats_of of)
{
	repeats_destroy(w->f);
	w->dies_after_write = false;
	assert_int_equal(repeats_create(of, &ops, w, &w->f), 0);
	for (size_t i = 0; i < REPEATS_SLOTS; i++)
		if (w->kept[i])
			assert_true(repeats_owe(w->f, i, w->kept[i], strlen(w->kept[i])));
}

static void kill_it(struct world *w)
{
	kill_it_of(w, REPEATS_LOGINS);
}

static bool fail_at(struct world *w, const char *peer, const char *endpoint, const struct grant *who, uint64_t at)
{
	struct repeat it = {.door = "rest",
			    .what = "token",
			    .outcome = who ? "token_expired" : "token_forged",
			    .endpoint = endpoint,
			    .peer = peer,
			    .message = "the token was not signed here",
			    .who = who};
	bool first = repeats_note(w->f, &it, T0 + at, WALL + (int64_t)at);

	w->firsts += first;
	return first;
}

static const json_t *event_at(const struct world *w, size_t i)
{
	const json_t *o = json_array_get(w->written, i);

	assert_non_null(o);
	return o;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "(none)";
}

static uint64_t count_of(const json_t *event)
{
	return (uint64_t)json_integer_value(json_object_get(json_object_get(event, "detail"), "count"));
}

/* Each event once, whatever was written twice. */
static uint64_t told(const struct world *w)
{
	json_t *seen = json_object();
	uint64_t n = w->firsts;

	for (size_t i = 0; i < json_array_size(w->written); i++) {
		const json_t *e = event_at(w, i);
		const char *id = text_of(json_object_get(e, "detail"), "event_id");

		if (!json_object_get(seen, id))
			n += count_of(e);
		json_object_set_new(seen, id, json_true());
	}
	json_decref(seen);
	return n;
}

static void a_flood_is_one_event_a_minute(void **state)
{
	struct world w;
	const json_t *e, *d;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 153 * 60; i++)
		assert_int_equal(fail_at(&w, i % 2 ? "192.0.2.7:1111" : "192.0.2.7:2222", i % 3 ? "GET /a" : "GET /b",
					 NULL, i * (NS_PER_SEC / 153)),
				 i == 0);
	repeats_tick(w.f, T0 + 60 * NS_PER_SEC - 1, WALL, false);
	assert_int_equal(json_array_size(w.written), 0);
	repeats_tick(w.f, T0 + 60 * NS_PER_SEC, WALL, false);
	assert_int_equal(json_array_size(w.written), 1);
	e = event_at(&w, 0);
	d = json_object_get(e, "detail");
	assert_string_equal(text_of(e, "event"), "auth.fail");
	assert_string_equal(text_of(e, "peer"), "192.0.2.7");
	assert_string_equal(text_of(e, "door"), "rest");
	assert_string_equal(text_of(e, "outcome"), "token_forged");
	assert_string_equal(text_of(d, "what"), "token");
	assert_int_equal(count_of(e), 153 * 60 - 1);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "endpoints"), "GET /a")), 153 * 40);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "endpoints"), "GET /b")), 153 * 20 - 1);
	/* a quiet minute, then it is forgotten, and the next one is a first again */
	repeats_tick(w.f, T0 + 119 * NS_PER_SEC, WALL, false);
	assert_false(fail_at(&w, "192.0.2.7:3", "GET /a", NULL, 119 * NS_PER_SEC));
	repeats_tick(w.f, T0 + 120 * NS_PER_SEC, WALL, false);
	assert_int_equal(count_of(event_at(&w, 1)), 1);
	repeats_tick(w.f, T0 + 180 * NS_PER_SEC, WALL, false);
	assert_int_equal(json_array_size(w.written), 2);
	assert_true(fail_at(&w, "192.0.2.7:3", "GET /a", NULL, 181 * NS_PER_SEC));
	end(&w);
}

static void endpoints_beyond_eight_are_others(void **state)
{
	struct world w;
	const json_t *in;
	char name[8];

	(void)state;
	begin(&w);
	(void)fail_at(&w, "192.0.2.7:1", "e0", NULL, 0);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "e%d", i % 10);
		(void)fail_at(&w, "192.0.2.7:1", name, NULL, 0);
	}
	repeats_tick(w.f, T0, WALL, true);
	in = json_object_get(json_object_get(event_at(&w, 0), "detail"), "endpoints");
	assert_int_equal(json_object_size(in), 9);
	assert_int_equal(json_integer_value(json_object_get(in, "e7")), 5);
	assert_int_equal(json_integer_value(json_object_get(in, "others")), 10);
	assert_string_equal(text_of(event_at(&w, 0), "endpoint"), "(none)");
	(void)fail_at(&w, "192.0.2.7:1", "e9", NULL, 0);
	repeats_tick(w.f, T0, WALL, true);
	in = json_object_get(json_object_get(event_at(&w, 1), "detail"), "endpoints");
	assert_int_equal(json_object_size(in), 1);
	assert_string_equal(text_of(event_at(&w, 1), "endpoint"), "e9");
	end(&w);
}

static void a_signature_is_told_by_grant_and_endpoint(void **state)
{
	struct grant anna = {.kind = GRANT_STAFF, .principal = "anna"}, ben = {.kind = GRANT_AGENT, .principal = "ben"};
	struct world w;
	char id[ID_STR_LEN];

	(void)state;
	begin(&w);
	(void)id_new(&anna.id);
	(void)id_new(&ben.id);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(fail_at(&w, "192.0.2.7:1", "GET /a", &anna, (uint64_t)i), i == 0);
		assert_int_equal(fail_at(&w, "192.0.2.7:1", "GET /b", &anna, (uint64_t)i), i == 0);
		assert_int_equal(fail_at(&w, "192.0.2.7:1", "GET /a", &ben, (uint64_t)i), i == 0);
		assert_int_equal(fail_at(&w, "192.0.2.8:1", "GET /a", &ben, (uint64_t)i), i == 0);
		assert_int_equal(fail_at(&w, "192.0.2.7:1", "GET /a", NULL, (uint64_t)i), i == 0);
	}
	repeats_tick(w.f, T0 + 61 * NS_PER_SEC, WALL, false);
	assert_int_equal(json_array_size(w.written), 5);
	id_format(&anna.id, id);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(count_of(event_at(&w, i)), 9);
	assert_string_equal(text_of(event_at(&w, 1), "grant_id"), id);
	assert_string_equal(text_of(event_at(&w, 1), "principal"), "anna");
	assert_string_equal(text_of(event_at(&w, 1), "principal_kind"), "staff");
	assert_string_equal(text_of(event_at(&w, 1), "endpoint"), "GET /b");
	assert_string_equal(text_of(event_at(&w, 4), "grant_id"), "(none)");
	end(&w);
}

/* As the environment says, for a part of a long proof. */
static unsigned number(const char *name, unsigned usual)
{
	const char *given = getenv(name);

	return given ? (unsigned)strtoul(given, NULL, 10) : usual;
}

/* 200,000 failures from as many addresses: as many events as there are slots, and every one counted. */
enum { ADDRESSES = 40 * REPEATS_SLOTS };

static void any_number_of_addresses_is_bounded(void **state)
{
	unsigned minutes = number("MINUTES", 4);
	char peer[64];
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned minute = 0; minute < minutes; minute++) {
		for (unsigned i = 0; i < ADDRESSES; i++) {
			uint32_t a = i * 2654435761u;

			if (i % 2)
				snprintf(peer, sizeof(peer), "%u.%u.%u.%u:7", a >> 24, a >> 16 & 255, a >> 8 & 255,
					 a & 255);
			else
				snprintf(peer, sizeof(peer), "[2001:%x:%x:%x::1]:7", a >> 20, a >> 4 & 0xffff,
					 a & 0xffff);
			(void)fail_at(&w, peer, "GET /a", NULL, minute * 60 * NS_PER_SEC + i);
		}
		repeats_tick(w.f, T0 + (minute + 1) * 61 * NS_PER_SEC, WALL, false);
		assert_true(json_array_size(w.written) <= (minute + 1) * REPEATS_SLOTS);
	}
	assert_true(w.firsts <= minutes * REPEATS_SLOTS);
	assert_int_equal(told(&w), minutes * ADDRESSES);
	end(&w);
}

static void neighbours_are_counted_together_when_many(void **state)
{
	struct world w;
	char peer[64];
	bool wide = false;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 256; i++) {
		snprintf(peer, sizeof(peer), "198.51.100.%u:7", i);
		(void)fail_at(&w, peer, "GET /a", NULL, i);
	}
	for (unsigned i = 0; i < 256; i++) {
		snprintf(peer, sizeof(peer), "[2001:db8:9:%x::1]:7", i);
		(void)fail_at(&w, peer, "GET /a", NULL, i);
	}
	assert_int_equal(w.firsts, 192 + 2);
	repeats_tick(w.f, T0 + 61 * NS_PER_SEC, WALL, false);
	for (size_t i = 0; i < json_array_size(w.written); i++) {
		const char *p = text_of(event_at(&w, i), "peer");

		wide = wide || strcmp(p, "198.51.100.0/24") == 0;
		assert_true(strcmp(p, "198.51.100.0/24") == 0 || strcmp(p, "2001:db8:9::/48") == 0);
	}
	assert_true(wide);
	assert_int_equal(told(&w), 512);
	end(&w);
}

static void kinds_and_local_callers_stay_apart(void **state)
{
	struct repeat it = {.door = "local", .what = "token", .outcome = "x", .endpoint = "exec", .message = "m"};
	struct world w;

	(void)state;
	begin(&w);
	it.peer = "uid 1000";
	assert_true(repeats_note(w.f, &it, T0, WALL));
	it.peer = "uid 1001";
	assert_true(repeats_note(w.f, &it, T0, WALL));
	it.what = "agent";
	assert_true(repeats_note(w.f, &it, T0, WALL));
	assert_false(repeats_note(w.f, &it, T0, WALL));
	repeats_tick(w.f, T0, WALL, true);
	assert_int_equal(json_array_size(w.written), 1);
	assert_string_equal(text_of(event_at(&w, 0), "peer"), "uid 1001");
	end(&w);
}

/* A log that takes nothing delays what is told, and loses none of it. */
static void a_full_log_delays_and_loses_nothing(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (int i = 0; i < 100; i++)
		(void)fail_at(&w, "192.0.2.7:1", "GET /a", NULL, 0);
	w.full = true;
	repeats_tick(w.f, T0 + 61 * NS_PER_SEC, WALL, false);
	for (int i = 0; i < 100; i++)
		(void)fail_at(&w, "192.0.2.7:1", "GET /a", NULL, 61 * NS_PER_SEC);
	kill_it(&w);
	repeats_tick(w.f, T0 + 62 * NS_PER_SEC, WALL, true);
	for (int i = 0; i < 100; i++)
		(void)fail_at(&w, "192.0.2.7:1", "GET /a", NULL, 62 * NS_PER_SEC);
	w.full = false;
	repeats_tick(w.f, T0 + 63 * NS_PER_SEC, WALL, true);
	assert_int_equal(json_array_size(w.written), 2);
	assert_int_equal(told(&w), 300);
	end(&w);
}

/* Random floods with kills at any moment, also between a write and the word that it was done. */
static void no_kill_loses_a_count(void **state)
{
	static const char *const endpoints[] = {"GET /a", "GET /b", "POST /c", "login", "", "d",
						"e",      "f",      "g",       "h",     "i"};
	struct grant who[3] = {{.kind = GRANT_STAFF, .principal = "anna"},
			       {.kind = GRANT_AGENT, .principal = "b\"\\\x01\xff"},
			       {.kind = GRANT_SERVICE, .principal = "c"}};
	const char *text = getenv("SEEDS");
	char peer[64];

	(void)state;
	for (int i = 0; i < 3; i++)
		(void)id_new(&who[i].id);
	for (unsigned seed = 0; seed < (text ? strtoul(text, NULL, 10) : 60); seed++) {
		uint64_t at = 0, noted = 0;
		struct world w;

		srandom(seed);
		begin(&w);
		for (int step = 0; step < 3000; step++) {
			long dice = random() % 100;
			long n = random() % 300;

			at += (uint64_t)(random() % 100000000);
			if (dice < 90) {
				if (n % 3)
					snprintf(peer, sizeof(peer), "10.%ld.%ld.1:9", n % 7, n);
				else
					snprintf(peer, sizeof(peer), n % 2 ? "uid %ld" : "[2001:db8:%lx::1]:9", n);
				(void)fail_at(&w, peer, endpoints[random() % 11], n % 5 ? NULL : &who[n % 3], at);
				noted++;
			} else if (dice < 97) {
				w.full = random() % 4 == 0;
				repeats_tick(w.f, T0 + at, WALL + (int64_t)at, false);
			} else {
				w.full = false;
				w.dies_after_write = random() % 2;
				repeats_tick(w.f, T0 + at, WALL, random() % 2);
				kill_it(&w);
			}
		}
		w.full = false;
		repeats_tick(w.f, T0 + at, WALL, true);
		assert_int_equal(told(&w), noted);
		for (size_t i = 0; i < REPEATS_SLOTS; i++)
			assert_null(w.kept[i]);
		end(&w);
	}
}

static int file_write(void *arg, const json_t *event)
{
	json_array_append(arg, (json_t *)(uintptr_t)event);
	return 0;
}

static int kept_fd;
static void file_keep(void *arg, enum repeats_of of, size_t slot, const char *text, size_t n)
{
	(void)arg;
	(void)of;
	assert_int_equal(repeats_file_put(kept_fd, slot, text, n), 0);
}

/* Through the file: found whole after a kill, and what is damaged is passed over. */
static void the_file_outlives_a_process(void **state)
{
	static const struct repeats_ops file_ops = {.write = file_write, .keep = file_keep};
	char path[] = "/tmp/muxd-failures.XXXXXX";
	json_t *written = json_array();
	struct world w = {0};
	struct repeats *f;
	struct err e;
	int fd = mkstemp(path);

	(void)state;
	close(fd);
	assert_int_equal(repeats_file_open(path, &kept_fd, &e), 0);
	assert_int_equal(repeats_create(REPEATS_LOGINS, &file_ops, written, &f), 0);
	assert_int_equal(repeats_file_recover(kept_fd, 0, f), 0);
	w.f = f;
	for (int i = 0; i < 50; i++) {
		(void)fail_at(&w, "192.0.2.1:1", "a", NULL, 0);
		(void)fail_at(&w, "192.0.2.2:1", "b", NULL, 0);
		(void)fail_at(&w, "192.0.2.3:1", "c", NULL, 0);
	}
	repeats_destroy(f);
	close(kept_fd);
	assert_int_equal(repeats_file_open(path, &kept_fd, &e), 0);
	assert_int_equal(pwrite(kept_fd, "garbage", 7, 4096), 7);
	assert_int_equal(repeats_create(REPEATS_LOGINS, &file_ops, written, &f), 0);
	assert_int_equal(repeats_file_recover(kept_fd, 0, f), 2);
	repeats_tick(f, T0, WALL, false);
	assert_int_equal(json_array_size(written), 2);
	assert_int_equal(count_of(json_array_get(written, 0)), 49);
	assert_string_equal(text_of(json_array_get(written, 1), "peer"), "192.0.2.3");
	repeats_destroy(f);
	assert_int_equal(repeats_create(REPEATS_LOGINS, &file_ops, written, &f), 0);
	assert_int_equal(repeats_file_recover(kept_fd, 0, f), 0);
	repeats_destroy(f);
	repeats_destroy(NULL);
	close(kept_fd);
	json_decref(written);
	unlink(path);
	assert_int_not_equal(repeats_file_open("/nonexistent/x", &kept_fd, &e), 0);
	assert_int_equal(kept_fd, -1);
}

/* ---- verdicts */

static void begin_verdicts(struct world *w)
{
	begin(w);
	repeats_destroy(w->f);
	assert_int_equal(repeats_create(REPEATS_VERDICTS, &ops, w, &w->f), 0);
}

static bool refuse_at(struct world *w, unsigned grant, const char *endpoint, const char *outcome, const char *agent,
		      const char *peer, uint64_t at)
{
	struct grant who = {.kind = GRANT_AGENT, .principal = "robot"};
	struct repeat it = {.door = "rest",
			    .what = "round",
			    .outcome = outcome,
			    .endpoint = endpoint,
			    .peer = peer,
			    .message = "Your grant does not cover it.",
			    .agent = agent,
			    .who = &who};
	bool first;

	memcpy(who.id.b, &grant, sizeof(grant));
	first = repeats_note(w->f, &it, T0 + at, WALL + (int64_t)at);
	w->firsts += first;
	return first;
}

static bool deny_at(struct world *w, const char *rule, const char *version, uint64_t at)
{
	struct grant who = {.kind = GRANT_AGENT, .principal = "robot", .id.b = {1}};
	struct repeat it = {.door = "rest",
			    .what = "round",
			    .outcome = "policy_denied",
			    .endpoint = "POST /a",
			    .peer = "192.0.2.7:1",
			    .message = "The policy does not allow it.",
			    .operation = "round.start",
			    .rule = rule,
			    .version = version,
			    .agent = "one",
			    .who = &who};

	return repeats_note(w->f, &it, T0 + at, WALL + (int64_t)at);
}

static void a_counted_denial_has_its_rule_and_version(void **state)
{
	struct world w;
	const json_t *d;

	(void)state;
	begin(&w);
	repeats_destroy(w.f);
	assert_int_equal(repeats_create(REPEATS_DENIALS, &ops, &w, &w.f), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(deny_at(&w, "fix/round.start", "0123456789abcdef", i), i == 0);
	assert_true(deny_at(&w, "fix/limits.rounds", "0123456789abcdef", 0)); /* another rule */
	assert_true(deny_at(&w, "fix/round.start", "fedcba9876543210", 0));   /* another version */
	kill_it_of(&w, REPEATS_DENIALS);
	repeats_tick(w.f, T0, WALL, false);
	assert_int_equal(json_array_size(w.written), 1);
	assert_int_equal(count_of(event_at(&w, 0)), 9);
	d = json_object_get(event_at(&w, 0), "detail");
	assert_string_equal(text_of(d, "operation"), "round.start");
	assert_string_equal(text_of(d, "rule"), "fix/round.start");
	assert_string_equal(text_of(d, "version"), "0123456789abcdef");
	end(&w);
}

static bool deny_request(struct world *w, unsigned n, const char *message)
{
	struct grant who = {.kind = GRANT_AGENT, .principal = "robot", .id.b = {1}};
	struct id request = {.b = {n >> 8, n, 1}};
	struct repeat it = {.door = "rest",
			    .what = "round",
			    .outcome = "policy_denied",
			    .endpoint = "POST /a",
			    .peer = "192.0.2.7:1",
			    .message = message,
			    .operation = "round.start",
			    .rule = "fix/round.start",
			    .version = "0123456789abcdef",
			    .agent = "one",
			    .who = &who,
			    .request = n ? &request : NULL};

	return repeats_note(w->f, &it, T0, WALL);
}

static void has_requests(const json_t *event, const unsigned *ids, size_t n)
{
	const json_t *list = json_object_get(json_object_get(event, "detail"), "request_ids");

	assert_int_equal(json_array_size(list), n);
	for (size_t i = 0; i < n; i++) {
		const struct id want = {.b = {ids[i] >> 8, ids[i], 1}};
		struct id got;

		assert_int_equal(id_parse(json_string_value(json_array_get(list, i)), &got), 0);
		assert_true(id_equal(&got, &want));
	}
}

/* The event names the requests that its callers were told: of very many the first and the last. */
static void a_counted_denial_has_ids_of_its_requests(void **state)
{
	static const unsigned few[] = {2, 3, 4}, sixteen[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
			      many[] = {1, 2, 3, 4, 5, 6, 7, 8, 993, 994, 995, 996, 997, 998, 999, 1000};
	struct world w;

	(void)state;
	begin(&w);
	repeats_destroy(w.f);
	assert_int_equal(repeats_create(REPEATS_DENIALS, &ops, &w, &w.f), 0);
	for (unsigned n = 1; n <= 4; n++)
		assert_int_equal(deny_request(&w, n, "no"), n == 1); /* the first is an event of its own */
	assert_false(deny_request(&w, 0, "no"));
	repeats_tick(w.f, T0, WALL, true);
	has_requests(event_at(&w, 0), few, 3);
	for (unsigned n = 1; n <= 16; n++)
		assert_false(deny_request(&w, n, "no"));
	repeats_tick(w.f, T0, WALL, true);
	has_requests(event_at(&w, 1), sixteen, 16);
	for (unsigned n = 1; n <= 1000; n++)
		assert_false(deny_request(&w, n, "no"));
	kill_it_of(&w, REPEATS_DENIALS);
	repeats_tick(w.f, T0, WALL, true);
	has_requests(event_at(&w, 2), many, 16);
	end(&w);
}

/* Message and principal of nothing but escapes: the count outlives a kill, and the ids do not. */
static void ids_give_way_where_an_event_is_too_long(void **state)
{
	struct grant who = {.kind = GRANT_AGENT, .id.b = {1}};
	struct id request = {.b = {1}};
	char message[256] = "", endpoint[80] = "", agent[AGENT_NAME_MAX + 1] = "";
	struct repeat it = {.door = "rest",
			    .what = "round",
			    .outcome = "policy_denied",
			    .endpoint = endpoint,
			    .peer = "192.0.2.7:1",
			    .message = message,
			    .agent = agent,
			    .who = &who,
			    .request = &request};
	struct world w;

	(void)state;
	memset(message, 1, sizeof(message) - 1);
	memset(who.principal, 1, sizeof(who.principal) - 1);
	memset(endpoint, 'e', sizeof(endpoint) - 1);
	memset(agent, 'a', sizeof(agent) - 1);
	begin_verdicts(&w);
	for (int n = 0; n <= 100; n++) {
		agent[0] = (char)('a' + n % 4);
		(void)repeats_note(w.f, &it, T0, WALL);
	}
	kill_it_of(&w, REPEATS_VERDICTS);
	repeats_tick(w.f, T0, WALL, true);
	assert_int_equal(count_of(event_at(&w, 0)), 100);
	assert_int_equal(json_array_size(json_object_get(json_object_get(event_at(&w, 0), "detail"), "request_ids")),
			 0);
	end(&w);
}

static bool look_at(struct world *w, unsigned grant)
{
	struct grant who = {.kind = GRANT_STAFF, .principal = "pat"};
	struct repeat it = {.door = "rest",
			    .what = "agents",
			    .outcome = "ok",
			    .endpoint = "GET /v1/agents",
			    .peer = "192.0.2.7:1",
			    .message = "",
			    .operation = "sandbox.read",
			    .rule = "all/sandbox.read",
			    .version = "0123456789abcdef",
			    .who = &who};

	memcpy(who.id.b, &grant, sizeof(grant));
	return repeats_note(w->f, &it, T0, WALL);
}

static void begin_allowances(struct world *w)
{
	begin(w);
	repeats_destroy(w->f);
	assert_int_equal(repeats_create(REPEATS_ALLOWANCES, &ops, w, &w->f), 0);
}

static void has_its_rule(const json_t *event)
{
	assert_string_equal(text_of(event, "event"), "policy.allow");
	assert_string_equal(text_of(json_object_get(event, "policy"), "rule"), "all/sandbox.read");
	assert_string_equal(text_of(json_object_get(event, "policy"), "version"), "0123456789abcdef");
	assert_string_equal(text_of(json_object_get(event, "detail"), "operation"), "sandbox.read");
}

/* Looks at a list each second are one event at once, and one a minute, with the rule that let them through. */
static void a_counted_allowance_has_its_rule_and_version(void **state)
{
	struct world w;

	(void)state;
	begin_allowances(&w);
	for (unsigned i = 0; i < 60; i++)
		assert_int_equal(look_at(&w, 1), i == 0);
	kill_it_of(&w, REPEATS_ALLOWANCES);
	repeats_tick(w.f, T0, WALL, false);
	assert_int_equal(json_array_size(w.written), 1);
	has_its_rule(event_at(&w, 0));
	assert_string_equal(text_of(event_at(&w, 0), "outcome"), "ok");
	assert_string_equal(text_of(event_at(&w, 0), "principal"), "pat");
	assert_int_equal(count_of(event_at(&w, 0)), 59);
	end(&w);
}

/* More sorts than there are slots: none is counted under another, and each that has no slot is an event each time. */
static void an_allowance_is_never_counted_without_its_rule(void **state)
{
	struct world w;

	(void)state;
	begin_allowances(&w);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < REPEATS_SLOTS + 3; i++)
			assert_int_equal(look_at(&w, i + 1), round == 0 || i >= REPEATS_SLOTS);
	repeats_tick(w.f, T0 + REPEATS_EVERY_NS, WALL, false);
	assert_int_equal(json_array_size(w.written), REPEATS_SLOTS);
	for (size_t i = 0; i < REPEATS_SLOTS; i++) {
		assert_int_equal(count_of(event_at(&w, i)), 1);
		has_its_rule(event_at(&w, i));
	}
	end(&w);
}

static void the_same_refusal_is_one_event_a_minute(void **state)
{
	struct world w;
	const json_t *e, *d;

	(void)state;
	begin_verdicts(&w);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(refuse_at(&w, 1, "POST /a", "forbidden", i % 2 ? "other" : "third",
					   i % 2 ? "192.0.2.7:1" : "198.51.100.1:2", i * NS_PER_MS),
				 i == 0);
	assert_true(refuse_at(&w, 1, "POST /b", "forbidden", "other", "192.0.2.7:1", 0)); /* another operation */
	assert_true(refuse_at(&w, 1, "POST /a", "denied", "other", "192.0.2.7:1", 0));    /* another reason */
	assert_true(refuse_at(&w, 2, "POST /a", "forbidden", "other", "192.0.2.7:1", 0)); /* another grant */
	repeats_tick(w.f, T0 + 59 * NS_PER_SEC, WALL, false);
	assert_int_equal(json_array_size(w.written), 0);
	kill_it_of(&w, REPEATS_VERDICTS);
	repeats_tick(w.f, T0, WALL, false);
	assert_int_equal(json_array_size(w.written), 1);
	e = event_at(&w, 0);
	d = json_object_get(e, "detail");
	assert_string_equal(text_of(e, "event"), "verdict");
	assert_string_equal(text_of(e, "outcome"), "forbidden");
	assert_string_equal(text_of(e, "principal"), "robot");
	assert_string_equal(text_of(e, "endpoint"), "POST /a");
	assert_string_equal(text_of(e, "peer"), "any");
	assert_string_equal(text_of(e, "agent"), "(none)");
	assert_int_equal(count_of(e), 999);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "agents"), "other")), 500);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(d, "agents"), "third")), 499);
	end(&w);
}

/* Many grants, operations, reasons and agents with the longest names, and a kill now and then. */
static void refusals_of_any_kind_are_few_events_and_none_is_lost(void **state)
{
	static const char *const outcomes[] = {"forbidden", "denied", "not_found", "limit_reached", "conflict"};
	char endpoint[96], agent[AGENT_NAME_MAX + 1];
	uint64_t rng = 7, asked = 0, in_a_minute = 0;
	unsigned calls = number("CALLS", 60000);
	struct world w;

	(void)state;
	begin_verdicts(&w);
	for (unsigned i = 0; i < calls; i++) {
		uint64_t at = i * (NS_PER_SEC / 200);

		rng = rng * 6364136223846793005u + 1442695040888963407u;
		snprintf(endpoint, sizeof(endpoint), "POST /v1/agents/{agent}/%u/%060u", (unsigned)(rng >> 33) % 70, 1);
		snprintf(agent, sizeof(agent), "%0190u", (unsigned)(rng >> 40) % 9);
		(void)refuse_at(&w, 1 + (unsigned)(rng >> 50) % 300, endpoint, outcomes[(rng >> 20) % 5], agent,
				"192.0.2.7:1", at);
		asked++;
		if (i % 12000 == 11999) {
			repeats_tick(w.f, T0 + at, WALL, false);
			assert_true(w.firsts + json_array_size(w.written) - in_a_minute <= 2 * REPEATS_SLOTS);
			in_a_minute = w.firsts + json_array_size(w.written);
		}
		if (i % 20000 == 19999) {
			kill_it_of(&w, REPEATS_VERDICTS);
			repeats_tick(w.f, T0 + at, WALL, false);
			in_a_minute = w.firsts + json_array_size(w.written);
		}
	}
	repeats_tick(w.f, T0, WALL, true);
	assert_int_equal(told(&w), asked);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_flood_is_one_event_a_minute),
	    cmocka_unit_test(the_same_refusal_is_one_event_a_minute),
	    cmocka_unit_test(a_counted_denial_has_its_rule_and_version),
	    cmocka_unit_test(a_counted_denial_has_ids_of_its_requests),
	    cmocka_unit_test(ids_give_way_where_an_event_is_too_long),
	    cmocka_unit_test(a_counted_allowance_has_its_rule_and_version),
	    cmocka_unit_test(an_allowance_is_never_counted_without_its_rule),
	    cmocka_unit_test(refusals_of_any_kind_are_few_events_and_none_is_lost),
	    cmocka_unit_test(endpoints_beyond_eight_are_others),
	    cmocka_unit_test(a_signature_is_told_by_grant_and_endpoint),
	    cmocka_unit_test(any_number_of_addresses_is_bounded),
	    cmocka_unit_test(neighbours_are_counted_together_when_many),
	    cmocka_unit_test(kinds_and_local_callers_stay_apart),
	    cmocka_unit_test(a_full_log_delays_and_loses_nothing),
	    cmocka_unit_test(no_kill_loses_a_count),
	    cmocka_unit_test(the_file_outlives_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
