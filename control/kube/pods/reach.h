/*
 * reach.h - one stream to the muxlet of one container, whatever it takes to have one there.
 *
 * States: REACH_JOINING (`muxlet --join` is tried at a place where it may be) -> REACH_LOOKING (a shell looks for it,
 * or for room) -> REACH_SENDING (it is streamed in) -> REACH_JOINING ... -> REACH_UP (the hub's descriptor is
 * pumped) -> REACH_OVER. Places in turn: where it was before; KUBE_MUXLET_THERE, in pods that mount the
 * directory; in the image; a directory that is writable and not noexec.
 *
 * One exec at a time. Belongs to whoever made it, until reach_destroy(); the end of the stream ends it but does not
 * free it.
 */
#ifndef CONTROL_KUBE_PODS_REACH_H
#define CONTROL_KUBE_PODS_REACH_H

#include "control/kube/pods/deliver.h"
#include "control/sandbox.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct kube_creds;
struct program;
struct rc_client;
struct reach;
struct uv_loop_s;

enum reach_state { REACH_JOINING, REACH_LOOKING, REACH_SENDING, REACH_UP, REACH_OVER };

struct reach_params {
	struct uv_loop_s *loop;
	struct kube_creds *creds;
	struct rc_client *rc;
	const struct program *program; /* lives as long */
	const char *ns, *pod, *container;
	const char *name;      /* of muxlet's socket in the container */
	const uint8_t *secret; /* SANDBOX_SECRET_LEN bytes */
	const char *known;     /* where it was before; "": not known */
	const char *known_delivery;
	bool muxlet_dir;        /* the container mounts KUBE_MUXLET_DIR */
	const char *image_path; /* where it may lie in the image */
	const char *workdir;    /* NULL: where an exec begins */
	unsigned leave_s;       /* a muxlet that nobody needs leaves; 0: it stays */
	uint64_t deadline_ms;   /* until done() */
};

struct reach_result {
	char path[DELIVER_PATH_MAX + 1];
	char delivery[24]; /* "init", "image", "stream" */
	struct deliver_joined joined;
};

struct reach_ops {
	/*
	 * Once, from the loop. rc 0: fd is the callee's. ERR_UNSUPPORTED: muxlet cannot run there, e says why;
	 * ERR_NOT_FOUND, ERR_BAD_STATE: pod or container are gone; ERR_TIMEOUT; what the API server or the network
	 * said.
	 */
	void (*done)(void *arg, int rc, const struct err *e, const struct reach_result *r, int fd);
	/* After done with rc 0: the stream is over. */
	void (*ended)(void *arg, const char *why);
};

/* Strings are copied. ERR_NOMEM. */
int reach_create(const struct reach_params *p, const struct reach_ops *ops, void *arg, struct reach **out);
/* NULL-safe, from inside the callbacks too; none comes afterwards. The hub's descriptor sees its end. */
void reach_destroy(struct reach *r);

#endif
