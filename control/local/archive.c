#include "control/local/archive.h"

#include "base/err.h"
#include "base/text.h"
#include "control/local/cmdline.h"
#include "control/local/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ARGS_MAX 80
#define AT       "/workspace"
#define LAYOUT   "/image"
#define PROGRAM  "/muxd-archive"
#define NOBODY   65534

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

/* Nothing but the system's programs, ours, and the tree; no network, no other process, no right that is not needed. */
static void add_cage(struct args *a, const struct archive_params *p, bool make)
{
	static const char *const dirs[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64"};

	ADD(a, p->bwrap, "--die-with-parent", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
	    "--ro-bind", "/usr", "/usr");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		ADD(a, "--ro-bind-try", dirs[i], dirs[i]);
	ADD(a, "--proc", "/proc", "--dev", "/dev", "--ro-bind", p->program, PROGRAM);
	if (p->tree)
		ADD(a, make ? "--ro-bind" : "--bind", p->tree, AT);
	if (p->layout)
		ADD(a, "--ro-bind", p->layout, LAYOUT);
	ADD(a, "--cap-drop", "ALL");
	if (!p->root)
		/* In a namespace of our own uid's we may read what its owner has closed to himself. */
		ADD(a, "--unshare-user", "--uid", make ? "0" : "1000", "--gid", make ? "0" : "1000");
	if (make)
		ADD(a, "--cap-add", "CAP_DAC_OVERRIDE");
	else if (p->root)
		ADD(a, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID");
	/* The directories that bwrap itself makes are its user's. */
	ADD(a, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--");
}

/* The archiver's one line (control/archive/main.c). Words in it may come of names in a workspace. */
static int answer_read(const char *what, int code, char *said, struct archive_sum *out, struct err *e)
{
	char name[40];
	int at = 0, known;

	if (code == 0 &&
	    sscanf(said, "ok %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %64[0-9a-f]", &out->entries, &out->bytes,
		   &out->skipped, &out->changed, out->digest) == 5 &&
	    strlen(out->digest) == ARCHIVE_DIGEST_MAX - 1)
		return 0;
	known = sscanf(said, "failed %39s %n", name, &at) == 1 && at ? err_by_name(name) : 0;
	if (!known)
		return err_set(e, ERR_SNAPSHOT, "cannot %s: the archiver gave %d: %.250s", what, code, said);
	return err_set(e, known, "cannot %s: %.300s", what, said + at);
}

/* As whom it unpacks, in a cage that was told of. */
static void add_ids(struct args *a, const char *setpriv, unsigned uid, char ids[2][32])
{
	snprintf(ids[0], sizeof(ids[0]), "--reuid=%u", uid);
	snprintf(ids[1], sizeof(ids[1]), "--regid=%u", uid);
	ADD(a, setpriv, ids[0], ids[1], "--clear-groups", "--");
}

static int archive_run(const struct archive_params *p, const char *verb, int in, int out, struct archive_sum *sum,
		       struct err *e)
{
	bool make = strcmp(verb, "pack") == 0;
	char setpriv[64], ids[2][32], said[400], max[24], what[40];
	unsigned uid = p->tree ? (unsigned)p->uid : NOBODY;
	struct args a = {0};
	int code, rc = tool_find("setpriv", setpriv, sizeof(setpriv), e);

	if (rc)
		return rc;
	snprintf(max, sizeof(max), "%" PRIu64, p->max);
	text_format(what, sizeof(what), p->digest ? "unpack it" : "%.20s the workspace", verb);
	add_cage(&a, p, make);
	if (p->root && !make)
		add_ids(&a, setpriv, uid, ids);
	ADD(&a, PROGRAM, verb, p->tree ? AT : NULL);
	if (p->digest)
		ADD(&a, p->digest, max, p->layout ? LAYOUT : NULL);
	rc = tool_run_io(a.v, &(struct tool_io){.in = in, .out = out, .given_up = p->given_up}, p->timeout_ns, &code,
			 said, sizeof(said), e);
	return rc ? rc : answer_read(what, code, said, sum, e);
}

static int archive_compare(const struct archive_sum *made, const struct archive_sum *got, int code, struct err *e)
{
	if (!made->digest[0] || (strcmp(made->digest, got->digest) == 0 && made->entries == got->entries))
		return 0;
	return err_set(e, code,
		       "the archive holds %" PRIu64 " files of %" PRIu64 " bytes with the digest %.16s..., and "
		       "not the %" PRIu64 " of %" PRIu64 " with %.16s... that were packed",
		       got->entries, got->bytes, got->digest, made->entries, made->bytes, made->digest);
}

int archive_make(const struct archive_params *p, struct archive_sum *out, struct err *e)
{
	return archive_run(p, "pack", -1, p->file, out, e);
}

int archive_image(const struct archive_params *p, struct archive_sum *out, struct err *e)
{
	return archive_run(p, "image", p->file, -1, out, e);
}

int archive_check(const struct archive_params *p, const struct archive_sum *made, struct err *e)
{
	struct archive_sum got = {0};
	int rc;

	/* The disk's bytes count, not those that were given to it. */
	(void)posix_fadvise(p->file, 0, 0, POSIX_FADV_DONTNEED);
	if (lseek(p->file, 0, SEEK_SET) != 0)
		return err_sys(e, errno, "cannot read the archive");
	rc = archive_run(p, "check", p->file, -1, &got, e);
	return rc ? rc : archive_compare(made, &got, ERR_SNAPSHOT, e);
}

/* As earlier versions did, who packed with tar. What is there already is of the same archive, and is made again. */
static int tar_extract(const struct archive_params *p, struct err *e)
{
	char tar[64], zstd[64], setpriv[64], ids[2][32], said[300];
	struct args a = {0};
	int code, rc = tool_find("tar", tar, sizeof(tar), e);

	rc = rc ? rc : tool_find("zstd", zstd, sizeof(zstd), e);
	rc = rc ? rc : tool_find("setpriv", setpriv, sizeof(setpriv), e);
	if (rc)
		return rc;
	if (lseek(p->file, 0, SEEK_SET) != 0)
		return err_sys(e, errno, "cannot read the archive");
	add_cage(&a, p, false);
	if (p->root)
		add_ids(&a, setpriv, (unsigned)p->uid, ids);
	ADD(&a, tar, "--extract", "--file=-", "--directory", AT, "--no-same-owner", "--same-permissions", "--xattrs",
	    "--xattrs-include=user.*", "--delay-directory-restore", "--use-compress-program=zstd -q");
	rc = tool_run_io(a.v, &(struct tool_io){.in = p->file, .out = -1}, p->timeout_ns, &code, said, sizeof(said), e);
	if (rc || code == 0)
		return rc;
	if (strstr(said, "No space left on device") || strstr(said, "Disk quota exceeded"))
		return err_set(e, ERR_DISK_FULL, "cannot unpack the workspace: the disk is full");
	return err_set(e, ERR_SNAPSHOT, "cannot unpack the workspace: tar gave %d: %.250s", code, said);
}

int archive_extract(const struct archive_params *p, const struct archive_sum *made, struct err *e)
{
	bool old = !made || !made->digest[0];
	struct archive_sum got = {0};
	struct err why = {0};
	int rc = archive_run(p, old ? "unpack-old" : "unpack", p->file, -1, &got, &why);

	if (old && rc == ERR_UNSUPPORTED)
		return tar_extract(p, e);
	if (rc)
		return err_set(e, rc, "%s", why.message);
	return old ? 0 : archive_compare(made, &got, ERR_CORRUPT, e);
}
