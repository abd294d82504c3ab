/*
 * serve.h - `muxd serve`, the monitor process.
 *
 * Returns the process's exit code: 0 after a clean end, else the one of the
 * error that stderr named in one line (err.h).
 */
#ifndef MUXD_MONITOR_SERVE_H
#define MUXD_MONITOR_SERVE_H

int serve_main(int argc, char **argv); /* argv[0]: "serve" */

#endif
