/* The nouns of muxctl in one table; a command line is looked up there, and its usage is printed from there. */
#include "base/err.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct ctl_command *const ctl_commands[] = {
    grant_commands,
    exec_commands,
    round_commands,
    round_live_commands,
    transfer_commands,
    copy_commands,
    fs_commands,
    edit_commands,
    artifact_commands,
    context_commands,
    mcp_commands,
    servers_commands,
    services_commands,
    session_commands,
    sandbox_commands,
    work_commands,
    edge_commands,
    cluster_commands,
    demo_commands,
    replay_commands,
    export_commands,
    verify_commands,
    audit_commands,
    keep_commands,
    policy_commands,
    daemon_commands,
    completion_commands,
    filespace_commands,
    NULL,
};

static int print_usage(char *text)
{
	if (!text)
		return err_exit_code(ERR_NOMEM);
	fputs(text, stdout);
	free(text);
	return fflush(stdout) == 0 ? 0 : err_exit_code(ERR_SYS);
}

/* muxctl help [COMMAND] is what people try first. */
static bool wants_help(int argc, char **argv)
{
	return argc > 0 && strcmp(argv[0], "help") == 0;
}

static const char *state_dir(const struct ctl_args *a)
{
	const char *env = getenv("MUXD_STATE");

	if (a->state_dir)
		return a->state_dir;
	return env && *env ? env : "./.muxd";
}

static int run_command(struct ctl *c, int argc, char **argv, struct ctl_args *a)
{
	const struct ctl_command *cmd = NULL;
	struct err e = {0};
	int words = 0;

	if (argc == 0 || wants_help(argc, argv) || a->help) {
		int skip = wants_help(argc, argv);
		if (argc > skip && args_command(argc - skip, argv + skip, ctl_commands, &cmd, &words, &e) == 0)
			return print_usage(args_usage(cmd));
		int status = print_usage(args_usage_all(ctl_commands));
		return argc == 0 && !a->help ? err_exit_code(ERR_INVAL) : status;
	}
	if (args_command(argc, argv, ctl_commands, &cmd, &words, &e) < 0)
		return ctl_fail(c, &e);
	if (args_parse(cmd, argc - words + 1, argv + words - 1, a, &e) < 0) {
		c->json = a->json;
		snprintf(c->hint, sizeof(c->hint), "See \"muxctl %s --help\".", cmd->name);
		return ctl_fail(c, &e);
	}
	if (a->help)
		return print_usage(args_usage(cmd));
	c->json = a->json;
	c->state_dir = state_dir(a);
	c->token_file = a->token_file;
	return cmd->run(c, a);
}

int ctl_main(int argc, char **argv)
{
	struct ctl c = {.state_dir = "./.muxd", .commands = ctl_commands};
	struct ctl_args a = {0};
	struct err e = {0};
	bool version = false;
	int next = argc, status = 0;
	int rc = args_global(argc, argv, &a, &version, &next, &e);

	c.json = a.json;
	if (rc < 0)
		status = ctl_fail(&c, &e);
	else if (version)
		status = printf("muxctl %s\n", MUXD_VERSION) < 0;
	else
		status = run_command(&c, argc - next, argv + next, &a);
	args_finish(&a);
	return status;
}
