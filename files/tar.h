/*
 * tar.h - archives of trees: POSIX.1-2001 pax, as it is written; ustar, pax and GNU's long names, as they are read.
 *
 * Pure: bytes in, entries and content out, and the other way round. A reader is a value that holds one entry; what is
 * read is outside bytes, so every number is bounded and every header's checksum has to be right. What an entry may be
 * called and may lead to is tar_check()'s question.
 *
 * States of a reader: HEADER -> (LONG -> PAD -> HEADER) | (DATA -> PAD -> HEADER) -> END (two blocks of zeros; an
 * archive without them is not whole); BROKEN is final.
 */
#ifndef FILES_TAR_H
#define FILES_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK    512
#define TAR_PATH_MAX 4096 /* with its NUL */
#define TAR_LONG_MAX (32 * 1024)
#define TAR_HEAD_MAX (TAR_BLOCK * 22) /* of one entry, as it is written */
#define TAR_PAD(n)   ((TAR_BLOCK - (size_t)((n) % TAR_BLOCK)) % TAR_BLOCK)

enum tar_type { TAR_FILE = '0', TAR_HARDLINK = '1', TAR_SYMLINK = '2', TAR_DIRECTORY = '5' };

struct tar_entry {
	char type; /* enum tar_type */
	uint32_t mode;
	uint64_t size; /* of a file's content */
	int64_t mtime_s;
	char path[TAR_PATH_MAX], target[TAR_PATH_MAX];
};

enum tar_event { TAR_MORE, TAR_ENTRY, TAR_DATA, TAR_ENTRY_END, TAR_END };
enum tar_state { TAR_IN_HEADER, TAR_IN_LONG, TAR_IN_DATA, TAR_IN_PAD, TAR_AT_END, TAR_BROKEN };

struct tar_reader {
	enum tar_state state;
	uint8_t block[TAR_BLOCK];
	size_t filled; /* of block, or of text */
	uint64_t left; /* of content or a long name; of padding */
	bool content;  /* padding ends an entry */
	bool zeros;    /* the last block was of zeros alone */
	char long_type;
	uint8_t text[TAR_LONG_MAX];
	bool has_path, has_target, has_size, has_mtime; /* said ahead of the header, for the next entry */
	uint64_t size;
	int64_t mtime_s;
	char path[TAR_PATH_MAX], target[TAR_PATH_MAX];
	struct tar_entry entry;
	const uint8_t *data; /* TAR_DATA: a piece of the content */
	size_t data_n;
	const char *why; /* BROKEN */
};

/*
 * The next event, of which *out_used bytes of p were needed; call again with the rest. TAR_MORE: all were. -1: it is no
 * archive, or has what is never taken (devices, sparse files): r->why. A static text.
 */
int tar_read(struct tar_reader *r, const uint8_t *p, size_t n, size_t *out_used, enum tar_event *out);
/*
 * May it be unpacked? NULL, or why not. Leading "./", doubled and trailing slashes are taken off its path, which stays
 * below where it is unpacked: no "..", not absolute. A hard link's target is such a path, too; a symbolic link's leads
 * nowhere above, as far as names tell. path is "" for the top itself. No setuid, no setgid of a file.
 */
const char *tar_check(struct tar_entry *e);
/* The headers of an entry; its content and TAR_PAD(size) zeros follow. The end is two blocks of zeros. */
size_t tar_write(const struct tar_entry *e, uint8_t out[TAR_HEAD_MAX]);

#endif
