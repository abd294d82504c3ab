/*
 * listener.h - who is told that something happens to a round, and reads what by itself (broker_round_live(),
 * broker_round_read()).
 *
 * Embedded in its owner, a door, who has been allowed to look at the round and looks again with each page. It holds
 * nothing back, neither the round nor its output, and shows nothing by itself. Called on the hub's loop, from inside
 * the hub: what it leads to belongs into a later turn.
 *
 * States: listens -> (deaf: the round has left memory, or it stopped).
 */
#ifndef MUXD_HUB_SESSION_LISTENER_H
#define MUXD_HUB_SESSION_LISTENER_H

#include "base/ids.h"
#include "base/json.h"

#include <stdbool.h>
#include <sys/queue.h>

struct hub;
struct session;

struct round_listener {
	LIST_ENTRY(round_listener) entry;
	bool listens;
	void (*moved)(void *arg); /* there is more output, or it has ended, or left memory */
	/* An event of the recording (docs/architecture.md, EVENT); detail is borrowed, and may be NULL. */
	void (*event)(void *arg, const char *event, const json_t *detail);
	void *arg;
};
LIST_HEAD(round_listeners, round_listener);

void round_listen(struct hub *h, const struct id *round, struct round_listener *l); /* not at hand: stays deaf */
void round_unlisten(struct round_listener *l);                                      /* harmless when deaf */

/* Of the hub. */
void listeners_moved(struct session *s);
void listeners_event(struct session *s, const char *event, const json_t *detail);
void listeners_release(struct session *s); /* it goes */

#endif
