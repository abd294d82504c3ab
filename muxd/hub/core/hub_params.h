/*
 * hub_params.h - what the hub is made with (setup.h) and told later, and whom it asks for what it may not do.
 *
 * The hub signs no grant, asks no cluster and starts no process: net passes such a question on, and answers once.
 */
#ifndef MUXD_HUB_CORE_HUB_PARAMS_H
#define MUXD_HUB_CORE_HUB_PARAMS_H

#include "base/ids.h"
#include "base/json.h"
#include "policy/grant.h"

struct artifacts;
struct filespace_store;
struct store;
struct life;
struct work;
struct conf;
struct err;
struct sandbox_provider;

/* Grants that the monitor signs for staff; via: "ssh-key", "cluster". done: rc, token, its claims. */
typedef void hub_issue_done(void *arg, int rc, const struct err *e, const char *token, const struct grant *g);
typedef void hub_ask_done(void *arg, int rc, const struct err *e, json_t *result);
struct hub_issuer {
	void (*issue)(void *ctx, const struct grant *wanted, uint64_t ttl_ns, const char *via, hub_issue_done *done,
		      void *arg);
	/*
	 * A question of a grant's holder, by its token (broker_grant.h). question: stolen; NULL: there was no memory.
	 * Done once, result borrowed.
	 */
	void (*ask)(void *ctx, json_t *question, hub_ask_done *done, void *arg);
	void *ctx;
};

/* Whose a token of the cluster is, when he may exec into that agent's pod. Done once, before the hub is destroyed. */
typedef void hub_review_done(void *arg, int rc, const struct err *e, const char *principal);
struct hub_reviewer {
	void (*review)(void *ctx, const char *token, const char *audience, const char *agent, hub_review_done *done,
		       void *arg); /* NULL: there is no cluster */
	void *ctx;
};

/* A worker that draws a session's screen (docs/protocol.md). fd: a stream to it, the callee's; -1 on failure. */
typedef void hub_screen_done(void *arg, int rc, const struct err *e, int fd);
struct hub_screens {
	void (*start)(void *ctx, hub_screen_done *done, void *arg); /* NULL: there are none */
	void *ctx;
};

struct hub_params {
	struct uv_loop_s *loop;
	int ring_fd, cursor_fd; /* dup'ed */
	int bell_fd, moved_fd;  /* likewise (base/ring.h); 0: the recorder looks and is looked at by the clock */
	struct conf *conf;      /* becomes the hub's */
	struct sandbox_provider *provider; /* outlives the hub */
	struct life *life;             /* outlives the hub, which becomes its host; provider is its own; NULL: none */
	struct work *work;             /* begun by hub_begin_work(), outlives the hub; NULL: none */
	struct artifacts *artifacts;   /* likewise */
	struct filespace_store *files; /* outlives the hub; NULL: there is none */
	struct store *store;           /* of locks; outlives the hub; NULL: there are none */
	struct hub_issuer issuer;
	struct hub_reviewer reviewer;
	struct hub_screens screens;
	char instance[ID_STR_LEN];
	char centre[ID_STR_LEN];   /* of an edge: leases of that one count, and no grants; "": this daemon is none */
	const char *repeats_path;  /* where counts of what is told once a minute outlive a kill; NULL: nowhere. Borrowed
				      until hub_create() returns */
	const char *removals_path; /* where the guard of removals by age outlives a restart; NULL: nowhere. Likewise */
	int64_t floor_ns;
	bool privsep;
	char cluster_namespace[DNS_LABEL_MAX + 1]; /* that pods of agents are made in; "": there is no cluster */
};

/* hub_alarms(); a reference is taken. */
void hub_set_alarms(struct hub *h, json_t *list);
/* A reload; the hub's then. */
void hub_set_conf(struct hub *h, struct conf *c);
/* Can what is journaled now be stored? 0, ERR_RECORD_UNAVAILABLE, ERR_DISK_FULL. */
int hub_can_record(struct hub *h);

#endif
