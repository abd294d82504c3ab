/*
 * ipc.h - net's end of the conversation with the monitor (docs/conversations.md).
 *
 * Owned by net_main(). Questions carry a tag and are answered once each, also
 * when the conversation ends (ERR_CANCELLED). What the monitor says unasked
 * goes to `told`. The monitor closing its end means: end.
 */
#ifndef MUXD_NET_IPC_H
#define MUXD_NET_IPC_H

#include "base/json.h"

struct uv_loop_s;
struct err;
struct ipc;

/* fd: a descriptor that came along (-1 none), the callee's. json borrowed. */
typedef void ipc_answer(void *arg, int rc, const struct err *e, const json_t *json, int fd);

struct ipc_ops {
	void (*told)(void *arg, const char *op, const json_t *json, const int *fds,
		     size_t nfds); /* fds: the callee's */
	void (*closed)(void *arg);
};

int ipc_create(struct uv_loop_s *loop, int fd, const struct ipc_ops *ops, void *arg, struct ipc **out);
void ipc_destroy(struct ipc *c);
/* question: stolen; `tag` is added. */
void ipc_ask(struct ipc *c, json_t *question, ipc_answer *done, void *arg);
/* Said without an answer; stolen. */
int ipc_tell(struct ipc *c, json_t *what);

#endif
