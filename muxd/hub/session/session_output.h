/*
 * session_output.h - the way of output: into the journal first, then to who looks, as far as windows let it.
 */
#ifndef MUXD_HUB_SESSION_SESSION_OUTPUT_H
#define MUXD_HUB_SESSION_SESSION_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct session;

/* From its sandbox. It may doom the session, which the caller settles (session_end.h). */
void session_output(struct session *s, int stream, uint64_t offset, const uint8_t *p, size_t n);
void session_pump_output(struct session *s);           /* what was not journaled yet */
void session_show(struct session *s);                  /* what is durable may be seen */
void session_shrink(struct session *s);                /* nobody is at it: less of its output is kept in memory */
void session_pass_over(struct session *s, int stream); /* what its clients have not seen of it is not for them */
size_t session_trail_held(const struct session *s);    /* bytes of memory */
void session_forget_trail(struct session *s);          /* nobody is given its output from the journal any more */
/* session_window.c: how much the sandbox may send, and what of it need not be kept there */
void session_update_window(struct session *s);
void session_ack(struct session *s, bool all);
/* A terminal without a client is held to its rate; with the first one it is let go. At each tick, and when one comes.
 */
void session_pace(struct session *s, uint64_t now);
bool session_has_driver(const struct session *s);

#endif
