/*
 * chain.h - the one ordered log over audit events and sealed recordings.
 *
 * Folder DIR/chain, files <n>.mchain, entries chained by SHA-256; heads signed
 * with Ed25519 vouch for everything before them. The writer is the recorder (one
 * process; calls may come from several threads); readers need no daemon.
 *
 * Crash safety: what was appended after the last chain_sync() may be torn; the next
 * chain_open() cuts that off (keeping the bytes in <n>.torn) and the caller derives
 * it again from the segments. Damage before a signed head is not a torn tail:
 * ERR_CORRUPT. A tombstone or a stranger's key that no head of the signer vouches for is cut
 * off in the same way: what stands behind it is appended again. Keep segments until chain_sync() or chain_sign_head()
 * has returned 0.
 */
#ifndef RECORDER_CHAIN_CHAIN_H
#define RECORDER_CHAIN_CHAIN_H

#include "base/ids.h"
#include "base/json.h"

#include <stddef.h>

struct chain;
struct chain_reader;
struct err;
struct ring_record;
struct signer;
struct grant_keyset;
struct grant_public_key;

/* A row for each in the table of chain_format.c; docs/recording-format.md has what they hold. */
enum chain_type {
	CHAIN_AUDIT = 1,
	CHAIN_SEAL = 2,
	CHAIN_TOMBSTONE = 3,
	CHAIN_HEAD = 4,
	CHAIN_KEY = 5,
	CHAIN_DIGEST = 6,  /* of a derived file: what it was when it was made */
	CHAIN_ANCHOR = 7,  /* a witness's receipt for a head */
	CHAIN_HOLD = 8,    /* legal hold, set or released */
	CHAIN_PART = 9,    /* how far an open recording stands in its file */
	CHAIN_HOLE = 10,   /* the recorder found its own log shorter than others know it */
	CHAIN_MERGED = 11, /* a batch of another log's entries was taken in (merged.h) */
};
#define CHAIN_HASH 32

struct chain_head {
	struct id log_id;
	uint64_t seq; /* of the last entry that it covers; 0: none yet */
	uint8_t hash[CHAIN_HASH];
	int64_t wall_ns;
	char kid[17];
	uint8_t signature[64];
};

/* What the log says about a sealed recording. */
struct chain_seal {
	struct id session;
	uint64_t journal_seq;     /* of the last record in it */
	uint64_t size;            /* of the file */
	char day[11];             /* sealed/<day>/<id>.mrec */
	uint8_t leaf[CHAIN_HASH]; /* HMAC-SHA-256 under the recording's salt */
};

struct chain_entry {
	uint64_t seq, journal_seq;
	int64_t wall_ns;
	unsigned type;
	struct id session; /* nil: none */
	const uint8_t *payload;
	size_t len;
	uint8_t hash[CHAIN_HASH]; /* after it */
	uint8_t prev[CHAIN_HASH]; /* before it */
	unsigned file;            /* number of its file */
	uint64_t pos;             /* of the entry in it */
};

/* Begins a log when there is none (log id, key entry, first head). signer is borrowed until chain_close(). */
int chain_open(const char *dir, const struct signer *s, struct chain **out, uint64_t *out_cut_bytes, struct err *e);
/* After a sync that failed everything fails until this has returned 0: back to the last sync, the rest is to be derived
 * again. */
int chain_reopen(struct chain *c, struct err *e);
void chain_close(struct chain *c);
/* Sequence of the last audit record in the log: records up to it are in, appending them again does nothing. */
uint64_t chain_audit_seq(struct chain *c);
int chain_append_audit(struct chain *c, const struct ring_record *rec, int64_t wall_ns, struct err *e);
/* recovering: look through the whole log first and do nothing when this session's seal is there. */
int chain_append_seal(struct chain *c, const struct chain_seal *seal, bool recovering, struct err *e);
/* Append and sign this before the file is removed. why (borrowed): reason, rule, by whom, and what verify asks for. */
int chain_append_tombstone(struct chain *c, const struct chain_seal *seal, const json_t *why, struct err *e);
/* An entry whose payload is o (borrowed), of a type from CHAIN_DIGEST on. session: NULL when it is about none. */
int chain_append_json(struct chain *c, enum chain_type type, const struct id *session, json_t *o, struct err *e);
int chain_sync(struct chain *c, struct err *e);
/* Appends a signed head and syncs. Nothing new since the last head: does nothing. */
int chain_sign_head(struct chain *c, int64_t wall_ns, struct err *e);
/* The last signed head (export it), and how many entries came after it. */
void chain_head(struct chain *c, struct chain_head *out, uint64_t *out_unsigned);
/* Sequence of the last entry that says something new: heads and anchors are about what was there before. */
uint64_t chain_news(struct chain *c);
uint64_t chain_seq(struct chain *c); /* of the last entry */
void chain_log_id(const struct chain *c, struct id *out);
/*
 * A rotation has two steps, and between them the keys on the disk are changed: the next key is named in the log under a
 * head of the one in force; then it signs. A crash leaves the old one in force, or the new one named.
 */
int chain_name_key(struct chain *c, const struct grant_public_key *next, int64_t wall_ns, struct err *e);
int chain_use_key(struct chain *c, const struct signer *s, int64_t wall_ns, struct err *e);

/*
 * The entry from which on a key signs that the key before it never named (the keys were lost, or exchanged); 0: all
 * keys of the newest file follow one another. It stays so over restarts, until the next rotation. out_before: the key
 * that was in force when the log was opened, "" in a new log.
 */
uint64_t chain_foreign(struct chain *c, char out_before[17]);

/* {"log_id","seq","hash","wall","kid","signature"}: to be freed; and back (ERR_INVAL). */
char *chain_head_export(const struct chain_head *h);
int chain_head_import(const char *text, size_t len, struct chain_head *out, struct err *e);
int chain_head_verify(const struct chain_head *h,
		      const struct grant_keyset *keys); /* ERR_TOKEN_FORGED, ERR_NOT_FOUND */
/* The head or seal that an entry carries (seal: of CHAIN_SEAL and CHAIN_TOMBSTONE). ERR_CORRUPT. */
int chain_entry_head(const struct chain_reader *r, const struct chain_entry *en, struct chain_head *out);
int chain_entry_seal(const struct chain_entry *en, struct chain_seal *out);
/* The object that an entry of JSON holds, a new reference. ERR_CORRUPT. */
int chain_entry_json(const struct chain_entry *en, json_t **out);

/* Entries in order, hashes checked. ERR_NOT_FOUND when there is no log. from_seq: 0 = all. */
int chain_reader_create(const char *dir, uint64_t from_seq, struct chain_reader **out, struct err *e);
void chain_reader_destroy(struct chain_reader *r);
const struct id *chain_reader_log_id(const struct chain_reader *r);
/* 1, 0 at the end, ERR_CORRUPT: *e names file and place; the next call goes on behind the damage. */
int chain_reader_next(struct chain_reader *r, struct chain_entry *out, struct err *e);
/* At the end: what was appended since is read by the next call. */
int chain_reader_refresh(struct chain_reader *r, struct err *e);

#endif
