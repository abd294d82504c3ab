/*
 * dial.h - a connection to a port inside the sandbox: what muxlet does when OPEN asks for itself with --dial.
 *
 * A whole run, in a process of its own that was executed from /proc/self/exe: no
 * program of the sandbox is trusted with it, and none need be there. stdin goes
 * to the port, what the port says to stdout, until the port's side has ended. The
 * end of stdin is passed on as the end of what is sent (a half-close); what is on
 * its way back still comes.
 */
#ifndef MUXD_MUXLET_DIAL_H
#define MUXD_MUXLET_DIAL_H

#include <stdint.h>

/*
 * TCP to 127.0.0.1, where nobody listens there to ::1. The exit code: 0, or the errno of what failed, with a sentence
 * on stderr: ECONNREFUSED when nobody listens, ECONNRESET when the program broke the connection off.
 */
int dial_port(uint16_t port);
/* The connection alone: 0 with *out_fd, or the errno. */
int dial_connect(uint16_t port, int *out_fd);

#endif
