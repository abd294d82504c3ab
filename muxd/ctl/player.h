/*
 * player.h - when the next event of a recording is due, and what each key does.
 *
 * Pure: it is told the time. Recorded moments (CLOCK_BOOTTIME of the recording)
 * and the player's own clock are both in nanoseconds and never mixed. States:
 * PLAYING <-> PAUSED; both -> DONE (past the last event; a seek leads back to
 * PLAYING) -> QUIT.
 */
#ifndef MUXD_CTL_PLAYER_H
#define MUXD_CTL_PLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum player_state { PLAYER_PLAYING, PLAYER_PAUSED, PLAYER_DONE, PLAYER_QUIT };
/* What the caller does now. */
enum player_order { ORDER_NONE, ORDER_SEEK, ORDER_STEP, ORDER_REDRAW, ORDER_HELP, ORDER_STOP, ORDER_QUIT };

#define PLAYER_SPEED_MAX    64.0
#define PLAYER_SPEED_MIN    0.125
#define PLAYER_IDLE_DEFAULT (UINT64_C(2) * 1000000000)

struct player {
	enum player_state state;
	uint64_t first, last; /* recorded moments */
	uint64_t pos;         /* of what was shown last */
	uint64_t credit;      /* recorded time that has passed since pos, up to `since` */
	uint64_t since;       /* own clock; meaningless unless PLAYING */
	double speed;
	uint64_t idle_limit; /* longest recorded silence that is played */
	bool skip_idle, status;
	uint64_t target; /* of ORDER_SEEK */
};

void player_init(struct player *p, uint64_t first, uint64_t last, double speed, uint64_t idle_limit, uint64_t now);
/* An enum key, see keys.h. */
enum player_order player_key(struct player *p, int key, uint64_t now);
/* How long until the event of that moment is due; 0 = now, UINT64_MAX = not while it is so (paused). */
uint64_t player_wait(const struct player *p, uint64_t event, uint64_t now);
/* The event was shown. */
void player_shown(struct player *p, uint64_t event, uint64_t now);
/* A seek has been done: everything before `to` is on the screen. */
void player_sought(struct player *p, uint64_t to, uint64_t now);
void player_done(struct player *p);
/* The moment to show as the position, between events too; next: the coming event, 0 = none. */
uint64_t player_position(const struct player *p, uint64_t next, uint64_t now);

#endif
