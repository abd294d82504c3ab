/*
 * sandbox.h - sandboxes as the hub sees them: one provider, whatever the backend.
 *
 * A provider makes, finds and ends sandboxes and hands out connected streams to
 * their muxlets. Calls are asynchronous on the hub's loop; each done callback is
 * called exactly once, also when the provider is destroyed (ERR_CANCELLED).
 * The local provider asks the monitor (control/local is linked there); the
 * Kubernetes provider (control/kube/provider.h) speaks to the API server itself.
 */
#ifndef CONTROL_SANDBOX_H
#define CONTROL_SANDBOX_H

#include "muxd/base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum sandbox_state { SANDBOX_ABSENT, SANDBOX_RUNNING, SANDBOX_STOPPED, SANDBOX_ERROR };

#define SANDBOX_SECRET_LEN 32

/* How its programs are reached: muxlet on this machine, muxlet through an exec stream, or an exec for each session. */
enum sandbox_backend { SANDBOX_LOCAL, SANDBOX_LINK, SANDBOX_PLAIN };

struct sandbox_info {
	char agent[AGENT_NAME_MAX + 1];
	struct id sandbox_id; /* this incarnation */
	enum sandbox_state state;
	char detail[256]; /* why error; what this mode cannot promise: "workspace cap not enforced: no loop devices" */
	int32_t pid;      /* of the outer process, local only */
	int64_t created_wall_ns;
	uint64_t epoch; /* for the stream that comes with it */
	uint8_t secret[SANDBOX_SECRET_LEN];
	uint32_t oom_kills; /* counted by the cgroup since the sandbox began */
	bool cap_enforced, memory_enforced, pids_enforced, cpu_enforced;
	char snapshot_id[ID_STR_LEN]; /* current snapshot; "" until lifecycle exists */
	enum sandbox_backend backend;
	char why[160];     /* why this backend and no other: a sentence for people; "" for local */
	char delivery[24]; /* how muxlet came there: "host", "init", "image", "stream"; "" where there is none */
};

struct sandbox_provider;
typedef void sandbox_done(void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd);
/* rc 0 with e: the list lacks what e says. */
typedef void sandbox_list_done(void *arg, int rc, const struct err *e, const struct sandbox_info *list, size_t n);
/* name: the whole name of what was meant, valid during the call. */
typedef void sandbox_name_done(void *arg, int rc, const struct err *e, const char *name);

/* The incarnation ended by itself, or somebody else ended it: `why` says it for people. From the loop; once each. */
typedef void sandbox_gone(void *arg, const char *agent, const struct id *sandbox_id, const char *why);

struct sandbox_provider_ops {
	/* Running already or made now; fd is a fresh stream to its muxlet (the callee's to close), epoch in info. */
	void (*ensure)(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg);
	/* A fresh stream to a sandbox that must exist: ERR_NOT_FOUND when it is gone. */
	void (*connect)(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg);
	void (*stat)(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg); /* fd -1 */
	/* Gone already is no error. The workspace stays. */
	void (*destroy_sandbox)(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done,
				void *arg);
	/* The same, and its workspace goes for ever. NULL: not through this provider. */
	void (*wipe)(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg);
	void (*list)(struct sandbox_provider *p, sandbox_list_done *done, void *arg);
	/*
	 * ns/pod becomes ns/pod/container, so that one container has one name: ERR_INVAL with the list where there are
	 * several and none is the pod's default, ERR_NOT_FOUND. NULL: names are whole as they are.
	 */
	void (*resolve)(struct sandbox_provider *p, const char *name, sandbox_name_done *done, void *arg);
	void (*destroy)(struct sandbox_provider *p);
};
struct sandbox_provider {
	const struct sandbox_provider_ops *ops;
	/* Set by whoever uses it, or NULL. The local provider never calls it: a stream's end tells there. */
	sandbox_gone *gone;
	void *gone_arg;
};

const char *sandbox_state_name(enum sandbox_state s);
const char *sandbox_backend_name(enum sandbox_backend b); /* "local", "link", "plain" */

#endif
