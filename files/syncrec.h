/*
 * syncrec.h - records of files between the hub and muxlet's operations of a filespace (sync_list, sync_get, sync_put):
 * a head of fixed size, the path, and of some the content behind it. Pure; numbers are little-endian.
 *
 * Both sides read the other's as outside bytes: lengths are bounded, a path is relative and has no ".", ".." or NUL. A
 * reader is a value; it holds one record's head, and gives the content piece by piece.
 */
#ifndef FILES_SYNCREC_H
#define FILES_SYNCREC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYNCREC_HEAD     88
#define SYNCREC_PATH_MAX 4096 /* with its NUL */
#define SYNCREC_SHA_LEN  32

enum syncrec_kind {
	SYNCREC_FILE = 'f',    /* is there, with that digest */
	SYNCREC_WANT = 'w',    /* its content is wanted */
	SYNCREC_CONTENT = 'c', /* with its content behind it */
	SYNCREC_DELETE = 'd',
	SYNCREC_DONE = 'r',    /* of one that was put or deleted: why is an errno, 0: done */
	SYNCREC_SKIPPED = 's', /* is there, and is no file that is synced: why is an errno */
};

/*
 * A file as the kernel knows it; inode 0: none is there. What is equal twice is the same content. The size of what is
 * SKIPPED is what it uses on the disk.
 */
struct syncrec_stat {
	uint64_t size, inode;
	int64_t mtime_ns, ctime_ns;
};

struct syncrec {
	uint8_t kind;
	bool executable;
	uint16_t path_len, why;
	uint16_t used_kib;      /* on the disk, of a FILE */
	struct syncrec_stat st; /* of what is there; of a put and a deletion: of what is to be replaced */
	uint64_t content;       /* bytes behind it */
	uint8_t sha256[SYNCREC_SHA_LEN];
	char path[SYNCREC_PATH_MAX];
};

/* The head to out; the path, path_len bytes, goes behind it. */
void syncrec_head(const struct syncrec *r, uint8_t out[SYNCREC_HEAD]);

enum syncrec_event { SYNCREC_MORE, SYNCREC_RECORD, SYNCREC_DATA, SYNCREC_DATA_END };

struct syncrec_reader {
	uint8_t head[SYNCREC_HEAD];
	size_t filled; /* of the head, then of the path */
	bool in_path, in_content;
	uint64_t left, content_max;
	struct syncrec r;
	const uint8_t *data; /* SYNCREC_DATA */
	size_t data_n;
	const char *why;
};

/*
 * The next event, of which *out_used bytes were needed; call again with the rest. SYNCREC_MORE: all were. -1: it is no
 * record, why says so. Zeroed first, content_max set.
 */
int syncrec_read(struct syncrec_reader *s, const uint8_t *p, size_t n, size_t *out_used, enum syncrec_event *out);
/* Nothing is begun: an end here is an end. */
bool syncrec_between(const struct syncrec_reader *s);

#endif
