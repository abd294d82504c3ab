/*
 * seccomp_filter.h - the system calls that programs in a sandbox may not make.
 *
 * A list of refusals, not of permissions: people run compilers, debuggers and
 * editors in there. Refused is what widens the kernel's attack surface without
 * being of use inside (keys, BPF, module loading, io_uring ...), what would
 * undo the sandbox (mounts, namespaces), what reaches around the empty
 * network (AF_VSOCK and other families, netlink but for routes), what changes muxlet
 * (limits, priorities, processors, signals of process 1), and what types into a terminal from
 * behind (TIOCSTI, TIOCLINUX). Other instruction sets than the host's own get ENOSYS.
 */
#ifndef CONTROL_LOCAL_SECCOMP_FILTER_H
#define CONTROL_LOCAL_SECCOMP_FILTER_H

#include <stddef.h>

struct err;

/* The filter as BPF instructions, as bwrap --seccomp reads them; to be freed. */
int seccomp_filter_make(void **out, size_t *out_size, struct err *e);

#endif
