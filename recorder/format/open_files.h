/*
 * open_files.h - the files of recordings in the making, of which only so many are open at once.
 *
 * There may be more open sessions than descriptors. A file that is used is opened when it is not; the one that was not
 * used for the longest is closed for it, after what was written to it is on the disk. So a session costs a descriptor
 * while something happens in it, and an idle one costs none.
 *
 * Owned by the cutter; used by whoever holds its turn. A struct open_file belongs to whom it serves, which is there
 * until open_file_close(). States of a file: CLOSED (fd -1) <-> OPEN (in the list, the most recent one first).
 */
#ifndef RECORDER_FORMAT_OPEN_FILES_H
#define RECORDER_FORMAT_OPEN_FILES_H

#include <stdbool.h>
#include <sys/queue.h>

struct err;

struct open_file {
	TAILQ_ENTRY(open_file) entry;
	int fd;           /* -1: closed; good until the next open_file_use() of any file */
	const char *path; /* its owner's */
	bool unsynced;    /* written to since it was synced */
	int failed;       /* it was closed for another, and could not be synced: ERR_* */
};
TAILQ_HEAD(open_file_list, open_file);

struct open_files {
	struct open_file_list list;
	unsigned n, max;
};

void open_files_init(struct open_files *fs, unsigned max);
/* How many may be open under the limit of descriptors as it is, half of them being for others. */
unsigned open_files_most(void);

void open_file_init(struct open_file *f);
/* f->fd is open, and f the most recent one. flags: beside O_RDWR, for the first time (O_CREAT). fs NULL: nothing is
 * closed for it. */
int open_file_use(struct open_files *fs, struct open_file *f, const char *path, int flags, struct err *e);
/* Everything written is on the disk. */
int open_file_sync(struct open_files *fs, struct open_file *f, struct err *e);
void open_file_close(struct open_files *fs, struct open_file *f);

#endif
