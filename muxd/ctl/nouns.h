/*
 * nouns.h - every command of muxctl; commands.c makes the list of them.
 */
#ifndef MUXD_CTL_NOUNS_H
#define MUXD_CTL_NOUNS_H

#include "muxd/ctl/ctl.h"

extern const struct ctl_command grant_create_command, grant_list_command, grant_revoke_command;
extern const struct ctl_command exec_command, attach_command, put_command, get_command;
extern const struct ctl_command session_list_command, session_show_command, session_terminate_command;
extern const struct ctl_command sandbox_list_command, sandbox_show_command;
extern const struct ctl_command sandbox_create_command, sandbox_destroy_command, demo_command;
extern const struct ctl_command sandbox_resume_command, sandbox_stop_command, sandbox_terminate_command;
extern const struct ctl_command sandbox_kill_command;
extern const struct ctl_command sandbox_snapshot_command, sandbox_snapshots_command, sandbox_restore_command;
extern const struct ctl_command sandbox_drop_command, sandbox_fork_command, sandbox_logs_command;
extern const struct ctl_command cluster_check_command;
extern const struct ctl_command resume_command, status_command, shutdown_command, key_rotate_command;
extern const struct ctl_command retention_show_command, retention_apply_command, config_reload_command;
extern const struct ctl_command hold_add_command, hold_list_command, hold_release_command;
extern const struct ctl_command audit_command, replay_command, export_command, verify_command, head_command;

extern const struct ctl_command lease_create_command, lease_list_command, lease_show_command;
extern const struct ctl_command lease_heartbeat_command, lease_release_command;
extern const struct ctl_command run_start_command, run_list_command, run_show_command;
extern const struct ctl_command workflow_put_command, workflow_list_command, workflow_show_command, pool_show_command;

#endif
