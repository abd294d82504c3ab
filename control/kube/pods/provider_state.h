/*
 * provider_state.h - the structs of the provider of pods, for control/kube/pods/provider*.c alone.
 *
 * kp owns its names (kname) and jobs (kjob). A name is what is remembered between questions: the incarnation
 * that was reached last, how, and the stream into it. A job is one question; it is freed when it
 * is answered, and answers from the loop.
 */
#ifndef CONTROL_KUBE_PODS_PROVIDER_STATE_H
#define CONTROL_KUBE_PODS_PROVIDER_STATE_H

#include "base/err.h"
#include "control/kube/client/verbs.h"
#include "control/kube/client/watch.h"
#include "control/kube/pods/backing.h"
#include "control/kube/pods/claim.h"
#include "control/kube/pods/pod.h"
#include "control/kube/pods/program.h"
#include "control/kube/pods/provider.h"
#include "control/kube/pods/reach.h"
#include "control/kube/pods/snapshot.h"

#include <sys/queue.h>
#include <uthash.h>
#include <uv.h>

#define KP_PAGE         200                     /* pods of one page of a list */
#define KP_CONTINUE_MAX (KUBE_CONTINUE_MAX + 1) /* of the word with which a list goes on */
#define KP_POLL_MS      2000                    /* a look at the pod, should no watch tell */
#define KP_AGAIN_MS     250
#define KP_JUDGE_MS     500 /* a look at what the controller of a Sandbox says, while its pod is awaited */
#define KP_REACH_MS     60000
#define KP_CONNECT_MS   75000
#define KP_END_MS       45000
#define KP_WIPE_MS      90000 /* the same, and its volumes */
#define KP_GONE_MS      20000 /* a content goes so long before somebody hears that it is not gone */
#define KP_SWEEP_MS     600000
#define KP_CREATE_MS    120000
#define KP_COPY_MS      600000 /* a snapshot, or a workspace from one, where nobody says how long */
#define KP_GOING_MS     2000   /* one that was on its way already goes so long */
#define KP_FORCE_MS     20000  /* after which a pod of ours whose node does not answer is taken out of the cluster */
#define KP_HOLD_NS      (120 * NS_PER_SEC) /* a Sandbox is awaited so long at the most */
#define KP_LEAVE_S      900                /* muxlet in a pod of others, when nobody needs it */
#define KP_IDLE_NS      (600 * UINT64_C(1000000000))
#define KP_LOOK_MS      1000  /* until a look that failed, or came too early, is made again */
#define KP_REFUSED_MS   30000 /* likewise, where the server would not have it */
#define KP_STUCK_NS     (30 * INT64_C(1000000000))

#define KP_AWAY_MS  30000
#define KP_BIND_MS  500  /* a claim that waits longer is given a first consumer */
#define KP_GRACE_MS 5000 /* controllers try again: an error of a snapshot counts once it has stood so long */

#define KJOB_SET_END SANDBOX_OPS /* no question: a job of the provider's own */
enum kjob_state {
	KJOB_LOOKING,
	KJOB_MAKING,
	KJOB_REPLACING,
	KJOB_WAITING,
	KJOB_ENDING,
	KJOB_ASKING_WHY,
	KJOB_REACHING,
	KJOB_VISITING, /* an ephemeral container is to carry muxlet */
	KJOB_COPYING,  /* a snapshot, or a claim from one */
	KJOB_TIDYING   /* what is not needed any more goes */
};

struct kp;
struct kjob;

/* The answer to one call to the API server, of a job that is still there. */
typedef void kjob_heard(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply);
/* provider_shed.c: one owner whose data is to go with it. */
typedef void shed_next(struct kjob *j, int rc, const struct err *e);
struct kname;
typedef void visit_next(struct kjob *j, struct kname *n, const char *why);
struct kshed {
	struct backing_owner owner;
	struct backing_view seen; /* its name "": nothing was seen behind the owner */
	shed_next *next;
	uint64_t poll_ms;
};

/* What was behind an owner that was deleted, and was there still when somebody last looked. */
struct kgoing {
	LIST_ENTRY(kgoing) entry;
	char agent[AGENT_NAME_MAX + 1];
	struct backing_view backing;
};

