/*
 * options.h - the command line of `muxd serve`.
 *
 * A value; its strings belong to argv. Addresses are resolved later: the command
 * line wins over the configuration, that over 127.0.0.1:8443 and 127.0.0.1:2222.
 */
#ifndef MUXD_MONITOR_OPTIONS_H
#define MUXD_MONITOR_OPTIONS_H

#include <stdbool.h>

struct err;

struct options {
	const char *state_dir;
	const char *https, *ssh; /* NULL = not given */
	const char *config;      /* NULL = none */
	bool end_sandboxes;      /* at a clean end */
	bool edge;               /* a lease takes a grant's place (docs/edge.md) */
	bool print_config;
	bool help;
};

/* argv[0] is the word after `muxd`. ERR_INVAL names the argument. */
int options_parse(int argc, char *const *argv, struct options *out, struct err *e);
extern const char options_usage[];

#endif
