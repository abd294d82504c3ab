/*
 * folders_fail.h - a disk that is full when a folder is to be written, as no real one can be made to be at will:
 * fsync() stands before that of libc, in the parts' shared object, too.
 */
#ifndef TESTS_LIB_FOLDERS_FAIL_H
#define TESTS_LIB_FOLDERS_FAIL_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool folders_fail;

int fsync(int fd)
{
	struct stat st;

	if (folders_fail && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

#endif
