/*
 * nouns.h - the commands of muxctl: a table for each noun, in the file of its name. commands.c has them in the order in
 * which the help lists them.
 */
#ifndef MUXD_CTL_NOUNS_H
#define MUXD_CTL_NOUNS_H

#include "muxd/ctl/ctl.h"

extern const struct ctl_command grant_commands[];
extern const struct ctl_command exec_commands[];
extern const struct ctl_command round_commands[];
extern const struct ctl_command round_live_commands[];
extern const struct ctl_command transfer_commands[];
extern const struct ctl_command copy_commands[];
extern const struct ctl_command fs_commands[];
extern const struct ctl_command edit_commands[];
extern const struct ctl_command artifact_commands[];
extern const struct ctl_command context_commands[];
extern const struct ctl_command mcp_commands[];
extern const struct ctl_command servers_commands[], services_commands[];
extern const struct ctl_command filespace_commands[];
extern const struct ctl_command session_commands[];
extern const struct ctl_command sandbox_commands[];
extern const struct ctl_command work_commands[];
extern const struct ctl_command edge_commands[];
extern const struct ctl_command cluster_commands[];
extern const struct ctl_command demo_commands[];
extern const struct ctl_command replay_commands[];
extern const struct ctl_command export_commands[];
extern const struct ctl_command verify_commands[];
extern const struct ctl_command audit_commands[];
extern const struct ctl_command keep_commands[], policy_commands[];
extern const struct ctl_command daemon_commands[];
extern const struct ctl_command completion_commands[];

#endif
