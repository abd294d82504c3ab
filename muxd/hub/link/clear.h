/*
 * clear.h - everything inside of an agent's sandbox ends, and nothing has to be made inside for that.
 *
 * What returns a text says why its muxlet is not who ends it, so that the caller ends the sandbox from outside; NULL:
 * there is nothing to do.
 */
#ifndef MUXD_HUB_LINK_CLEAR_H
#define MUXD_HUB_LINK_CLEAR_H

#include "base/err.h"

#include <stdint.h>

struct agent;
struct clearing;

/* *ended: how many sessions. ERR_CONFLICT while it is being done; ERR_CANCELLED when the hub goes. */
typedef void clear_done(void *arg, int rc, const struct err *e, unsigned ended);
const char *clear_begin(struct agent *a, const char *why, uint64_t timeout_ns, clear_done *done, void *arg);
const char *clear_link_up(struct agent *a);
void clear_link_down(struct agent *a);
void clear_gone(struct agent *a); /* nothing is there, so nothing is inside */
const char *clear_answered(struct agent *a, int rc);
const char *clear_tick(const struct agent *a, uint64_t now);
void clear_cancel(struct agent *a);
struct clearing *clear_outside(struct agent *a); /* the provider ends it now; lives until clear_ended() */
struct agent *clear_ended(struct clearing *k);   /* it did; NULL: the agent is gone meanwhile, and k too */
const char *clear_why(const struct agent *a);    /* while it is being done */
void clear_answer(struct agent *a, int rc, const struct err *e);

#endif
