/*
 * monitor.h - what the parts of the monitor share. For muxd/monitor/ alone.
 *
 * One struct, owned by serve.c; every callback runs on its loop. The monitor
 * reads no byte that came from the network or a sandbox: its peers are the
 * operator (admin.sock), net and the recorder.
 *
 *   starting -> running -> stopping_net -> stopping_recorder -> stopping_sandboxes -> ended
 *   starting -> stopping_net ... when something cannot be started
 */
#ifndef MUXD_MONITOR_MONITOR_H
#define MUXD_MONITOR_MONITOR_H

#include "base/conf.h"
#include "base/err.h"
#include "muxd/monitor/audit.h"
#include "muxd/monitor/cert.h"
#include "muxd/monitor/cluster.h"
#include "muxd/monitor/edge.h"
#include "muxd/monitor/floor.h"
#include "muxd/monitor/grants.h"
#include "muxd/monitor/keys.h"
#include "muxd/monitor/layout.h"
#include "muxd/monitor/listen.h"
#include "muxd/monitor/options.h"
#include "muxd/monitor/proc.h"
#include "muxd/monitor/sandboxes.h"
#include "muxd/monitor/screens.h"
#include "policy/verdict.h"

enum monitor_state {
	MONITOR_STARTING,
	MONITOR_RUNNING,
	MONITOR_STOPPING_NET,
	MONITOR_STOPPING_RECORDER,
	MONITOR_STOPPING_SANDBOXES,
	MONITOR_ENDED
};

struct exchange;
struct revoke_wait;
struct rotation;
struct admin;

struct monitor {
	uv_loop_t loop;
	enum monitor_state state;
	struct options options;
	struct identity who;
	struct layout layout;
	struct keys keys;
	struct edge edge;
	struct cert_status cert;
	struct cluster cluster;
	struct listeners listeners;
	int bell_fd, moved_fd; /* between net and recorder (base/ring.h), for as long as the daemon lives */
	struct time_floor floor;
	struct conf *conf; /* the newest that was good, with the start's values of the keys that wait (conf_start.h) */
	struct conf *local_conf; /* what control/local was made with */
	char *conf_text;         /* the newest that was good, as the file has it */
	size_t conf_len;
	char *started_text; /* of the daemon's start; NULL: conf_text is */
	size_t started_len;
	json_t *loaded;    /* who loaded it (loader.h) */
	char *policy_text; /* of the newest that was good; "": none */
	size_t policy_len;
	char policy_version[POLICY_VERSION_LEN]; /* "": none */
	char policy_error[ERR_MESSAGE_MAX];      /* of the file that was read last; "": it is in force */
	struct grants *grants;
	struct audit *audit;
	struct rotation *rotation; /* NULL: none is under way */
	json_t *alarms;            /* what the recorder told of itself last; NULL: nothing yet */
	json_t *journal_alarm;     /* a ring of before that is gone; NULL: none is */
	struct sandboxes *sandboxes;
	json_t *sandbox_list; /* for net's start packet; NULL until asked */
	bool sandbox_list_asked, sandbox_list_failed;
	struct proc net, recorder, witness, checker;
	char *issuers_text;    /* as the checker was given them; NULL: it runs not, or not by them */
	json_t *issuer_states; /* by name, as the checker told of its keys last */
	struct exchange *exchanges;
	int64_t exchange_tag;
	uint64_t checker_silent_ns; /* uptime since which it owes an answer and has said nothing; 0: it owes none */
	struct screens screens;
	struct admin *admin;
	struct revoke_wait *revoke_waits; /* issue.c */
	char net_path[PATH_MAX], recorder_path[PATH_MAX], witness_path[PATH_MAX], issuer_path[PATH_MAX],
	    muxlet_path[PATH_MAX], archiver_path[PATH_MAX], tls_key[PATH_MAX], tls_cert[PATH_MAX];
	int64_t started_ns; /* wall */
	uv_signal_t sigterm, sigint, sigchld;
	int hup_fd; /* SIGHUP, with its sender */
	uv_poll_t hup;
	uv_timer_t minute;
	uv_timer_t beat; /* of an edge: its floor of time is saved more often, since leases are short */
	uv_timer_t look; /* at the processor time of sandboxes (control/local/hogs.h) */
	unsigned minutes;
	bool end_sandboxes, ending_sandboxes, sandboxes_ended; /* asked for, under way, done */
	uv_timer_t shut_out; /* the next turn of those that are to be revoked (exchange.h) */
	bool shut_out_owed;  /* grants that could not be revoked; tried again each minute (exchange.h) */
	bool ready_owed;     /* ready.json could not be written; tried again each minute */
	int exit_rc;         /* ERR_* of what ended it, 0 = as wanted */
};

/* monitor.c */
void monitor_child_ended(struct monitor *m, struct proc *p, bool was_ready, const struct err *how);
void monitor_ready(struct monitor *m); /* a child became ready: go on */
void monitor_stop(struct monitor *m, bool end_sandboxes, int rc);
const char *monitor_state_name(enum monitor_state s);

/* netipc.c, recorderipc.c, witnessipc.c, issueripc.c: the conversations */
extern const struct proc_ops netipc_ops, recorderipc_ops, witnessipc_ops, issueripc_ops;
/* The configuration has issuers: starts their checker, or another one where they have changed. */
void issueripc_begin(struct monitor *m);
json_t *issueripc_describe(const struct monitor *m); /* for the status */
/* There are witnesses to carry heads to: starts the carrier, or has it begin again with the configuration of now. */
void witnessipc_begin(struct monitor *m);
void netipc_recorder_again(struct monitor *m); /* a fresh stream to the recorder for a net that lives */

/* start.c: what both start packets hold, and telling both. `follow` says how many packets come right behind. */
json_t *start_packet(struct monitor *m, const char *const *fd_names, size_t n, bool renewals);
/* Send it with its descriptors, then the revocations that it had no room for. */
int start_send(struct monitor *m, struct channel *c, const json_t *start, const int *fds, size_t n, struct err *e);
int conf_descriptor(const struct monitor *m, int *out_fd, struct err *e);
int conf_started_descriptor(const struct monitor *m, int *out_fd, struct err *e); /* of the daemon's start */
int policy_descriptor(const struct monitor *m, int *out_fd, struct err *e);
int edge_descriptor(const struct monitor *m, int *out_fd, struct err *e); /* empty: this daemon is no edge */
/* A sealed memory file that holds data; name: for people who look into /proc. */
int memory_descriptor(const char *name, const char *data, size_t len, int *out_fd, struct err *e);
/* The renewals that hold, to a net that starts: of a packet that counted them. */
int start_send_renewed(struct monitor *m, struct channel *c, struct err *e);
void tell_reload(struct monitor *m);
void tell_grant_keys(struct monitor *m);
void tell_alarms(struct monitor *m);
json_t *alarms_all(const struct monitor *m); /* the recorder's and the monitor's, a new list; NULL: nothing yet */

/* reload.c */
int config_load(struct monitor *m, struct err *e); /* reads --config, or the defaults */
/* By SIGHUP or over admin.sock; a bad file changes nothing. */
int config_reload(struct monitor *m, const char *door, uid_t uid, pid_t pid, struct err *e);

/* ready.c */
json_t *ready_describe(const struct monitor *m);
int ready_write(const struct monitor *m, struct err *e);
void ready_remove(const struct monitor *m);

#endif
