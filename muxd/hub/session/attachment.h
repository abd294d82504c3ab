/*
 * attachment.h - one client on a session: a role and a cursor for each output stream.
 *
 * Created by the broker (broker.h), owned by the door that asked for it until
 * attachment_detach(). It outlives the session: after the end it still yields
 * what was not yet read. Everything happens on the hub's loop.
 *
 * Watchers pull. The hub says `readable`; the door peeks, writes as much as its
 * socket takes, consumes that, and stops. What a driver has not consumed holds
 * the sandbox back (flow control); an observer is told at intervals (wake.h), and
 * one that falls behind is shown the current screen, or moved forward and told
 * (`skipped`) before it can peek at what follows. Nothing is shown that is not
 * journaled (or durable, by configuration).
 *
 * States: ATTACHED -> (DRAINING: the session ended, bytes are left) -> FINISHED | CUT.
 */
#ifndef MUXD_HUB_SESSION_ATTACHMENT_H
#define MUXD_HUB_SESSION_ATTACHMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct attachment;
struct session;
struct session_result;

enum attachment_role { ROLE_DRIVER, ROLE_OBSERVER };

/*
 * What a terminal has to be fed to show the session as it is: it clears first, whatever was there, and leaves cursor
 * and modes as the program set them. Made by a confined worker from hostile bytes (screen/screen.h): evidence of
 * nothing.
 */
struct screen_shot {
	uint64_t offset;     /* of STREAM_OUTPUT: drawn by the bytes before it; the next peek yields those from it on */
	unsigned cols, rows; /* the size it is drawn for: the session's at that offset */
	bool exact;          /* false: drawn from a part of the output alone */
	const uint8_t *bytes;
	size_t len; /* at most 1 MiB */
};

enum cut_cause { CUT_EXPIRED, CUT_REVOKED, CUT_TERMINATED, CUT_SHUTDOWN, CUT_RECORD, CUT_SANDBOX };

/*
 * Called from the loop, never from inside an attachment_*() call of the same
 * attachment. Each may call any attachment_*() function including detach.
 */
struct attachment_ops {
	/* Bytes can be peeked on some stream. Edge: not repeated until a peek returned 0 for every stream. */
	void (*readable)(void *arg);
	/* Input was refused or cut short before; it is taken again. */
	void (*writable)(void *arg);
	/*
	 * A sentence for the person (expiry warning, record paused, restored). No line ends inside. Shown beside what
	 * the program draws, never in it. over: what the last one said is over, and its place may be cleared.
	 */
	void (*notice)(void *arg, const char *text, bool over);
	/*
	 * Show this instead of what was shown before. A terminal's attachment whose door has this callback begins with
	 * it when there was output already, and an observer gets it again where it would be `skipped`; until it comes,
	 * peek yields nothing. When there is none in time (hub/session/screen.h): the recent output, or `skipped`. May
	 * be NULL.
	 */
	void (*screen)(void *arg, const struct screen_shot *shot);
	/* An observer lost n bytes of that stream by falling behind. */
	void (*skipped)(void *arg, int stream, uint64_t n);
	/* The session has ended and every stream was consumed. Last call. */
	void (*ended)(void *arg, const struct session_result *result);
	/* The attachment is over though the session may go on. Last call; the door says `text` and closes. */
	void (*cut)(void *arg, enum cut_cause cause, const char *text);
	/* Another driver gave the terminal a new size. NULL: not of interest. */
	void (*resized)(void *arg, unsigned cols, unsigned rows);
};

/*
 * Contiguous bytes from the cursor of STREAM_OUTPUT or STREAM_STDERR; *out_p is
 * valid until the next call into the hub. Returns the count, 0 = none now.
 */
size_t attachment_peek(struct attachment *a, int stream, const uint8_t **out_p);
void attachment_consume(struct attachment *a, int stream, size_t n); /* n <= the last peek */
/* Go on with the current screen instead of the bytes up to it: nothing else draws what was left out. Nothing where none
 * can be had. */
void attachment_want_screen(struct attachment *a);
uint64_t attachment_offset(const struct attachment *a, int stream);
/*
 * A client that comes back has everything before offset. Before the first peek only. *out_missing: bytes from offset on
 * that the buffer no longer holds (the record has them); the cursor stands behind them. No screen is sent then: what
 * follows completes the one the client has. ERR_INVAL: beyond the end.
 */
int attachment_seek(struct attachment *a, int stream, uint64_t offset, uint64_t *out_missing);

/*
 * Input, journaled before the sandbox gets it. Returns bytes taken (0: wait for
 * `writable`), ERR_FORBIDDEN for an observer, ERR_ENDED, ERR_RECORD_UNAVAILABLE, ERR_BAD_STATE of a program that was
 * started without input (stdin_open).
 */
ssize_t attachment_input(struct attachment *a, const void *p, size_t n);
int attachment_input_eof(struct attachment *a);
/* 1..4096 each, else ERR_INVAL; observers: ERR_FORBIDDEN. The newest driver's size counts. */
int attachment_resize(struct attachment *a, unsigned cols, unsigned rows, unsigned xpixel, unsigned ypixel);
int attachment_signal(struct attachment *a, int signum);
/* The client is gone: a terminal lingers, an exec whose last client this was is ended. No callback afterwards.
 * NULL-safe. */
void attachment_detach(struct attachment *a);

struct session *attachment_session(const struct attachment *a);

#endif
