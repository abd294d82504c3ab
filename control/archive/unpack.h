/*
 * unpack.h - an archive becomes a workspace: into an empty directory that nobody else works in.
 *
 * Goes from directory to directory by descriptors, never by a path, and follows no link: whatever an archive holds,
 * nothing outside the directory is made or changed. Modes and times of directories come last, so that a closed one
 * closes nobody out.
 */
#ifndef CONTROL_ARCHIVE_UNPACK_H
#define CONTROL_ARCHIVE_UNPACK_H

#include "control/archive/read.h"

/* old: of an earlier version (read.h). */
int unpack_archive(int fd, const char *top, bool old, struct read_result *out, struct err *e);

#endif