/* A content that names a VolumeSnapshot of ours. */
struct kleft {
	struct backing_view content;
	struct id id;
	bool owned; /* that is there */
};

struct kname {
	UT_hash_handle hh; /* kp->names by name */
	struct kp *kp;
	struct target t;
	char name[AGENT_NAME_MAX + 1]; /* as the hub says it */
	char ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1];
	bool ours;
	uint64_t used_ns; /* boot clock: when a stream was asked for, or ended */
	int64_t end_ns;   /* wall clock: when its Sandbox is to end by itself; 0: never */
	json_t *to_be;    /* what its next pod is made from, until a job takes it; NULL: the configured template */
	/* Of the incarnation that was reached last. */
	bool linked;
	struct id incarnation;
	struct pod_view view;
	struct reach_result reached; /* path "": not by muxlet */
	char plain_why[400];         /* "" or why muxlet cannot run in it */
	char visitor[64];            /* then: the ephemeral container that carries it; "": none */
	char visitor_asked[64];      /* one that was asked for, while nothing has told whether it is there; "" */
	char visitors_added[128];    /* as in sandbox_info, until a connection tells of them */
	struct reach *reach;         /* the stream, while there is one, or is about to be */
	struct kjob *job;            /* who waits for it */
	struct kube_watch *watch;    /* pods of others: of that one pod */
	struct kube_call *confirm;   /* a look, because the watch told something that may be its end */
	bool missed;                 /* it told another while that look was out */
	bool ending;                 /* it is the node that is looked at, and `gone` comes whatever it says */
	uv_timer_t *lost;            /* another look: its node may not answer, or the last look failed */
};

struct kjob {
	TAILQ_ENTRY(kjob) entry;
	struct kp *kp;
	enum sandbox_op op;
	enum kjob_state state;
	char name[AGENT_NAME_MAX + 1];
	struct target t;
	char ns[AGENT_NAME_MAX + 1], pod[AGENT_NAME_MAX + 1];
	bool ours, cancelled;
	bool forced;             /* what was in the way was taken out of it, once */
	bool there;              /* there is a pod */
	uint64_t visit_until_ns; /* boot clock */
	visit_next *visited;
	bool held;                                              /* its Sandbox is awake */
	char box[AGENT_NAME_MAX + 1], box_uid[POD_UID_MAX + 1]; /* the Sandbox that its claim was given; "" */
	bool empty;                      /* a workspace that is lost may be followed by an empty one */
	bool end_told;                   /* the claim was told its end by this job */
	char keeps[KUBE_OBJECT_MAX + 1]; /* the claim of its template that holds its workspace; "" */
	char owner[POD_UID_MAX + 1];     /* the claim */
	struct kube_call *call;
	kjob_heard *heard;              /* gets its answer */
	void (*step)(struct kjob *j);   /* after the claims */
	void (*then)(struct kjob *j);   /* after that */
	void (*served)(struct kjob *j); /* once the version of its Sandbox is known */
	enum kube_sandbox_api api;      /* which it is */
	char *image;                    /* of the agent's own, by spec.images; NULL: the configured one */
	char cpu[RESOURCES_TEXT], memory[RESOURCES_TEXT]; /* limits of the agent's own; "": the configured ones */
	char app_id[DNS_LABEL_MAX + 1];                   /* that the agent belongs to; "": none */
	char cpu_asked[RESOURCES_TEXT], memory_asked[RESOURCES_TEXT]; /* requests, which are no more than these */
	json_t *template;             /* of the agent's own and the configured one; NULL: the configured one alone */
	void (*tick)(struct kjob *j); /* when a wait is over, of those that need no pod */
	uv_timer_t *timer;
	uint64_t deadline_ns, force_ns; /* boot clock */
	struct pod_view view;           /* as seen last */
	char uid[POD_UID_MAX + 1];      /* the pod that is to go */
	struct err last;                /* what went wrong and may pass */
	bool made;                      /* its pod was made by this job */
	struct err dropped;             /* what the server made of the pod template, while the pod goes again */
	struct sandbox_info *list;
	size_t nlist;
	struct claim_view *claims; /* the agent's, as listed last */
	size_t nclaims, at;
	const char *keep; /* of them, by name */
	struct kshed shed;
	char left_by[KUBE_OBJECT_MAX + 1];
	shed_next *left_next;
	struct kleft *left; /* of a sweep */
	size_t nleft;
	sandbox_may_go *may_go;
	struct err kept;         /* what would have outlived its claim, and so stayed with it */
	struct claim_view claim; /* the workspace; its name "": none */
	/* Snapshots, and what comes of them. */
	struct id snapshot;
	char from[AGENT_NAME_MAX + 1];
	bool read_only, binding; /* binding: there may be a first consumer that has to go */
	struct snapshot_view copy;
	struct claim_view next;
	/* The claim from it was asked to become the workspace, and nothing has told yet whether it is; it is. */
	bool committing, committed;
	uint64_t began_ns, error_ns, poll_ms; /* boot clock; error: since when, 0: there is none */
	uint64_t again_ms;                    /* its last wait until it looked again; 0: there was none */
	struct sandbox_snapshot *snapshots;
	size_t nsnapshots;
	sandbox_done *done; /* NULL: nobody hears of it */
	void *arg;
};
TAILQ_HEAD(kjobs, kjob);

