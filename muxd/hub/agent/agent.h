/*
 * agent.h - an agent as the hub's parts know it: its sandbox, its link, its sessions by channel.
 *
 * Owner: the hub; an agent owns its link. States: COLD (nothing is asked for) -> WAKING (the provider or the link
 * works)
 * -> UP -> LOST (looked for again); any of them -> COLD.
 */
#ifndef MUXD_HUB_AGENT_AGENT_H
#define MUXD_HUB_AGENT_AGENT_H

#include "base/json.h"
#include "control/life/life.h"
#include "control/sandbox.h"
#include "muxd/hub/session/session_state.h"
#include "muxd/link/kill_tally.h"
#include "muxd/link/link.h"

#include <sys/queue.h>
#include <uthash.h>

enum agent_state { AGENT_COLD, AGENT_WAKING, AGENT_UP, AGENT_LOST };

typedef void agent_ready_fn(void *arg, int rc, const struct err *e);
struct agent_waiter {
	STAILQ_ENTRY(agent_waiter) entry;
	agent_ready_fn *fn;
	void *arg;
};

struct clearing;
struct agent {
	struct hub *hub;
	UT_hash_handle hh; /* struct agents, by name */
	char name[AGENT_NAME_MAX + 1];
	enum agent_state state;
	struct sandbox_info info;
	struct link *link;
	struct id linked; /* sandbox_id the link's channels belong to */
	uint32_t next_channel;
	struct session *channels; /* hash by channel */
	STAILQ_HEAD(, agent_waiter) waiters;
	int64_t last_activity_wall_ns;
	uint64_t last_activity_boot_ns, last_exit_boot_ns;
	struct clearing *clearing; /* clear.c: everything inside is being ended */
	struct quiesce *quiesce;   /* life waits for its disk to be written, or holds its programs frozen */
	struct survey *survey;     /* survey.c: what programs changed; NULL: nobody asked yet */
	uint64_t retry_at;         /* boot ns, 0 = none */
	unsigned retry_ms;
	uint64_t adrift_since; /* boot ns: sessions run there, and nobody looks for its stream; 0: not so */
	unsigned silent_tries; /* since silent_since; by time alone a daemon that stood still would blame it */
	uint64_t silent_since; /* boot ns: its incarnation was given a stream, and no link came of that yet; 0 */
	char unable[160];      /* why its muxlet cannot serve; "": it does, or nobody knows yet */
	struct kill_tally oom; /* of its incarnation */
	uint64_t oom_heard_ns; /* boot; when its sandbox last said how many kills there were, 0: never */
	bool stopping;         /* life ends it: what is to begin in it waits for that, or for its being taken back */
	bool pulling;          /* its files are pulled: nothing begins in it before that */
	struct filespace *filespace;     /* filespace.c; NULL: nobody asked yet */
	struct workspace_ask *asking;    /* workspace_ask.c; NULL: nothing is asked */
	json_t *sync_causes;             /* filespace_due.c; NULL: nothing was changed */
	bool cut;                        /* broke the protocol: this incarnation is not spoken to again */
	struct agent_ask *ask;           /* the provider works on it */
	struct agent_want *want;         /* lifecycle was told that somebody waits for it */
	LIST_HEAD(, agent_start) starts; /* agent_need_with(): lifecycle was told of options */
	struct life_current current;
	json_t *settings;     /* settings.c; NULL: none */
	uint64_t settings_at; /* store_changes() when they were read; 0: nobody did */
};

/*
 * Who looks after what runs in sandboxes (services.c): the link tells, and knows nobody. up: sessions were compared,
 * nobody who waits was told yet. stays: a stop was taken back. said, exited: false: the channel is none of theirs.
 */
struct agent_watch {
	void (*up)(struct agent *a);
	void (*down)(struct agent *a);
	void (*stays)(struct agent *a);
	bool (*said)(struct agent *a, uint32_t channel, const uint8_t *p, size_t n);
	bool (*exited)(struct agent *a, uint32_t channel, const struct link_exit *x);
};

/*
 * Who goes ahead of everything that begins in a sandbox (filespace.c). up: the link is; true: what waits goes on
 * waiting, until agent_ahead_over(). gone: the agent goes.
 */
struct agent_ahead {
	bool (*up)(struct agent *a);
	void (*gone)(struct agent *a);
};

/* Agents of a hub, the hub's; each is made by agent_get() and goes with agent_destroy() (muxd/hub/link). */
struct agents {
	struct agent *by_name;
	const struct agent_watch *watch; /* NULL: nobody */
	const struct agent_ahead *ahead; /* of everything that begins; NULL: nobody */
};

#define AGENT_RETRY_MIN_MS 50

struct agents *agents_create(void);    /* NULL: no memory */
void agents_destroy(struct agents *x); /* NULL-safe; none is in it any more */

/* Its sandbox is linked and stays: what begins in it need not wait. */
static inline bool agent_is_awake(const struct agent *a)
{
	return a->state == AGENT_UP && !a->stopping;
}

void agent_set_state(struct agent *a, enum agent_state s);
const char *agent_state_name(enum agent_state s);
struct agent *agent_find(struct hub *h, const char *name);
/* Of its life: since_wall_ns of struct life_current. */
int64_t agent_life(struct hub *h, const char *name);
/* A number that no channel into it has; behind LINK_CHANNEL_MAX they begin anew. */
uint32_t agent_new_channel(struct agent *a);
struct agent *agent_get(struct hub *h, const char *name); /* made when missing; NULL = no memory */
void agent_touch(struct agent *a);
/*
 * Its muxlet does not do what it is for. It is shown so, and who asks for the sandbox next has it ended and begun anew:
 * its programs end, its workspace stays (agent_may_end(); else it is only told).
 */
void agent_unable(struct agent *a, const char *why);
uint64_t agent_patience(const struct agent *a); /* ns that its sandbox may take to answer who waits for a start */
/* ERR_UNSUPPORTED for what is muxlet's work in a sandbox without it: "WHAT AGENT: ...; INSTEAD, or ...". */
int agent_plain(const struct agent *a, const char *what, const char *instead, struct err *e);
/* Ended from outside, so that the next one can serve: its workspace stays. False: that would cost it. */
bool agent_may_end(const struct agent *a);

#endif
