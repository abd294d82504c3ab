/*
 * hub.h - everything the net process knows: grants, sandboxes, links, sessions.
 *
 * One per net process, made by net_main() before the doors; destroyed after
 * them. One loop, no threads touch it. Doors find what they may need to know
 * about the configuration and the loop here.
 */
#ifndef MUXD_HUB_CORE_HUB_H
#define MUXD_HUB_CORE_HUB_H

#include "base/conf.h"
#include "base/json.h"
#include "policy/grant.h"

#include <stdbool.h>
#include <stdint.h>

struct artifacts;
struct buf;
struct hub;
struct uv_loop_s;
struct sandbox_provider;
struct recorder_client;
struct life;
struct err;

enum hub_record_state { RECORD_OK, RECORD_STARTING, RECORD_SILENT, RECORD_DISK_FULL, RECORD_FAILED };

/* Numbers for /metrics and muxctl status; a copy. */
struct hub_stats {
	uint64_t sessions_opened[6]; /* by session_kind */
	uint64_t sessions_live[6];
	uint64_t attachments_live;
	uint64_t bytes_in, bytes_out;
	uint64_t auth_ok, auth_failed;
	uint64_t rounds_by_cause[8]; /* by exit_cause */
	uint64_t sandboxes_up, links_down;
	uint64_t ring_used, ring_size, ring_stalls;
	uint64_t durable_lag; /* bytes journaled, not yet durable */
	enum hub_record_state record;
};

struct uv_loop_s *hub_loop(const struct hub *h);
const struct conf *hub_conf(const struct hub *h); /* may change at a reload: do not keep pointers into it */
int64_t hub_now_wall(struct hub *h);              /* guarded wall clock (time floor) */
int64_t hub_grant_ends(const struct hub *h, const struct grant_line *l); /* wall clock; renewals counted */
void hub_stats(struct hub *h, struct hub_stats *out);
int hub_work_metrics(struct hub *h, struct buf *out); /* of leases, runs and the pool, as Prometheus reads them */
enum hub_record_state hub_record_state(const struct hub *h);
const char *hub_record_state_name(enum hub_record_state s);
/*
 * Whether what changes of sandboxes, leases and artifacts is stored (control.db). CONTROL_STARTING: leases and pool are
 * being put in order; CONTROL_FAILED: that, or a change, failed for another reason than a full disk, and is tried
 * again.
 */
enum hub_control_state { CONTROL_OK, CONTROL_STARTING, CONTROL_DISK_FULL, CONTROL_FAILED };
enum hub_control_state hub_control_state(const struct hub *h);
const char *hub_control_state_name(enum hub_control_state s);
/* What is counted beside hub_stats(): families of base/metric.h, the caller's. NULL: no memory. */
json_t *hub_metrics(struct hub *h);
/* What is wrong with the record although it goes on (recorder/serve/alarms.h): a list of {code, message, hint}, or
 * NULL. */
const json_t *hub_alarms(const struct hub *h);
/* Of each witness what the recorder said last (recorder/serve/witnesses.h); a list, borrowed; NULL: there are none. */
const json_t *hub_witnesses(const struct hub *h);
struct artifacts *hub_artifacts(const struct hub *h); /* NULL: there are none */
bool hub_ready(const struct hub *h);                  /* recovered, record writable */
bool hub_stopping(const struct hub *h); /* hub_stop() was called: who still waits is answered ERR_CANCELLED */
/* A connection of a door has ended: what it read of the record is told of. */
void hub_client_gone(struct hub *h, const char *door, const char *peer);

#endif
