/*
 * session_run.h - how a session begins, goes on after a break, and goes.
 */
#ifndef MUXD_HUB_SESSION_SESSION_RUN_H
#define MUXD_HUB_SESSION_SESSION_RUN_H

#include "base/json.h"
#include "base/ring.h"
#include "muxd/hub/session/session.h"
#include "muxd/hub/session/stream.h"
#include "muxd/link/link.h"

struct agent;
struct hub;
struct launch;
struct request;
struct err;

int session_create(struct agent *a, const struct request *rq, enum session_kind kind, struct launch *launch,
		   struct session **out, struct err *e); /* takes launch's content on success */
int session_intend(struct session *s, struct err *e);    /* journals the intent */
int session_start(struct session *s, struct err *e);     /* OPEN to the sandbox; a failure ends the session */
void session_free(struct session *s);
void session_on_opened(struct session *s, int rc, const char *why);
/* Its sandbox has no place for it yet, and says why: people are shown that, and may give up. */
void session_on_waits(struct session *s, const char *why);
bool session_gives_up(struct session *s, const void *p, size_t n); /* Ctrl-C of one who waits ended it */
void session_suspend(struct session *s);
void session_resume(struct session *s, const struct link_channel_info *info);
/* The link is back, and muxlet does not list it: it never began, or whether it did is not known. */
void session_unlisted(struct session *s);
/* A round of which nothing was heard before its link went: whether it began is seen when the link is back. */
bool session_start_unsure(const struct session *s);
struct session *session_restore_alloc(struct agent *a, const struct id *id, enum session_kind kind, uint32_t channel,
				      const uint64_t at[STREAM_COUNT], const struct grant *g);
void session_tick(struct session *s, uint64_t now);
void sessions_trim(struct hub *h); /* the oldest ended ones go, until the rest is within bounds */
/* recover.c: after a restart, from the recorder's `recover` */
int session_restore(struct hub *h, const json_t *entry, struct err *e); /* one entry of the recorder's `recover` */
void session_restore_or_end(struct hub *h, const json_t *entry, bool *out_taken); /* what cannot be one: ends there */

#endif
