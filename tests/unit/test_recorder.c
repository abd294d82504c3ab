// tier: check
/* The recorder as a process: what goes into the ring comes out of recorder.sock and the sealed recordings. */
#include "tests/lib/recorder_rig.h"

#include <poll.h>

static void a_session_is_read_live_and_sealed(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);

	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &at, 300000);
	flush(fd, NULL);
	/* Live: everything so far, and that it goes on. */
	json_t *q = question("output", token, &id);
	ask(fd, q, &a);
	assert_int_equal(buf_len(&a.bytes), 300000);
	assert_false(json_is_true(json_object_get(nth(&a, 0), "eof")));
	answer_finish(&a);

	send_pattern(p, &id, &at, 5000);
	session_exit(p, &id);
	flush(fd, NULL);
	check_output(fd, token, &id, at, 100000);
	flush(fd, &id);
	check_output(fd, token, &id, at, MIB);
	check_output(fd, token, &id, at, 7777);

	ask(fd, question("session", token, &id), &a);
	assert_string_equal(json_string_value(json_object_get(nth(&a, 0), "state")), "sealed");
	assert_string_equal(json_string_value(json_object_get(nth(&a, 0), "principal")), "pat");
	assert_int_equal(json_integer_value(json_array_get(json_object_get(nth(&a, 0), "offsets"), 1)), at);
	assert_string_equal(json_string_value(json_object_get(json_object_get(nth(&a, 0), "exit"), "cause")), "exit");
	answer_finish(&a);

	ask(fd, question("events", token, &id), &a);
	assert_true(json_is_true(json_object_get(nth(&a, json_array_size(a.json) - 1), "ended")));
	assert_true(a.nbytes >= 12); /* OPEN, ten of DATA, EXIT */
	answer_finish(&a);

	struct err e = {0};
	struct verify_result v;
	struct grant_keyset keys = {&p->record_key, 1};
	if (verify_session(&(struct verify_ask){.dir = p->record, .keys = &keys, .sink = print_finding}, &id, &v, &e))
		fail_msg("%s", e.message);
	assert_true(v.sealed && v.intact && v.complete && v.signature_checked);
	assert_int_equal(v.streams[STREAM_OUTPUT].total, at);
	grant_token_free(token);
	close(fd);
	assert_int_equal(recorder_end(p, 0), 0);
}

static void recover_tells_offsets_up_to_the_rings_head(void **state)
{
	struct place *p = *state;
	struct id open, ended;
	uint64_t at = 0, there = 0;
	struct answer a;
	session_open(p, &open, "pat", "staff");
	session_open(p, &ended, "pat", "staff");
	send_pattern(p, &open, &at, 1000);
	recorder_start(p);
	session_exit(p, &ended);
	recorder_end(p, SIGKILL);
	send_pattern(p, &open, &at, 500);
	recorder_start(p);
	int fd = ask_fd(p);
	send_pattern(p, &open, &at, 11);
	ask(fd, json_pack("{s:s}", "op", "recover"), &a);
	assert_int_equal(json_array_size(a.json), 3);
	for (size_t i = 0; i < 2; i++) {
		const json_t *o = nth(&a, i);
		struct id id;
		assert_int_equal(id_parse(json_string_value(json_object_get(o, "session")), &id), 0);
		if (id_equal(&id, &open)) {
			there++;
			assert_int_equal(json_integer_value(json_array_get(json_object_get(o, "offsets"), 1)), 1511);
			assert_false(json_is_true(json_object_get(o, "ended")));
			assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "open"), "channel")), 7);
		} else {
			assert_true(json_is_true(json_object_get(o, "ended")));
			assert_string_equal(json_string_value(json_object_get(json_object_get(o, "exit"), "cause")),
					    "exit");
		}
	}
	assert_int_equal(there, 1);
	answer_finish(&a);
	/* The same once all of it is in the index and the ended one is sealed. */
	flush(fd, &ended);
	ask(fd, json_pack("{s:s}", "op", "recover"), &a);
	assert_int_equal(json_array_size(a.json), 3);
	answer_finish(&a);
	close(fd);
}

