/*
 * A session that has ended and left memory, for a client who was there and comes back: who it was, and how it ended.
 *
 * One question to the recorder, with the client's token: it tells only who may know. Who could not have attached while
 * it ran is refused here, as then.
 */
#define LOG_SUBSYS "broker"
#include "base/clock.h"
#include "base/err.h"
#include "muxd/hub/broker_check.h"
#include "muxd/hub/launch.h"
#include "muxd/hub/reader.h"
#include "muxd/hub/session_state.h"

#include <stdlib.h>
#include <string.h>

struct past {
	struct hub *hub;
	struct request rq; /* for its token */
	int role;
	json_t *facts;
	broker_json_done *done;
	void *arg;
};

static void past_end(struct past *p, int rc, const struct err *e, json_t *answer)
{
	p->done(p->arg, rc, rc ? e : NULL, rc ? NULL : answer);
	json_decref(answer);
	json_decref(p->facts);
	request_finish(&p->rq);
	free(p);
}

static const char *past_text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key)) ?: "";
}

static json_t *past_stream_json(const json_t *exit, int stream)
{
	json_t *total = json_array_get(json_object_get(exit, "totals"), (size_t)stream);

	return json_pack("{s:I,s:s}", "total_bytes", json_integer_value(total), "sha256",
			 past_text_of(json_object_get(exit, "sha256"), stream == STREAM_OUTPUT ? "stdout" : "stderr"));
}

/* As EXIT of the browser door has it (docs/protocol.md). */
static json_t *exit_json(const json_t *exit)
{
	int sig = (int)json_integer_value(json_object_get(exit, "signal"));
	json_int_t ns = json_integer_value(json_object_get(exit, "duration_ns"));

	return json_pack("{s:{s:s,s:I,s:s,s:s},s:o,s:o,s:I}", "exit", "cause", past_text_of(exit, "cause"), "code",
			 json_integer_value(json_object_get(exit, "code")), "signal", sig ? signal_name(sig) : "",
			 "message", past_text_of(exit, "message"), "stdout", past_stream_json(exit, STREAM_OUTPUT),
			 "stderr", past_stream_json(exit, STREAM_STDERR), "duration_ms", ns / (json_int_t)NS_PER_MS);
}

/* As broker_attach() judges of one that runs. */
static int may_attach(const struct past *p, struct err *e)
{
	const char *kind = past_text_of(p->facts, "kind");
	bool own = strcmp(past_text_of(p->facts, "principal"), p->rq.grant.principal) == 0;
	uint32_t scopes = p->rq.grant.scopes;
	int role = p->role;

	if (strcmp(kind, session_kind_name(SESSION_FILE)) == 0 || strcmp(kind, session_kind_name(SESSION_PORT)) == 0)
		return err_set(e, ERR_NOT_FOUND, "no such session of any agent");
	if (role < 0)
		role = scopes & SCOPE_DRIVE || (own && scopes & SCOPE_TERMINAL) ? ROLE_DRIVER : ROLE_OBSERVER;
	return broker_check(p->hub, &p->rq, past_text_of(p->facts, "agent"),
			    attach_scope((enum attachment_role)role, own), "attach", e);
}

static int past_answer(const struct past *p, json_t **out, struct err *e)
{
	const json_t *exit = json_object_get(p->facts, "exit"), *open = json_object_get(p->facts, "open");
	int rc = may_attach(p, e);

	if (rc)
		return rc;
	if (!exit) /* the recorder has not come that far */
		return err_set(e, ERR_UNAVAILABLE, "the end of this session is not in the record yet");
	*out = json_pack("{s:s,s:s,s:s,s:I,s:I,s:o}", "agent", past_text_of(p->facts, "agent"), "kind",
			 past_text_of(p->facts, "kind"), "principal", past_text_of(p->facts, "principal"), "cols",
			 json_integer_value(json_object_get(open, "cols")), "rows",
			 json_integer_value(json_object_get(open, "rows")), "exit", exit_json(exit));
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory");
}

static void past_on_facts(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			  bool end)
{
	struct past *past = arg;
	struct err here = {0};
	json_t *o = NULL;

	(void)p, (void)n;
	if (!rc && json && !past->facts)
		past->facts = json_deep_copy(json);
	if (!rc && !end)
		return;
	if (rc == ERR_FORBIDDEN || rc == ERR_NOT_FOUND) /* whether there is one is not told to everybody */
		rc = err_set(&here, ERR_NOT_FOUND, "no such session of any agent"), e = &here;
	else if (!rc)
		rc = past_answer(past, &o, &here), e = &here;
	past_end(past, rc, e, o);
}

void broker_past(struct hub *h, const struct request *rq, const struct id *session, int role, broker_json_done *done,
		 void *arg)
{
	struct past *p = calloc(1, sizeof(*p));
	char id[ID_STR_LEN];
	struct err e = {0};
	int rc = ERR_NOMEM;
	json_t *q;

	if (!p)
		goto fail;
	*p = (struct past){.hub = h, .rq = *rq, .role = role, .done = done, .arg = arg};
	id_format(session, id);
	q = json_pack("{s:s,s:s}", "op", "session", "session", id);
	rc = reader_ask(h, rq, q, past_on_facts, p);
	if (!rc)
		return;
	request_finish(&p->rq);
	free(p);
fail:
	err_set(&e, rc, "the recorder could not be asked");
	done(arg, rc, &e, NULL);
}
