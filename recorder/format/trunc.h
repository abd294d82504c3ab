/*
 * trunc.h - which bytes of a session are kept: full, truncated (head and tail), metadata.
 *
 * Owned by a builder. Events go in in order and come out in order through `emit`;
 * what is left out becomes one EVENT_GAP with a byte count and the SHA-256 of the
 * stream up to its end. Every byte is counted and hashed, kept or not.
 *
 * The tail is not known before the end (of the stream for rounds and execs, of the
 * burst between two inputs for terminals), so up to `tail` bytes a stream, and the
 * events that came between them, wait in memory. The wait is bounded: a tail has at
 * most TRUNC_ITEMS_MAX records, and after TRUNC_PASS_MAX bytes or TRUNC_ITEMS_MAX
 * events of others what waits is kept and the tail is granted anew.
 */
#ifndef RECORDER_FORMAT_TRUNC_H
#define RECORDER_FORMAT_TRUNC_H

#include "base/conf.h"
#include "base/ring.h"

struct buf;
struct err;
struct record_rule;
struct trunc;

#define TRUNC_TAIL_MAX  (1024 * 1024) /* a configured tail above it is cut down to it */
#define TRUNC_PASS_MAX  (1024 * 1024)
#define TRUNC_ITEMS_MAX 16384

struct trunc_rule {
	enum conf_rule_kind kind;
	bool burst; /* budgets begin anew when the direction changes (terminals) */
	uint64_t head, tail;
};

struct trunc_totals {
	uint64_t total;   /* bytes that went in */
	uint64_t kept;    /* bytes that came out as DATA */
	uint64_t omitted; /* bytes in gaps */
	uint64_t missing; /* bytes that the journal lacked */
	uint8_t sha256[32];
};

/* The rule that holds for such a session (base/record_rule.h); pty: an exec with one counts as a terminal. named: what
 * a profile says of it, as its OPEN has it; may be NULL. */
void trunc_rule_choose(const struct conf_rule *rules, size_t n, const char *principal_kind, const char *session,
		       bool pty, const struct record_rule *named, struct trunc_rule *out);

typedef int trunc_emit(void *arg, const struct ring_record *rec, struct err *e);

int trunc_create(const struct trunc_rule *rule, trunc_emit *emit, void *arg, struct trunc **out);
void trunc_destroy(struct trunc *t);
/* DATA with offset == trunc_expected(); other types pass in order. */
int trunc_put(struct trunc *t, const struct ring_record *rec, struct err *e);
/* From here on nothing of the streams is kept, whatever the rule says: one gap each, until the end, of RULE_METADATA.
 */
void trunc_close(struct trunc *t);
/* Let go of everything that waits (end of the session). */
int trunc_flush(struct trunc *t, struct err *e);
uint64_t trunc_expected(const struct trunc *t, unsigned stream); /* offset of the next byte */
/* The digest of everything that went in, what still waits included. */
void trunc_digest(const struct trunc *t, unsigned stream, uint8_t out[32]);
/* Valid after trunc_flush(). */
void trunc_totals(const struct trunc *t, unsigned stream, struct trunc_totals *out);

/* The whole state, what waits included, as bytes, and back (ERR_CORRUPT). */
int trunc_save(const struct trunc *t, struct buf *out);
int trunc_restore(struct trunc *t, const uint8_t *p, size_t n, struct err *e);

#endif
