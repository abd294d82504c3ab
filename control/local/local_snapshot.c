/* Taking, listing and dropping snapshots: local.h's calls, on snapshot.h. */
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
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FREE_NS (5 * NS_PER_SEC)

/* One under way. */
struct take {
	struct local *l;
	int dir, snaps, file;
	const char *agent;
	const struct id *id;
	uint64_t deadline;
	const char *how;
	struct archive_sum sum;      /* of an archive, proven */
	struct found init;           /* of the sandbox that has the image mounted, */
	char device[IMAGE_LOOP_MAX]; /* behind this; "": none has */
};

/* The image stands still: frozen where it is mounted, else because nobody has it. */
static int image_still(struct take *t, struct freeze *f, struct err *e)
{
	struct err why = {0};
	struct state s;
	bool alive;
	int rc = state_load(t->dir, &s, e);

	if (rc)
		return rc;
	alive = state_alive(&s) && image_in_use(t->dir, t->device);
	t->init = s.init;
	rc = alive ? freeze_begin(&t->init, t->device, t->deadline, f, &why) : ERR_NOT_FOUND;
	state_finish(&s);
	if (rc == ERR_NOT_FOUND) /* it does not run, or ended just now */
		return image_wait_free(t->dir, clock_boot_ns() + FREE_NS, e);
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

static int take_image(struct take *t, struct err *e)
{
	struct freeze f = {.fd = -1};
	struct err thaw = {0};
	bool reflink = false;
	int from = openat(t->dir, IMAGE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int rc, end;

	if (from < 0)
		return err_sys(e, errno, "cannot open %s", IMAGE_NAME);
	rc = image_still(t, &f, e);
	rc = rc ? rc : copy_file(from, t->file, t->deadline, &reflink, e);
	end = freeze_end(&f, &thaw);
	/* The holder of the freeze may have been killed. The file that is removed next would tell the next start of it.
	 */
	if ((rc || end) && t->device[0])
		freeze_lift(&t->init, t->device);
	close(from);
	if (rc == 0 && end)
		rc = err_set(e, end, "%s", thaw.message);
	t->how = reflink ? "reflink" : "copy";
	return rc;
}

/* The archive is read back, as it will be when the workspace is gone. */
static int prove(struct take *t, struct archive_params *p, struct err *e)
{
	struct err why = {0};
	uint64_t now = clock_boot_ns();
	int rc;

	p->tree = NULL;
	p->timeout_ns = t->deadline > now ? t->deadline - now : 0;
	rc = archive_check(p, &t->sum, &why);
	if (rc)
		return err_set(e, rc == ERR_TIMEOUT || rc == ERR_MISSING ? rc : ERR_SNAPSHOT,
			       "the archive cannot be read back: %.300s", why.message);
	return 0;
}

static int take_tree(struct take *t, struct err *e)
{
	char path[4096];
	uint64_t now = clock_boot_ns();
	int rc;
	struct archive_params p = {.bwrap = t->l->bwrap,
				   .program = t->l->archiver,
				   .tree = path,
				   .file = t->file,
				   .root = t->l->root,
				   .timeout_ns = t->deadline > now ? t->deadline - now : 0};

	if ((size_t)snprintf(path, sizeof(path), "%s/sandboxes/%s/" WORKSPACE_NAME, t->l->state_dir, t->agent) >=
	    sizeof(path))
		return err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	t->how = "tar+zstd";
	rc = archive_make(&p, &t->sum, e);
	if (rc == 0 && fdatasync(t->file) != 0)
		rc = err_sys(e, errno, "cannot write the snapshot");
	rc = rc ? rc : prove(t, &p, e);
	if (rc == 0 && (t->sum.skipped || t->sum.changed))
		log_info(&(struct log_ids){.agent = t->agent},
			 "its snapshot lacks %llu sockets and devices; %llu files changed while they were read",
			 (unsigned long long)t->sum.skipped, (unsigned long long)t->sum.changed);
	return rc;
}

/* What the caller can act on keeps its name; all else is the backend's failure. */
static int snapshot_failed(int rc, const char *agent, const struct err *why, struct err *e)
{
	switch (rc) {
	case ERR_NOT_FOUND:
	case ERR_UNSUPPORTED:
	case ERR_TIMEOUT:
	case ERR_DISK_FULL:
	case ERR_MISSING:
	case ERR_NOMEM:
		break;
	default:
		rc = ERR_SNAPSHOT;
	}
	return err_set(e, rc, "snapshot of %s: %.330s", agent, why->message);
}

static int take_new(struct take *t, struct sandbox_snapshot *out, struct err *e)
{
	bool image = image_exists(t->dir);
	int rc;

	if (!workspace_exists(t->dir))
		return err_set(e, ERR_NOT_FOUND, "there is no workspace");
	snapshot_clean(t->snaps);
	rc = snapshot_begin(t->snaps, t->id, &t->file, e);
	if (rc)
		return rc;
	rc = image ? take_image(t, e) : take_tree(t, e);
	if (rc == 0)
		rc = snapshot_commit(t->snaps, t->file, image ? SNAPSHOT_IMAGE : SNAPSHOT_TREE, t->how,
				     image ? NULL : &t->sum, t->agent, t->id, out, e);
	else
		snapshot_abort(t->snaps, t->id);
	close(t->file);
	return rc;
}

static int take_locked(struct take *t, struct sandbox_snapshot *out, struct err *e)
{
	struct err why = {0};
	int rc = snapshot_dir_open(t->dir, true, &t->snaps, &why);

	if (rc == 0) {
		rc = snapshot_load(t->snaps, t->agent, t->id, out, &why);
		if (rc == ERR_NOT_FOUND)
			rc = take_new(t, out, &why);
		close(t->snaps);
	}
	return rc ? snapshot_failed(rc, t->agent, &why, e) : 0;
}

int local_snapshot_take(struct local *l, const char *agent, const struct id *id, uint64_t timeout_ns,
			struct sandbox_snapshot *out, struct err *e)
{
	struct take t = {.l = l, .agent = agent, .id = id, .file = -1};
	int rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open_locked(l->base, agent, false, &t.dir, e);
	if (rc)
		return rc;
	t.deadline = clock_boot_ns() + timeout_ns;
	rc = take_locked(&t, out, e);
	dir_close(t.dir);
	return rc;
}

int local_snapshot_hash(struct local *l, const char *agent, const struct id *id, const atomic_bool *stop,
			struct sandbox_snapshot *out, struct err *e)
{
	struct sandbox_snapshot s;
	enum snapshot_kind kind;
	int dir, snaps, fd, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open(l->base, agent, &dir, e);
	if (rc)
		return rc;
	rc = snapshot_dir_open(dir, false, &snaps, e);
	close(dir);
	if (rc)
		return rc;
	rc = snapshot_load(snaps, agent, id, &s, e);
	rc = rc ? rc : snapshot_open(snaps, id, &kind, &fd, e);
	close(snaps);
	if (rc)
		return rc;
	rc = snapshot_hash(fd, stop, &s, e);
	close(fd);
	if (rc == 0)
		*out = s;
	return rc;
}

int local_snapshot_drop(struct local *l, const char *agent, const struct id *id, struct err *e)
{
	int dir, snaps, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open_locked(l->base, agent, false, &dir, e);
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	rc = snapshot_dir_open(dir, false, &snaps, e);
	if (rc == 0) {
		rc = snapshot_drop(snaps, id, e);
		close(snaps);
	}
	if (rc == 0 && local_is_wiped(dir) && snapshot_dir_drop(dir))
		rc = dir_remove(l->base, agent, e);
	dir_close(dir);
	return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* ---- lists */

struct page {
	struct sandbox_snapshot *list;
	size_t n, max;
	bool more;
	char after[AGENT_NAME_MAX + 1];
	bool after_id_set;
	struct id after_id;
};

static int page_begin(struct page *p, const char *after, struct err *e)
{
	const char *slash = after ? strchr(after, '/') : NULL;

	if (!after)
		return 0;
	if (!slash || (size_t)(slash - after) >= sizeof(p->after) || id_parse(slash + 1, &p->after_id))
		return err_set(e, ERR_INVAL, "after is not a snapshot's place in a list");
	memcpy(p->after, after, (size_t)(slash - after));
	p->after_id_set = true;
	return 0;
}

/* A damaged description is told as a snapshot that is not ready, so that somebody hears of it. */
static void page_add(struct page *p, int snaps, const char *agent, const struct id *id)
{
	struct sandbox_snapshot *s = &p->list[p->n];
	struct err why = {0};
	int rc = snapshot_load(snaps, agent, id, s, &why);

	if (rc == ERR_NOT_FOUND) /* dropped meanwhile */
		return;
	if (rc) {
		*s = (struct sandbox_snapshot){.id = *id};
		text_put(s->agent, sizeof(s->agent), agent);
		text_format(s->detail, sizeof(s->detail), "%.250s", why.message);
	}
	p->n++;
}

static int page_add_agent(struct local *l, struct page *p, const char *agent, struct err *e)
{
	bool within = p->after_id_set && strcmp(agent, p->after) == 0;
	struct id *ids = NULL;
	size_t n = 0;
	int snaps, dir, rc;

	if (p->more || (p->after_id_set && strcmp(agent, p->after) < 0))
		return 0;
	if (dir_open(l->base, agent, &dir, NULL) != 0)
		return 0;
	rc = snapshot_dir_open(dir, false, &snaps, e);
	close(dir);
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	rc = snapshot_ids(snaps, &ids, &n, e);
	for (size_t i = 0; rc == 0 && i < n && !p->more; i++) {
		if (within && memcmp(&ids[i], &p->after_id, sizeof(ids[i])) <= 0)
			continue;
		if (p->n == p->max)
			p->more = true;
		else
			page_add(p, snaps, agent, &ids[i]);
	}
	free(ids);
	close(snaps);
	return rc;
}

static int page_add_all(struct local *l, struct page *p, struct err *e)
{
	char **names;
	size_t n;
	int rc = dir_names(l->base, &names, &n, e);

	if (rc)
		return rc;
	for (size_t i = 0; rc == 0 && i < n && !p->more; i++)
		if (agent_name_check(names[i], NULL) == 0)
			rc = page_add_agent(l, p, names[i], e);
	dir_names_free(names);
	return rc;
}

int local_snapshot_list(struct local *l, const char *agent, const char *after, size_t max,
			struct sandbox_snapshot **out, size_t *out_n, bool *out_more, struct err *e)
{
	struct page p = {.max = max};
	int rc = agent ? local_check_agent(agent, e) : 0;

	rc = rc ? rc : page_begin(&p, after, e);
	if (rc)
		return rc;
	p.list = calloc(max ? max : 1, sizeof(*p.list));
	if (!p.list)
		return err_set(e, ERR_NOMEM, "no memory for a list of snapshots");
	rc = agent ? page_add_agent(l, &p, agent, e) : page_add_all(l, &p, e);
	if (rc) {
		free(p.list);
		return rc;
	}
	*out = p.list;
	*out_n = p.n;
	*out_more = p.more;
	return 0;
}
