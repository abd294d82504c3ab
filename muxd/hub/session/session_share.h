/*
 * session_share.h - a session in its shares (share.h): counted from its beginning to its end, asked for before it
 * begins, and held where one of them is used up.
 *
 * Held: its output stays in its sandbox and its input in its queue until there is room; keys are never held. Nothing is
 * lost: one that is ended, or whose timeout is over, is not held any more, and what its sandbox has of it comes. Where
 * the record's share is used up an event of the recording says so, and its people are told.
 */
#ifndef MUXD_HUB_SESSION_SESSION_SHARE_H
#define MUXD_HUB_SESSION_SESSION_SHARE_H

#include "base/json.h"
#include "muxd/hub/record/share.h"
#include "muxd/hub/session/session.h"

struct agent;
struct launch;
struct policy_question;

/* One more: 0, ERR_LIMIT, ERR_RECORD_SHARE; with the numbers in e. */
int session_share_ask(const struct agent *a, const struct grant *g, enum session_kind kind, const struct launch *l,
		      struct err *e);
/* The same without what lives in the sandbox: is it the sandbox that has no room? */
int session_share_ask_elsewhere(const struct agent *a, const struct grant *g, enum session_kind kind,
				const struct launch *l, struct err *e);
void session_share_take(struct session *s); /* with grant and launch; once */
void session_share_give(struct session *s); /* none: nothing */
/* One that ends for another is left out while that is asked for: set aside, and back in the same turn. */
void session_share_set_aside(struct session *s, bool aside);
/* Counts for the question: sessions that live under its task. */
void session_share_count(const struct hub *h, struct policy_question *q);

/* May more of it come, or go to it? */
bool session_share_lets_out(struct session *s);
bool session_share_lets_in(struct session *s);
void session_share_opened(struct session *s, uint64_t n); /* a window, by so many bytes */
/* Bytes of a stream that are in the journal now, up to `end`. Not of a session that stands apart (share_apart). */
void session_share_moved(struct session *s, int stream, uint64_t end, size_t n);
/* {limit, of, value, in_use} of what holds it now; NULL: nothing does. */
json_t *session_share_json(const struct session *s);
void session_share_tick(struct session *s, uint64_t now);

#endif
