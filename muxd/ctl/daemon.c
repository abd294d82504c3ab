/* muxctl status, shutdown, key rotate and config reload: asked of the monitor on admin.sock. */
#include "muxd/ctl/nouns.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define END_WAIT_MS (60 * 1000)

static const struct ctl_option shutdown_options[] = {
    {"sandboxes", 0, NULL, "End the sandboxes too; without it they live on and are found again."},
    {"no-wait", 0, NULL, "Do not wait until the daemon has ended."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option rotate_options[] = {
    {"drop-old", 0, NULL, "Tokens signed with earlier keys stop working at once."},
    {"record", 0, NULL, "The key that signs the record: the old one names the new one in the log."},
    {NULL, 0, NULL, NULL},
};

static int status_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *answer = NULL;
	struct err e = {0};
	int rc = ctl_admin_ask(c, json_pack("{s:s}", "op", "status"), &answer, &e);

	(void)a;
	return ctl_finish(c, rc, &e, answer, NULL, NULL);
}

/* The monitor's process as a descriptor, so that its number cannot mean another one later. -1: not known. */
static int monitor_descriptor(struct ctl *c)
{
	char path[4096];
	struct err e;
	json_error_t fault;
	int fd = -1;

	if (ctl_path(c, "ready.json", path, sizeof(path), &e) < 0)
		return -1;
	json_t *ready = json_load_file(path, 0, &fault);
	json_int_t pid = json_integer_value(json_object_get(json_object_get(ready, "pids"), "monitor"));
	if (pid > 1 && pid < INT32_MAX)
		fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	json_decref(ready);
	return fd;
}

static int wait_end(int pidfd, struct err *e)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, END_WAIT_MS);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(e, ERR_TIMEOUT, "the daemon is still ending after %d s", END_WAIT_MS / 1000);
	return n < 0 ? err_sys(e, errno, "wait for the daemon's end") : 0;
}

static int shutdown_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};
	json_t *answer = NULL;
	int pidfd = args_has(a, "no-wait") ? -1 : monitor_descriptor(c);
	int rc = ctl_admin_ask(c, json_pack("{s:s,s:b}", "op", "shutdown", "sandboxes", (int)args_has(a, "sandboxes")),
			       &answer, &e);

	if (rc == 0 && pidfd >= 0)
		rc = wait_end(pidfd, &e);
	if (pidfd >= 0)
		close(pidfd);
	return ctl_finish_quietly(c, rc, &e, answer);
}

static int rotate_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};
	json_t *answer = NULL;
	int rc = ctl_admin_ask(c,
			       json_pack("{s:s,s:b,s:b}", "op", "key.rotate", "drop_old", (int)args_has(a, "drop-old"),
					 "record", (int)args_has(a, "record")),
			       &answer, &e);

	return ctl_finish(c, rc, &e, answer, NULL, NULL);
}

static int reload_run(struct ctl *c, const struct ctl_args *a)
{
	struct err e = {0};
	json_t *answer = NULL;
	int rc = ctl_admin_ask(c, json_pack("{s:s}", "op", "config.reload"), &answer, &e);

	(void)a;
	return ctl_finish_quietly(c, rc, &e, answer);
}

const struct ctl_command daemon_commands[] = {
    {"status", "", 0, 0, "Show daemon status.", .run = status_run},
    {"shutdown", "", 0, 0, "Stop the daemon; sandboxes keep running unless --sandboxes.", shutdown_options,
     .run = shutdown_run},
    {"key rotate", "", 0, 0, "Replace the key that signs grants, or the record.", rotate_options, .run = rotate_run},
    {"config reload", "", 0, 0, "Reload the configuration; the audit log tells who asked and what changed.",
     .run = reload_run},
    {0},
};
