/*
 * sink.h - a file on this side that something is got into: whole under its name, or not there.
 *
 * A new name, or a file that is replaced: it is put together beside it, without a name, and takes its own once it is
 * complete; so nothing is left of one that is not, however muxctl ends. Where the file system has no files without a
 * name it stands there as NAME.XXXXXX until then, and a signal leaves that. No regular file (a terminal, a pipe) is
 * written into as it is; "-" is the standard output. Owned by its caller.
 */
#ifndef MUXD_CTL_SINK_H
#define MUXD_CTL_SINK_H

#include <limits.h>
#include <stdbool.h>

struct err;

struct sink {
	int fd;
	bool unnamed; /* the file has no name yet: temporary is the pattern of one */
	char real[PATH_MAX], temporary[PATH_MAX];
};

/* ERR_INVAL: a directory, a name that is too long; ERR_SYS ... */
int sink_open(const char *local, struct sink *out, struct err *e);
/*
 * Complete: it is synced and takes its name. mode -1: what came says nothing of permissions here; those of a new file,
 * or of the one that is replaced without what makes it executable.
 */
int sink_settle(struct sink *s, long mode, struct err *e);
void sink_close(struct sink *s); /* what has not settled goes */
/* "dir/" means the same name in it. To be freed; NULL: no memory. */
char *sink_into(const char *to, const char *from);

#endif
