/*
 * file_limits.h - what a grant's paths and sizes mean for one operation on files: asked in one place, before anything
 * starts, and said to muxlet, which holds them for what it really opens.
 *
 * The hub sees names. That a name is the file follows from muxlet resolving it without links (fs_root.h) wherever there
 * is a limit; the names inside of a patch, and whether a name that moves is a directory, muxlet alone knows.
 */
#ifndef MUXD_HUB_SESSION_FILE_LIMITS_H
#define MUXD_HUB_SESSION_FILE_LIMITS_H

#include "muxd/hub/session/exec_spec.h"
#include "policy/grant_paths.h"

/* A path that an operation names, and how it is touched. */
struct file_touch {
	char name[4096]; /* below the workspace, "." for it; "": elsewhere */
	bool reads, writes;
	bool tree;      /* all below it, too */
	bool by_muxlet; /* the names are in what is sent: muxlet alone knows them */
};
/* How many there are. */
unsigned file_touches(const struct file_spec *f, struct file_touch out[2]);
/* ERR_PATH_DENIED, ERR_TOO_LARGE, with what would be allowed. */
int file_limits_check(const struct grant_files *g, const struct file_spec *f, struct err *e);
/* A path as patterns and locks have it: below the workspace, clean. False: it is elsewhere, too long, or has "..". */
bool file_path_relative(const char *path, char *out, size_t size);
/* Into the request of an operation as muxlet reads it. 0, ERR_NOMEM. */
int file_limits_ask(const struct grant_files *g, json_t *request);
/* The same where there are others in it. */
int file_limits_anew(const struct grant_files *g, json_t *request);

#endif
