/*
 * pulse.h - the hub's tick: four times a second while something is under way, once a second while nothing is.
 *
 * Owner: the hub. BEATING (every PULSE_MS) -> RESTING (every PULSE_REST_MS, once a tick found nothing that would need
 * to be looked after more often) -> BEATING, by pulse_stir(). Ticks fall together with those of other parts
 * (base/tick.h).
 */
#ifndef MUXD_HUB_CORE_PULSE_H
#define MUXD_HUB_CORE_PULSE_H

#include <stdbool.h>

#define PULSE_MS      250
#define PULSE_REST_MS 1000

struct pulse;
struct uv_loop_s;

typedef void pulse_tick(void *arg);
/* Begins to beat. tick comes from the loop, and says with pulse_rest() how soon the next one is to come. ERR_NOMEM. */
int pulse_create(struct uv_loop_s *loop, pulse_tick *tick, void *arg, struct pulse **out);
void pulse_destroy(struct pulse *p); /* NULL-safe */
void pulse_rest(struct pulse *p, bool rests);
/* Something begins: a pulse that rests beats again. NULL-safe, for a hub that is being made. */
void pulse_stir(struct pulse *p);

#endif
