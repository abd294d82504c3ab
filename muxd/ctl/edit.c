/* muxctl edit: a file of a sandbox in the editor of the person who asks, and back, unless somebody else was faster. */
#include "base/ids.h"
#include "base/slurp.h"
#include "base/text.h"
#include "muxd/ctl/api.h"
#include "muxd/ctl/nouns.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EDIT_MAX (1024 * 1024) /* what one call reads and writes */

static const struct ctl_option edit_options[] = {
    {"parents", 'p', NULL, "Make missing directories."},
    {"task", 0, "ID", "Task that it belongs to (default: console)."},
    {"reason", 0, "TEXT", "Reason in the grant and the record (default: muxctl edit)."},
    {NULL, 0, NULL, NULL},
};

struct editing {
	struct ctl *c;
	const struct ctl_args *a;
	char dir[64], file[PATH_MAX]; /* "": not made */
	char sha256[72];              /* "": there is no such file yet */
};

static int edit_ask(struct editing *d, const char *op, json_t *body, json_t **out, struct err *e)
{
	const char *agent = d->a->operands[0];
	struct ctl_wish w = {.kind = "staff",
			     .agent = agent,
			     .scopes = "files",
			     .task = args_get(d->a, "task"),
			     .reason = args_get_or(d->a, "reason", "muxctl edit")};
	struct api_call call = {.method = "POST", .path = "/v1/agents/*/fs/*", .names = {agent, op}, .body = body};

	return body ? api_ask(d->c, &w, &call, out, e) : err_set(e, ERR_NOMEM, "no memory for the question");
}

/* A copy of it, with its name, so that the editor knows what it is. */
static int edit_fetch(struct editing *d, FILE *to, struct err *e)
{
	json_t *o = NULL;
	int rc =
	    edit_ask(d, "read",
		     json_pack("{s:o,s:i}", "path", json_text_or_base64(d->a->operands[1]), "length", EDIT_MAX), &o, e);

	if (rc == ERR_NO_FILE)
		return 0;
	if (rc == 0 && json_is_true(json_object_get(o, "truncated")))
		rc = err_set(e, ERR_TOO_LARGE, "%.200s has more than 1 MiB: muxctl get and put move larger files",
			     d->a->operands[1]);
	if (rc == 0) {
		uint8_t *raw = NULL;
		const char *text = json_get_text(o, "data");
		size_t n = strlen(text);

		text_put(d->sha256, sizeof(d->sha256), json_get_text(o, "sha256"));
		if (strcmp(json_get_text(o, "encoding"), "base64") == 0)
			rc = base64_decode(text, n, false, &raw, &n);
		/* content: into the file that the editor opens */
		if (rc == 0 && fwrite(raw ? (char *)raw : text, 1, n, to) != n)
			rc = err_sys(e, errno, "write %.200s", d->file);
		free(raw);
	}
	json_decref(o);
	return rc;
}

static int edit_make(struct editing *d, struct err *e)
{
	const char *tmp = getenv("TMPDIR"), *path = d->a->operands[1], *slash = strrchr(path, '/');
	FILE *f = NULL;
	int rc = 0;

	text_format(d->dir, sizeof(d->dir), "%.40s/muxctl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(d->dir)) {
		rc = err_sys(e, errno, "make %s", d->dir);
		d->dir[0] = '\0';
		return rc;
	}
	snprintf(d->file, sizeof(d->file), "%s/%s", d->dir, slash && slash[1] ? slash + 1 : slash ? "file" : path);
	f = fopen(d->file, "wex");
	if (!f)
		return err_sys(e, errno, "make %.200s", d->file);
	rc = edit_fetch(d, f, e);
	if (fclose(f) && rc == 0)
		rc = err_sys(e, errno, "write %.200s", d->file);
	return rc;
}

/* $VISUAL or $EDITOR may have arguments: a shell takes them apart, as git has it. */
static int edit_run_editor(struct editing *d, struct err *e)
{
	const char *visual = getenv("VISUAL"), *editor = getenv("EDITOR");
	char line[512];
	int status = 0;
	pid_t pid;

	text_format(line, sizeof(line), "%.400s \"$1\"",
		    visual && *visual   ? visual
		    : editor && *editor ? editor
					: "vi");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return err_sys(e, errno, "fork");
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", line, "sh", d->file, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, errno, "wait for the editor");
	if (status)
		return err_set(e, ERR_CANCELLED, "the editor failed; nothing is changed in the sandbox");
	return 0;
}

static int edit_store(struct editing *d, const char *data, size_t n, json_t **out, struct err *e)
{
	json_t *body = json_pack("{s:o,s:b}", "path", json_text_or_base64(d->a->operands[1]), "parents",
				 (int)args_has(d->a, "parents"));

	if (body && json_set_bytes(body, "data", "encoding", (const uint8_t *)data, n)) {
		json_decref(body);
		body = NULL;
	}
	if (body && d->sha256[0])
		json_object_set_new(body, "if_match", json_string(d->sha256));
	else if (body)
		json_object_set_new(body, "create_only", json_true());
	return edit_ask(d, "write", body, out, e);
}

static void edit_remove(struct editing *d)
{
	if (d->file[0])
		(void)unlink(d->file);
	if (d->dir[0])
		(void)rmdir(d->dir);
}

static int edit_round_trip(struct editing *d, bool *out_kept, json_t **out, struct err *e)
{
	char *before = NULL, *after = NULL;
	size_t nbefore = 0, nafter = 0;
	int rc = edit_make(d, e);

	if (rc == 0)
		rc = slurp_file(d->file, 0, EDIT_MAX, &before, &nbefore, e);
	if (rc == 0)
		rc = edit_run_editor(d, e);
	if (rc == 0) {
		rc = slurp_file(d->file, 0, EDIT_MAX, &after, &nafter, e);
		if (rc == 0 && (nbefore != nafter || memcmp(before, after, nafter) != 0))
			rc = edit_store(d, after, nafter, out, e);
		*out_kept = rc != 0; /* a person's work is not thrown away */
	}
	slurp_free(before, nbefore);
	slurp_free(after, nafter);
	return rc;
}

static int edit_run(struct ctl *c, const struct ctl_args *a)
{
	struct editing d = {.c = c, .a = a};
	json_t *o = NULL;
	struct err e = {0};
	bool kept = false;
	int rc = target_name_check(a->operands[0], &e), status;

	if (rc == 0)
		rc = edit_round_trip(&d, &kept, &o, &e);
	if (!kept)
		edit_remove(&d);
	status = rc ? ctl_fail(c, &e) : 0;
	if (kept)
		fprintf(stderr, "muxctl: your text is in %s\n", d.file);
	if (rc == 0 && !o && !c->json)
		fprintf(stderr, "muxctl: unchanged\n");
	if (rc == 0 && o && c->json)
		status = ctl_print_json(c, o);
	json_decref(o);
	return status;
}

const struct ctl_command edit_commands[] = {
    {"edit", "AGENT PATH", 2, 2, "Edit a file of a sandbox in $VISUAL or $EDITOR.", edit_options, .run = edit_run,
     .more = "The file is written back whole, if it is what it was when it was read; else your text stays in\n"
	     "a file here, whose name is printed. At most 1 MiB. A file that is not there is made.\n",
     .any_bytes = true},
    {0},
};
