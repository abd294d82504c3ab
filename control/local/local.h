/*
 * local.h - sandboxes of bubblewrap on this machine, made and found by the monitor.
 *
 * Layout: DIR/sandboxes/<agent>/{sandbox.json, workspace.img | workspace/, link.sock, log,
 * snapshots/} (snapshot.h).
 * A sandbox outlives the monitor; it is found again by pid and start time and
 * reached through the listener that was bound outside and inherited by its
 * muxlet. Calls block for milliseconds (mkfs of a new workspace: tens of them).
 *
 * Modes: as root the workspace is a loop-mounted ext4 image of the configured
 * size (hard cap: ENOSPC), seen in the sandbox's mount namespace alone, and
 * cgroups bound memory, processes and CPU where they can be written (v1 or v2).
 * Without root it is a plain directory and what is not enforced is said in
 * sandbox_info.detail and the *_enforced flags (docs/sandboxes.md).
 *
 * Any thread may call; calls for one agent wait for each other.
 */
#ifndef CONTROL_LOCAL_LOCAL_H
#define CONTROL_LOCAL_LOCAL_H

#include "control/sandbox.h"

#include <stdatomic.h>

struct buf;
struct conf;
struct local;

struct local_params {
	const char *state_dir;     /* DIR */
	const char *muxlet_path;   /* build/muxlet or /usr/libexec/muxd/muxlet */
	const char *archiver_path; /* build/muxd-archive or /usr/libexec/muxd/muxd-archive */
	const char *instance;      /* instance id, names the cgroups */
	bool root;
};

/* The image of a sandbox, as the configuration says it (conf_image). */
struct local_image {
	const char *name;
	const char *archive, *dir;   /* one of them, the other NULL */
	const char *digest;          /* "sha256:" and 64 hexadecimal digits */
	uint64_t max;                /* bytes that it may unpack to */
	const atomic_bool *given_up; /* its unpacking ends soon after this is true (ERR_CANCELLED); NULL: never */
};

/* Reads what is there; ERR_MISSING when bwrap is not installed or user namespaces are switched off (says which). */
int local_create(const struct local_params *p, const struct conf *c, struct local **out, struct err *e);
void local_destroy(struct local *l); /* forgets; ends nothing */
/* Hogs go behind the others (hogs.h). For one thread alone; in how many ms the next look is due. */
unsigned local_look(struct local *l);
/* The shape of a sandbox that has to be started. */
struct local_shape {
	const struct local_image
	    *image;                 /* unpacked where it is not yet, which takes its time; NULL: the host's programs */
	struct resources resources; /* as asked: clipped by the configuration */
};
/* Make or find; out_fd: a fresh connected stream to muxlet; out->epoch grows with each. ERR_IMAGE. */
int local_ensure_shape(struct local *l, const char *agent, const struct local_shape *shape, struct sandbox_info *out,
		       int *out_fd, struct err *e);
/* Would a start with it have to unpack it first? As far as can be seen without a lock. */
bool local_image_missing(const struct local *l, const struct local_image *image);
/* Roots of images that neither the configuration nor a sandbox names go. */
int local_images_sweep(struct local *l, const struct conf *c, struct err *e);
/* The same of no shape of its own. */
int local_ensure(struct local *l, const char *agent, struct sandbox_info *out, int *out_fd, struct err *e);
int local_connect(struct local *l, const char *agent, struct sandbox_info *out, int *out_fd, struct err *e);
int local_stat(struct local *l, const char *agent, struct sandbox_info *out, struct err *e);
/* Ends every process of it (KILL of its pid namespace's init), removes cgroups. wipe: the workspace too; snapshots
 * stay. */
int local_destroy_sandbox(struct local *l, const char *agent, bool wipe, struct err *e);
/* In the order of names, from the one after `after` on (NULL: all), max at most; *out_more: there are others. *out is
 * malloc'd. */
int local_list(struct local *l, const char *after, size_t max, struct sandbox_info **out, size_t *out_n, bool *out_more,
	       struct err *e);
int local_destroy_all(struct local *l, struct err *e);
/* The last max bytes at most of what its outer program said at its last start. ERR_NOT_FOUND: nothing. b is empty. */
int local_log(struct local *l, const char *agent, size_t max, struct buf *b, struct err *e);

/* Snapshots: control/sandbox.h says what each promises, docs/sandboxes.md how. They block for as long as the copy
 * takes. */
int local_snapshot_take(struct local *l, const char *agent, const struct id *id, uint64_t timeout_ns,
			struct sandbox_snapshot *out, struct err *e);
/* agent NULL: of all. In the order of (agent, id), from the one after `after` ("agent/id", NULL: all) on, max at most.
 */
int local_snapshot_list(struct local *l, const char *agent, const char *after, size_t max,
			struct sandbox_snapshot **out, size_t *out_n, bool *out_more, struct err *e);
/*
 * Reads its file whole: digest, stored and mtime_ns of out. No lock is held: one that is dropped meanwhile is read to
 * its end. stop is looked at now and then (NULL: never): ERR_CANCELLED.
 */
int local_snapshot_hash(struct local *l, const char *agent, const struct id *id, const atomic_bool *stop,
			struct sandbox_snapshot *out, struct err *e);
int local_snapshot_drop(struct local *l, const char *agent, const struct id *id, struct err *e);
int local_restore(struct local *l, const char *agent, const char *from, const struct id *id, bool read_only,
		  uint64_t timeout_ns, struct sandbox_info *out, struct err *e);
int local_drop_workspace(struct local *l, const char *agent, struct sandbox_info *out, struct err *e);

#endif
