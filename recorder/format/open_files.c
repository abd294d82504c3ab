#define LOG_SUBSYS "recorder"
#include "recorder/format/open_files.h"

#include "base/err.h"
#include "base/log.h"
#include "recorder/chain/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST  1024
#define LEAST 8

void open_files_init(struct open_files *fs, unsigned max)
{
	TAILQ_INIT(&fs->list);
	fs->n = 0;
	fs->max = max ? max : 1;
}

unsigned open_files_most(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur / 2 > MOST)
		return MOST;
	return r.rlim_cur / 2 < LEAST ? LEAST : (unsigned)(r.rlim_cur / 2);
}

void open_file_init(struct open_file *f)
{
	*f = (struct open_file){.fd = -1};
}

void open_file_close(struct open_files *fs, struct open_file *f)
{
	if (f->fd < 0)
		return;
	close(f->fd);
	f->fd = -1;
	if (!fs)
		return;
	TAILQ_REMOVE(&fs->list, f, entry);
	fs->n--;
}

/* The kernel would forget an error of a file that nobody has open: so it is synced first, and its owner hears of it. */
static bool open_files_make_room(struct open_files *fs)
{
	struct open_file *f = fs ? TAILQ_LAST(&fs->list, open_file_list) : NULL;
	struct err e = {0};

	if (!f)
		return false;
	if (f->unsynced && (f->failed = file_sync(f->fd, f->path, &e)) != 0)
		log_error(NULL, "%s", e.message);
	f->unsynced = false;
	open_file_close(fs, f);
	return true;
}

static int open_now(struct open_files *fs, struct open_file *f, int flags, struct err *e)
{
	uint64_t size;
	int rc;

	do
		f->fd = open(f->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
	while (f->fd < 0 && (errno == EMFILE || errno == ENFILE) && open_files_make_room(fs));
	if (f->fd < 0)
		return err_sys(e, errno, "cannot open the recording %s", f->path);
	if ((rc = file_size(f->fd, f->path, &size, e)) != 0) {
		close(f->fd);
		f->fd = -1;
		return rc;
	}
	if (fs) {
		TAILQ_INSERT_HEAD(&fs->list, f, entry);
		fs->n++;
	}
	return 0;
}

int open_file_use(struct open_files *fs, struct open_file *f, const char *path, int flags, struct err *e)
{
	f->path = path;
	if (f->failed)
		return err_set(e, f->failed, "the recording %s could not be synced when it was closed", path);
	if (f->fd < 0) {
		while (fs && fs->n >= fs->max)
			(void)open_files_make_room(fs);
		return open_now(fs, f, flags, e);
	}
	if (fs && TAILQ_FIRST(&fs->list) != f) {
		TAILQ_REMOVE(&fs->list, f, entry);
		TAILQ_INSERT_HEAD(&fs->list, f, entry);
	}
	return 0;
}

int open_file_sync(struct open_files *fs, struct open_file *f, struct err *e)
{
	int rc;

	if (!f->unsynced && !f->failed)
		return 0;
	rc = open_file_use(fs, f, f->path, 0, e);
	if (!rc)
		rc = file_sync(f->fd, f->path, e);
	f->unsynced = f->unsynced && rc;
	return rc;
}
