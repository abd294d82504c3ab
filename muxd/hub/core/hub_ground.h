/*
 * hub_ground.h - what every room of the hub stands on: whom the hub was made with, its journal, the recorder, the
 * counters, the tick. For muxd/hub/ alone; doors see hub.h, which has the loop and the configuration too.
 *
 * Owner: the hub. Pointers are borrowed and stay what they are for as long as the hub does, but for the recorder, which
 * comes and goes, and what hub_conf() returns, which a reload changes: both are asked for where they are used. Nothing
 * here knows how the hub is laid out (hub_state.h), nor what a room keeps (hub_rooms.h).
 */
#ifndef MUXD_HUB_CORE_HUB_GROUND_H
#define MUXD_HUB_CORE_HUB_GROUND_H

#include "muxd/hub/core/hub.h"
#include "muxd/hub/core/hub_params.h"
#include "muxd/hub/core/journal.h"

/* The hub's making (hub_params.h); what is asked for most has a name of its own, NULL where there is none. */
const struct hub_params *hub_params(const struct hub *h);
struct life *hub_life(const struct hub *h);
struct work *hub_work(const struct hub *h);
struct store *hub_store(const struct hub *h);
struct filespace_store *hub_files(const struct hub *h);
struct sandbox_provider *hub_provider(const struct hub *h);

struct journal *hub_journal(const struct hub *h);
struct recorder_client *hub_recorder(const struct hub *h); /* NULL: there is none now */
void hub_keep_recorder(struct hub *h, struct recorder_client *rc);
/* The numbers behind hub_stats(), for who counts: those of the journal are not among them. */
struct hub_stats *hub_counters(struct hub *h);

/* Sessions that were open at the start are known again. */
bool hub_is_recovered(const struct hub *h);
uint64_t hub_recovered_ns(const struct hub *h); /* since when, boot */
void hub_set_recovered(struct hub *h);

int hub_writable(struct hub *h, struct err *e); /* 0, ERR_RECORD_UNAVAILABLE, ERR_DISK_FULL */
bool hub_removals_wait(void *hub); /* the guard of removals by age, as who removes asks it; hub: a struct hub */
/* Something begins that the tick is to look after: from here on it comes at its full rate again (pulse.h). */
void hub_stir(struct hub *h);

#endif
