/*
 * relay.h - muxctl between the caller's descriptors and one session's WebSocket (api.h).
 *
 * Used by exec and attach once the socket is open and START is queued. Everything is
 * bounded: input is not read while the daemon does not take it, output is not
 * read while nobody takes it here. States: OPENING (waits for `opened`) -> RUNNING
 * -> ENDED | DETACHED | LOST. A terminal whose connection is gone tries to come back
 * (RETURNING -> OPENING) for a minute: a part of the daemon may be starting again.
 *
 * What the daemon has to say to who sits at a terminal stands in the title of its
 * window; without a terminal it is a line on stderr.
 */
#ifndef MUXD_CTL_RELAY_H
#define MUXD_CTL_RELAY_H

#include "muxd/ctl/api.h"

struct relay_options {
	bool input;                    /* mirror the standard input */
	bool terminal;                 /* of the session: raw mode when ours is one, resizes, escape key */
	int escape_key;                /* -1: none */
	bool observer;                 /* it watches: no size, end of input or signal of ours is said */
	bool tame;                     /* of the output what draws alone (base/tamer.h) */
	bool collect;                  /* keep the output for -o json instead of writing it */
	unsigned long long timeout_ns; /* for the message; 0: unknown */
	const char *token;             /* attaches to the session again; NULL: never */
};

/* Exit status by what the daemon said of the end: code, 128+n, 124, or of an error. line: for stderr, "" = nothing. */
int relay_status(const json_t *exit, unsigned long long timeout_ns, char *line, size_t size);

/* Runs until the session or the connection ends; prints what there is to say. Returns the exit status. */
int relay_run(struct ctl *c, struct api_socket *s, const struct relay_options *o);

#endif
