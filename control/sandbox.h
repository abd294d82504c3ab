/*
 * sandbox.h - sandboxes as the hub sees them: one provider, whatever the backend.
 *
 * A provider makes, finds and ends sandboxes and hands out connected streams to
 * their muxlets. A question is asynchronous on the hub's loop, and is answered
 * exactly once, also when the provider is destroyed (ERR_CANCELLED).
 * The local provider asks the monitor (control/local is linked there); the
 * Kubernetes provider (control/kube/pods/provider.h) speaks to the API server itself.
 */
#ifndef CONTROL_SANDBOX_H
#define CONTROL_SANDBOX_H

#include "base/ids.h"
#include "base/resources.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum sandbox_state { SANDBOX_ABSENT, SANDBOX_RUNNING, SANDBOX_STOPPED, SANDBOX_ERROR };

#define SANDBOX_SECRET_LEN 32
#define SANDBOX_DIGEST_LEN 65 /* SHA-256 in hex, with its end */

#define SANDBOX_IMAGE_MAX        128 /* bytes of its name */
#define SANDBOX_IMAGE_DIGEST_LEN 72  /* "sha256:..." with its end */

/* How its programs are reached: muxlet on this machine, muxlet through an exec stream, or an exec for each session. */
enum sandbox_backend { SANDBOX_LOCAL, SANDBOX_LINK, SANDBOX_PLAIN };

struct sandbox_info {
	char agent[AGENT_NAME_MAX + 1];
	struct id sandbox_id; /* this incarnation */
	enum sandbox_state state;
	bool ending;      /* its end was begun and cannot be taken back, though it may run for a moment yet */
	char detail[256]; /* why error; what this mode cannot promise: "workspace cap not enforced: no loop devices" */
	int32_t pid;      /* of the outer process, local only */
	int64_t created_wall_ns;
	uint64_t epoch; /* for the stream that comes with it */
	uint8_t secret[SANDBOX_SECRET_LEN];
	uint32_t oom_kills; /* counted by the cgroup since the sandbox began */
	bool cap_enforced, memory_enforced, pids_enforced, cpu_enforced;
	/* As its caller asked when it was made, and what it was made with, enforced or not; zeros: not known. */
	struct resources asked, limits;
	char snapshot_id[ID_STR_LEN]; /* the snapshot that was current when it was asked; "": none */
	bool has_workspace;           /* there is a disk that outlives the programs, running or not */
	bool workspace_lost;          /* there was one, and what held it says that it is gone; with STAT alone */
	enum sandbox_backend backend;
	char ns[64], pod[64]; /* in the cluster: where; "": no pod is there, or none is known */
	char why[400];        /* why this backend and no other, every earlier way with its reason; "" for local */
	/* Of sandbox.images, that it was made with, and what the configuration gave for its digest; "": none. */
	char image[SANDBOX_IMAGE_MAX + 1], image_digest[SANDBOX_IMAGE_DIGEST_LEN];
	char pod_template[SANDBOX_DIGEST_LEN]; /* digest of the pod template that it was made with; "": none */
	/* How muxlet came there: "host", "init", "image", "stream", "ephemeral"; "" where there is none */
	char delivery[24];
	char visitor[64]; /* the ephemeral container that carries it, beside the one that is meant; "" */
	/* Ephemeral containers added to a pod of others and not told yet, each behind a space; one whose request had no
	 * answer is among them. "": none */
	char visitors_added[128];
};

/* A copy of a workspace as it was at one moment. Its id is the caller's; the backend finds it again by it. */
struct sandbox_snapshot {
	struct id id;
	char agent[AGENT_NAME_MAX + 1]; /* whose workspace it was */
	char name[254];                 /* the backend's own name for it: a VolumeSnapshot, a file */
	char how[24];                   /* "VolumeSnapshot", "reflink", "copy", "tar+zstd" */
	char digest[65];                /* SHA-256 of its file, hex; "": not hashed */
	uint64_t size;                  /* bytes it takes, best effort; 0: not known */
	uint64_t stored;                /* the file's length; 0: not known, or no file */
	int64_t mtime_ns;               /* when the file was written last; 0: not known, or no file */
	int64_t created_wall_ns;
	bool ready;       /* whole and durable: false while it is made, and when that failed */
	char detail[256]; /* why it is not ready */
	int rc;           /* of a SWEEP: it was to go, and this kept it; 0: it went, or detail says why it was not to */
};

