#define LOG_SUBSYS "reader"
#include "muxd/hub/record/reader.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/core/exec_ids.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/later.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/session_state.h"

#include <stdlib.h>
#include <string.h>

struct reader_client {
	UT_hash_handle hh;
	char name[]; /* door, space, peer */
};

struct readers {
	struct reader_client *by_name;
};

static struct reader_client *client_find(struct hub *h, const char *door, const char *peer, char *out, size_t size)
{
	struct reader_client *c = NULL;

	text_format(out, size, "%s %s", door, peer);
	HASH_FIND_STR(hub_readers(h)->by_name, out, c);
	return c;
}

static void client_note(struct hub *h, const struct request *rq)
{
	char name[96];
	struct reader_client *c = client_find(h, rq->door, rq->peer, name, sizeof(name));

	if (c || HASH_COUNT(hub_readers(h)->by_name) >= READERS_MAX || !(c = malloc(sizeof(*c) + strlen(name) + 1)))
		return;
	strcpy(c->name, name);
	HASH_ADD_STR(hub_readers(h)->by_name, name, c);
}

static void client_drop(struct hub *h, struct reader_client *c)
{
	HASH_DEL(hub_readers(h)->by_name, c);
	free(c);
}

/* ---- questions */

#define ASK_NS (5 * NS_PER_SEC)

struct question {
	struct hub *hub;
	json_t *q;
	uint64_t until;
	bool begun;                         /* a part of the answer was handed on */
	char principal[GRANT_NAME_MAX + 1]; /* who asks */
	recorder_answer *cb;
	void *arg;
};

static void question_free(struct question *t)
{
	json_decref(t->q);
	free(t);
}

/* Of a round that whoever asks opened with an exec_id: whatever the record says, it exists. To all others what the
 * record keeps from them is as absent. */
static bool remembered(const struct question *t)
{
	const char *text = json_string_value(json_object_get(t->q, "session"));
	struct id id;

	return text && id_parse(text, &id) == 0 && exec_ids_has_session(hub_exec_ids(t->hub), &id, t->principal);
}

static bool recovering(const struct hub *h)
{
	return !hub_is_recovered(h) || clock_boot_ns() - hub_recovered_ns(h) < RECOVERING_NS;
}

static bool ask_again(const struct question *t, int rc)
{
	if (rc != ERR_UNAVAILABLE && rc != ERR_NOT_FOUND)
		return false; /* ERR_CANCELLED: the hub may be gone */
	if (t->begun || hub_stopping(t->hub) || clock_boot_ns() >= t->until || json_object_get(t->q, "screen"))
		return false;
	return rc == ERR_UNAVAILABLE ||
	       (rc == ERR_NOT_FOUND && json_object_get(t->q, "session") && (recovering(t->hub) || remembered(t)));
}

static void question_end(struct question *t, int rc, const struct err *e)
{
	struct err here = {0};

	if (rc == ERR_NOT_FOUND && !t->begun && remembered(t))
		rc = err_set(&here, ERR_UNAVAILABLE, "the record does not have it yet"), e = &here;
	t->cb(t->arg, rc, e, NULL, NULL, 0, true);
	question_free(t);
}

static void question_ask(void *arg, int rc, const struct err *e);

static void reader_on_answered(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			       bool end)
{
	struct question *t = arg;

	if (rc && ask_again(t, rc)) {
		if (hub_later(t->hub, question_ask, t))
			question_end(t, rc, e);
	} else if (rc) {
		question_end(t, rc, e);
	} else {
		t->begun = true;
		t->cb(t->arg, 0, NULL, json, p, n, end);
		if (end)
			question_free(t);
	}
}

/* rc: why it cannot be asked any more. */
static void question_ask(void *arg, int rc, const struct err *e)
{
	struct question *t = arg;
	struct err here = {0};

	if (rc) {
		question_end(t, rc, e);
		return;
	}
	rc = hub_recorder(t->hub) ? recorder_client_ask(hub_recorder(t->hub), t->q, reader_on_answered, t)
				  : ERR_UNAVAILABLE;
	if (!rc)
		return;
	err_set(&here, rc, "the recorder could not be asked");
	reader_on_answered(t, rc, &here, NULL, NULL, 0, true);
}

int reader_ask(struct hub *h, const struct request *rq, json_t *q, recorder_answer *cb, void *arg)
{
	json_t *asker = json_pack("{s:s,s:s,s:s}", "door", rq->door, "peer", rq->peer, "endpoint", rq->endpoint);
	struct question *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (!t || !q || json_object_set_new(q, "for", asker) ||
	    json_object_set_new(q, "token", json_string(hub_grant_token(h, rq))))
		rc = ERR_NOMEM;
	else if (json_object_get(q, "screen") && !hub_recorder(h))
		rc = ERR_UNAVAILABLE;
	if (rc) {
		json_decref(q);
		free(t);
		return rc;
	}
	*t = (struct question){.hub = h, .q = q, .until = clock_boot_ns() + ASK_NS, .cb = cb, .arg = arg};
	text_put(t->principal, sizeof(t->principal), rq->grant.principal);
	rc = hub_recorder(h) ? recorder_client_ask(hub_recorder(h), q, reader_on_answered, t) : ERR_UNAVAILABLE;
	if (rc && !(ask_again(t, rc) && hub_later(h, question_ask, t) == 0)) {
		question_free(t);
		return rc;
	}
	client_note(h, rq);
	return 0;
}

/* ---- what is known of a session */

struct facts_job {
	json_t *facts;
	reader_facts *cb;
	void *arg;
};

static void reader_on_facts(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			    bool end)
{
	struct facts_job *j = arg;

	(void)p, (void)n;
	if (!rc && json && !j->facts)
		j->facts = json_deep_copy(json);
	if (!rc && !end)
		return;
	j->cb(j->arg, rc, e, rc ? NULL : j->facts);
	json_decref(j->facts);
	free(j);
}

void reader_ask_session(struct hub *h, const struct request *rq, const struct id *session, reader_facts *cb, void *arg)
{
	struct facts_job *j = calloc(1, sizeof(*j));
	char id[ID_STR_LEN];
	struct err e = {0};
	int rc = ERR_NOMEM;

	id_format(session, id);
	if (j) {
		*j = (struct facts_job){.cb = cb, .arg = arg};
		rc = reader_ask(h, rq, json_pack("{s:s,s:s}", "op", "session", "session", id), reader_on_facts, j);
	}
	if (!rc)
		return;
	free(j);
	cb(arg, err_set(&e, rc, "the recorder could not be asked"), &e, NULL);
}

static void reader_on_told(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			   bool end)
{
	(void)arg, (void)rc, (void)e, (void)json, (void)p, (void)n, (void)end;
}

void hub_client_gone(struct hub *h, const char *door, const char *peer)
{
	char name[96];
	struct reader_client *c = client_find(h, door, peer, name, sizeof(name));
	json_t *q;

	if (!c)
		return;
	client_drop(h, c);
	q = json_pack("{s:s,s:{s:s,s:s}}", "op", "gone", "for", "door", door, "peer", peer);
	if (q && hub_recorder(h))
		(void)recorder_client_ask(hub_recorder(h), q, reader_on_told,
					  NULL); /* else the minute's end closes the account */
	json_decref(q);
}

struct readers *readers_create(void)
{
	return calloc(1, sizeof(struct readers));
}

void readers_destroy(struct readers *x)
{
	struct reader_client *c, *next;

	if (!x)
		return;
	HASH_ITER(hh, x->by_name, c, next)
	{
		HASH_DEL(x->by_name, c);
		free(c);
	}
	free(x);
}
