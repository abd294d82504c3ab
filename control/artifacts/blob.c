/* The files: their directory, what no row names, and what rows have let go of. */
#define LOG_SUBSYS "artifact"
#include "base/log.h"
#include "control/artifacts/artifact_state.h"
#include "control/store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int blob_dir_open(const char *path, int *out_fd, struct err *e)
{
	int fd;

	if (mkdir(path, 0700) && errno != EEXIST)
		return err_sys(e, errno, "make %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	*out_fd = fd;
	return 0;
}

/* ---- at the start */

struct sweeping {
	DIR *dir;
	int fd;
	bool none_named; /* control.db names no file at all */
	size_t removed, left;
};

static bool is_part(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".part") == 0;
}

static int sweep_in_db(struct sqlite3 *db, void *arg, struct err *e)
{
	struct sweeping *s = arg;
	struct dirent *d;
	struct artifacts_numbers all = {0};
	bool named;
	int rc = row_all(db, &all, e);

	s->none_named = !all.count;
	while (!rc && (errno = 0, d = readdir(s->dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		rc = row_names_file(db, d->d_name, &named, e);
		if (rc || named)
			continue;
		if (s->none_named && !is_part(d->d_name)) {
			s->left++;
			continue;
		}
		if (unlinkat(s->fd, d->d_name, 0))
			log_warn(NULL, "a file that no artifact has stays: %s: %s", d->d_name, strerror(errno));
		else
			s->removed++;
	}
	return rc;
}

int blobs_sweep(struct artifacts *a, struct err *e)
{
	struct sweeping s = {.fd = a->dir_fd};
	int fd = openat(a->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;

	s.dir = fd < 0 ? NULL : fdopendir(fd);
	if (!s.dir) {
		rc = err_sys(e, errno, "read the directory of artifacts");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = store_read(a->store, sweep_in_db, &s, e);
	closedir(s.dir);
	if (s.left) /* rather control.db was put aside than all of them deleted at once in a crash */
		log_warn(NULL, "%zu files of artifacts stay, though control.db has none: restore it, or remove them",
			 s.left);
	if (s.removed)
		log_info(NULL, "files that no artifact has: %zu removed", s.removed);
	return rc;
}

/* ---- rows that went */

struct removing {
	uv_work_t work;
	int dir_fd; /* of its own: it may outlive the rest */
	struct blob_names gone;
};

static void blob_on_work(uv_work_t *w)
{
	struct removing *r = w->data;

	for (size_t i = 0; i < r->gone.n; i++)
		if (unlinkat(r->dir_fd, r->gone.names[i], 0) && errno != ENOENT)
			log_warn(NULL, "an artifact's file stays until the next start: %s: %s", r->gone.names[i],
				 strerror(errno));
}

static void blob_on_worked(uv_work_t *w, int status)
{
	struct removing *r = w->data;

	(void)status;
	close(r->dir_fd);
	free(r->gone.names);
	free(r);
}

void blobs_remove(struct artifacts *a, struct blob_names *gone)
{
	struct removing *r = gone->n && !a->stopped ? calloc(1, sizeof(*r)) : NULL;

	if (r && (r->dir_fd = fcntl(a->dir_fd, F_DUPFD_CLOEXEC, 0)) < 0) {
		free(r);
		r = NULL;
	}
	if (!r) { /* the next start sweeps */
		free(gone->names);
		*gone = (struct blob_names){0};
		return;
	}
	r->work.data = r;
	r->gone = *gone;
	*gone = (struct blob_names){0};
	if (uv_queue_work(a->loop, &r->work, blob_on_work, blob_on_worked))
		blob_on_worked(&r->work, 0);
}