/*
 * What a provider is asked. A new operation is a line here and one in sandbox.c (its name, and what a backend lacks
 * that cannot do it), and a case in each backend that can.
 */
enum sandbox_op {
	/* Running already or made now; the answer's fd is a fresh stream to its muxlet, epoch and secret in info. */
	SANDBOX_ENSURE,
	/* A fresh stream to a sandbox that must exist: ERR_NOT_FOUND when it is gone. */
	SANDBOX_CONNECT,
	SANDBOX_STAT,
	/* Gone already is no error. The workspace stays. */
	SANDBOX_DESTROY,
	/*
	 * The same, and its workspace goes for ever; its snapshots stay. ERR_DATA_KEPT, of this and of whatever drops:
	 * something still holds data, and stays; the message begins with the names of it, up to " stays". ERR_TIMEOUT:
	 * it is going, and has not gone in time.
	 */
	SANDBOX_WIPE,
	SANDBOX_LIST,
	/*
	 * ns/pod becomes ns/pod/container, so that one container has one name: ERR_INVAL with the list where there are
	 * several and none is the pod's default, ERR_NOT_FOUND. A backend that lacks it has names that are whole.
	 */
	SANDBOX_RESOLVE,
	/*
	 * Snapshots; all or none (without them a stop keeps the workspace as it is). Each is idempotent, so that a
	 * caller which died in between asks again: a take of an id that exists answers that one once it is ready, a
	 * drop of one that is gone is fine, a restore of what was restored is fine.
	 *
	 * Take: the workspace as it is now, the sandbox running or not. Answered when it is whole and durable.
	 * ERR_NOT_FOUND (no workspace), ERR_UNSUPPORTED (this workspace cannot be copied: says why), ERR_TIMEOUT after
	 * timeout_ns, ERR_SNAPSHOT (the backend's words). A take that failed leaves nothing that counts as ready.
	 */
	SANDBOX_TAKE,
	SANDBOX_SNAPSHOTS, /* what there is, of one agent or (NULL) of all */
	SANDBOX_DROP,      /* agent: whose snapshot it is */
	/*
	 * What of snapshots has outlived them: whatever may go does, all are told, by the name of what was left; its
	 * detail says why it stays, "" that it goes. ERR_K8S_FORBIDDEN: nobody may look. A backend lacks it where
	 * nothing outlives them.
	 */
	SANDBOX_SWEEP,
	/*
	 * Reads the whole file of a snapshot as it is now: one with digest, stored and mtime_ns. idle: at idle
	 * priority, one after the other, however long it takes; else at once. ERR_UNSUPPORTED: the backend does not let
	 * anybody read it. ERR_NOT_FOUND, ERR_SYS.
	 */
	SANDBOX_HASH,
	/*
	 * The workspace of `agent`, which does not run, becomes a copy of a snapshot of `from` (another agent: a fork).
	 * The workspace that was there goes only when the new one is whole; a failure leaves it as it was. read_only:
	 * programs inside cannot write to it, from the next start on.
	 */
	SANDBOX_RESTORE,
	/* The workspace of an agent that does not run goes; what else is known of it stays. Gone already is fine. */
	SANDBOX_DROP_WORKSPACE,
	/*
	 * The last `max` bytes at most of what the outer program, or the container, has said. ERR_NOT_FOUND: nothing is
	 * kept of it.
	 */
	SANDBOX_LOG,
	SANDBOX_OPS
};
const char *sandbox_op_name(enum sandbox_op op); /* "ensure", "drop workspace" */

/* May what is called `name` in the backend, and has outlived that snapshot, go? arg: of the question. */
typedef bool sandbox_may_go(void *arg, const struct id *snapshot, const char *name);

