/*
 * base_tree.h - the workspace as a snapshot has it, to be read: as a tar archive, whatever the backend keeps.
 *
 * A read-only fork of the snapshot is made, its tree is fetched by a transfer, and the fork goes with the reader; after
 * a crash the next start wipes it (struct life_fork, passing).
 *
 * FORKING -> OPENING -> READING -> OVER (all was read, or it failed). Owned by its caller until base_tree_end(), at any
 * time. Callbacks come from the loop.
 */
#ifndef MUXD_HUB_BROKER_BASE_TREE_H
#define MUXD_HUB_BROKER_BASE_TREE_H

#include "muxd/hub/core/request.h"

struct base_tree;

struct base_tree_ops {
	void (*ready)(void *arg);                               /* it is open, bytes are there, or the end is */
	void (*failed)(void *arg, int rc, const struct err *e); /* once; no more is told */
};

/*
 * agent: whose snapshot it is, which rq was checked for. request: what the transfer asks for besides; borrowed.
 * ERR_BASE_UNKNOWN, by failed: the agent has no such snapshot.
 */
struct base_tree_from {
	const char *agent, *task;
	struct id snapshot;
	const json_t *request;
	uint64_t timeout_ns;
};
int base_tree_open(struct hub *h, const struct request *rq, const struct base_tree_from *from,
		   const struct base_tree_ops *ops, void *arg, struct base_tree **out, struct err *e);
size_t base_tree_peek(struct base_tree *t, const uint8_t **out);
void base_tree_consume(struct base_tree *t, size_t n);
bool base_tree_is_open(const struct base_tree *t); /* the fork runs, and was asked for its tree */
bool base_tree_is_over(const struct base_tree *t); /* nothing more comes, and all was well */
void base_tree_end(struct base_tree *t);           /* NULL-safe */

#endif
