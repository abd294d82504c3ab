/*
 * session_input.h - the way of input: one queue for each session, from whoever types or calls to its program.
 */
#ifndef MUXD_HUB_SESSION_SESSION_INPUT_H
#define MUXD_HUB_SESSION_SESSION_INPUT_H

#include "muxd/link/link.h"

#include <sys/types.h>

struct aheads;
struct attachment;
struct hub;
struct session;

/* All input of a session goes in one order: what was taken and cannot go on stands in its one queue, and what comes
 * then, an end too, goes behind it. by: whose it is. ERR_BAD_STATE: its program was started without input. */
ssize_t session_input(struct session *s, struct attachment *by, const void *p, size_t n);
/* What of the input the program had not taken when the link broke; from where input goes on. */
uint64_t session_input_settle(struct session *s, const struct link_channel_info *info);
void session_input_landed(struct session *s, uint64_t consumed); /* so much of it the program took */
void session_input_again(struct session *s, uint64_t from);      /* after the channel is resumed */
void session_pump_input(struct session *s);                      /* what is queued, then the end if it is wanted */
void session_wake_input(struct session *s);                      /* who waits for room is told, if there is some */
/* Input that is queued from here on is his. False: some that another sent has not gone yet. */
bool session_input_by(struct session *s, const char *principal);
int session_queue_input(struct session *s, const void *p, size_t n, size_t *out_taken); /* by calls */
bool session_queue_fits(struct session *s, size_t n); /* such a call would be taken whole, or not at all */
void session_queue_room(struct session *s, size_t n); /* the queue may hold that much more than it does */
int session_input_eof(struct session *s);
/* Input typed ahead (typeahead.h): the mode of the terminal, and what came out of it; what waits goes now, for a
 * reason that does not wait; or never. */
void session_on_echo(struct session *s, enum link_echo mode);
void session_ahead_output(struct session *s, const void *p, size_t n);
void session_ahead_flush(struct session *s);
void session_input_forget(struct session *s);
/* Sessions of a hub whose input waits so; the hub's. ERR_NOMEM; flush: all of it goes now. */
int aheads_create(struct hub *h, struct aheads **out);
void aheads_flush(struct hub *h);
void aheads_destroy(struct aheads *all); /* NULL-safe; none waits any more */

#endif
