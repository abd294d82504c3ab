/*
 * index_compare.h - audit.db's rows against what they were derived from, one to one: chain log and recordings.
 *
 * The chain is read once, in bounded steps; a row is looked up for each entry, and what lies between two entries is not
 * the recorder's. Then each row of sessions is derived again from its recording. Memory does not depend on the record.
 * With mend it also puts rows right (the cutter does, which is the database's only writer); without it only looks
 * (verify), and looks twice where a recorder may be at work. Owned by one thread.
 *
 * States: LOG (entries of the chain) -> SESSIONS (rows) -> DONE.
 */
#ifndef RECORDER_INDEX_INDEX_COMPARE_H
#define RECORDER_INDEX_INDEX_COMPARE_H

#include "recorder/chain/chain.h"
#include "recorder/index/index.h"

struct index_compare;

enum index_difference { INDEX_CHANGED, INDEX_ADDED, INDEX_MISSING, INDEX_DIFFERENCES };

struct index_finding {
	enum index_difference what;
	const char *table, *column; /* column: NULL but for INDEX_CHANGED */
	char key[ID_STR_LEN];       /* of the row */
	struct id session;          /* nil: none */
};

struct index_compare_params {
	const char *dir; /* record/ */
	struct index *index;
	bool mend;
	bool patient;         /* a recorder may be at work: what seems to differ is looked at again */
	uint64_t durable_lsn; /* what stands before it in the journal has its rows; 0: before the stored cursor */
	/* Told of each difference; NULL: nobody. */
	void (*found)(void *arg, const struct index_finding *f);
	/* What the log says of a session: its seal or tombstone, and the root of its keyframes ("": none). Not with
	 * mend. */
	bool (*logged)(void *arg, const struct id *id, char out_root[65]);
	/* A row is about to be looked at again: logged() is to answer from the log as it is now. NULL: it always does.
	 */
	void (*again)(void *arg);
	void *arg;
};

int index_compare_begin(const struct index_compare_params *p, struct index_compare **out, struct err *e);
/* At most so many entries and rows. 1: more are there, 0: done. Within a transaction where it mends. */
int index_compare_step(struct index_compare *c, size_t most, struct err *e);
/* How many of each so far. */
void index_compare_counts(const struct index_compare *c, uint64_t out[INDEX_DIFFERENCES]);
void index_compare_end(struct index_compare *c);

#endif
