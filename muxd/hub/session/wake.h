/*
 * wake.h - when clients are told that something came, and how much of it observers are shown. For muxd/hub/ alone.
 *
 * Drivers are told at once; observers a turn later, PACE_MS apart, and PACE_TURN of them a turn, so that a key of
 * anybody waits for a few of their writes and never for a hundred. Each may then take a share of what all observers of
 * its session together may, so that a hundred cost a flood not much more than one. Who would need more falls behind,
 * and is shown the current screen instead (attachment.h).
 *
 * An observer: nothing to tell it -> waits among the paced until PACE_MS have passed since its last share -> is told.
 */
#ifndef MUXD_HUB_SESSION_WAKE_H
#define MUXD_HUB_SESSION_WAKE_H

#include "muxd/hub/session/attachment_state.h"
#include "muxd/hub/session/stream.h"

struct clients;
struct hub;
struct session;

#define PACE_MS    20                /* nobody sees more than 50 pictures a second */
#define PACE_TURN  16                /* observers, in one millisecond */
#define PACE_SHARE (STREAM_RING_MAX) /* bytes in PACE_MS, of all observers of a session */
#define PACE_PIECE (8 * 1024)        /* each observer may take this at least */
#define PACE_LAG   8                 /* shares that one may be behind before it gets the screen instead */

/* Clients of a hub, the hub's: those that are attached, what they are to be told, and when. ERR_NOMEM. */
int clients_create(struct hub *h, struct clients **out);
void clients_destroy(struct clients *c); /* NULL-safe */
void clients_put(struct attachment *a);
void clients_take(struct attachment *a); /* it goes: nothing of it waits any more */
/* All of them, through attachment->of_hub. Borrowed. */
const struct attachment_list *hub_attachments(const struct hub *h);

void attachment_wake(struct attachment *a, unsigned wakes);
void attachment_check_end(struct attachment *a);
void attachment_release(struct attachment *a); /* its door knows it now */
void attachment_cut(struct attachment *a, enum cut_cause cause, const char *text);
bool attachment_leaves(const struct attachment *a); /* cut, though its door may not have heard of it */
void attachment_notice(struct attachment *a, const char *text, bool over);
void session_wake_all(struct session *s, unsigned wakes);
void hub_flush(struct hub *h); /* runs queued callbacks; harmless inside itself */

void pace_begin(struct attachment *a);  /* it was created: a share at once */
void pace_wait(struct attachment *a);   /* `readable` when its time has come */
void pace_forget(struct attachment *a); /* it goes, or is told now */
bool pace_allows(struct attachment *a); /* false: its share is gone, `readable` comes with the next */
bool pace_behind(const struct attachment *a);
void pace_took(struct attachment *a, size_t n);

#endif
