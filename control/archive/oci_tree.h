/*
 * oci_tree.h - the root of an image while its layers are laid over each other: names in memory, none of them on a disk.
 *
 * A member's name is taken apart here and never given to the kernel: "./" in front or not, no "/" in front, no empty
 * part, no "." and "..", no control character, UTF-8, OCI_DEPTH_MAX parts at most. What it lies in is a directory, or
 * is made one; a link in its way is refused and never followed. A hard link is a second name of a file that is known.
 * Content is a number to the tree: whoever made the file hears when no name has it any more.
 *
 * Layers count from 1. A whiteout (".wh.NAME") takes NAME of the layers below, ".wh..wh..opq" all that they have in its
 * directory; what the same layer brings stays, wherever in it that stands.
 */
#ifndef CONTROL_ARCHIVE_OCI_TREE_H
#define CONTROL_ARCHIVE_OCI_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uthash.h>

struct err;

#define OCI_DEPTH_MAX 64
#define OCI_PATH_MAX  4096
#define OCI_NAME_MAX  255

enum oci_kind { OCI_DIR, OCI_FILE, OCI_LINK };

/* A file, which its names share. */
struct oci_inode {
	uint64_t content;
	unsigned names, placed; /* placed: of them on the disk */
};

struct oci_node {
	UT_hash_handle hh; /* in its parent's children, by name */
	char *name;
	enum oci_kind kind;
	unsigned layer, touched; /* that brought it; that last brought something below it */
	int64_t mtime;
	struct oci_node *parent, *children;
	struct oci_inode *inode; /* OCI_FILE */
	char *target;            /* OCI_LINK: any text */
};

struct oci_tree {
	struct oci_node root;
	void (*gone)(void *ctx, uint64_t content); /* no name has it any more */
	void *ctx;
	unsigned layer;      /* whose members come now */
	uint64_t names, max; /* of all layers together, whiteouts among them */
};

void oci_tree_begin(struct oci_tree *t, uint64_t max, void (*gone)(void *ctx, uint64_t content), void *ctx);
void oci_tree_finish(struct oci_tree *t); /* tells of nothing */

/* Each: ERR_IMAGE, without the name. A directory may come twice in one layer, nothing else may. */
int oci_tree_dir(struct oci_tree *t, const char *path, int64_t mtime, struct err *e);
int oci_tree_file(struct oci_tree *t, const char *path, uint64_t content, struct err *e);
int oci_tree_link(struct oci_tree *t, const char *path, const char *target, struct err *e);
int oci_tree_hard(struct oci_tree *t, const char *path, const char *target, struct err *e);
/* The name is that of a whiteout: *out_is, and it is done. */
int oci_tree_whiteout(struct oci_tree *t, const char *path, bool *out_is, struct err *e);

/* Takes a name away with all below it; none there is fine. Its parents have to be directories: not looked at else. */
void oci_tree_remove(struct oci_tree *t, const char *path);
/* NULL: no such name, or a link is in its way. */
struct oci_node *oci_tree_find(struct oci_tree *t, const char *path);

#endif
