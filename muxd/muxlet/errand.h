/*
 * errand.h - what muxlet does for a container besides being its muxlet. Each is a whole run; the result is the exit
 * code.
 */
#ifndef MUXD_MUXLET_ERRAND_H
#define MUXD_MUXLET_ERRAND_H

/* The digest of /proc/self/exe against 64 hexadecimal digits: 0, 1 when it differs, 2 when it cannot be read. */
int errand_check(const char *hex);
/* A copy of /proc/self/exe at path, mode 0555, by a temporary name beside it: 0, or 71 with words on stderr. */
int errand_install(const char *path);
/* The first process of a container that only holds it: reaps, ends at TERM with 0. */
int errand_pause(void);
/* What was written to the file system at path is on its disk: 0, or the errno. */
int errand_sync(const char *path);

#endif
