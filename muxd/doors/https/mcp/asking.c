#include "muxd/doors/https/mcp/asking.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "muxd/hub/inside/inside_question.h"
#include "policy/grant_narrow.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define STATE_BYTES 16
#define STATE_SZ    (2 * STATE_BYTES + 1)

struct mcp_asking {
	struct mcp_askings *all; /* NULL: with a stream */
	TAILQ_ENTRY(mcp_asking) entry;
	char state[STATE_SZ];
	enum grant_kind kind;
	char principal[GRANT_NAME_MAX + 1], agent[AGENT_NAME_MAX + 1], task[GRANT_NAME_MAX + 1];
	char digest[INSIDE_DIGEST_SZ];
	struct inside_job *job;
	uint64_t until_ns; /* boot: ended, and known until then; 0: it waits */
	int rc;            /* ended: how */
	char round[ID_STR_LEN], message[ERR_MESSAGE_MAX];
	char *answer; /* as text; NULL: none, or it is not kept */
	size_t bytes; /* of that */
};

struct mcp_askings {
	TAILQ_HEAD(, mcp_asking) waiting;
	size_t kept_bytes;
};

int mcp_askings_create(struct mcp_askings **out)
{
	struct mcp_askings *all = calloc(1, sizeof(*all));

	if (!all)
		return ERR_NOMEM;
	TAILQ_INIT(&all->waiting);
	*out = all;
	return 0;
}

static void asking_leave(struct mcp_asking *a)
{
	if (a->all) {
		TAILQ_REMOVE(&a->all->waiting, a, entry);
		a->all->kept_bytes -= a->bytes;
	}
	a->all = NULL;
	a->job = NULL;
}

void mcp_askings_close(struct mcp_askings *all)
{
	struct mcp_asking *a;

	if (!all)
		return;
	while ((a = TAILQ_FIRST(&all->waiting))) {
		struct inside_job *job = a->job;

		asking_leave(a);
		mcp_asking_free(a);
		broker_inside_abandon(job);
	}
	free(all);
}

int mcp_asking_create(const struct grant *whose, const struct inside_request *w, struct mcp_asking **out)
{
	struct mcp_asking *a = calloc(1, sizeof(*a));

	if (!a || broker_inside_digest(w, a->digest)) {
		free(a);
		return ERR_NOMEM;
	}
	a->kind = whose->kind;
	text_put(a->principal, sizeof(a->principal), whose->principal);
	text_put(a->agent, sizeof(a->agent), whose->agent);
	text_put(a->task, sizeof(a->task), whose->task);
	*out = a;
	return 0;
}

void mcp_asking_free(struct mcp_asking *a)
{
	if (a)
		free(a->answer);
	free(a);
}

/* ---- while it waits */

static void asking_drop(struct mcp_asking *a)
{
	asking_leave(a);
	mcp_asking_free(a);
}

static void askings_sweep(struct mcp_askings *all)
{
	uint64_t now = clock_boot_ns();
	struct mcp_asking *a, *next;

	for (a = TAILQ_FIRST(&all->waiting); a; a = next) {
		next = TAILQ_NEXT(a, entry);
		if (a->until_ns && now >= a->until_ns)
			asking_drop(a);
	}
}

static bool may_keep(const struct mcp_asking *mine, size_t n)
{
	const struct mcp_asking *a;
	size_t own = 0;

	TAILQ_FOREACH(a, &mine->all->waiting, entry)
	if (grant_same_root(a->principal, mine->principal))
		own += a->bytes;
	return n <= MCP_ASKINGS_KEPT_ONE && own + n <= MCP_ASKINGS_KEPT_OWN &&
	       mine->all->kept_bytes + n <= MCP_ASKINGS_KEPT_ALL;
}

/* The call ended while nobody was there: by its server, by its time, by its grant. */
static void asking_on_done(void *arg, int rc, const struct err *e, const json_t *answer, const char *round)
{
	struct mcp_asking *a = arg;
	char *text = rc ? NULL : json_text(answer);

	askings_sweep(a->all); /* not itself: it waits */
	a->job = NULL;
	a->until_ns = clock_boot_ns() + MCP_ASKINGS_KEPT_NS;
	a->rc = rc;
	text_put(a->round, sizeof(a->round), round);
	text_put(a->message, sizeof(a->message), rc && e ? e->message : rc ? err_name(rc) : "");
	if (text && may_keep(a, strlen(text))) {
		a->answer = text;
		a->bytes = strlen(text);
		a->all->kept_bytes += a->bytes;
		return;
	}
	free(text);
}

