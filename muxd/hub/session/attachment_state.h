/*
 * attachment_state.h - an attachment as the hub's parts know it; doors see attachment.h.
 *
 * Owner: its door, until it detaches. States: screening (nothing is peeked before its screen is there), then attached;
 * cut or ended once `over` was said.
 */
#ifndef MUXD_HUB_SESSION_ATTACHMENT_STATE_H
#define MUXD_HUB_SESSION_ATTACHMENT_STATE_H

#include "base/ring.h"
#include "muxd/hub/session/attachment.h"
#include "muxd/hub/session/stream.h"
#include "muxd/link/link.h"
#include "policy/grant.h"

#include <sys/queue.h>

struct request;

enum wake {
	WAKE_READABLE = 1,
	WAKE_WRITABLE = 2,
	WAKE_ENDED = 4,
	WAKE_CUT = 8,
	WAKE_NOTICE = 16,
	WAKE_SKIPPED = 32,
	WAKE_RESIZED = 64
};

enum screening { SCREENING_NO, SCREENING_WANTED, SCREENING_ASKED };

#define ATTACHMENT_TEXT_MAX 255

struct attachment {
	struct session *session;
	TAILQ_ENTRY(attachment) of_session;
	TAILQ_ENTRY(attachment) pending; /* among the hub's pending while wakes != 0 */
	TAILQ_ENTRY(attachment) of_hub;
	TAILQ_ENTRY(attachment) of_screen; /* in session->screen->want while screening */
	TAILQ_ENTRY(attachment) of_paced;  /* an observer, among the hub's paced while paced */
	bool paced;
	size_t share; /* bytes that an observer may still be shown of what it was given at share_ms (uv_now) */
	uint64_t share_ms;
	enum screening screening;        /* nothing is peeked until its screen is there */
	uint64_t screen_from, screen_by; /* an offset; boot ns */
	uint32_t screen_tag;
	bool screen_missed; /* none came in time */
	const struct attachment_ops *ops;
	void *arg;
	enum attachment_role role;
	struct id id, request;     /* its own; of who asked for it */
	const struct grant *grant; /* shared (grant_news.h) */
	uint64_t since_ns;         /* boot */
	uint64_t typed;            /* bytes of input */
	const char *door;
	char peer[64];
	uint64_t cursor[STREAM_COUNT];
	unsigned wakes, held_wakes;
	bool held;          /* its door has not heard of it yet: no callbacks */
	bool armed;         /* the door has seen everything and waits for `readable` */
	bool input_blocked; /* the door waits for `writable` */
	bool warned, over;  /* over: ended or cut was said */
	enum cut_cause cut_cause;
	char *text; /* of the last notice or cut; NULL: there was none, or no memory for it */
	bool notice_over;
};
TAILQ_HEAD(attachment_list, attachment);
const char *attachment_role_name(enum attachment_role role);

/* attachment.c; held: its door has not heard of it yet, attachment_release() says when. */
int attachment_create(struct session *s, const struct request *rq, enum attachment_role role,
		      const struct attachment_ops *ops, void *arg, bool held, struct attachment **out);
/* As attachment_resize(); by: NULL for a call of somebody who is not attached. ERR_INVAL, ERR_ENDED. */
int session_resize(struct session *s, const struct attachment *by, unsigned cols, unsigned rows, unsigned xpixel,
		   unsigned ypixel);

#endif