/* One question. Strings and ids are the caller's, valid during the call; what an operation does not use is zero. */
struct sandbox_ask {
	enum sandbox_op op;
	const char *agent; /* NULL: of all, for LIST, SNAPSHOTS and SWEEP */
	const char *reason;
	const char *from;
	const struct id *snapshot;
	const char *image;          /* ENSURE, RESTORE: of sandbox.images; NULL or "": none */
	struct resources resources; /* the same: as asked, the backend clips them by its configuration */
	const char *app_id;         /* the same: the app that it belongs to; NULL or "": none. A label of its pod */
	uint64_t timeout_ns;
	size_t max;
	bool idle, read_only;
	bool empty; /* ENSURE: the loss of its workspace (workspace_lost) is on record: it begins empty */
	bool again; /* RESTORE: it was asked for by a daemon that died, and what of it was done nobody knows */
	/*
	 * A run of lifecycle asks: in the order of its agent's questions, with a place kept for it. Where there is none
	 * even so, the answer is ERR_AGAIN: nothing was begun.
	 */
	bool run;
	sandbox_may_go *may_go;
};

/* Its answer, borrowed but for fd, which is the callee's to close. What an operation does not say is zero, fd -1. */
struct sandbox_answer {
	int rc;
	const struct err *e; /* rc 0 with e: the list lacks what e says */
	int fd;
	size_t n;                        /* of the list, of snapshots (of what is about one: 1 or 0), of text */
	const struct sandbox_info *info; /* one, or n of LIST; NULL where rc is not 0 */
	const struct sandbox_snapshot *snapshots; /* n */
	const char *name;                         /* the whole name of what was meant */
	const uint8_t *text;                      /* n bytes of a log, any bytes */
};
typedef void sandbox_done(void *arg, const struct sandbox_answer *a);

struct sandbox_provider;

/* The incarnation ended by itself, or somebody else ended it: `why` says it for people. From the loop; once each. */
typedef void sandbox_gone(void *arg, const char *agent, const struct id *sandbox_id, const char *why);

struct sandbox_provider_ops {
	/* Every operation of provider.can, and only those. */
	void (*ask)(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg);
	/*
	 * When the backend itself is to end it, by the wall clock, should nobody be there to do so (0: never). Said
	 * ahead of each ensure, which makes or wakes it; runs: it runs already, and the time changes. Nothing is
	 * answered. NULL: this backend ends nothing by itself.
	 */
	void (*set_end)(struct sandbox_provider *p, const char *agent, int64_t end_wall_ns, bool runs);
	/*
	 * The pod template that an agent has of its own (JSON; "": none), over the configured one: is it one? to_be:
	 * the next ensure or restore of it makes its pod from both; said ahead of each, as nothing of it is kept here.
	 * effective: SHA-256 of both merged, hex, "": they say nothing. ERR_INVAL with the pointer of what may not be,
	 * ERR_UNSUPPORTED, ERR_TOO_LARGE. NULL: this backend has no pod templates.
	 */
	int (*pod_template)(struct sandbox_provider *p, const char *agent, const char *own, bool to_be,
			    char effective[SANDBOX_DIGEST_LEN], struct err *e);
	void (*destroy)(struct sandbox_provider *p);
};
struct sandbox_provider {
	const struct sandbox_provider_ops *ops;
	uint32_t can; /* SANDBOX_CAN() of each operation */
	/* Set by whoever uses it, or NULL. The local provider never calls it: a stream's end tells there. */
	sandbox_gone *gone;
	void *gone_arg;
	/* Why a stop would lose the workspace of whatever it makes, for people; NULL: workspaces outlive their
	 * sandboxes. */
	const char *workspace_goes;
};

#define SANDBOX_CAN(op) (1u << (op))
#define SANDBOX_CAN_ALL (SANDBOX_CAN(SANDBOX_OPS) - 1)
static inline bool sandbox_can(const struct sandbox_provider *p, enum sandbox_op op)
{
	return p->can & SANDBOX_CAN(op);
}
/* Asks; an operation that the backend lacks is answered here: by its name, with no snapshots, or ERR_UNSUPPORTED. */
void sandbox_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg);
/* Answers: with an error, or one sandbox (info NULL: none) and a stream (-1: none). */
void sandbox_answer(sandbox_done *done, void *arg, int rc, const struct err *e, const struct sandbox_info *info,
		    int fd);
void sandbox_answer_snapshots(sandbox_done *done, void *arg, int rc, const struct err *e,
			      const struct sandbox_snapshot *list, size_t n);

const char *sandbox_state_name(enum sandbox_state s);
const char *sandbox_backend_name(enum sandbox_backend b); /* "local", "link", "plain" */
/* One more ERR_DATA_KEPT: all names both, as far as there is room. all is zeroed before the first. */
void sandbox_kept_add(struct err *all, const struct err *one);

#endif
