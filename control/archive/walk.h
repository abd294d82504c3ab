/*
 * walk.h - a tree of any depth and any names, from the top down, each name once.
 *
 * Goes by descriptors: down with openat(O_NOFOLLOW), up with "..", which must be the directory it came from. So no
 * path is too long, and two descriptors are enough. What comes and goes while it walks is met or not.
 *
 * walk_open -> (walk_next, of a directory also walk_enter)* -> walk_close.
 */
#ifndef CONTROL_ARCHIVE_WALK_H
#define CONTROL_ARCHIVE_WALK_H

#include <stddef.h>
#include <sys/stat.h>

struct err;
struct walk;

struct walk_entry {
	int dir;          /* where it is; the walk's */
	const char *base; /* its name there */
	const char *name; /* in the archive (item.h), valid until the next call */
	struct stat st;   /* not followed */
};

/* The tree at top, a directory's path; its own entry comes first. */
int walk_open(const char *top, struct walk **out, struct err *e);
/* 1: *out is the next one; 0: that was all. */
int walk_next(struct walk *w, struct walk_entry *out, struct err *e);
/* The directory that came last is in the archive: what is in it comes next. false in *out_there: it is gone. */
int walk_enter(struct walk *w, _Bool *out_there, struct err *e);
/* Where the last entry is, for people: one line, its middle left out where it is long. */
void walk_where(const struct walk *w, char *out, size_t size);
void walk_close(struct walk *w);

/* Any bytes as one line for people: what is not printable ASCII as \xHH, the middle left out. */
void walk_show(const char *path, char *out, size_t size);

#endif
