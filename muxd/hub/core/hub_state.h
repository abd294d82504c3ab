/*
 * hub_state.h - the hub as its parts know it; doors see hub.h.
 *
 * Owner: net_main(), by setup.h. The hub owns agents and sessions.
 */
#ifndef MUXD_HUB_CORE_HUB_STATE_H
#define MUXD_HUB_CORE_HUB_STATE_H

#include "base/memory.h"
#include "base/metric.h"
#include "control/locks/locks.h"
#include "muxd/hub/core/filespace_places.h"
#include "muxd/hub/core/grant_news.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/session/session_state.h"
#include "policy/grant_known.h"
#include "policy/grant_shared.h"
#include "policy/id_times.h"
#include "policy/time_floor.h"

#include <uv.h>

struct agent_ahead;
struct agent_watch;
struct audit_repeats;
struct contexts;
struct exec_ids;
struct executions;
struct insides;
struct policy;
struct pulse;
struct services;
struct shells;
struct shown_tokens;

struct hub {
	uv_loop_t *loop;
	struct hub_params p;
	struct conf *conf;
	struct journal *journal;
	struct grant_public_key *keys;
	struct grant_keyset keyset;
	struct grants_known known;
	struct shown_tokens *shown;           /* muxd/hub/broker/broker_shown.h; NULL: none was yet */
	int64_t edge_heard_ns;                /* of an edge: hub_set_edge_state() */
	struct grants_shared grants;          /* of sessions and attachments */
	struct id_times *revoked, *renewed;   /* grants (policy/grant_kin.h) */
	struct renewed_token *renewed_tokens; /* of what was renewed since the start: what goes on asks with them */
	size_t strangers_questions;           /* to the recorder, that wait for their answers */
	struct policy *policy,
	    *policy_next; /* in force, waits for the journal (muxd/hub/access/policy.h); NULL: none */
	json_t *policy_by;
	bool policy_waits, policy_known;
	size_t policy_told; /* bytes of policy_next's text that the journal has, in so many parts */
	int policy_parts;
	struct removals *removals;
	json_t *alarms; /* of the record; NULL: none */
	struct audit_repeats *repeats;
	struct time_floor floor;
	struct agent *agents;
	struct session *sessions;
	struct session_list order; /* newest first */
	struct session_list ended; /* at hand still, oldest first: at most conf->round_keep_max, round_keep_size */
	size_t ended_count;
	uint64_t ended_bytes;
	struct shares shares;
	struct exec_ids *exec_ids;
	struct shells *shells;
	struct contexts *contexts;
	struct executions *executions;
	struct insides *insides; /* MCP servers in sandboxes (inside.h) */
	struct services *services;
	const struct agent_watch *watch; /* NULL: nobody */
	const struct agent_ahead *ahead_of_all;
	struct filespace_places filespace_places;
	struct attachment_list attachments, pending, paced;
	TAILQ_HEAD(, screen) screens;
	unsigned nscreens;
	struct recorder_client *recorder;
	json_t *witnesses;     /* as the recorder said last; NULL: none */
	uint64_t witnesses_ns; /* when it was asked */
	struct locks_watch locks;
	struct reader_client *readers; /* who has read the record and is still connected */
	uint64_t recovered_ns;
	TAILQ_HEAD(, gate_wait) gate;         /* in the order in which they came, all for the same time */
	TAILQ_HEAD(later_list, later) later;  /* likewise, to the next tick */
	TAILQ_HEAD(, round_wishes) wishes;    /* of rounds that have ended */
	TAILQ_HEAD(, begin_tree) begin_trees; /* what agents are to begin with is being made */
	struct recovery *recovery;            /* waits for the recorder to say how it is */
	struct pulse *pulse;
	uv_idle_t *idle;
	uv_timer_t *pace, *ahead_timer;
	struct session_list ahead; /* whose input waits */
	bool flushing, recovered, stopping;
	bool paused;        /* the record cannot be written */
	uint64_t paused_at; /* since then */
	bool pause_told;    /* people were told of the pause */
	struct hub_stats stats;
	struct metric_times round_times, mcp_times;
	uint64_t mcp_failures;
	struct memory_rest rest; /* sessions that came and went */
	unsigned reviews;        /* tokens of the cluster that are out */
};

/* grants.c, witnesses.c: each second */
void grants_tick(struct hub *h);
void hub_witnesses_tick(struct hub *h);
/* recover.c */
void recovery_check(struct hub *h);

/* lifecycle.c: the hub as life sees it */
void lifecycle_begin(struct hub *h);

#endif
