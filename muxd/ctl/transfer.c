/* muxctl put and get: a file into a sandbox, a file out of it. */
#include "base/ids.h"
#include "muxd/ctl/content.h"
#include "muxd/ctl/files.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct ctl_option put_options[] = {
    {"mode", 0, "OCTAL", "Permissions it gets; default: those of LOCAL, or of the file that is replaced."},
    {"parents", 'p', NULL, "Make missing directories."},
    {"timeout", 0, "DURATION", "Give up after this time."},
    {"task", 0, "ID", "Task that it belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl put)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_option get_options[] = {
    {"mode", 0, "OCTAL",
     "Permissions it gets, as they are; default: those of a new file, or of the one that is replaced."},
    CONTENT_RAW,
    {"timeout", 0, "DURATION", "Give up after this time."},
    {"task", 0, "ID", "Task that it belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl get)."},
    {NULL, 0, NULL, NULL},
};

static const struct ctl_column columns[] = {{"path", "path"}, {"size", "size"}, {"sha256", "sha256"}, {NULL, NULL}};

static int take_wish(const struct ctl_args *a, const char *reason, struct file_wish *w, struct err *e)
{
	int rc;

	*w = (struct file_wish){.agent = a->operands[0],
				.task = args_get(a, "task"),
				.reason = args_get_or(a, "reason", reason),
				.mode = -1,
				.size = -1,
				.parents = args_has(a, "parents")};
	rc = target_name_check(w->agent, e);
	return rc < 0 ? rc : args_duration(a, "timeout", &w->timeout_ns, e);
}

static int take_mode(const struct ctl_args *a, struct file_wish *w, struct err *e)
{
	const char *text = args_get(a, "mode");
	char *end;

	if (!text)
		return 0;
	w->mode = strtol(text, &end, 8);
	if (*end || end == text || w->mode < 0 || w->mode > 07777)
		return err_set(e, ERR_INVAL, "--mode is \"%.20s\", not permissions such as 644 or 0755", text);
	return 0;
}

static int transfer_finish(struct ctl *c, int rc, const struct err *e, json_t *o, bool quiet)
{
	if (rc < 0 || !quiet)
		return ctl_finish(c, rc, e, o, NULL, columns);
	json_decref(o);
	return 0;
}

static int open_source(const char *local, struct file_wish *w, int *out_fd, struct err *e)
{
	struct stat st;

	if (strcmp(local, "-") == 0) {
		*out_fd = STDIN_FILENO;
		return 0;
	}
	*out_fd = open(local, O_RDONLY | O_CLOEXEC);
	if (*out_fd < 0 || fstat(*out_fd, &st) < 0)
		return err_sys(e, errno, "open %s", local);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVAL, "%s is a directory", local);
	if (S_ISREG(st.st_mode)) {
		w->size = st.st_size;
		if (w->mode < 0)
			w->mode = st.st_mode & 07777;
	}
	return 0;
}

static int put_run(struct ctl *c, const struct ctl_args *a)
{
	const char *local = a->operands[1];
	struct file_wish w;
	char *path = NULL;
	json_t *o = NULL;
	struct err e = {0};
	int fd = -1, rc = take_wish(a, "muxctl put", &w, &e);

	if (rc == 0)
		rc = take_mode(a, &w, &e);
	if (rc == 0)
		rc = open_source(local, &w, &fd, &e);
	if (rc == 0 && !(w.path = path = sink_into(a->operands[2], local)))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc == 0)
		rc = files_put(c, &w, fd, &o, &e);
	if (fd > STDIN_FILENO)
		close(fd);
	free(path);
	return transfer_finish(c, rc, &e, o, false);
}

/* ---- get */

static int get_to(struct ctl *c, const struct file_wish *w, const char *local, json_t **out, struct err *e)
{
	struct sink sink;
	int rc = sink_open(local, &sink, e);

	if (rc == 0)
		rc = files_get(c, w, sink.fd, out, e);
	if (rc == 0)
		rc = sink_settle(&sink, w->mode, e);
	sink_close(&sink);
	return rc;
}

static int get_run(struct ctl *c, const struct ctl_args *a)
{
	struct file_wish w;
	char *local = NULL;
	json_t *o = NULL;
	struct err e = {0};
	int rc = take_wish(a, "muxctl get", &w, &e);

	if (rc == 0)
		rc = take_mode(a, &w, &e);
	w.path = a->operands[1];
	w.raw = args_has(a, "raw");
	if (rc == 0 && !(local = sink_into(a->operands[2], w.path)))
		rc = err_set(&e, ERR_NOMEM, "no memory");
	if (rc == 0)
		rc = get_to(c, &w, local, &o, &e);
	free(local);
	return transfer_finish(c, rc, &e, o, strcmp(a->operands[2], "-") == 0);
}

const struct ctl_command transfer_commands[] = {
    {"put", "AGENT LOCAL REMOTE", 3, 3, "Copy a file into an agent's sandbox: whole, or not at all.", put_options,
     .run = put_run,
     .more = "LOCAL - is the standard input. REMOTE is relative to /workspace unless it begins with /;\n"
	     "a trailing / names a directory. An existing file is replaced once the copy is complete.\n",
     .any_bytes = true},
    {"get", "AGENT REMOTE LOCAL", 3, 3, "Copy a file out of an agent's sandbox: whole, or not at all.", get_options,
     .run = get_run,
     .more = "LOCAL - is the standard output, which then also holds what came before a failure.\n"
	     "A trailing / names a directory.\n",
     .any_bytes = true},
    {0},
};
