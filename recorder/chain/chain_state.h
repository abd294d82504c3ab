/*
 * chain_state.h - what the writer's files share. Private to chain.c and chain_open.c.
 *
 * All but opening happens under `lock`.
 */
#ifndef RECORDER_CHAIN_CHAIN_STATE_H
#define RECORDER_CHAIN_CHAIN_STATE_H

#include "recorder/chain/chain_format.h"
#include "recorder/chain/file.h"

#include <pthread.h>

struct chain {
	pthread_mutex_t lock;
	char *dir;
	const struct signer *signer;
	struct id log_id;
	int fd;
	char path[FILE_PATH_MAX];
	unsigned number;
	uint64_t pos; /* end of the last entry in the file */
	uint64_t seq; /* of the last entry */
	uint8_t hash[CHAIN_HASH];
	uint64_t audit_seq;
	uint64_t news;          /* chain_news() */
	struct chain_head head; /* the last one that is signed and synced */
	uint64_t head_entry;    /* its own sequence */
	bool announced;         /* the signer's key stands in the log */
	bool stranger;          /* the signer is not the key in force, nor named by it */
	uint64_t foreign;       /* chain_foreign() */
	char before[17];        /* key that was in force when the log was opened; "": none */
	uint64_t synced;        /* up to here the file is on the disk */
	bool nameless;          /* the file's name is not on the disk yet: the next sync puts it there */
	bool failed;            /* a sync failed: what the disk holds behind it is not known any more */
	uint8_t *scratch;
};

#define ENTRY_MAX (CHAIN_ENTRY_HEADER + CHAIN_PAYLOAD_MAX + CHAIN_HASH)

/* chain.c */
int chain_put(struct chain *c, const struct chain_entry_header *h, const void *payload, struct err *e);
int chain_put_head(struct chain *c, int64_t wall_ns, struct err *e);
int chain_put_key(struct chain *c, const struct grant_public_key *key, int64_t wall_ns, struct err *e);
int chain_sync_file(struct chain *c, struct err *e);
/* A new file, complete before it has its name, which is there: the log goes on in it, and nowhere else. */
int chain_begin_file(struct chain *c, unsigned number, struct err *e);

#endif
