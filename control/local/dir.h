/*
 * dir.h - the directory of one sandbox: opened once, locked, used by descriptor.
 *
 * Everything below DIR/sandboxes is reached through directory descriptors, so
 * a state path of any length works and no symbolic link is ever followed. The
 * lock (flock on the directory) keeps two calls for one agent apart, in threads
 * as well as in processes; it is given back by dir_close().
 */
#ifndef CONTROL_LOCAL_DIR_H
#define CONTROL_LOCAL_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct err;

/* DIR/sandboxes itself, made when missing (0700). */
int dir_open_base(const char *state_dir, int *out_fd, struct err *e);
/* base/<agent>, without the lock: for looking only. ERR_NOT_FOUND. */
int dir_open(int base, const char *agent, int *out_fd, struct err *e);
/* The same, locked; waits for whoever has it. create: made when missing (0700). */
int dir_open_locked(int base, const char *agent, bool create, int *out_fd, struct err *e);
/* Gives the lock back, too. -1 is fine. */
void dir_close(int fd);

/* A whole file into b (bounded by b->max). ERR_NOT_FOUND, ERR_TOO_LARGE. */
int dir_read_file(int dir, const char *name, struct buf *b, struct err *e);
/* Replaces a file at once: written beside, synced to disk, renamed. */
int dir_write_file(int dir, const char *name, const void *p, size_t n, struct err *e);
/* A file or a whole tree of any depth; absent is fine. Stays on the tree: links are removed, not followed. */
int dir_remove(int dir, const char *name, struct err *e);
/* Names of the directories in dir, sorted, NULL-ended, to be freed with dir_names_free(). */
int dir_names(int dir, char ***out, size_t *out_n, struct err *e);
void dir_names_free(char **names);

#endif
