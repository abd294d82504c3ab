/*
 * exec.h - one exec of a peer: credentials asked for, the stream opened, a 401 tried once more.
 *
 * Owned by who started it, until plain_exec_close(). States: asking (for credentials) -> open (rc_open was called)
 * -> over (exited() was told). Call backs are those of struct rc_ops and come from the loop alone.
 */
#ifndef MUXD_PLAIN_EXEC_H
#define MUXD_PLAIN_EXEC_H

#include "control/kube/exec/remotecommand.h"
#include "muxd/plain/script.h"

struct plain_exec;
struct plain_peer;

/*
 * p without argv, ns and pod; its container NULL: the peer's. words become the exec's, also on failure. What the words
 * point to must live as long as the exec. ERR_NOMEM.
 */
int plain_exec_start(struct plain_peer *peer, const struct rc_params *p, struct script_words *words,
		     const struct rc_ops *ops, void *arg, struct plain_exec **out);
/* NULL-safe; lets the stream go, from inside a call back too. Nothing is told any more. */
void plain_exec_close(struct plain_exec *x);

int plain_exec_version(const struct plain_exec *x);
void plain_exec_window(struct plain_exec *x, uint64_t until);
size_t plain_exec_room(const struct plain_exec *x); /* 0 until it is open */
ssize_t plain_exec_input(struct plain_exec *x, const void *p, size_t n);
int plain_exec_eof(struct plain_exec *x);
void plain_exec_resize(struct plain_exec *x, uint16_t cols, uint16_t rows);

#endif