static void scopes_are_held(void **state)
{
	struct place *p = *state;
	struct id id;
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	session_open(p, &id, "pat", "staff");
	text(p, RING_AUDIT, &id, "{\"event\":\"round.start\",\"principal\":\"pat\",\"agent\":\"demo\"}");
	flush(fd, NULL);
	const struct {
		const char *op, *principal, *agent;
		uint32_t scopes;
		const char *error;
	} cases[] = {
	    {"output", "pat", "demo", SCOPE_ROUNDS, NULL},
	    {"output", "eve", "demo", SCOPE_ROUNDS, "not_found"}, /* it is not even there for her */
	    {"output", "pat", "other", SCOPE_ROUNDS, "not_found"},
	    {"session", "eve", "demo", SCOPE_ROUNDS, "not_found"},
	    {"session", "eve", "other", SCOPE_REPLAY, "not_found"},
	    {"session", "eve", "demo", SCOPE_OBSERVE, "forbidden"},
	    {"recording", "eve", "other", SCOPE_REPLAY, "not_found"},
	    {"read", "eve", "other", SCOPE_REPLAY, "not_found"},
	    {"output", "eve", "demo", SCOPE_REPLAY, NULL},
	    {"events", "pat", "demo", SCOPE_ROUNDS, "forbidden"},
	    {"events", "eve", "*", SCOPE_REPLAY, NULL},
	    {"audit", "pat", "demo", SCOPE_ROUNDS, "forbidden"},
	    {"audit", "eve", "demo", SCOPE_REPLAY, NULL},
	    {"sessions", "pat", "demo", SCOPE_OBSERVE, "forbidden"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *token = token_of(p, cases[i].principal, cases[i].agent, cases[i].scopes);
		ask(fd, question(cases[i].op, token, &id), &a);
		const char *code = error_code(&a);
		if ((code == NULL) != (cases[i].error == NULL) || (code && strcmp(code, cases[i].error) != 0))
			fail_msg("case %zu (%s): got %s", i, cases[i].op, code ? code : "an answer");
		answer_finish(&a);
		grant_token_free(token);
	}
	ask(fd, question("audit", "no.token.atall", &id), &a);
	assert_non_null(error_code(&a));
	answer_finish(&a);
	ask(fd, json_pack("{s:s}", "op", "events"), &a);
	assert_string_equal(error_code(&a), "unauthenticated");
	answer_finish(&a);
	ask(fd, json_pack("{s:s}", "op", "make_coffee"), &a);
	assert_string_equal(error_code(&a), "invalid_request");
	answer_finish(&a);

	/* Who read and who was refused is in the audit log itself. */
	flush(fd, NULL);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("audit", token, NULL);
	json_object_set_new(q, "since_seq", json_integer(0));
	json_object_set_new(q, "event", json_string("record.read"));
	ask(fd, q, &a);
	unsigned denied = 0, ok = 0;
	for (size_t i = 0; i + 1 < json_array_size(a.json); i++) {
		const char *outcome =
		    json_string_value(json_object_get(json_object_get(nth(&a, i), "record"), "outcome"));
		denied += strcmp(outcome, "denied") == 0;
		ok += strcmp(outcome, "ok") == 0;
	}
	assert_int_equal(denied, 10);
	assert_true(ok >= 4);
	answer_finish(&a);
	grant_token_free(token);
	close(fd);
}

/* As the monitor tells it; confirmed. */
static void grant_revoke(struct place *p, const char *token)
{
	struct grant_keyset keys = {&p->grant_key, 1};
	struct grant g;
	char id[ID_STR_LEN];
	size_t n = 0;
	json_t *told = NULL;
	assert_int_equal(grant_verify(token, strlen(token), &keys, INSTANCE, clock_wall_ns(), &g, NULL), 0);
	id_format(&g.id, id);
	json_t *o =
	    json_pack("{s:s, s:s, s:I}", "op", "grant.revoked", "id", id, "expires_ns", (json_int_t)g.expires_ns);
	assert_int_equal(sock_send_packet(p->ipc, o, NULL, 0, NULL), 0);
	json_decref(o);
	assert_int_equal(sock_recv_packet(p->ipc, &told, NULL, &n, NULL), 0);
	assert_string_equal(json_string_value(json_object_get(told, "op")), "revoked");
	json_decref(told);
}

/* Events of the audit log about a grant (by its token) and event, the newest last; to be decref'ed. */
static json_t *events_of(struct place *p, int fd, const char *token, const char *event)
{
	struct grant_keyset keys = {&p->grant_key, 1};
	json_t *found = json_array(), *record;
	char id[ID_STR_LEN];
	struct answer a;
	struct grant g;

	assert_int_equal(grant_verify(token, strlen(token), &keys, INSTANCE, clock_wall_ns(), &g, NULL), 0);
	id_format(&g.id, id);
	flush(fd, NULL);
	char *auditor = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("audit", auditor, NULL);
	json_object_set_new(q, "since_seq", json_integer(0));
	json_object_set_new(q, "event", json_string(event));
	ask(fd, q, &a);
	for (size_t i = 0; i + 1 < json_array_size(a.json); i++) {
		record = json_object_get(nth(&a, i), "record");
		if (strcmp(json_string_value(json_object_get(record, "grant_id")) ?: "", id) == 0)
			json_array_append(found, record);
	}
	answer_finish(&a);
	grant_token_free(auditor);
	return found;
}

static void hub_asks(int fd, const char *op, const char *token, const struct id *id, const char *peer, int offset)
{
	struct answer a;
	json_t *q = question(op, token, id);

	json_object_set_new(
	    q, "for",
	    json_pack("{s:s,s:s,s:s}", "door", "rest", "peer", peer, "endpoint", "GET /v1/rounds/{id}/output"));
	if (offset >= 0) {
		json_object_set_new(q, "offset", json_integer(offset));
		json_object_set_new(q, "limit", json_integer(10));
	}
	ask(fd, q, &a);
	assert_null(error_code(&a));
	answer_finish(&a);
}

static json_int_t sum_of(const json_t *events, const char *key)
{
	json_int_t sum = 0;

	for (size_t i = 0; i < json_array_size(events); i++)
		sum += json_integer_value(json_object_get(json_array_get(events, i), key));
	return sum;
}

/* Two auditors behind one connection of the hub's, each with clients of their own: each is told of, once and in sum. */
static void every_reader_is_in_the_audit_log(void **state)
{
	struct place *p = *state;
	struct id id;
	struct answer a;
	uint64_t offset = 0;
	recorder_start(p);
	int hub = ask_fd(p), other = ask_fd(p);
	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &offset, 100);
	flush(hub, NULL);
	ask(hub, json_pack("{s:s}", "op", "recover"), &a);
	answer_finish(&a);
	char *first = token_of(p, "ann", "*", SCOPE_REPLAY), *second = token_of(p, "bob", "*", SCOPE_REPLAY);
	for (int i = 0; i < 6; i++)
		hub_asks(hub, "output", first, &id, "10.0.0.1:1000", i * 10);
	for (int i = 0; i < 4; i++)
		hub_asks(hub, "output", second, &id, "10.0.0.2:2000", 90);
	hub_asks(hub, "session", second, &id, "10.0.0.2:2000", -1);
	hub_asks(hub, "output", second, &id, "10.0.0.2:2001", 0);

	json_t *events = events_of(p, other, first, "record.read"), *one;
	assert_int_equal(json_array_size(events), 1); /* at once, the rest when the minute is over or the client gone */
	json_decref(events);
	for (int i = 0; i < 2; i++) {
		ask(hub,
		    json_pack("{s:s,s:{s:s,s:s}}", "op", "gone", "for", "door", "rest", "peer",
			      i ? "10.0.0.2:2000" : "10.0.0.1:1000"),
		    &a);
		assert_null(error_code(&a));
		answer_finish(&a);
	}
	events = events_of(p, other, first, "record.read");
	assert_int_equal(json_array_size(events), 2);
	assert_int_equal(sum_of(events, "count"), 6);
	one = json_array_get(events, 1);
	assert_string_equal(json_string_value(json_object_get(one, "peer")), "10.0.0.1:1000");
	assert_string_equal(json_string_value(json_object_get(one, "door")), "rest");
	assert_string_equal(json_string_value(json_object_get(one, "endpoint")), "GET /v1/rounds/{id}/output");
	assert_string_equal(json_string_value(json_object_get(one, "principal")), "ann");
	char *streams = json_dumps(json_object_get(one, "streams"), JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(streams, "{\"output\":{\"bytes\":50,\"ranges\":[[10,50]]}}");
	free(streams);
	json_decref(events);
	events = events_of(p, other, second, "record.read");
	assert_int_equal(json_array_size(events), 3); /* two connections, one of them with a rest */
	assert_int_equal(sum_of(events, "count"), 6);
	json_decref(events);

	/* The hub's connection to a recorder that came later: it says so first. */
	int again = ask_fd(p);
	ask(again, json_pack("{s:s}", "op", "hub"), &a);
	assert_null(error_code(&a));
	answer_finish(&a);
	hub_asks(again, "output", second, &id, "10.0.0.3:3000", 0);
	events = events_of(p, other, second, "record.read");
	one = json_array_get(events, 3);
	assert_string_equal(json_string_value(json_object_get(one, "peer")), "10.0.0.3:3000");
	json_decref(events);
	close(again);

	/* A client of recorder.sock speaks for itself alone, whatever it says. */
	hub_asks(other, "output", first, &id, "10.9.9.9:9", 0);
	events = events_of(p, hub, first, "record.read");
	one = json_array_get(events, 2);
	assert_string_equal(json_string_value(json_object_get(one, "door")), "recorder");
	assert_memory_equal(json_string_value(json_object_get(one, "peer")), "uid ", 4);
	json_decref(events);

	/* Whose token it was that served no more. */
	grant_revoke(p, first);
	for (int i = 0; i < 3; i++) {
		ask(other, question("output", first, &id), &a);
		assert_string_equal(error_code(&a), "token_revoked");
		answer_finish(&a);
	}
	events = events_of(p, hub, first, "auth.fail");
	assert_int_equal(json_array_size(events), 1);
	one = json_array_get(events, 0);
	assert_string_equal(json_string_value(json_object_get(one, "principal")), "ann");
	assert_string_equal(json_string_value(json_object_get(one, "endpoint")), "output");
	json_decref(events);
	grant_token_free(first);
	grant_token_free(second);
	close(hub);
	close(other);
}

static const char *hub_gives(int fd, const char *token, const struct id *id, int offset, int bytes, struct answer *out)
{
	json_t *q = question("given", token, id);

	json_object_set_new(q, "for",
			    json_pack("{s:s,s:s,s:s}", "door", "rest", "peer", "10.0.0.1:1000", "endpoint",
				      "GET /v1/rounds/{id}/output"));
	json_object_set_new(q, "agent", json_string("box"));
	json_object_set_new(q, "stream", json_string("stdout"));
	json_object_set_new(q, "offset", json_integer(offset));
	json_object_set_new(q, "bytes", json_integer(bytes));
	ask(fd, q, out);
	return error_code(out);
}

/* Output that the hub gives as it passes is told as any other: ahead of the first byte, and how much, whatever became
 * of the grant since. */
static void what_the_hub_gives_is_told(void **state)
{
	struct place *p = *state;
	struct id id;
	struct answer a;
	recorder_start(p);
	int hub = ask_fd(p);
	session_open(p, &id, "pat", "staff");
	ask(hub, json_pack("{s:s}", "op", "hub"), &a);
	answer_finish(&a);
	char *token = token_of(p, "ann", "box", SCOPE_OBSERVE);
	assert_null(hub_gives(hub, token, &id, 0, 0, &a));
	answer_finish(&a);
	json_t *events = events_of(p, hub, token, "record.read");
	assert_int_equal(json_array_size(events), 1);
	assert_string_equal(json_string_value(json_object_get(json_array_get(events, 0), "agent")), "box");
	json_decref(events);
	grant_revoke(p, token);
	for (int i = 0; i < 2; i++) {
		assert_null(hub_gives(hub, token, &id, 70 * i, 70 - 40 * i, &a));
		answer_finish(&a);
	}
	assert_string_equal(hub_gives(hub, token, &id, 100, 0, &a), "token_revoked"); /* nobody begins so */
	answer_finish(&a);
	assert_string_equal(hub_gives(hub, "x.y.z", &id, 100, 1, &a), "token_malformed");
	answer_finish(&a);
	ask(hub, json_pack("{s:s,s:{s:s,s:s}}", "op", "gone", "for", "door", "rest", "peer", "10.0.0.1:1000"), &a);
	answer_finish(&a);
	events = events_of(p, hub, token, "record.read");
	assert_int_equal(json_array_size(events), 2);
	assert_int_equal(sum_of(events, "count"), 1);
	char *streams =
	    json_dumps(json_object_get(json_array_get(events, 1), "streams"), JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(streams, "{\"output\":{\"bytes\":100,\"ranges\":[[0,100]]}}");
	free(streams);
	json_decref(events);
	grant_token_free(token);
	close(hub);
	assert_int_equal(recorder_end(p, 0), 0);
}

/* Events of that name whose outcome and op are these. */
static unsigned events_told(struct place *p, int fd, const char *event, const char *outcome, const char *op)
{
	char *auditor = token_of(p, "auditor", "*", SCOPE_REPLAY);
	json_t *q = question("audit", auditor, NULL);
	unsigned n = 0;
	struct answer a;

	flush(fd, NULL);
	json_object_set_new(q, "since_seq", json_integer(0));
	json_object_set_new(q, "event", json_string(event));
	ask(fd, q, &a);
	for (size_t i = 0; i + 1 < json_array_size(a.json); i++) {
		const json_t *record = json_object_get(nth(&a, i), "record");
		n += strcmp(json_string_value(json_object_get(record, "outcome")), outcome) == 0 &&
		     strcmp(json_string_value(json_object_get(record, "op")), op) == 0;
	}
	answer_finish(&a);
	grant_token_free(auditor);
	return n;
}

static void is_forbidden(int fd, json_t *q)
{
	struct answer a;

	ask(fd, q, &a);
	assert_string_equal(error_code(&a) ?: "", "forbidden");
	answer_finish(&a);
}

/* The daemon's own processes are told apart by what they said first: none may ask for another, and a try is told. */
static void what_a_process_may_not_ask_is_told(void **state)
{
	struct place *p = *state;
	struct id id;
	struct answer a;
	recorder_start(p);
	int hub = ask_fd(p), carrier = ask_fd(p), careless = ask_fd(p), other = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	ask(hub, json_pack("{s:s}", "op", "hub"), &a);
	answer_finish(&a);
	ask(carrier, json_pack("{s:s}", "op", "carrier"), &a);
	answer_finish(&a);
	ask(careless, json_pack("{s:s}", "op", "carrier"), &a);
	answer_finish(&a);
	session_open(p, &id, "pat", "staff");
	session_exit(p, &id);
	flush(other, &id);

	is_forbidden(hub, json_pack("{s:s}", "op", "carrier"));
	assert_int_equal(events_told(p, other, "auth.fail", "forbidden", "carrier"), 1);
	is_forbidden(carrier, question("sessions", token, NULL));
	assert_int_equal(events_told(p, other, "auth.fail", "forbidden", "sessions"), 1);
	/* No witness is configured, so none takes entries. */
	is_forbidden(careless, json_pack("{s:s, s:i, s:i}", "op", "entries", "after", 0, "until", 10));
	assert_int_equal(events_told(p, other, "auth.fail", "forbidden", "entries"), 1);
	json_t *q = question("output", token, &id);
	json_object_set_new(q, "house", json_true());
	is_forbidden(hub, q);
	assert_int_equal(events_told(p, other, "record.read", "denied", "output"), 1);
	grant_token_free(token);
	close(hub);
	close(carrier);
	close(careless);
	close(other);
}

static void revoked_grant_reads_nothing(void **state)
{
	struct place *p = *state;
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	ask(fd, question("sessions", token, NULL), &a);
	assert_null(error_code(&a));
	answer_finish(&a);
	grant_revoke(p, token);
	ask(fd, question("sessions", token, NULL), &a);
	assert_string_equal(error_code(&a), "token_revoked");
	answer_finish(&a);
	grant_token_free(token);
	close(fd);
}

/* Who follows is not let go on by having come in time. */
static void follower_whose_grant_is_revoked_is_told_so(void **state)
{
	static const char *const ops[] = {"audit", "events"};
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	recorder_start(p);
	int other = ask_fd(p);
	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &at, 1000);
	flush(other, NULL);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
		struct answer a;
		int fd = ask_fd(p);
		json_t *q = question(ops[i], token, i ? &id : NULL);
		json_object_set_new(q, "follow", json_true());
		assert_int_equal(msg_send_json(fd, q, NULL), 0);
		json_decref(q);
		struct pollfd comes = {.fd = fd, .events = POLLIN};
		assert_int_equal(poll(&comes, 1, 5000), 1);
		grant_revoke(p, token);
		hear(fd, &a);
		assert_string_equal(error_code(&a), "token_revoked");
		answer_finish(&a);
		grant_token_free(token);
		close(fd);
	}
	close(other);
}

