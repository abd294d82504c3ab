/*
 * workspace_ask.h - one operation of muxlet's on a workspace that is no session: asked by the hub for itself, told to
 * the audit log by who asks. Bytes in, bytes out, both whole in memory and bounded.
 *
 * One at a time for each agent, on a channel of its own. States: SENDING (input goes as the window lets it) -> WAITING
 * (all of it has gone) -> answered once; a lost link answers it. Owner: who began it, through the agent.
 */
#ifndef MUXD_HUB_AGENT_WORKSPACE_ASK_H
#define MUXD_HUB_AGENT_WORKSPACE_ASK_H

#include "base/buf.h"
#include "base/json.h"
#include "muxd/link/link.h"

struct agent;
struct err;

/* out: borrowed. rc: 0, ERR_* of what the operation said, ERR_LINK_LOST, ERR_TIMEOUT, ERR_TOO_LARGE. */
typedef void workspace_ask_done(void *arg, int rc, const struct err *e, const struct buf *out);
struct workspace_question {
	const json_t *request; /* of muxlet --fs */
	struct buf *input;     /* taken over, whatever comes of it */
	size_t answer_max;
	uint64_t timeout_ns;
};
/* ERR_UNSUPPORTED: nothing in there can be asked; then done is not called. */
int workspace_ask_begin(struct agent *a, const struct workspace_question *q, workspace_ask_done *done, void *arg,
			struct err *e);
void workspace_ask_cancel(struct agent *a); /* done is not called */

/* Words of the link. True: the channel was its own. */
bool workspace_ask_said(struct agent *a, uint32_t channel, int stream, uint64_t offset, const uint8_t *p, size_t n);
bool workspace_ask_consumed(struct agent *a, uint32_t channel);
bool workspace_ask_exited(struct agent *a, uint32_t channel, const struct link_exit *x);
void workspace_ask_link_down(struct agent *a);
/* now: clock_boot_ns(). An end that muxlet does not make in time is made here. */
void workspace_ask_tick(struct agent *a, uint64_t now);

#endif
