/*
 * item.h - one member of an archive: what a workspace holds under one name, without its content.
 *
 * Names. "." is the workspace, "./a/b" what is in it. A directory whose name is longer than ITEM_NAME_LONG opens a
 * chapter: what is in it is "../K/c", where K counts such directories from 0, in the archive's order. So no name
 * grows with the depth of a tree, and none that a tree can hold begins with "..". Archives of trees that are not that
 * deep are ordinary ones.
 *
 * An item is borrowed from whoever filled it, until that fills the next.
 */
#ifndef CONTROL_ARCHIVE_ITEM_H
#define CONTROL_ARCHIVE_ITEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define ITEM_NAME_LONG 1000
/* An attribute beside the member of a file with holes: its name. libarchive gives such a one its short name (3.6.2). */
#define ITEM_NAME_ATTR "muxd.name"

enum item_type { ITEM_FILE = 'f', ITEM_DIR = 'd', ITEM_LINK = 'l', ITEM_FIFO = 'p', ITEM_HARD = 'h' };

struct item_attr {
	const char *name; /* user.* */
	const void *value;
	size_t size;
};

struct item {
	enum item_type type;
	const char *name;
	const char *target; /* of ITEM_LINK any text, of ITEM_HARD the name of an earlier item; else NULL */
	mode_t mode;        /* the 12 bits; of ITEM_LINK and ITEM_HARD 0 */
	struct timespec mtime;
	uint64_t size; /* of ITEM_FILE */
	const struct item_attr *attrs;
	size_t nattrs; /* sorted by name */
};

#endif
