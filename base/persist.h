/*
 * persist.h - paths outside the workspace that outlive a sleep, as people write them: "/var/lib/app, /opt/venv"; empty:
 * none. Pure.
 *
 * Each is a place of its own below a directory that programs may have (/home, /opt, /srv, /var, /root, /tmp, /run),
 * none within another, in characters that need no quoting. Inside the sandbox it is a link to a directory of the
 * workspace, so the workspace's snapshots, cap and wipe are its own (docs/decisions/0042).
 */
#ifndef BASE_PERSIST_H
#define BASE_PERSIST_H

#include <stddef.h>

struct err;

#define PERSIST_MAX  16
#define PERSIST_ROOT "/workspace/.persist" /* a path is there under its own name */

/* ERR_CONFIG says which path is wrong, and how. */
int persist_check(const char *list, struct err *e);
/* The next path of a list that persist_check() took, from *at on (0 at first), NUL-ended; NULL: that was the last. */
const char *persist_next(const char *list, size_t *at, char *out, size_t size);

#endif
