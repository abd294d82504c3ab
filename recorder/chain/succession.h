/*
 * succession.h - which key signs the log, and who vouches for it.
 *
 * One key is in force. A key that the log announces under a head of that one is promised; its own first head puts it in
 * force. A key that signs without a promise is foreign: it vouches for what follows its announcement and for
 * nothing before it. What keys sign one after the other without such a break is a run. A run is trusted when a key
 * that was given signs in it.
 *
 * Fed with the log's keys and heads in their order; owned by who reads. States of a key: ANNOUNCED -> PROMISED -> IN
 * FORCE
 * -> past (announced no more).
 */
#ifndef RECORDER_CHAIN_SUCCESSION_H
#define RECORDER_CHAIN_SUCCESSION_H

#include "policy/grant.h"
#include "recorder/chain/chain.h"

struct succession_key {
	struct grant_public_key key;
	uint64_t first;     /* entry that announced it first; 0: none did */
	uint64_t announced; /* entry that announced it since it was last in force; 0: none */
	bool promised;
	bool given;
	long run;      /* index of the last run in which it signed; -1: none */
	uint64_t head; /* entry of the first head that promises it; 0: none */
	int64_t head_wall_ns;
	char head_kid[17];
};

/* Entries from..to stand under heads of keys that follow from one another. */
struct succession_run {
	uint64_t from, to;
	bool trusted;
};

struct succession {
	const struct grant_keyset *given;
	struct succession_key *keys;
	size_t n;
	struct succession_run *runs;
	size_t runs_n;
	long in_force; /* index; -1: none yet */
};

enum succession_step {
	SUCCESSION_GOES_ON, /* by the key in force */
	SUCCESSION_TURN,    /* by a promised one, which is in force from here on */
	SUCCESSION_FOREIGN, /* by one that nobody promised, which is in force from here on */
};

/* given: borrowed, may be empty. */
void succession_begin(struct succession *s, const struct grant_keyset *given);
void succession_finish(struct succession *s);
/* The entry seq announces a key. ERR_NOMEM, ERR_LIMIT. */
int succession_announce(struct succession *s, const struct grant_public_key *key, uint64_t seq);
/* The entry after h->seq is this head. ERR_NOT_FOUND: of a key that is neither announced nor given; ERR_TOKEN_FORGED.
 */
int succession_head(struct succession *s, const struct chain_head *h, enum succession_step *out);
/* NULL: none yet. */
const struct succession_key *succession_in_force(const struct succession *s);
const struct succession_run *succession_run(const struct succession *s);
/* Given, or in force within a trusted run. */
bool succession_trusts(const struct succession *s, const struct succession_key *k);
/* Does a trusted head vouch for this entry? */
bool succession_vouches(const struct succession *s, uint64_t seq);

#endif
