/*
 * join.h - muxlet on an exec stream of a container: `muxlet --join NAME`.
 *
 * Whoever execs it gets the container's one muxlet on stdin and stdout. Where
 * none listens on the abstract Unix socket @NAME one is begun first: a daemon in
 * a session of its own, which lives on when this exec ends. The name belongs to
 * the network namespace and goes with its holder: nothing is left to clean up,
 * and no writable directory is needed. Both sides check that the other has their own
 * user id; who it is, the link's handshake proves.
 *
 *	stdin   "MUXJOIN\x01", the sandbox's secret (32 bytes), then what the hub says
 *	stdout  one line, then what muxlet says:
 *	        muxlet join=1 version=V daemon=started|running uid=N machine=M workspace_size=BYTES [guard=refused]
 *
 * workspace_size: of the file system at the working directory when it is one of its own, else 0. The first line comes
 * when the socket is connected; without it stderr and the exit code say why.
 */
#ifndef MUXD_MUXLET_JOIN_H
#define MUXD_MUXLET_JOIN_H

#include <stdint.h>

#define JOIN_MAGIC     "MUXJOIN\x01"
#define JOIN_MAGIC_LEN 8
#define JOIN_SERVE     (-4096) /* no errno is that far */

/*
 * Returns twice where a muxlet had to be begun. JOIN_SERVE in the daemon: *out_listener is bound, secret filled in,
 * standard descriptors are /dev/null. Elsewhere the exit code, when the stream has ended. workdir: for the size only.
 */
int join_run(const char *name, const char *workdir, uint8_t secret[32], int *out_listener);

#endif
