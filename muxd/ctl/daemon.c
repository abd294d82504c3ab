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

static int daemon_ask(struct ctl *c, json_t *question, json_t **out)
{
	struct err e = {0};
	int rc = ctl_admin_ask(c, question, out, &e);

	json_decref(question);
	return rc < 0 ? ctl_fail(c, &e) : 0;
}

static int status_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *answer = NULL;
	int status = daemon_ask(c, json_pack("{s:s}", "op", "status"), &answer);

	(void)a;
	if (status)
		return status;
	status = c->json ? ctl_print_json(c, answer) : ctl_print_object(c, answer, NULL);
	json_decref(answer);
	return status;
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
	int status = daemon_ask(c, json_pack("{s:s,s:b}", "op", "shutdown", "sandboxes", (int)args_has(a, "sandboxes")),
				&answer);

	if (status == 0 && pidfd >= 0 && wait_end(pidfd, &e) < 0)
		status = ctl_fail(c, &e);
	if (pidfd >= 0)
		close(pidfd);
	if (status == 0 && c->json)
		status = ctl_print_json(c, answer);
	json_decref(answer);
	return status;
}

static int rotate_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *answer = NULL;
	int status = daemon_ask(c,
				json_pack("{s:s,s:b,s:b}", "op", "key.rotate", "drop_old", (int)args_has(a, "drop-old"),
					  "record", (int)args_has(a, "record")),
				&answer);

	if (status)
		return status;
	status = c->json ? ctl_print_json(c, answer) : ctl_print_object(c, answer, NULL);
	json_decref(answer);
	return status;
}

static int reload_run(struct ctl *c, const struct ctl_args *a)
{
	json_t *answer = NULL;
	int status = daemon_ask(c, json_pack("{s:s}", "op", "config.reload"), &answer);

	(void)a;
	if (status == 0 && c->json)
		status = ctl_print_json(c, answer);
	json_decref(answer);
	return status;
}

const struct ctl_command config_reload_command = {
    .name = "config reload",
    .operands = "",
    .help = "Read the configuration again; the audit log says who asked and what changed.",
    .run = reload_run,
};

const struct ctl_command status_command = {
    .name = "status",
    .operands = "",
    .help = "How the daemon is.",
    .run = status_run,
};

const struct ctl_command shutdown_command = {
    .name = "shutdown",
    .operands = "",
    .help = "End the daemon; sandboxes live on unless --sandboxes.",
    .options = shutdown_options,
    .run = shutdown_run,
};

const struct ctl_command key_rotate_command = {
    .name = "key rotate",
    .operands = "",
    .help = "Sign grants, or the record, with a new key from now on.",
    .options = rotate_options,
    .run = rotate_run,
};
