/* A workspace becomes a copy of a snapshot, or goes. */
#include "base/err.h"
#include "control/local/archive.h"
#include "control/local/copy.h"
#include "control/local/dir.h"
#include "control/local/freeze.h"
#include "control/local/host.h"
#include "control/local/image.h"
#include "control/local/snapshot.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One under way. */
struct restore {
	struct local *l;
	int dir, data;
	enum snapshot_kind kind;
	struct archive_sum sum; /* what an archive must hold */
	const char *agent;
	const struct id *id;
	bool read_only;
	bool past; /* the workspace is the copy from here on: no failure is told as one that changed nothing */
	uint64_t deadline;
};

static int named(int dir, struct err *e)
{
	return fsync(dir) == 0 ? 0 : err_sys(e, errno, "cannot write the sandbox's directory");
}

/* The files in the image keep the uid of whom they were made for: the start maps it (spawn_child.c). */
static int image_copied(const struct restore *r, struct err *e)
{
	bool reflink;
	int to, rc;

	if (!r->l->loops)
		return err_set(e, ERR_UNSUPPORTED, "the snapshot is an image, and there are no loop devices here: %s",
			       r->l->loops_why);
	unlinkat(r->dir, IMAGE_NEW, 0);
	to = openat(r->dir, IMAGE_NEW, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(e, errno, "cannot make %s", IMAGE_NEW);
	rc = copy_file(r->data, to, r->deadline, &reflink, e);
	if (rc == 0 && fdatasync(to) != 0)
		rc = err_sys(e, errno, "cannot write the workspace");
	close(to);
	return rc;
}

/* The image counts as soon as it is there; a directory of before is of no use any more. */
static int image_name(struct restore *r, struct err *e)
{
	int rc;

	if (renameat(r->dir, IMAGE_NEW, r->dir, IMAGE_NAME) != 0)
		return err_sys(e, errno, "cannot name the workspace");
	r->past = true;
	rc = named(r->dir, e);
	if (rc == 0 && dir_remove(r->dir, WORKSPACE_NAME, NULL) != 0)
		log_warn(&(struct log_ids){.agent = r->agent}, "the workspace of before could not be removed");
	return rc;
}

static int tree_make(const struct restore *r, uid_t uid, struct err *e)
{
	int fd, rc = dir_remove(r->dir, WORKSPACE_NEW, e);

	if (rc)
		return rc;
	if (mkdirat(r->dir, WORKSPACE_NEW, 0700) != 0)
		return err_sys(e, errno, "cannot make %s", WORKSPACE_NEW);
	fd = openat(r->dir, WORKSPACE_NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (r->l->root && fchown(fd, uid, uid) != 0))
		rc = err_sys(e, errno, "cannot give the workspace to the sandbox's uid");
	if (fd >= 0)
		close(fd);
	return rc;
}

static int tree_extract(const struct restore *r, uid_t uid, struct err *e)
{
	char path[4096];
	uint64_t now = clock_boot_ns();
	struct archive_params p = {.bwrap = r->l->bwrap,
				   .program = r->l->archiver,
				   .tree = path,
				   .file = r->data,
				   .root = r->l->root,
				   .uid = uid,
				   .timeout_ns = r->deadline > now ? r->deadline - now : 0};

	if ((size_t)snprintf(path, sizeof(path), "%s/sandboxes/%s/" WORKSPACE_NEW, r->l->state_dir, r->agent) >=
	    sizeof(path))
		return err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	return archive_extract(&p, &r->sum, e);
}

static int tree_whole(const struct restore *r, uid_t uid, struct err *e)
{
	int fd, rc = tree_make(r, uid, e);

	rc = rc ? rc : tree_extract(r, uid, e);
	if (rc)
		return rc;
	fd = openat(r->dir, WORKSPACE_NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	rc = fd < 0 || syncfs(fd) != 0 ? err_sys(e, errno, "cannot write the workspace") : 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Both names at once where there are two; then the image of before, if there was one, goes last: it counts as long as
 * it is there. */
static int tree_name(struct restore *r, struct err *e)
{
	bool image = image_exists(r->dir);
	int rc;

	if (renameat2(r->dir, WORKSPACE_NEW, r->dir, WORKSPACE_NAME, RENAME_EXCHANGE) != 0 &&
	    (errno != ENOENT || renameat(r->dir, WORKSPACE_NEW, r->dir, WORKSPACE_NAME) != 0))
		return err_sys(e, errno, "cannot name the workspace");
	r->past = !image;
	if (unlinkat(r->dir, IMAGE_NAME, 0) != 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot remove the workspace of before");
	r->past = true;
	rc = named(r->dir, e);
	if (rc == 0 && dir_remove(r->dir, WORKSPACE_NEW, NULL) != 0)
		log_warn(&(struct log_ids){.agent = r->agent}, "the workspace of before could not be removed");
	return rc;
}

/* Once this is written, a death or a failure leaves one of two workspaces, and workspace_settle() tells which. */
static int restore_intend(const struct restore *r, struct state *s, struct err *e)
{
	struct stat st;

	if (fstatat(r->dir, r->kind == SNAPSHOT_IMAGE ? IMAGE_NEW : WORKSPACE_NEW, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_sys(e, errno, "cannot find the workspace that was made");
	s->restoring = (struct state_restoring){
	    .id = *r->id, .inode = st.st_ino, .read_only = r->read_only, .was_read_only = s->read_only};
	s->restored = (struct id){0};
	s->uid = slot_uid(r->l, s->slot);
	return state_save(r->dir, s, e);
}

/*
 * read_only holds from before the workspace changes until after it has: what is there is the old one as it was, or the
 * new one as it is to be.
 */
static int restore_copy(struct restore *r, struct state *s, struct err *e)
{
	bool image = r->kind == SNAPSHOT_IMAGE;
	int rc = image ? image_copied(r, e) : tree_whole(r, slot_uid(r->l, s->slot), e);

	rc = rc ? rc : restore_intend(r, s, e);
	if (rc) {
		dir_remove(r->dir, image ? IMAGE_NEW : WORKSPACE_NEW, NULL);
		return rc;
	}
	rc = image ? image_name(r, e) : tree_name(r, e);
	if (rc)
		return rc;
	workspace_settle(r->dir, s);
	return state_save(r->dir, s, e);
}

static bool is_restored(const struct restore *r, const struct state *s)
{
	return id_equal(&s->restored, r->id) && s->read_only == r->read_only && workspace_exists(r->dir) &&
	       (s->state == SANDBOX_STOPPED || state_alive(s));
}

/* An earlier try may have been done, and not noted. */
static int restore_settle(struct restore *r, struct state *s, struct err *e)
{
	if (id_is_nil(&s->restoring.id))
		return 0;
	workspace_settle(r->dir, s);
	r->past = id_equal(&s->restored, r->id);
	return state_save(r->dir, s, e);
}

/* source: how the snapshot could be opened. What was restored needs none. */
static int restore_locked(struct restore *r, const struct err *source, struct sandbox_info *out, struct err *e)
{
	struct state s;
	int rc = local_state_get(r->l, r->dir, r->agent, &s, e);

	if (rc)
		return rc;
	rc = restore_settle(r, &s, e);
	if (rc == 0 && !is_restored(r, &s)) {
		r->past = false;
		if (source->code)
			rc = err_again(e, source->code, source, NULL);
		else if (state_alive(&s))
			rc = err_set(e, ERR_BAD_STATE,
				     "sandbox %s runs: its workspace can be restored when it is stopped", r->agent);
		rc = rc ? rc : end_sandbox(r->l, r->dir, r->agent, &s, e);
		rc = rc ? rc : restore_copy(r, &s, e);
	}
	if (rc == 0)
		local_info(&s, r->dir, r->agent, out);
	state_finish(&s);
	return rc;
}

/* The snapshot's data, held open: whoever drops it meanwhile does not hurt us. */
static int source_open(struct restore *r, const char *from, struct err *e)
{
	struct sandbox_snapshot s;
	int dir, snaps, rc = local_check_agent(from, e);

	rc = rc ? rc : dir_open(r->l->base, from, &dir, e);
	if (rc)
		return rc;
	rc = snapshot_dir_open(dir, false, &snaps, NULL);
	close(dir);
	if (rc)
		return err_set(e, rc, "agent %s has no snapshots", from);
	rc = snapshot_load(snaps, from, r->id, &s, e);
	rc = rc ? rc : snapshot_sum(snaps, r->id, &r->sum, e);
	rc = rc ? rc : snapshot_open(snaps, r->id, &r->kind, &r->data, e);
	close(snaps);
	return rc;
}

/* Past the rename nobody may take the old workspace for the one that is there: it is looked at again. */
static int restore_failed(const struct restore *r, int rc, const struct err *why, struct err *e)
{
	if (r->past)
		return err_set(e, ERR_CANCELLED,
			       "workspace of %s: it is the snapshot's, which is not noted yet: %.300s", r->agent,
			       why->message);
	if (rc == ERR_SYS || rc == ERR_INTERNAL || rc == ERR_PERMISSION)
		rc = ERR_SNAPSHOT;
	return err_set(e, rc, "workspace of %s: %.330s", r->agent, why->message);
}

/* Without a workspace, a snapshot or a start: nobody had it before this call. */
static void forget_new(const struct restore *r)
{
	struct state s;

	if (state_load(r->dir, &s, NULL) != 0)
		return;
	local_wipe(r->l, r->dir, r->agent, s.slot, NULL);
	state_finish(&s);
}

int local_restore(struct local *l, const char *agent, const char *from, const struct id *id, bool read_only,
		  uint64_t timeout_ns, struct sandbox_info *out, struct err *e)
{
	struct restore r = {.l = l, .agent = agent, .id = id, .read_only = read_only, .data = -1};
	struct err why = {0}, source = {0};
	bool fresh = false;
	int rc = local_check_agent(agent, e);

	if (rc)
		return rc;
	if ((rc = source_open(&r, from, &source)))
		source.code = rc;
	rc = dir_open_locked(l->base, agent, !source.code, &r.dir, e);
	if (rc) {
		rc = source.code ? err_again(e, source.code, &source, NULL) : rc;
		goto out;
	}
	fresh = faccessat(r.dir, STATE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
	r.deadline = clock_boot_ns() + timeout_ns;
	rc =
	    fresh && source.code ? err_again(&why, source.code, &source, NULL) : restore_locked(&r, &source, out, &why);
	if (rc && fresh && !r.past)
		forget_new(&r);
	dir_close(r.dir);
	if (rc)
		rc = source.code && !r.past ? err_again(e, rc, &why, NULL) : restore_failed(&r, rc, &why, e);
out:
	if (r.data >= 0)
		close(r.data);
	return rc;
}

static int drop_locked(struct local *l, int dir, const char *agent, struct sandbox_info *out, struct err *e)
{
	struct state s;
	int rc = local_state_get(l, dir, agent, &s, e);

	if (rc)
		return rc;
	if (state_alive(&s))
		rc = err_set(e, ERR_BAD_STATE, "sandbox %s runs: its workspace can go when it is stopped", agent);
	rc = rc ? rc : end_sandbox(l, dir, agent, &s, e);
	if (rc == 0) { /* first: half of it is not that snapshot any more */
		s.restored = (struct id){0};
		rc = state_save(dir, &s, e);
	}
	rc = rc ? rc : workspace_remove(dir, e);
	if (rc == 0) {
		s.read_only = false;
		rc = state_save(dir, &s, e);
	}
	if (rc == 0)
		local_info(&s, dir, agent, out);
	state_finish(&s);
	return rc;
}

int local_drop_workspace(struct local *l, const char *agent, struct sandbox_info *out, struct err *e)
{
	int dir, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open_locked(l->base, agent, false, &dir, e);
	if (rc == ERR_NOT_FOUND)
		return local_stat(l, agent, out, e);
	if (rc)
		return rc;
	rc = drop_locked(l, dir, agent, out, e);
	dir_close(dir);
	return rc;
}