static void metadata_rule_shows_no_bytes_live_or_sealed(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0;
	struct answer a;
	recorder_start(p);
	int fd = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	session_open(p, &id, "bot", "agent");
	send_pattern(p, &id, &at, 50000);
	flush(fd, NULL);
	for (int sealed = 0; sealed < 2; sealed++) {
		ask(fd, question("output", token, &id), &a);
		assert_null(error_code(&a));
		assert_int_equal(buf_len(&a.bytes), 0);
		assert_int_equal(json_integer_value(json_object_get(nth(&a, 0), "total")), at);
		uint64_t gone = 0;
		for (size_t i = 0; i < json_array_size(json_object_get(nth(&a, 0), "gaps")); i++)
			gone += (uint64_t)json_integer_value(
			    json_object_get(json_array_get(json_object_get(nth(&a, 0), "gaps"), i), "bytes"));
		assert_int_equal(gone, at);
		answer_finish(&a);
		session_exit(p, &id);
		flush(fd, &id);
	}
	grant_token_free(token);
	close(fd);
}

static void follow_sees_what_comes_and_the_end(void **state)
{
	struct place *p = *state;
	struct id id;
	uint64_t at = 0, seen = 0;
	struct buf in;
	struct msg m;
	size_t size;
	recorder_start(p);
	int fd = ask_fd(p), other = ask_fd(p);
	char *token = token_of(p, "auditor", "*", SCOPE_REPLAY);
	session_open(p, &id, "pat", "staff");
	send_pattern(p, &id, &at, 1000);
	flush(other, NULL);
	json_t *q = question("events", token, &id);
	json_object_set_new(q, "follow", json_true());
	assert_int_equal(msg_send_json(fd, q, NULL), 0);
	json_decref(q);
	buf_init(&in, MSG_MAX + MSG_HEADER);
	bool ended = false;
	for (int step = 0; !ended; step++) {
		assert_int_equal(msg_recv(fd, &in, &m, &size, NULL), 0);
		if (m.kind == 'B') {
			struct event_context alone = {0};
			struct ring_record rec;
			assert_true(event_decode(&alone, m.payload + 1, m.len - 1, &rec) > 0);
			if (rec.type == RING_DATA) {
				uint8_t want[32768];
				assert_int_equal(rec.offset, seen);
				pattern(&id, seen, want, rec.len);
				assert_memory_equal(rec.payload, want, rec.len);
				seen += rec.len;
				if (seen == 1000)
					send_pattern(p, &id, &at, 2000000);
				if (seen == 2001000)
					session_exit(p, &id);
			}
		} else if (step > 0) {
			json_t *o;
			assert_int_equal(json_parse(m.payload, m.len, MSG_MAX, &o, NULL), 0);
			ended = json_is_true(json_object_get(o, "ended"));
			json_decref(o);
		}
		buf_consume(&in, size);
	}
	assert_int_equal(seen, at);
	buf_finish(&in);
	grant_token_free(token);
	close(fd);
	close(other);
}

int main(void)
{
#define RECORDER_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)
	const struct CMUnitTest tests[] = {
	    RECORDER_TEST(a_session_is_read_live_and_sealed),
	    RECORDER_TEST(recover_tells_offsets_up_to_the_rings_head),
	    RECORDER_TEST(scopes_are_held),
	    RECORDER_TEST(every_reader_is_in_the_audit_log),
	    RECORDER_TEST(what_the_hub_gives_is_told),
	    RECORDER_TEST(what_a_process_may_not_ask_is_told),
	    RECORDER_TEST(revoked_grant_reads_nothing),
	    RECORDER_TEST(follower_whose_grant_is_revoked_is_told_so),
	    RECORDER_TEST(metadata_rule_shows_no_bytes_live_or_sealed),
	    RECORDER_TEST(follow_sees_what_comes_and_the_end),
	};
	return cmocka_run_group_tests_name("recorder", tests, NULL, NULL);
}
