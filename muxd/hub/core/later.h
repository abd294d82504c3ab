/*
 * later.h - calls at the hub's next tick.
 *
 * Owner: the hub, which keeps them in the order in which they came. A call that is asked for from inside of one of them
 * comes at the tick behind.
 */
#ifndef MUXD_HUB_CORE_LATER_H
#define MUXD_HUB_CORE_LATER_H

#include <stdbool.h>

struct err;
struct hub;
struct laters;

struct laters *laters_create(void);    /* NULL: no memory */
void laters_destroy(struct laters *x); /* NULL-safe; behind later_close() */

/* rc: 0, or ERR_CANCELLED when the hub ends; e: NULL, or why. */
typedef void later_call(void *arg, int rc, const struct err *e);

/* call comes once, from the loop. ERR_NOMEM: it does not. */
int hub_later(struct hub *h, later_call *call, void *arg);
void later_tick(struct hub *h);
bool laters_rest(const struct hub *h);                  /* none waits */
void later_close(struct hub *h, const struct err *why); /* ERR_CANCELLED to all who wait */

#endif
