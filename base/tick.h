/*
 * Ticks that fall together. A period begins at a multiple of itself on the loop's clock, and each tick is set anew for
 * the next multiple: the parts of a daemon at rest wake its loop once for all of them, and not each for itself.
 *
 * The handle is its owner's, as with uv_timer_start(); uv_timer_stop() and uv_close() end it.
 */
#ifndef MUXD_BASE_TICK_H
#define MUXD_BASE_TICK_H

#include <uv.h>

/* Calls cb once, at the next multiple of period_ms (> 0); cb calls this again for the next tick. */
static inline void tick_start(uv_timer_t *t, uv_timer_cb cb, uint64_t period_ms)
{
	uv_timer_start(t, cb, period_ms - uv_now(t->loop) % period_ms, 0);
}

#endif