struct kp {
	struct sandbox_provider base;
	struct kube_provider_params p;
	uv_loop_t *loop;
	struct kube_creds *creds;
	struct program program;
	struct kname *names;
	struct kjobs jobs;
	LIST_HEAD(, kgoing) going;
	struct kube_watch *watch; /* of all pods of ours */
	uint64_t epoch;
	bool stopping;
	void (*pod_look)(struct kjob *j); /* the pod is asked for; what its kind makes of it comes then */
	void (*pod_tick)(struct kjob *j); /* a wait is over, of a job without a tick of its own */
	bool late_binding;                /* claims of this storage were seen to wait for their first consumer */
	enum kube_sandbox_api served;     /* of Sandbox objects; AUTO: the server is asked first */
};

/* provider_name.c */
struct kname *kname_find(struct kp *kp, const char *name);
struct kname *kname_get(struct kp *kp, const char *name); /* made when missing; NULL: no memory */
/* The stream is cut, what was known is forgotten; the name stays. */
void kname_forget(struct kname *n);
void kname_free(struct kname *n);
void kname_sweep(struct kp *kp);
/* Where a name leads: namespace and pod. ERR_INVAL. */
int kp_locate(const struct kp *kp, const char *name, struct target *t, char ns[AGENT_NAME_MAX + 1],
	      char pod[AGENT_NAME_MAX + 1], bool *out_ours, struct err *e);
/* provider_job.c */
/* pod_view() of the container that is meant; ERR_K8S_CONFLICT when a pod of ours is somebody else's. */
int kjob_view(const struct kjob *j, const json_t *pod, struct pod_view *out, struct err *e);
/* The answer to a restore or a drop of a workspace: whether there is one. */
void kjob_answer_workspace(struct kjob *j);
struct kube_ref kp_pods(const char *ns, const char *pod);
struct kube_ref kp_claims(const char *ns, const char *claim);
/* A new question about a name ("": about all), or a job of its own (done NULL); NULL: it was answered already. */
struct kjob *kjob_begin(struct kp *kp, enum sandbox_op op, const char *name, uint64_t limit_ns, sandbox_done *done,
			void *arg);
