/*
 * verify.h - is the record whole? Offline: the files and the public key are enough.
 *
 * Two questions, answered apart. Integrity: was anything changed (hashes, chain,
 * signatures, digests)? Completeness: is anything missing (not sealed, lost bytes,
 * no exit, recordings gone, log rolled back)? What truncation left out on purpose is
 * neither: it is counted. Memory is bounded whatever the files hold.
 *
 * A return of 0 means that it could be judged; the judgement is in the result and
 * in the findings. An error means that nothing could be read (ERR_SYS ...).
 */
#ifndef RECORDER_VERIFY_H
#define RECORDER_VERIFY_H

#include "recorder/chain.h"
#include "recorder/recording.h"

struct grant_keyset;

enum verify_class { VERIFY_INTEGRITY, VERIFY_COMPLETENESS, VERIFY_NOTE };

struct verify_finding {
	enum verify_class class;
	const char *code;  /* stable: "block_changed", "recording_missing" ...; docs/recording-format.md lists them */
	const char *path;  /* file, "" when it is about one that is not there */
	struct id session; /* nil: about the chain log */
	int64_t block;     /* -1: none */
	uint64_t pos, len; /* place in the file; len 0: no place */
	const char *message;
};
typedef void verify_sink(void *arg, const struct verify_finding *f);

struct verify_result {
	struct id session;
	bool sealed;
	bool intact;            /* no integrity finding */
	bool complete;          /* no completeness finding */
	bool signature_checked; /* false: its key is not among those given */
	char kid[17];
	uint8_t leaf[CHAIN_HASH]; /* sealed only */
	uint64_t chain_seq;       /* where the log stood at the seal */
	uint64_t blocks, events, size;
	struct trunc_totals streams[STREAM_COUNT];
};
/* One line per recording; r is valid during the call. */
typedef void verify_each(void *arg, const char *path, const struct verify_result *r);

struct verify_summary {
	bool intact, complete;
	uint64_t recordings, open, tombstones, missing,
	    unknown;                               /* missing: in the log, not on disk; unknown: reversed */
	uint64_t entries, heads, unsigned_entries; /* of the log; unsigned: behind the last signed head */
	struct chain_head head;                    /* last one whose signature verified */
	bool expected_found;                       /* the expected head is in the log */
};

/* expect_sealed: the file stands among sealed ones, so a missing footer is damage. sink may be NULL. */
int verify_recording(const char *path, const struct grant_keyset *keys, bool expect_sealed, verify_sink *sink,
		     void *arg, struct verify_result *out, struct err *e);
/* dir: the state directory's record/. expect: an exported head, or NULL. each may be NULL. */
int verify_all(const char *dir, const struct grant_keyset *keys, const struct chain_head *expect, verify_sink *sink,
	       verify_each *each, void *arg, struct verify_summary *out, struct err *e);
/* One recording and what the log says of it. */
int verify_session(const char *dir, const struct id *session, const struct grant_keyset *keys, verify_sink *sink,
		   void *arg, struct verify_result *out, struct err *e);

#endif