bool mcp_asking_ended(const struct mcp_asking *a, int *out_rc, struct err *e, json_t **out_answer)
{
	if (!a->until_ns)
		return false;
	*out_rc = a->rc;
	if (a->rc)
		err_set(e, a->rc, "%.300s (the request ended while its caller was away: round %s)", a->message,
			a->round);
	else if (!a->answer || json_parse(a->answer, a->bytes, SIZE_MAX, out_answer, NULL))
		*out_rc = err_set(e, ERR_TOO_LARGE,
				  "the request was done while its caller was away, and its answer is not kept: its "
				  "beginning is in round %s",
				  a->round);
	return true;
}

/* More was asked: who comes back hears that then. */
static void asking_on_asked(void *arg, struct inside_questions *all)
{
	(void)arg, (void)all;
}

static const struct inside_ops waiting_ops = {.asked = asking_on_asked, .done = asking_on_done};

static int state_new(struct mcp_asking *a)
{
	uint8_t bytes[STATE_BYTES];

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return ERR_SYS;
	for (size_t i = 0; i < sizeof(bytes); i++)
		text_format(a->state + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

static json_t *requests_of(const struct inside_questions *questions)
{
	const struct inside_question *q;
	json_t *o = json_object();

	TAILQ_FOREACH(q, questions, entry)
	if (!q->answer)
		json_object_set_new(
		    o, q->key,
		    json_pack("{s:s,s:o}", "method", question_method(q->kind), "params", question_params(q)));
	return o;
}

int mcp_asking_again(struct mcp_asking *a, const struct inside_questions *questions, json_t **out)
{
	json_t *o;
	int rc = state_new(a);

	if (rc)
		return rc;
	o = json_pack("{s:s,s:o,s:s}", "resultType", "input_required", "inputRequests", requests_of(questions),
		      "requestState", a->state);
	if (!o)
		return ERR_NOMEM;
	*out = o;
	return 0;
}

static bool is_of_name(const struct mcp_asking *a, const struct mcp_asking *mine)
{
	return strcmp(a->principal, mine->principal) == 0;
}

/* One more may wait: the oldest that has ended gives way, of the same name's, or else of those under its root.
 * ERR_LIMIT.
 */
static int make_room(struct mcp_askings *all, const struct mcp_asking *mine, struct err *e)
{
	struct mcp_asking *a, *ended = NULL;
	unsigned n = 0, own = 0;

	askings_sweep(all);
	TAILQ_FOREACH(a, &all->waiting, entry)
	{
		bool is_own = grant_same_root(a->principal, mine->principal);

		n++;
		own += is_own;
		if (is_own && a->until_ns && (!ended || (!is_of_name(ended, mine) && is_of_name(a, mine))))
			ended = a;
	}
	if (n < MCP_ASKINGS_MAX && own < MCP_ASKINGS_OWN)
		return 0;
	if (ended) {
		asking_drop(ended);
		return 0;
	}
	return own < MCP_ASKINGS_OWN
		   ? err_limit(e, ERR_LIMIT, &(struct err_share){"fixed.mcp_askings", "daemon", MCP_ASKINGS_MAX, n, 5},
			       "%u requests wait for answers to what a server asked", n)
		   : err_limit(e, ERR_LIMIT,
			       &(struct err_share){"fixed.mcp_askings", "principal", MCP_ASKINGS_OWN, own, 5},
			       "%u requests of this principal wait for answers to what a server asked", own);
}

int mcp_asking_wait(struct mcp_askings *all, struct mcp_asking *a, struct inside_job *job,
		    const struct inside_questions *questions, json_t **out, struct err *e)
{
	int rc = make_room(all, a, e);

	if (rc)
		return rc;
	if ((rc = mcp_asking_again(a, questions, out)))
		return err_set(e, rc, "no memory for what a server asked");
	a->all = all;
	a->job = job;
	TAILQ_INSERT_TAIL(&all->waiting, a, entry);
	broker_inside_pass(job, &waiting_ops, a);
	return 0;
}

/* ---- who comes back */

struct mcp_asking *mcp_asking_find(struct mcp_askings *all, const char *state, const struct grant *whose,
				   const struct inside_request *w)
{
	char digest[INSIDE_DIGEST_SZ];
	struct mcp_asking *a;

	askings_sweep(all);
	if (strlen(state) != STATE_SZ - 1 || broker_inside_digest(w, digest))
		return NULL;
	TAILQ_FOREACH(a, &all->waiting, entry)
	if (CRYPTO_memcmp(a->state, state, STATE_SZ - 1) == 0)
		return a->kind == whose->kind && strcmp(a->principal, whose->principal) == 0 &&
			       strcmp(a->agent, whose->agent) == 0 && strcmp(a->task, whose->task) == 0 &&
			       strcmp(a->digest, digest) == 0
			   ? a
			   : NULL;
	return NULL;
}

struct inside_job *mcp_asking_job(const struct mcp_asking *a)
{
	return a->job;
}

struct inside_job *mcp_asking_take(struct mcp_asking *a)
{
	struct inside_job *job = a->job;

	asking_leave(a);
	return job;
}