void kjob_answer(struct kjob *j, int rc, const struct err *e, const struct sandbox_info *info, int fd);
void kjob_answer_last(struct kjob *j); /* j->last says what went wrong */
void kjob_fail(struct kjob *j, int rc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool kjob_is_late(const struct kjob *j);
void kjob_set_state(struct kjob *j, enum kjob_state s);
/* Its tick in so many ms, or at the deadline if that is sooner. */
void kjob_wait(struct kjob *j, uint64_t ms);
/* The same in KP_AGAIN_MS, with tick in place of the look at its pod. */
void kjob_again(struct kjob *j, void (*tick)(struct kjob *j));
/* Looks again, because the objects of that moment decide: in KP_AGAIN_MS, then in twice that, up to KP_POLL_MS. why:
 * becomes j->last. */
void kjob_look_again(struct kjob *j, const struct err *why);
/* Its tick after twice *ms, which grows up to most_ms. */
void kjob_poll(struct kjob *j, void (*tick)(struct kjob *j), uint64_t *ms, uint64_t most_ms);
/*
 * One call to the API server; what it borrows is copied. heard() has the answer, unless the job is over by then. Where
 * it cannot be put: kjob_call() returns ERR_* with e, the others answer the job.
 */
struct kcall {
	enum kcall_verb { KCALL_GET, KCALL_GROUP, KCALL_LIST, KCALL_CREATE, KCALL_PATCH, KCALL_DELETE } verb;
	struct kube_ref ref; /* of GROUP the group alone: which versions of it are served */
	json_t *body; /* of CREATE and PATCH: taken over; NULL: e says why there is none, else there was no memory */
	enum kube_patch_kind kind;
	struct kube_list_options list;
	struct kube_delete_options del;
};
int kjob_call(struct kjob *j, const struct kcall *c, kjob_heard *heard, struct err *e);
void kjob_put(struct kjob *j, const struct kcall *c, kjob_heard *heard, struct err *e);
void kjob_get(struct kjob *j, struct kube_ref ref, kjob_heard *heard);
void kjob_create(struct kjob *j, struct kube_ref ref, json_t *object, struct err *e, kjob_heard *heard);
void kjob_patch(struct kjob *j, struct kube_ref ref, json_t *merge, kjob_heard *heard);
/* grace_s -1: the object's. */
void kjob_delete(struct kjob *j, struct kube_ref ref, const char *uid, int64_t grace_s, kjob_heard *heard);
/* A page of a list, behind `next` (NULL: the first), and the last events of one object; labels NULL: all. */
void kjob_list(struct kjob *j, struct kube_ref ref, const char *labels, const char *next, kjob_heard *heard);
int kjob_events(struct kjob *j, const char *fields, kjob_heard *heard, struct err *e);
/* Where a list goes on behind this page; false: it does not. */
bool kjob_next_page(const struct kube_reply *reply, char out[KP_CONTINUE_MAX]);
/* What may pass: the server is away or busy, an answer was lost. */
bool kp_may_pass(int rc);
/* Such a thing, and this question may wait for its end: what changes something until its deadline, others KP_AWAY_MS.
 */
bool kjob_may_wait(const struct kjob *j, int rc);
/* The job's pod is made from this, but for its claim: everything in it is borrowed. */
struct kube_pod_spec kjob_spec(const struct kjob *j);
/* provider_view.c */
void stat_seen(struct kjob *j, const json_t *pod);
void list_begin(struct kjob *j, const struct sandbox_ask *q);
/* What a look or a watch says of a container, without what only a stream knows. */
void kp_describe(const struct kp *kp, const char *name, bool ours, const struct pod_view *v, struct sandbox_info *out);
/* provider_log.c */
void kp_log(struct kp *kp, const struct sandbox_ask *q, sandbox_done *done, void *arg);
/* provider_wake.c: ensure and connect. pod NULL: there is none. */
void wake_seen(struct kjob *j, const json_t *pod);
void wake_tick(struct kjob *j); /* waiting goes on, or the deadline is there */
/* provider_visit.c: why muxlet cannot run in n; then next, with the visitor that n names and all reasons. */
void visit_begin(struct kjob *j, struct kname *n, const char *why, visit_next *next);
/* provider_end.c: destroy and wipe */
void end_seen(struct kjob *j, const json_t *pod);
void end_tick(struct kjob *j);
/* A step behind the one that makes the new claim the workspace failed; false: there was no such step. */
bool claims_are_past(struct kjob *j, const struct err *e);
/*
 * provider_claims.c: the claims of the job's agent into j->claims, and the workspace among them into j->claim; then
 * step. An error is answered; to a restore whose claim is the workspace, or may be, by what that means.
 */
void claims_get(struct kjob *j, void (*step)(struct kjob *j));
/* Claims of j->claims go that are not called keep (NULL: all), and the first consumer, where there may be one; then
 * step. One whose volume would stay does, as nobody's workspace: j->kept names the volumes. */
void claims_tidy(struct kjob *j, const char *keep, void (*step)(struct kjob *j));
/* One more of the agent, as planned but for its name and generation, which are the next. */
void claims_make(struct kjob *j, const struct kube_claim_plan *plan, kjob_heard *heard);
/* ensure's: a claim there is, the right one in j->claim; then step. */
void claims_ensure(struct kjob *j, void (*step)(struct kjob *j));
/*
 * provider_hold.c: ensure's Sandbox, then a wait; what its controller says of it, which ends the start or lets it wait
 * on; why there is no pod of it; asleep or deleted, then a look
 */
void hold_make(struct kjob *j);
void hold_judge(struct kjob *j);
void hold_late(struct kjob *j);
void hold_let_go(struct kjob *j);
/* The Sandbox that there is ends when its name says. */
void hold_set_end(struct kjob *j);
/* provider_pool.c: with kubernetes.warm_pool. */
bool kp_pooled(const struct kp *kp);
/* The claim, its Sandbox awake or asleep as the question wants it, then a look at its pod; once more; another end */
void pool_begin(struct kjob *j);
void pool_wait(struct kjob *j);
/* The pod is gone: the claim goes with all that is its, unless data would stay; then. */
void pool_wipe(struct kjob *j, void (*then)(struct kjob *j));
/*
 * provider_served.c: then j->api is a version, the configured one or the best that the cluster serves. An error is
 * answered.
 */
void served_ask(struct kjob *j, void (*then)(struct kjob *j));
/* An answer about Sandbox objects says that there is no such version (any more): the job is answered, the next one asks
 * the cluster again. */
bool served_is_gone(struct kjob *j, int rc, const struct err *e, const struct kube_reply *reply);
struct kube_ref served_ref(const struct kjob *j, const char *sandbox); /* in that version */
/* provider_snapshot.c: ops, and what restore needs of it */
void take_begin(struct kjob *j, const struct sandbox_ask *q);
void snapshots_begin(struct kjob *j, const struct sandbox_ask *q);
void drop_begin(struct kjob *j, const struct sandbox_ask *q);
struct kube_ref kp_snapshots(const char *ns, const char *name);
/* GET the content that j->copy names, and is it its own? then step. An error is answered. */
void content_check(struct kjob *j, void (*step)(struct kjob *j));
int snapshots_allowed(const struct kp *kp, struct err *e);
/*
 * provider_shed.c: what is behind an owner of ours goes with it from now on, j->shed.seen is that; then next. Its rc:
 * ERR_DATA_KEPT: it would stay, the owner is not to be deleted; others: not known.
 */
void shed_take_over(struct kjob *j, const struct backing_owner *o, shed_next *next);
void shed_claim(struct kjob *j, const struct claim_view *c, shed_next *next); /* the volume of a claim */
/* Until it is gone; ERR_TIMEOUT at the job's deadline. */
void shed_await(struct kjob *j, const struct backing_view *v, shed_next *next);
/* The same for everything that an owner of the job's agent has left behind (NULL: any claim). */
void shed_await_left(struct kjob *j, const char *snapshot, shed_next *next);
/* j->shed.seen is to be awaited, by this job or by one that comes later: nothing will name it any more. */
void shed_leave(struct kjob *j);
/* provider_sweep.c */
void sweep_begin(struct kjob *j, const struct sandbox_ask *q);
/* provider_restore.c */
void restore_begin(struct kjob *j, const struct sandbox_ask *q);
void drop_workspace_begin(struct kjob *j, const struct sandbox_ask *q);
void restore_seen(struct kjob *j, const json_t *pod); /* and drop_workspace's */
/* provider_watch.c */
int watch_start(struct kp *kp, struct err *e);
/* Deleted, and half a minute late: its node does not answer. */
bool watch_is_stuck(const struct pod_view *v);
/* The whole truth about one container that was reached: has it ended? pod NULL: there is none. May call `gone`. */
void watch_judge(struct kname *n, const json_t *pod);
int watch_name(struct kname *n, struct err *e); /* a pod of others; harmless when it is watched already */

#endif
