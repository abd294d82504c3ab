/*
 * asks.h - what the hub has done by the monitor, as its parameters want it (muxd/hub/setup.h). ctx: the struct ipc.
 *
 * Each answer comes once, from the loop; when the conversation ends first, with ERR_CANCELLED. No state.
 */
#ifndef MUXD_NET_ASKS_H
#define MUXD_NET_ASKS_H

#include "muxd/hub/setup.h"

/* A grant, signed: hub_issuer.issue. */
void net_ask_grant(void *ctx, const struct grant *wanted, uint64_t ttl_ns, const char *via, hub_issue_done *done,
		   void *arg);
/* A question of a grant's holder, by its token: hub_issuer.ask. */
void net_ask_holder(void *ctx, json_t *question, hub_ask_done *done, void *arg);
/* A screen worker: the hub's end of its stream. */
void net_ask_screen(void *ctx, hub_screen_done *done, void *arg);
/* Asks that net has its turn ahead of ordinary programs (precedence.h): precedence_ask. */
void net_ask_ahead(void *ctx);

#endif
