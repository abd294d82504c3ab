/* Facts of the hub that its rooms (hub_ground.h) and the doors (hub.h) ask for, and where each room finds its own state
 * (hub_rooms.h). */
#include "muxd/hub/core/hub.h"

#include "base/clock.h"
#include "base/err.h"
#include "control/store/store.h"
#include "control/work/work.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/hub_state.h"
#include "muxd/hub/core/pulse.h"
#include "muxd/hub/core/removals.h"

const struct hub_params *hub_params(const struct hub *h)
{
	return &h->p;
}

struct life *hub_life(const struct hub *h)
{
	return h->p.life;
}

struct work *hub_work(const struct hub *h)
{
	return h->p.work;
}

struct store *hub_store(const struct hub *h)
{
	return h->p.store;
}

struct filespace_store *hub_files(const struct hub *h)
{
	return h->p.files;
}

struct sandbox_provider *hub_provider(const struct hub *h)
{
	return h->p.provider;
}

struct artifacts *hub_artifacts(const struct hub *h)
{
	return h->p.artifacts;
}

struct journal *hub_journal(const struct hub *h)
{
	return h->journal;
}

struct recorder_client *hub_recorder(const struct hub *h)
{
	return h->recorder;
}

void hub_keep_recorder(struct hub *h, struct recorder_client *rc)
{
	h->recorder = rc;
}

struct hub_stats *hub_counters(struct hub *h)
{
	return &h->stats;
}

bool hub_is_recovered(const struct hub *h)
{
	return h->recovered;
}

uint64_t hub_recovered_ns(const struct hub *h)
{
	return h->recovered_ns;
}

void hub_set_recovered(struct hub *h)
{
	h->recovered = true;
	h->recovered_ns = clock_boot_ns();
}

int hub_writable(struct hub *h, struct err *e)
{
	switch (journal_state(h->journal)) {
	case RECORD_OK:
		return 0;
	case RECORD_DISK_FULL:
		return err_set(e, ERR_DISK_FULL, "the disk of the record is full: nothing new may start");
	default:
		return err_set(e, ERR_RECORD_UNAVAILABLE, "the record cannot be written (%s): nothing may start",
			       hub_record_state_name(journal_state(h->journal)));
	}
}

void hub_stir(struct hub *h)
{
	pulse_stir(h->pulse);
}

int hub_can_record(struct hub *h)
{
	journal_refresh(h->journal);
	return hub_writable(h, NULL);
}

void hub_set_conf(struct hub *h, struct conf *c)
{
	conf_destroy(h->conf);
	h->conf = c;
}

bool hub_removals_wait(void *hub)
{
	return removals_wait(((struct hub *)hub)->removals);
}

struct uv_loop_s *hub_loop(const struct hub *h)
{
	return h->loop;
}

const struct conf *hub_conf(const struct hub *h)
{
	return h->conf;
}

enum hub_record_state hub_record_state(const struct hub *h)
{
	return journal_state(h->journal);
}

const char *hub_control_state_name(enum hub_control_state s)
{
	static const char *const names[] = {"ok", "starting", "disk_full", "failed"};

	return names[s];
}

enum hub_control_state hub_control_state(const struct hub *h)
{
	enum store_state stored = store_state(h->p.store);
	enum work_state work = work_state(h->p.work);

	if (stored != STORE_OK)
		return stored == STORE_DISK_FULL ? CONTROL_DISK_FULL : CONTROL_FAILED;
	return work == WORK_READY ? CONTROL_OK : work == WORK_STARTING ? CONTROL_STARTING : CONTROL_FAILED;
}

void hub_set_alarms(struct hub *h, json_t *list)
{
	json_decref(h->alarms);
	h->alarms = json_is_array(list) && json_array_size(list) ? json_incref(list) : NULL;
}

const json_t *hub_alarms(const struct hub *h)
{
	return h->alarms;
}

bool hub_ready(const struct hub *h)
{
	return h->recovered && !h->stopping && journal_state(h->journal) == RECORD_OK;
}

bool hub_stopping(const struct hub *h)
{
	return h->stopping;
}

void hub_stats(struct hub *h, struct hub_stats *out)
{
	*out = h->stats;
	journal_stats(h->journal, out);
}

/* ---- where each room finds its own state */

struct exec_ids *hub_exec_ids(const struct hub *h)
{
	return h->exec_ids;
}

struct hub_grants *hub_grants(const struct hub *h)
{
	return h->grants;
}

struct laters *hub_laters(const struct hub *h)
{
	return h->laters;
}

struct removals *hub_removals(const struct hub *h)
{
	return h->removals;
}

struct audit_repeats *hub_repeats(const struct hub *h)
{
	return h->repeats;
}

struct readers *hub_readers(const struct hub *h)
{
	return h->readers;
}

struct shares *hub_shares(const struct hub *h)
{
	return h->shares;
}

struct witness_words *hub_witness_words(const struct hub *h)
{
	return h->witnesses;
}

struct agents *hub_agents(const struct hub *h)
{
	return h->agents;
}

struct aheads *hub_aheads(const struct hub *h)
{
	return h->aheads;
}

struct clients *hub_clients(const struct hub *h)
{
	return h->clients;
}

struct contexts *hub_contexts(const struct hub *h)
{
	return h->contexts;
}

struct screen_list *hub_screens(const struct hub *h)
{
	return h->screens;
}

struct shelf *hub_shelf(const struct hub *h)
{
	return h->shelf;
}

struct shells *hub_shells(const struct hub *h)
{
	return h->shells;
}

struct gate *hub_gate(const struct hub *h)
{
	return h->gate;
}

struct policies *hub_policies(const struct hub *h)
{
	return h->policies;
}

struct begin_trees *hub_begin_trees(const struct hub *h)
{
	return h->begin_trees;
}

struct broker_state *hub_broker(const struct hub *h)
{
	return h->broker;
}

struct executions *hub_executions(const struct hub *h)
{
	return h->executions;
}

struct wishes *hub_wishes(const struct hub *h)
{
	return h->wishes;
}

struct services *hub_services(const struct hub *h)
{
	return h->services;
}

struct filespace_places *hub_filespaces(const struct hub *h)
{
	return h->filespaces;
}

struct insides *hub_insides(const struct hub *h)
{
	return h->insides;
}

struct pause *hub_pause(const struct hub *h)
{
	return h->pause;
}
