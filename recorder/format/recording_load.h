/*
 * recording_load.h - a recording's frame in memory: header, list of blocks, footer. Private to the recorder.
 *
 * With a footer the list comes from the index; without one (still open, cut, or
 * damaged) from the block headers, up to the first place that is none.
 */
#ifndef RECORDER_FORMAT_RECORDING_LOAD_H
#define RECORDER_FORMAT_RECORDING_LOAD_H

#include "base/buf.h"
#include "recorder/format/format.h"
#include "recorder/format/recording.h"

struct recording_file {
	int fd;
	char path[4096];
	struct block_coder *coder;
	struct recording_info info;
	struct buf header; /* bytes of the file's header, hash included */
	uint8_t salt[32];
	struct format_entry *blocks; /* without the index */
	size_t n;
	uint64_t end; /* of the last block that was found */
	uint64_t last_seq;
	uint8_t footer[FORMAT_FOOTER]; /* sealed only */
	char *open_json, *exit_json;
};

int recording_file_load(struct recording_file *f, const char *path, struct err *e);
void recording_file_finish(struct recording_file *f);
/* Only opens, reads and decodes the header. */
int recording_file_begin(struct recording_file *f, const char *path, struct err *e);
/* Footer at the end of the file, its index read and taken over: 0, ERR_CORRUPT when either is not usable. */
int recording_file_index(struct recording_file *f, struct err *e);

#endif
