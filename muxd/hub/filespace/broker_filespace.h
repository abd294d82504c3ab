/*
 * broker_filespace.h - the files of an agent in step with the owner's store, as doors ask for it.
 *
 * Scope files, lifecycle or admin syncs, which wakes the sandbox; these and rounds see how it stands. The policy is
 * asked by filespace.sync and filespace.read. Refusals are audited here, syncs by filespace.h.
 */
#ifndef MUXD_HUB_FILESPACE_BROKER_FILESPACE_H
#define MUXD_HUB_FILESPACE_BROKER_FILESPACE_H

#include "muxd/hub/core/request.h"
#include "muxd/hub/filespace/filespace_sync.h"

/* {agent, direction, ...}: what was done. ERR_FILESPACE, ERR_TOO_LARGE, ERR_UNSUPPORTED: there is no filespace. */
void broker_filespace_sync(struct hub *h, const struct request *rq, const char *agent, enum filespace_direction d,
			   broker_json_done *done, void *arg);
void broker_filespace_show(struct hub *h, const struct request *rq, const char *agent, broker_json_done *done,
			   void *arg);

#endif
