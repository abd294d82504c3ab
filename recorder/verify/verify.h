/*
 * verify.h - is the record whole? Offline: the files and the public key are enough.
 *
 * Two questions, answered apart. Integrity: was anything changed (hashes, chain,
 * signatures, digests)? Completeness: is anything missing (lost bytes, no exit,
 * recordings gone, log rolled back)? What truncation left out on purpose is neither:
 * it is counted. So are sessions that are still open and recordings that a rule removed.
 * Memory is bounded whatever the files hold.
 *
 * A verdict rests on keys and on heads from outside. Who owns the host owns its keys: without a head that was kept
 * elsewhere the answer is as good as the host.
 *
 * A return of 0 means that it could be judged; the judgement is in the result and
 * in the findings. An error means that nothing could be read (ERR_SYS ...).
 */
#ifndef RECORDER_VERIFY_VERIFY_H
#define RECORDER_VERIFY_VERIFY_H

#include "base/timestamp.h"
#include "recorder/chain/chain.h"
#include "recorder/format/recording.h"

struct drawers;
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
/* Files of keyframes that were drawn again, by what came of it. */
struct verify_drawings {
	uint64_t same, shorter; /* shorter: the same, as far as the file goes */
	uint64_t uncompared;    /* drawn by another version, or this drawing ended early */
	uint64_t untrue;        /* a finding of integrity */
};
typedef void verify_sink(void *arg, const struct verify_finding *f);

struct verify_result {
	struct id session;
	bool sealed;
	bool open;              /* stands among the open ones: it has no end yet, and that is no finding */
	bool intact;            /* no integrity finding */
	bool complete;          /* no completeness finding */
	bool signature_checked; /* false: its key is not among those given */
	char kid[17];
	uint8_t leaf[CHAIN_HASH]; /* sealed only */
	uint64_t chain_seq;       /* where the log stood at the seal */
	uint64_t blocks, events, size;
	struct trunc_totals streams[STREAM_COUNT];
	struct verify_drawings drawings;
};
/* One line per recording; r is valid during the call. */
typedef void verify_each(void *arg, const char *path, const struct verify_result *r);

/* A head that was kept outside of the record: exported to a file, or kept by a witness. */
struct verify_outside {
	struct chain_head head;
	const char *from; /* file or URL, for people */
};

enum verify_key_origin {
	VERIFY_KEY_GIVEN,    /* by who asks */
	VERIFY_KEY_VOUCHED,  /* announced in the log under a head of a key that is trusted */
	VERIFY_KEY_STRANGER, /* in the log, and nobody who is trusted vouches for it */
};
/* A key on which the verdict rests, or does not. */
struct verify_key {
	char kid[17];
	enum verify_key_origin origin;
	uint64_t entry; /* of the log that announced it first; 0: the log does not have it */
	uint64_t head;  /* entry of the head that vouches for it; 0: none */
	int64_t head_wall_ns;
	char head_kid[17]; /* who signed that */
};
typedef void verify_key_each(void *arg, const struct verify_key *k);

/* What is asked. All is borrowed; sink, each and key may be NULL. */
struct verify_ask {
	const char *dir; /* the state directory's record/ */
	const struct grant_keyset *keys;
	const struct verify_outside *outside;
	size_t outside_n;
	const char *sandboxes;   /* the state directory's sandboxes/: snapshots are read, too; NULL: they are not */
	struct drawers *drawers; /* keyframes are drawn again by them; NULL: they are not */
	const char
	    *tsa_ca; /* certificates of authorities for timestamps, PEM text; NULL: their signatures are not checked */
	verify_sink *sink;
	verify_each *each;
	verify_key_each *key;
	void *arg;
};

struct verify_summary {
	bool intact, complete;
	/* missing: in the log, not on disk; unknown: reversed; pending: sealed, not yet in the log */
	uint64_t recordings, open, tombstones, missing, unknown, pending;
	uint64_t merged;                           /* entries of other logs, that were found right */
	uint64_t entries, heads, unsigned_entries; /* of the log; unsigned: behind the last signed head */
	struct chain_head head;                    /* last one whose signature verified; seq 0: none */
	uint64_t outside_found;                    /* how many of the heads from outside are in the log */
	struct chain_head outside;                 /* the newest of those; seq 0: none */
	uint64_t outside_behind;                   /* entries of the log behind that one */
	uint64_t snapshots;                        /* that the log tells of, where they were asked for */
	uint64_t timestamps, timestamps_checked;   /* that fit; whose signature was checked and is right */
	uint64_t timestamp_seq;                    /* entry that the newest of the former is of; 0: none */
	struct verify_drawings drawings;
	struct timestamp timestamp; /* of a checked one, where one was */
};

/* expect_sealed: the file stands among sealed ones, so a missing footer is damage. sink may be NULL. */
int verify_recording(const char *path, const struct grant_keyset *keys, bool expect_sealed, verify_sink *sink,
		     void *arg, struct verify_result *out, struct err *e);
int verify_all(const struct verify_ask *ask, struct verify_summary *out, struct err *e);
/* One recording and what the log says of it. */
int verify_session(const struct verify_ask *ask, const struct id *session, struct verify_result *out, struct err *e);
/*
 * The recording at path, and what the log of the record in which it stands says of it: ask->dir is found from path.
 * ERR_NOT_FOUND: path stands in no record, the file alone can be judged.
 */
int verify_path(const struct verify_ask *ask, const char *path, struct verify_result *out, struct err *e);

#endif
