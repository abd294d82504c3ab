/*
 * git_clone.h - a workspace out of a bundle, by the git of the sandbox: the program of the round that makes it, and the
 * meaning of its end. Pure.
 *
 * The bundle lies in the workspace, which holds nothing else, and goes. Its branches and tags become the repository's
 * own, there is no remote; HEAD is the bundle's, or the branch or commit that was asked for. Neither configuration of
 * the system or its user nor a template has a part in it: no hook and no filter runs. Where the workspace is not its
 * user's (volumes of pods), a .gitconfig that git does not see says that git may enter it.
 */
#ifndef MUXD_HUB_BROKER_GIT_CLONE_H
#define MUXD_HUB_BROKER_GIT_CLONE_H

#include <stddef.h>

struct err;
struct session_result;

#define GIT_CLONE_ARGV   7
#define GIT_CLONE_BUNDLE ".muxd-begin.bundle" /* its name there */

/* ref "": HEAD. NULL-ended; what stands in it is borrowed. */
void git_clone_argv(const char *ref, const char *out[GIT_CLONE_ARGV]);
/* said: its standard error, n bytes of any kind. ERR_NO_GIT, ERR_INVAL (git refuses the bundle, there is no such ref),
 * ERR_NO_SPACE, ERR_TRANSFER_TIMEOUT, ERR_TRANSFER. */
int git_clone_result(const struct session_result *r, const char *said, size_t n, const char *ref, struct err *e);

#endif
