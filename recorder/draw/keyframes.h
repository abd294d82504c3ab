/*
 * keyframes.h - screens at moments of a sealed recording, so that a player need not draw everything before.
 *
 * One file beside each recording that is worth it: <id>.mkey. Derived by a worker that parses hostile bytes: no
 * evidence, and made again at any time. The file ends with a table of its screens and their digests, and a root over
 * session, leaf of the recording and table. The root goes into the chain log when the file is made: what has another
 * root, or another digest than the table says, is not as it was drawn, and is not shown. Format:
 * docs/recording-format.md. Written under another name and renamed: it is whole or not there.
 *
 * A writer and a reader are values owned by one thread.
 */
#ifndef RECORDER_DRAW_KEYFRAMES_H
#define RECORDER_DRAW_KEYFRAMES_H

#include "base/buf.h"
#include "base/ids.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"

struct err;

#define KEYFRAME_DATA_MAX ((size_t)1024 * 1024)
#define KEYFRAMES_HEAD    60 /* bytes of a file before its first screen */

struct keyframe {
	uint64_t ns, seq; /* of the last event that it shows; what follows goes on behind seq */
	uint64_t offset;  /* of output */
	uint16_t cols, rows;
	uint32_t len; /* bytes that draw it on a terminal of that size, after a reset */
};

/* What the chain log says of a file. */
struct keyframes_digest {
	uint8_t leaf[DIGEST_LEN]; /* of the recording */
	uint8_t root[DIGEST_LEN];
	uint8_t sha256[DIGEST_LEN]; /* of the whole file */
	uint64_t size;
	uint32_t n;
	char drawing[32]; /* by which version it was drawn; "": not told, by older recorders */
};

struct keyframes_writer {
	int fd;
	char recording[FILE_PATH_MAX], path[FILE_PATH_MAX], part[FILE_PATH_MAX];
	uint64_t pos;
	uint32_t n;
	struct digest whole;
	struct buf table;
	uint8_t head[KEYFRAMES_HEAD];
};

/* recording: path of the .mrec; ERR_TOO_LARGE. */
int keyframes_path(const char *recording, char out[FILE_PATH_MAX], struct err *e);
/* leaf: of the recording, as the chain log has it. */
int keyframes_begin(struct keyframes_writer *w, const char *recording, const struct id *session,
		    const uint8_t leaf[DIGEST_LEN], struct err *e);
int keyframes_add(struct keyframes_writer *w, const struct keyframe *k, const uint8_t *data, struct err *e);
/* The file gets its name, unless the recording is gone (ERR_NOT_FOUND); a writer that was not ended so leaves nothing.
 */
int keyframes_end(struct keyframes_writer *w, struct keyframes_digest *out, struct err *e);
void keyframes_abandon(struct keyframes_writer *w);

/* A file whose root is the one that is expected. */
struct keyframes_reader {
	int fd;
	char path[FILE_PATH_MAX];
	uint8_t head[KEYFRAMES_HEAD];
	struct buf table;
	uint32_t n; /* screens */
};

/* ERR_NOT_FOUND without a file, ERR_CORRUPT when its root is not this one; then there is nothing to close. */
int keyframes_open(struct keyframes_reader *f, const char *recording, const struct id *session,
		   const uint8_t root[DIGEST_LEN], struct err *e);
/* The i-th: 1 with *out and its bytes appended to data, 0 behind the last, ERR_CORRUPT when it is not as the table has
 * it. */
int keyframes_get(const struct keyframes_reader *f, uint32_t i, struct keyframe *out, struct buf *data, struct err *e);
void keyframes_close(struct keyframes_reader *f); /* twice is once */

/*
 * The last one at or before ns: 1 with *out and its bytes appended to data, 0 when there is none so early,
 * ERR_NOT_FOUND without a file, ERR_CORRUPT when the file's root is not this one or the screen is not as it was drawn.
 */
int keyframes_find(const char *recording, const struct id *session, const uint8_t root[DIGEST_LEN], uint64_t ns,
		   struct keyframe *out, struct buf *data, struct err *e);

#endif
