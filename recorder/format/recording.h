/*
 * recording.h - reads one recording (.mrec), sealed or still open. See docs/recording-format.md.
 *
 * Owned by its opener; not thread-safe; one block in memory at a time. Needs no key
 * and no daemon. It checks form, bounds and block checksums on the way (ERR_CORRUPT
 * says where); whether anything was changed is the question of verify.h. Writing is
 * in builder.h.
 */
#ifndef RECORDER_FORMAT_RECORDING_H
#define RECORDER_FORMAT_RECORDING_H

#include "recorder/chain/chain.h"
#include "recorder/chain/file.h"
#include "recorder/format/block.h"
#include "recorder/format/event.h"
#include "recorder/format/trunc.h"

struct err;
struct recording;

#define RECORDING_MAJOR 1
#define RECORDING_MINOR 0

struct recording_info {
	struct id session;
	const char *open_json; /* the OPEN record's payload, NUL-terminated */
	const char *exit_json; /* NULL: not ended, or not sealed */
	char boot_id[40];
	bool sealed;
	bool torn;                            /* not sealed, and bytes that are no whole block stand at the end */
	uint64_t open_seq, first_ns, last_ns; /* CLOCK_BOOTTIME */
	int64_t wall_ns;                      /* wall clock at first_ns */
	uint64_t file_size, blocks, events;
	struct trunc_rule rule;
	struct trunc_totals streams[STREAM_COUNT]; /* sealed only */
	/* sealed only */
	char kid[17];
	int64_t sealed_wall_ns;
	struct id log_id; /* the chain log, and where it stood at the seal */
	uint64_t chain_seq;
};

int recording_open(const char *path, struct recording **out, struct err *e);
void recording_close(struct recording *r);
const struct recording_info *recording_info(const struct recording *r);
/* The header of event block i, counted from 0; NULL behind the last. */
const struct block_header *recording_block(const struct recording *r, size_t i);
/* DIR/sealed/.../<id>.mrec or DIR/open/<id>.mrec. ERR_NOT_FOUND. */
int recording_find(const char *dir, const struct id *session, char *out_path, size_t size, struct err *e);
/*
 * Found and opened: the cutter may seal a recording between the two, and move it. out_path (or NULL): where it was.
 * Whoever opens that path once more meets the same move, and looks again.
 */
int recording_open_found(const char *dir, const struct id *session, char out_path[FILE_PATH_MAX],
			 struct recording **out, struct err *e);
/* Does the name of a file say that it is a recording? */
bool recording_name(const char *name);
/* Whose, by the begin of its name. ERR_INVAL: that is no id. */
int recording_name_id(const char *name, struct id *out);
/* The day whose folder it stands in; false: its folder is not one, as that of open ones. No other part of a path
 * counts. */
bool recording_day(const char *path, char out_day[11]);
/* What the chain log must say about a sealed file: its leaf, day and size. */
int recording_sealed(const char *path, struct chain_seal *out, struct err *e);

/* Next event: 1, 0 at the end. The first is the OPEN record. payload is valid until the next call on r. */
int recording_next(struct recording *r, struct ring_record *out, struct err *e);
int recording_rewind(struct recording *r, struct err *e);
/* The next event will be the first at or after boot_ns. Reads one block. */
int recording_seek_time(struct recording *r, uint64_t boot_ns, struct err *e);
/* Before the block that holds the first event behind seq; events up to it may come first. Reads nothing. */
int recording_seek_seq(struct recording *r, uint64_t seq, struct err *e);
/* The next event of `stream` will be the DATA, GAP or MISSING that holds `offset`. Reads one block. */
int recording_seek_offset(struct recording *r, unsigned stream, uint64_t offset, struct err *e);
/* The wall clock of a moment, at the place where the reader stands. */
int64_t recording_wall_ns(const struct recording *r, uint64_t boot_ns);
/* Sequence and wall clock of the EXIT; of the last event where that does not come in the last blocks. Moves the reader.
 */
int recording_end(struct recording *r, uint64_t *out_seq, int64_t *out_wall_ns, struct err *e);

#endif
