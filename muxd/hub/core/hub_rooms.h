/*
 * hub_rooms.h - where each room of the hub, and each noun in it, finds what it keeps. For muxd/hub/ alone.
 *
 * Every one of these is a struct of its noun's own, laid out in the file or the header that is named with it and
 * nowhere else: whoever needs something of another room asks that room. The hub holds the pointers (hub_state.h), and
 * setup.c makes and frees what is behind them, from the ground up; they are there from hub_create() to hub_destroy(),
 * but where one says that it goes first.
 */
#ifndef MUXD_HUB_CORE_HUB_ROOMS_H
#define MUXD_HUB_CORE_HUB_ROOMS_H

struct hub;

/* record/ */
struct audit_repeats *hub_repeats(const struct hub *h); /* audit.c */

#endif
