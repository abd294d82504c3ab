/*
 * service_state.h - a service as its own files know it; others see services.h. The table of its states is in
 * service_state.c.
 *
 * service_probe.c: is it healthy; service_wait.c: who waits for that; service_log.c: what it said before the daemon was
 * restarted; services.c: its states, which calls all of these.
 */
#ifndef MUXD_HUB_AGENT_SERVICE_STATE_H
#define MUXD_HUB_AGENT_SERVICE_STATE_H

#include "base/buf.h"
#include "control/servers/service_def.h"
#include "muxd/hub/agent/service_wait.h"

#include <sys/queue.h>
#include <uv.h>

enum service_state {
	SERVICE_ABSENT,
	SERVICE_STARTING,
	SERVICE_WARMING,
	SERVICE_HEALTHY,
	SERVICE_UNHEALTHY,
	SERVICE_BACKING_OFF,
	SERVICE_HELD,
	SERVICE_DONE,
	SERVICE_ENDING,
	SERVICE_STATES
};

/* Why its program was told to end. */
enum service_leave { SERVICE_WANTED, SERVICE_FAULT };

struct service_probe {
	uint32_t channel; /* of the one that is under way; 0: none */
	uint64_t next_ns; /* boot */
	unsigned failed;  /* in a row */
	char words[96];   /* of muxlet, about the one that is under way */
	char why[96];     /* of the last one that failed */
};

/*
 * What the audit log was told of its health in the minute that runs: one that is healthy and is not, again and again,
 * does not fill it. What is too much is counted, and the next event has the count.
 */
struct service_news {
	uint64_t until_ns;     /* boot: the minute's end; 0: none runs */
	unsigned told, untold; /* events */
};

struct service_regain;
struct service {
	TAILQ_ENTRY(service) entry; /* those of an agent in the order of its list */
	struct hub *hub;
	char agent[AGENT_NAME_MAX + 1], name[SERVICE_NAME_MAX + 1];
	json_t *config; /* its entry in the list; def borrows from it */
	struct service_def def;
	char definition[65];                         /* SHA-256 of config */
	char set_by[GRANT_NAME_MAX + 1], set_at[40]; /* of the list that it came with */
	enum service_state state;
	enum service_leave leave;
	bool dropped; /* not in the list any more: it goes once nothing of it runs */
	bool opening; /* its round is being begun */
	bool killed;  /* TERM did not do */
	bool heir;    /* a daemon before this one may have seen it end */
	char why[320];
	struct attachment *at;
	struct id program, sandbox; /* its round, and where; nil: none yet */
	uint64_t since_ns;          /* boot: of its state */
	uint64_t until_ns;          /* boot: BACKING_OFF, or KILL of ENDING; 0: none */
	uint64_t well_ns;           /* boot: since when it has been healthy; 0: it was not yet */
	uint64_t down_ns;           /* boot: since when its sandbox has not been there; 0: it is, or was not yet */
	unsigned failures, begun;
	unsigned put_off; /* starts in a row that could not be made, those of its agent's other services with them */
	struct service_news news;
	struct service_probe probe;
	struct service_regain *regain; /* its log is read back: nothing is taken from it meanwhile */
	struct buf log;
};

struct service_settle {
	TAILQ_ENTRY(service_settle) entry;
	char agent[AGENT_NAME_MAX + 1];
	uint64_t until_ns;
	life_host_done *done;
	void *arg;
};

struct services {
	TAILQ_HEAD(service_list, service) all;
	TAILQ_HEAD(service_waiters, service_waiter) waiters;
	uint64_t waited; /* the number of the newest */
	TAILQ_HEAD(, service_settle) settles;
	uv_timer_t *turn; /* what is due next, and what is not done inside the call that asks for it */
	bool recovered;   /* agents that were awake at the start are being reached */
};

const char *service_state_name(enum service_state s);
bool service_state_leads(enum service_state from, enum service_state to);
/* May a change of its health be told now? Else it is counted. */
bool service_news_take(struct service_news *n, uint64_t now);
/* The minute is over, and something was not told: how it is now is to be told. */
bool service_news_rest(struct service_news *n, uint64_t now);
/* Its round was begun so long ago that it had to be healthy; both boot. One that is taken up then runs on as it is. */
bool service_had_its_time(uint64_t begun_ns, const struct service_def *d, uint64_t now);

/* service_probe.c */
/* Looked at now, where that is due; its end is told by service_probe_exited(). */
void service_probe(struct service *x, struct agent *a, uint64_t now);
bool service_probe_said(struct service *x, uint32_t channel, const uint8_t *p, size_t n);
/* 1: healthy, 0: it is not, and probe.why says how; -1: that channel is none of its. */
int service_probe_exited(struct service *x, uint32_t channel, const struct link_exit *end);
/* Begins anew: what is under way is nobody's any more, and muxlet keeps nothing of it. */
void service_probe_reset(struct service *x);
/* The same where the link went, and its channels with it. */
void service_probe_lost(struct service *x);

/* service_log.c: the end of its streams as the record has them; `then` once, now or later, unless it is forgotten. */
void service_log_regain(struct service *x, void (*then)(struct service *x));
void service_log_forget(struct service *x);

#endif
