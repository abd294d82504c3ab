/*
 * git_export.h - the changes since a revision, by the git of the sandbox: the program of the round that makes them, and
 * the meaning of its end. Pure.
 *
 * Neither configuration of the system or its user, nor hooks, filters, external diffs or text conversions of the
 * repository have a part in it, and no transport is allowed. Files that are new count, what is ignored does not. What
 * hosts keep credentials in (.netrc, .git-credentials) is left out of a patch; a bundle whose commits have it is
 * refused. The repository's own files (.git/config and its remotes) are in neither.
 */
#ifndef MUXD_HUB_BROKER_GIT_EXPORT_H
#define MUXD_HUB_BROKER_GIT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct session_result;

#define GIT_EXPORT_ARGV  8
#define GIT_REVISION_MAX 255

/* ERR_INVAL: empty, too long, begins with a dash, or has what can be seen nowhere. */
int git_revision_check(const char *text, struct err *e);
/* NULL-ended; what stands in it is borrowed. */
void git_export_argv(const char *revision, const char *path, bool bundle, const char *out[GIT_EXPORT_ARGV]);
/*
 * said: its standard error, n bytes of any kind. 0, and in base (of size bytes) the commit that the revision is;
 * ERR_BASE_UNKNOWN, ERR_NO_GIT, ERR_BAD_STATE (nothing to bundle, credentials in it), ERR_TRANSFER.
 */
int git_export_result(const struct session_result *r, const char *said, size_t n, const char *revision, char *base,
		      size_t size, struct err *e);
/* Of git's complaints, n bytes of any kind, the last line. */
void git_last_line(const char *said, size_t n, char *out, size_t size);
/* The round could not be opened: the same code, or ERR_NO_GIT where there is no shell. */
int git_export_refused(int rc, const struct err *why, struct err *e);

#endif
