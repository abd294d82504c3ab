/*
 * broker_artifact.h - artifacts of tasks, as a grant may reach them.
 *
 * Scope files. A grant with a task reaches that task's artifacts, whoever put them; one without a task names it in each
 * call and reaches what its own principal put there (scope admin: all). Another task is answered as one without such an
 * artifact (ERR_NOT_FOUND), and the audit log has the refusal. Puts, gets, lists and deletions are audit events.
 */
#ifndef MUXD_HUB_BROKER_BROKER_ARTIFACT_H
#define MUXD_HUB_BROKER_BROKER_ARTIFACT_H

#include "control/artifacts/artifact_wish.h"
#include "control/artifacts/artifacts.h"
#include "muxd/hub/core/request.h"
#include "muxd/hub/session/exec_spec.h"

struct artifact_put {
	const char *task, *name;
	const char *sha256, *media_type; /* NULL: none was said */
	uint64_t size;                   /* UINT64_MAX: not known */
	bool only_new;
};
/* w: the caller's, whose ops then tell. Answered at once, or after the record was waited for. */
typedef void broker_writer_done(void *arg, int rc, const struct err *e, struct artifact_writer *w);
void broker_artifact_put(struct hub *h, const struct request *rq, const struct artifact_put *put,
			 const struct artifact_writer_ops *ops, void *ops_arg, broker_writer_done *done, void *arg);

/* The artifact of that name: result is for artifact_read() (hub_artifacts()). bytes: it is about to be read. */
void broker_artifact_get(struct hub *h, const struct request *rq, const char *task, const char *name, bool bytes,
			 broker_json_done *done, void *arg);
void broker_artifact_list(struct hub *h, const struct request *rq, const struct artifact_filter *f,
			  broker_json_done *done, void *arg);
void broker_artifact_delete(struct hub *h, const struct request *rq, const char *task, const char *name,
			    broker_json_done *done, void *arg);

/*
 * A file of a sandbox, what has changed in it, or the whole output of a round that has ended, becomes one. A file is
 * fetched by a transfer of its own (a session of kind file); of output all bytes have to be kept still
 * (rounds.output_keep). ERR_BAD_STATE: the round runs.
 */
struct artifact_take {
	const char *task, *name;
	const char *agent, *path; /* path: as struct file_spec has it; NULL: of a round, or of changes */
	struct id round;          /* the one whose output it is, or that names the path; nil: none */
	int stream;
	const char *made_by;    /* id of the round at whose end it is taken; NULL: none */
	struct id sandbox;      /* a path is fetched from this one or not at all (exec_spec.only_in); nil: from any */
	const char *media_type; /* NULL */
	const struct artifact_changes *changes; /* the changes of agent's workspace are taken; NULL */
	bool only_new;
	uint64_t size_max;   /* bytes; 0: artifacts.size_max alone */
	uint64_t timeout_ns; /* of the transfer; 0: files.timeout */
};
/*
 * A patch from a snapshot of the agent's, made by muxlet, whatever is in the image; or, from a revision, a patch or a
 * bundle by the sandbox's git, in a round (scope rounds). The row's base is the snapshot, or the commit.
 */
struct artifact_changes {
	struct id snapshot;   /* nil: */
	const char *revision; /* this */
	const char *path;     /* the repository, below where programs begin; NULL: there */
	bool bundle;
	bool text_only;       /* of a snapshot: binary files are named and left out */
	const json_t *ignore; /* of a snapshot: rules of gitignore(5), a list of texts; NULL */
};
void broker_artifact_take(struct hub *h, const struct request *rq, const struct artifact_take *t,
			  broker_json_done *done, void *arg);

#endif
