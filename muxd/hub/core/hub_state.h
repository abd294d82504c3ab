/*
 * hub_state.h - how the hub is laid out. For setup.c, which makes and ends it, and for hub.c, which answers for
 * it (hub.h, hub_ground.h, hub_rooms.h). Nobody else includes it: a room asks by hub_ground.h, finds its own state by
 * hub_rooms.h, and asks another room for that room's.
 *
 * Owner: net_main(), by setup.h. The hub owns what it points to, but for what outlives it (hub_params.h) and the
 * recorder's client.
 */
#ifndef MUXD_HUB_CORE_HUB_STATE_H
#define MUXD_HUB_CORE_HUB_STATE_H

#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_params.h"

struct hub {
	/* the ground: hub_ground.h */
	struct uv_loop_s *loop;
	struct hub_params p;
	struct conf *conf; /* replaced by a reload */
	struct journal *journal;
	struct recorder_client *recorder;
	struct hub_stats stats;
	struct pulse *pulse;
	struct removals *removals;
	json_t *alarms; /* of the record; NULL: none */
	bool recovered, stopping;
	uint64_t recovered_ns; /* boot */

	/* what each room keeps: hub_rooms.h */
	struct exec_ids *exec_ids;
	struct hub_grants *grants;
	struct laters *laters;
	struct audit_repeats *repeats;
	struct readers *readers;
	struct shares *shares;
	struct witness_words *witnesses;
	struct agents *agents;
	struct aheads *aheads;
	struct clients *clients;
	struct contexts *contexts;
	struct screen_list *screens;
	struct shelf *shelf;
	struct shells *shells;
	struct gate *gate;
	struct policies *policies;
	struct begin_trees *begin_trees;
	struct broker_state *broker;
	struct executions *executions;
	struct wishes *wishes;
	struct services *services;
	struct filespace_places *filespaces;
	struct insides *insides;
	struct pause *pause;
};

#endif
