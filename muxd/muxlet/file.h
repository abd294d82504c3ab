/*
 * file.h - one file into or out of the sandbox: what muxlet does when OPEN asks for itself (docs/protocol.md).
 *
 * Each is a whole run, in a process of its own that was executed from
 * /proc/self/exe: no program of the sandbox is trusted with it, and none need be
 * there. The result is the exit code: 0, or the errno of what failed, with a
 * sentence on stderr.
 */
#ifndef MUXD_MUXLET_FILE_H
#define MUXD_MUXLET_FILE_H

#include <stdbool.h>

struct file_put {
	const char *path;
	long mode;    /* -1: as the file there has it, else 0644 */
	long size;    /* of the content, when known: room is made for it first; -1 */
	bool parents; /* make missing directories */
	int visit;    /* the root is that of this process (visit.h); 0: our own */
	bool beneath; /* of a name below the workspace alone, without a link on the way (fs_root.h) */
	long most;    /* bytes that the content may have; -1 */
};

/*
 * stdin to path, whole or not at all. The content is followed by 40 bytes: its size (u64, little-endian) and its
 * SHA-256; without them, or with others, nothing appears (EBADMSG). It is written to a file without a name where the
 * file system has such, else beside path as ".muxd-put-..."; synced; then it takes its name, replacing what had it (a
 * symbolic link itself, not what it points to). A directory in the way is EISDIR.
 */
int file_put(const struct file_put *p);

/*
 * A line "muxlet-file 1 SIZE MODE MTIME\n" (decimal, octal, seconds), then exactly SIZE bytes, to stdout. Symbolic
 * links are followed. EISDIR, ENODEV for what is neither file nor directory, ESTALE when it became shorter meanwhile.
 * visit, beneath and most: as in file_put (EFBIG).
 */
int file_get(const struct file_put *p, const char *path);

#endif
