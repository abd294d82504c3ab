#include "control/local/archive.h"

#include "control/local/cmdline.h"
#include "control/local/tool.h"
#include "muxd/base/err.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 64
#define AT       "/workspace"

struct args {
	const char *v[ARGS_MAX + 1];
	size_t n;
};

static void add_all(struct args *a, const char *const *words)
{
	for (; *words && a->n < ARGS_MAX; words++)
		a->v[a->n++] = *words;
}
#define ADD(a, ...) add_all(a, (const char *const[]){__VA_ARGS__, NULL})

/* Nothing but the system's programs and the tree; no network, no other process, no right that tar does not need. */
static void add_cage(struct args *a, const struct archive_params *p, bool make)
{
	static const char *const dirs[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64"};

	ADD(a, p->bwrap, "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
	    "--ro-bind", "/usr", "/usr");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ADD(a, "--ro-bind-try", dirs[i], dirs[i]);
	ADD(a, "--proc", "/proc", "--dev", "/dev", make ? "--ro-bind" : "--bind", p->tree, AT, "--cap-drop", "ALL");
	if (!p->root)
		/* In a namespace of our own uid's we may read what its owner has closed to himself. */
		ADD(a, "--unshare-user", "--uid", make ? "0" : "1000", "--gid", make ? "0" : "1000");
	if (make)
		ADD(a, "--cap-add", "CAP_DAC_OVERRIDE");
	else if (p->root)
		ADD(a, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID");
	ADD(a, "--chdir", "/", "--");
}

/* tar tells of a full disk in words alone. */
static int failed(const char *verb, int code, const char *said, struct err *e)
{
	if (strstr(said, "No space left on device") || strstr(said, "Disk quota exceeded") ||
	    strstr(said, "Wrote only "))
		return err_set(e, ERR_DISK_FULL, "cannot %s the workspace: the disk is full", verb);
	return err_set(e, ERR_SNAPSHOT, "cannot %s the workspace: tar gave %d: %.250s", verb, code, said);
}

static int tools_find(char *tar, char *setpriv, size_t size, struct err *e)
{
	char zstd[64];
	int rc = tool_find("tar", tar, size, e);

	rc = rc ? rc : tool_find("zstd", zstd, sizeof(zstd), e);
	return rc ? rc : tool_find("setpriv", setpriv, size, e);
}

int archive_make(const struct archive_params *p, struct err *e)
{
	char tar[64], setpriv[64], said[300];
	struct args a = {0};
	int code, rc = tools_find(tar, setpriv, sizeof(tar), e);

	if (rc)
		return rc;
	add_cage(&a, p, true);
	/* Owners are not kept: all belongs to the agent, under whatever uid it has when it comes back. */
	ADD(&a, tar, "--create", "--file=-", "--directory", AT, "--format=pax", "--sparse", "--owner=0", "--group=0",
	    "--numeric-owner", "--xattrs", "--xattrs-include=user.*", "--warning=no-file-changed",
	    "--warning=no-file-removed", "--warning=no-file-ignored", "--use-compress-program=zstd -q -1 -T2", ".");
	rc = tool_run_io(a.v, &(struct tool_io){.in = -1, .out = p->file}, p->timeout_ns, &code, said, sizeof(said), e);
	/* 1: a file changed while it was read. Programs run; each file is as it was read. */
	if (rc == 0 && code > 1)
		rc = failed("pack", code, said, e);
	return rc;
}

int archive_extract(const struct archive_params *p, struct err *e)
{
	char tar[64], setpriv[64], reuid[32], regid[32], said[300];
	struct args a = {0};
	int code, rc = tools_find(tar, setpriv, sizeof(tar), e);

	if (rc)
		return rc;
	add_cage(&a, p, false);
	snprintf(reuid, sizeof(reuid), "--reuid=%u", (unsigned)p->uid);
	snprintf(regid, sizeof(regid), "--regid=%u", (unsigned)p->uid);
	if (p->root)
		ADD(&a, setpriv, reuid, regid, "--clear-groups", "--");
	ADD(&a, tar, "--extract", "--file=-", "--directory", AT, "--no-same-owner", "--same-permissions", "--xattrs",
	    "--xattrs-include=user.*", "--delay-directory-restore", "--use-compress-program=zstd -q");
	rc = tool_run_io(a.v, &(struct tool_io){.in = p->file, .out = -1}, p->timeout_ns, &code, said, sizeof(said), e);
	if (rc == 0 && code != 0)
		rc = failed("unpack", code, said, e);
	return rc;
}
