/* The workspace in a sandbox's directory: whether it is there, its removal, and what a death left half made. */
#define LOG_SUBSYS "sandbox"
#include "base/log.h"
#include "control/local/dir.h"
#include "control/local/freeze.h"
#include "control/local/host.h"
#include "control/local/image.h"
#include "control/local/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool workspace_exists(int dir)
{
	return image_exists(dir) || faccessat(dir, WORKSPACE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static uint64_t workspace_inode(int dir)
{
	struct stat st;

	if (fstatat(dir, IMAGE_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
	    fstatat(dir, WORKSPACE_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	return st.st_ino;
}

void workspace_settle(int dir, struct state *s)
{
	const struct state_restoring r = s->restoring;

	if (id_is_nil(&r.id))
		return;
	s->restoring = (struct state_restoring){0};
	if (r.inode && workspace_inode(dir) == r.inode) {
		s->restored = r.id;
		s->read_only = r.read_only;
	} else {
		s->read_only = r.was_read_only;
	}
}

int workspace_remove(int dir, struct err *e)
{
	static const char *const parts[] = {IMAGE_NEW, IMAGE_NAME, WORKSPACE_NEW, WORKSPACE_NAME};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		rc = dir_remove(dir, parts[i], e);
	return rc;
}

void local_clean(struct local *l, int dir, const char *agent, const struct state *s)
{
	char device[IMAGE_LOOP_MAX];
	int snaps;

	unlinkat(dir, IMAGE_NEW, 0);
	if (faccessat(dir, WORKSPACE_NEW, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		dir_remove(dir, WORKSPACE_NEW, NULL);
	if (snapshot_dir_open(dir, false, &snaps, NULL) != 0)
		return;
	if (snapshot_clean(snaps)) {
		log_info(&(struct log_ids){.agent = agent}, "removed a snapshot that was cut short");
		if (l->root && state_alive(s) && image_in_use(dir, device))
			freeze_lift(&s->init, device);
	}
	close(snaps);
}
