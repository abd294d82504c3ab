/* Words of a service from before a restart of the daemon: the end of both streams, as the record has them. */
#define LOG_SUBSYS "service"
#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/agent/service_state.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/services/services.h"
#include "muxd/hub/session/tail.h"
#include "recorder/serve/client.h"

#include <stdlib.h>

#define REGAIN_MAX (SERVICE_LOG_MAX / 4) /* of each stream */

/* Its owner is the question that is out; a service that goes is let go of by it. */
struct service_regain {
	struct service *service; /* NULL: nobody waits */
	struct id program;
	int stream;
	void (*then)(struct service *x);
};

static void regain_next(struct service_regain *r);

static void regain_over(struct service_regain *r)
{
	struct service *x = r->service;
	void (*then)(struct service *) = r->then;

	free(r);
	if (!x)
		return;
	x->regain = NULL;
	then(x);
}

static void regain_on_answer(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n,
			     bool end)
{
	struct service_regain *r = arg;

	(void)json;
	if (rc && rc != ERR_CANCELLED)
		log_info(NULL, "what a service said before the restart is in the record alone: %s",
			 e && e->message[0] ? e->message : err_name(rc));
	if (!rc && p && r->service)
		tail_add(&r->service->log, SERVICE_LOG_MAX, "", p, n);
	if (rc)
		regain_over(r);
	else if (end)
		regain_next(r);
}

static json_t *question(const struct service_regain *r, const struct session *s)
{
	uint64_t total = s->stream[r->stream].end, from = total > REGAIN_MAX ? total - REGAIN_MAX : 0;

	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:b}", "op", "output", "session", s->id_text, "stream",
			 r->stream == STREAM_OUTPUT ? "stdout" : "stderr", "offset", (json_int_t)from, "limit",
			 (json_int_t)(total - from), "house", 1);
}

/* The next stream that has bytes. */
static void regain_next(struct service_regain *r)
{
	const struct session *s = r->service ? hub_session_find(r->service->hub, &r->program) : NULL;
	struct recorder_client *recorder = r->service ? hub_recorder(r->service->hub) : NULL;
	json_t *q;
	int rc;

	do
		r->stream++;
	while (s && r->stream < STREAM_COUNT && !s->stream[r->stream].end);
	if (!s || !recorder || r->stream >= STREAM_COUNT) {
		regain_over(r);
		return;
	}
	q = question(r, s);
	rc = q ? recorder_client_ask(recorder, q, regain_on_answer, r) : ERR_NOMEM;
	json_decref(q);
	if (rc)
		regain_over(r);
}

void service_log_regain(struct service *x, void (*then)(struct service *x))
{
	struct service_regain *r = malloc(sizeof(*r));

	if (!r) {
		then(x);
		return;
	}
	*r = (struct service_regain){.service = x, .program = x->program, .stream = STREAM_INPUT, .then = then};
	x->regain = r;
	regain_next(r);
}

void service_log_forget(struct service *x)
{
	if (x->regain)
		x->regain->service = NULL;
	x->regain = NULL;
}
