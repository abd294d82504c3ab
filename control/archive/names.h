/*
 * names.h - the directories of an archive as it is read, and what a member's name means.
 *
 * Nothing is believed of a name: it is "." or begins with "./" or with "../K/" where K is a chapter that was opened
 * before (item.h), has no empty part, no "." and no ".." elsewhere, and what it lies in came before it. So every
 * member has its place inside, and what follows from a name is never a path.
 */
#ifndef CONTROL_ARCHIVE_NAMES_H
#define CONTROL_ARCHIVE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

struct err;

/* A directory. The first is the workspace itself, whose parent is NULL. */
struct place {
	struct place *parent;
	size_t depth;
	char *name; /* in its parent */
	mode_t mode;
	struct timespec mtime;
};

struct names {
	struct place **all; /* in the order of the archive: a parent before what is in it */
	size_t n, cap;
	struct place **chapters;
	size_t nchapters, chapters_cap;
	void *tree; /* tsearch(3): by parent and name */
	char *last; /* the directory that was asked for last */
	size_t last_len;
	struct place *last_place;
};

/*
 * Where a name lies: the directory, and *out_base, its name there, within `name`. "." itself has the place NULL.
 * ERR_CORRUPT.
 */
int names_find(struct names *n, const char *name, struct place **out, const char **out_base, struct err *e);
/* name, found to be `base` in `parent`, is a directory. ERR_CORRUPT: the second of that name. */
int names_add(struct names *n, const char *name, struct place *parent, const char *base, struct place **out,
	      struct err *e);
void names_finish(struct names *n);

#endif
