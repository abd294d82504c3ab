/*
 * stuck.h - one file that cannot be removed, as on a file system that has become read-only. In one file of a test
 * program.
 */
#ifndef TESTS_LIB_STUCK_H
#define TESTS_LIB_STUCK_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static char stuck[PATH_MAX]; /* its path; "": every file can be removed */

int unlink(const char *path)
{
	if (strcmp(path, stuck) != 0)
		return unlinkat(AT_FDCWD, path, 0);
	errno = EPERM;
	return -1;
}

#endif
