/*
 * probe.h - is a service healthy? What muxlet does when OPEN asks for itself with --probe.
 *
 * A whole run, in a process of its own that was executed from /proc/self/exe, as dial.h: the port is connected to, and
 * where a path is named GET of it has to be answered with a status of 200 to 399. OPEN bounds its time.
 */
#ifndef MUXD_MUXLET_PROBE_H
#define MUXD_MUXLET_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define PROBE_UNHEALTHY 255 /* exit code: it is connected to, and does not answer as a healthy one */

/* The exit code: 0, the errno of the connection, or PROBE_UNHEALTHY; with a word on stdout. path NULL: none. */
int probe_port(uint16_t port, const char *path);
/* The status that an answer of HTTP/1 begins with, 100 to 599; 0: it begins with none. Pure. */
int probe_status(const char *p, size_t n);

#endif
