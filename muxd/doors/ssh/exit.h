/*
 * exit.h - how a session's end is told to an SSH client: exit-status or exit-signal, and a sentence.
 *
 * Pure. What is not known is never 0: a lost or unknown outcome is 255 with a sentence.
 */
#ifndef MUXD_DOORS_SSH_EXIT_H
#define MUXD_DOORS_SSH_EXIT_H

#include <stdbool.h>

struct session_result;

#define SSH_EXIT_REFUSED 255 /* what OpenSSH's client itself uses for "not the command's" */

struct ssh_exit {
	int status;       /* exit-status, when signal is NULL */
	const char *name; /* exit-signal: name without SIG as RFC 4254 has it; static */
	char text[280];   /* for the person, "" = nothing to say; no line end */
};

void ssh_exit_of(const struct session_result *r, struct ssh_exit *out);

#endif
