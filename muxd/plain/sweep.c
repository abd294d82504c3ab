/* Looks for processes and signals them: one exec at a time, for up to PLAIN_BATCH trees. */
#define LOG_SUBSYS "plain"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/plain/peer.h"

#include <stdlib.h>
#include <string.h>

#define SWEEP_NS (20 * NS_PER_SEC)

static void plain_sweep_begin(struct plain_peer *p);

static void sweep_answer(struct sweep *s, int64_t found)
{
	bool own = s->own;

	s->out = false;
	if (s->done)
		s->done(s->arg, found);
	if (own)
		free(s);
}

static void batch_done(struct plain_peer *p, const char *text)
{
	struct sweep *batch[PLAIN_BATCH];
	size_t n = p->n_batch;
	int64_t found[PLAIN_BATCH];

	memcpy(batch, p->batch, sizeof(batch));
	for (size_t i = 0; i < n; i++)
		found[i] = text ? answer_left(text, i) : -1;
	p->n_batch = 0;
	p->sweep_deadline_ns = 0;
	buf_clear(&p->sweep_text);
	plain_exec_close(p->sweep_exec);
	p->sweep_exec = NULL;
	for (size_t i = 0; i < n; i++)
		if (batch[i])
			sweep_answer(batch[i], found[i]);
	if (!p->sweep_exec)
		plain_sweep_begin(p);
	peer_timer(p);
	peer_kick(p);
}

static void sweep_on_data(void *arg, int stream, const uint8_t *p, size_t n)
{
	struct plain_peer *peer = arg;
	size_t room = buf_room(&peer->sweep_text);

	if (stream == 1) /* more than an answer can be is no answer: what fits is read */
		(void)buf_append(&peer->sweep_text, p, n < room ? n : room);
}

static void sweep_on_exited(void *arg, const struct rc_exit *x)
{
	struct plain_peer *p = arg;
	bool answered = x->cause == RC_EXITED || buf_len(&p->sweep_text);

	if (!answered)
		log_info(&(struct log_ids){.agent = p->agent}, "processes could not be looked for: %s", x->err.message);
	batch_done(p, answered ? buf_cstr(&p->sweep_text) : NULL);
}

static const struct rc_ops exec_ops = {NULL, sweep_on_data, NULL, sweep_on_exited};

static void plain_sweep_begin(struct plain_peer *p)
{
	const struct rc_params params = {.out = true, .window = 64 * 1024};
	struct script_target targets[PLAIN_BATCH];
	struct script_words words;
	struct sweep *s;

	if (p->sweep_exec || p->n_batch || p->state == PEER_CLOSED || TAILQ_EMPTY(&p->sweeps))
		return;
	while (p->n_batch < PLAIN_BATCH && (s = TAILQ_FIRST(&p->sweeps))) {
		TAILQ_REMOVE(&p->sweeps, s, entry);
		s->queued = false;
		s->out = true;
		targets[p->n_batch] = s->target;
		p->batch[p->n_batch++] = s;
	}
	p->sweep_deadline_ns = clock_boot_ns() + SWEEP_NS;
	/* The signals' texts are constants or lie in the wishes, which live until they are answered. */
	if (script_sweep(p->shell, p->owner, targets, p->n_batch, &words))
		return; /* the deadline answers */
	(void)plain_exec_start(p, &params, &words, &exec_ops, p, &p->sweep_exec);
	peer_timer(p);
}

void sweep_ask(struct plain_peer *p, struct sweep *s)
{
	s->queued = true;
	TAILQ_INSERT_TAIL(&p->sweeps, s, entry);
	plain_sweep_begin(p);
}

void sweep_cancel(struct plain_peer *p, struct sweep *s)
{
	if (s->queued)
		TAILQ_REMOVE(&p->sweeps, s, entry);
	s->queued = false;
	for (size_t i = 0; i < p->n_batch; i++)
		if (p->batch[i] == s)
			p->batch[i] = NULL;
	s->out = false;
}

struct signal_wish {
	struct sweep s; /* first */
	char text[8];
};

int sweep_signal(struct plain_peer *p, const struct plain_channel *c, int signum)
{
	struct signal_wish *w = calloc(1, sizeof(*w));

	if (!w)
		return ERR_NOMEM;
	snprintf(w->text, sizeof(w->text), "g%d", signum);
	memcpy(w->s.target.mark, c->mark, sizeof(w->s.target.mark));
	memcpy(w->s.target.start, c->leader.start, sizeof(w->s.target.start));
	w->s.target.pid = c->leader.pid;
	w->s.target.signals = w->text;
	w->s.own = true;
	sweep_ask(p, &w->s);
	return 0;
}

void sweep_stop(struct plain_peer *p)
{
	struct sweep *s;

	plain_exec_close(p->sweep_exec);
	p->sweep_exec = NULL;
	for (size_t i = 0; i < p->n_batch; i++)
		if (p->batch[i] && p->batch[i]->own)
			free(p->batch[i]);
	p->n_batch = 0;
	while ((s = TAILQ_FIRST(&p->sweeps))) {
		TAILQ_REMOVE(&p->sweeps, s, entry);
		s->queued = false;
		if (s->own)
			free(s);
	}
}

void sweep_tick(struct plain_peer *p, uint64_t now)
{
	if (p->sweep_deadline_ns && now >= p->sweep_deadline_ns)
		batch_done(p, NULL);
}
