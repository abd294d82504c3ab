/*
 * fs.h - one file operation in the sandbox, as muxlet does it when OPEN asks for itself (docs/protocol.md): a JSON
 * request as an argument (fs_ask.h), its content as standard input (newfile.h), a JSON answer as standard output.
 *
 * Each is a whole run in a process of its own, executed from /proc/self/exe. Nothing outside the root is read or
 * changed (fs_root.h). The exit code is 0, or the errno of what failed; the answer is then {"error": sentence} with
 * what else there is to say of it. An errno stands for one reason:
 *
 *	EXDEV           the path leads outside the root
 *	EEXIST          what was to be new is there
 *	ENOTEMPTY       a directory with something in it, and not recursive
 *	EISDIR, ENOTDIR the other was needed
 *	ENODEV          neither file nor directory
 *	ERANGE          the range begins behind the end
 *	ECANCELED       it is not what if_match said; the answer has its sha256
 *	EFBIG           over a limit of the operation, which the sentence names
 *	ENOMSG          the patch does not fit
 *	EDOM            the lists of paths do not allow it, or a link is in the way of one
 *	EINVAL          the request
 *
 * watch and tree_get answer with what they tell or read, as it comes, and no JSON; why they failed stands on stderr.
 *
 * One operation is one row of the table in fs.c, and one function.
 */
#ifndef MUXD_MUXLET_FS_H
#define MUXD_MUXLET_FS_H

#include "muxd/muxlet/fs_ask.h"
#include "muxd/muxlet/fs_out.h"
#include "muxd/muxlet/fs_root.h"

#include <stdint.h>

/* An operation under way: the one of the process. */
struct fs_work {
	struct fs_root root;
	struct fs_ask ask;
	struct fs_out out;     /* the answer's fields, in an object that is open */
	struct fs_out changes; /* fs_state.h */
	unsigned changes_listed, changes_left_out;
	uint64_t hash_left;     /* bytes that may still be read for digests alone */
	uint64_t hash_until_ns; /* and until when, by monotonic_ns(); 0: for as long as it takes */
	char name[PATH_MAX];    /* ask.path below the root */
	char why[256];          /* of a failure; "": strerror says it */
	bool streams;           /* the output is no JSON */
};

/* The exit code. visit: as in file.h. */
int fs_run(const char *request, int visit);

#endif
