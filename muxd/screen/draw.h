/*
 * draw.h - a screen as the bytes that bring any terminal to it.
 *
 * For xterm.js, xterm, tmux and their like: it clears the screen (not the scrollback), draws what is on both screens,
 * then sets scrolling region, tab stops, title, saved cursor, modes, pen, cursor. Fed into another term it gives an
 * equal one. No state.
 */
#ifndef MUXD_SCREEN_DRAW_H
#define MUXD_SCREEN_DRAW_H

struct buf;
struct term;

/* Appends. ERR_TOO_LARGE past the buffer's bound, ERR_NOMEM; what was appended by then stays. */
int draw_term(const struct term *t, struct buf *out);

#endif
