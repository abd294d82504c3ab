/*
 * sandbox.h - an agent and its sandbox, printed for people or as JSON. sandbox.c lists and ends them,
 * sandbox_life.c makes them and leads them through their lives.
 */
#ifndef MUXD_CTL_SANDBOX_H
#define MUXD_CTL_SANDBOX_H

#include "muxd/ctl/ctl.h"

/* o: what the daemon shows of one; changed for print. Returns the exit status. */
int sandbox_print(struct ctl *c, json_t *o);

#endif
