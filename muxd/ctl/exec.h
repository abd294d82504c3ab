/* exec.h - a program in a sandbox, for commands of muxctl that are one of its programs. */
#ifndef MUXD_CTL_EXEC_H
#define MUXD_CTL_EXEC_H

#include "muxd/ctl/ctl.h"

/*
 * A round of argv (stolen; NULL: there was no memory), without input, its output on ours (a terminal gets what draws,
 * without --raw) and with --task of the options. Returns its exit status, as muxctl exec has it.
 */
int exec_program(struct ctl *c, const struct ctl_args *a, const char *agent, json_t *argv, const char *reason);

#endif
