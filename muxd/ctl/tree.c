#include "muxd/ctl/tree.h"

#include "base/err.h"
#include "base/slurp.h"
#include "base/text.h"
#include "muxd/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

/* ---- into an archive */

struct packing {
	int fd;
	size_t root; /* bytes of a path before what stands in the archive */
	struct tar_entry entry;
};

static const uint8_t tree_zeros[2 * TAR_BLOCK];

static void leave_out(const char *path, const char *why)
{
	char *clean = ctl_clean(path);

	fprintf(stderr, "muxctl: left out: %s: %s\n", clean ? clean : "", why);
	free(clean);
}

static int tree_put_bytes(struct packing *k, const void *p, size_t n, struct err *e)
{
	return spill_fd(k->fd, p, n) < 0 ? err_sys(e, errno, "write the archive") : 0;
}

static int tree_put_head(struct packing *k, struct err *e)
{
	uint8_t head[TAR_HEAD_MAX];

	return tree_put_bytes(k, head, tar_write(&k->entry, head), e);
}

/* As long as it was when it was opened. */
static int pack_content(struct packing *k, int fd, const char *path, struct err *e)
{
	uint8_t chunk[CHUNK];
	uint64_t left = k->entry.size;
	int rc = 0;

	while (rc == 0 && left) {
		ssize_t n = read(fd, chunk, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? err_sys(e, errno, "read %s", path)
				 : err_set(e, ERR_EOF, "%s became shorter meanwhile", path);
		left -= (uint64_t)n;
		rc = tree_put_bytes(k, chunk, (size_t)n, e);
	}
	return rc ? rc : tree_put_bytes(k, tree_zeros, TAR_PAD(k->entry.size), e);
}

static int pack_file(struct packing *k, const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		rc = err_sys(e, errno, "open %s", path);
	if (rc == 0) {
		k->entry.size = (uint64_t)st.st_size;
		rc = tree_put_head(k, e);
	}
	if (rc == 0)
		rc = pack_content(k, fd, path, e);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int pack_link(struct packing *k, const char *path, struct err *e)
{
	ssize_t n = readlink(path, k->entry.target, sizeof(k->entry.target) - 1);
	struct tar_entry checked;
	const char *why;

	if (n < 0)
		return err_sys(e, errno, "read the link %s", path);
	k->entry.target[n] = '\0';
	checked = k->entry;
	why = tar_check(&checked);
	if (!why)
		return tree_put_head(k, e);
	leave_out(path, why);
	return 0;
}

static int pack_one(struct packing *k, const FTSENT *f, struct err *e)
{
	const char *below = f->fts_path + k->root;
	bool dir = f->fts_info == FTS_D;

	k->entry = (struct tar_entry){.type = dir ? TAR_DIRECTORY : TAR_FILE};
	if (snprintf(k->entry.path, TAR_PATH_MAX, ".%s%s", below, dir ? "/" : "") >= TAR_PATH_MAX)
		return err_set(e, ERR_INVAL, "a name below %.200s is too long", f->fts_path);
	switch (f->fts_info) {
	case FTS_D:
	case FTS_F:
	case FTS_SL:
	case FTS_SLNONE:
		break;
	case FTS_DEFAULT:
		leave_out(f->fts_path, "neither a file nor a directory");
		return 0;
	case FTS_DP:
		return 0;
	default:
		return err_sys(e, f->fts_errno, "read %s", f->fts_path);
	}
	k->entry.mode = f->fts_statp->st_mode & 0777;
	k->entry.mtime_s = f->fts_statp->st_mtime;
	if (dir)
		return tree_put_head(k, e);
	if (f->fts_info == FTS_F)
		return pack_file(k, f->fts_path, e);
	k->entry.type = TAR_SYMLINK;
	return pack_link(k, f->fts_path, e);
}

static int tree_by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int pack_all(struct packing *k, char *local, struct err *e)
{
	FTS *walk = fts_open((char *[]){local, NULL}, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, tree_by_name);
	const FTSENT *f;
	int rc = walk ? 0 : err_sys(e, errno, "read %s", local);

	while (rc == 0 && (errno = 0, f = fts_read(walk)))
		rc = pack_one(k, f, e);
	if (rc == 0 && errno)
		rc = err_sys(e, errno, "read %s", local);
	if (walk)
		fts_close(walk);
	return rc ? rc : tree_put_bytes(k, tree_zeros, sizeof(tree_zeros), e);
}

static int open_unnamed(struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	char name[PATH_MAX];
	int fd;

	text_format(name, sizeof(name), "%.4000s/muxctl-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "make %s", name);
	(void)unlink(name);
	return fd;
}

int tree_pack(const char *local, int *out_fd, struct err *e)
{
	char *path = strdup(local);
	struct packing *k = calloc(1, sizeof(*k));
	int rc = path && k ? 0 : err_set(e, ERR_NOMEM, "no memory");

	if (rc == 0) {
		for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
			path[n - 1] = '\0';
		k->root = strcmp(path, "/") == 0 ? 0 : strlen(path);
		rc = k->fd = open_unnamed(e);
	}
	if (rc >= 0)
		rc = pack_all(k, path, e);
	if (rc == 0 && lseek(k->fd, 0, SEEK_SET) < 0)
		rc = err_sys(e, errno, "read the archive");
	if (rc == 0)
		*out_fd = k->fd;
	else if (k && k->fd > 0)
		close(k->fd);
	free(path);
	free(k);
	return rc;
}

/* ---- out of one */

#define ENTRIES_MAX 200000
#define BYTES_MAX   (UINT64_C(64) << 30)

static void remove_all(char *dir)
{
	FTS *walk = fts_open((char *[]){dir, NULL}, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	const FTSENT *f;

	while (walk && (f = fts_read(walk)))
		if (f->fts_info != FTS_D)
			(void)(f->fts_info == FTS_DP ? rmdir(f->fts_path) : unlink(f->fts_path));
	if (walk)
		fts_close(walk);
}

static void *tree_await_end(void *arg)
{
	struct tree *t = arg;
	int signum;

	if (sigwait(&t->ends, &signum))
		return NULL;
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_mutex_lock(&t->lock); /* for good: nothing more is made in there */
	if (t->temp[0])
		remove_all(t->temp);
	(void)signal(signum, SIG_DFL);
	(void)pthread_sigmask(SIG_UNBLOCK, &t->ends, NULL);
	(void)kill(getpid(), signum);
	return NULL;
}

/* Of the signals that end it those that it does not ignore (nohup). */
static void guard_begin(struct tree *t)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction is;

	sigemptyset(&t->ends);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &is) == 0 && is.sa_handler == SIG_DFL)
			sigaddset(&t->ends, ends[i]);
	(void)pthread_sigmask(SIG_BLOCK, &t->ends, &t->before);
	t->guarded = pthread_create(&t->guard, NULL, tree_await_end, t) == 0;
	if (!t->guarded)
		(void)pthread_sigmask(SIG_SETMASK, &t->before, NULL);
}

static void guard_end(struct tree *t)
{
	if (!t->guarded)
		return;
	t->guarded = false;
	(void)pthread_cancel(t->guard);
	(void)pthread_join(t->guard, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &t->before, NULL);
}

int tree_open(const char *to, struct tree *out, struct err *e)
{
	struct stat st;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	pthread_mutex_init(&out->lock, NULL);
	out->dir_fd = out->file_fd = -1;
	if (lstat(to, &st) == 0)
		return err_set(e, ERR_FILE_EXISTS, "%s is there already", to);
	if (snprintf(out->to, PATH_MAX, "%s", to) >= PATH_MAX ||
	    snprintf(out->temp, PATH_MAX, "%s.XXXXXX", to) >= PATH_MAX)
		return err_set(e, ERR_INVAL, "the name of the directory is too long");
	guard_begin(out);
	pthread_mutex_lock(&out->lock);
	if (!mkdtemp(out->temp)) {
		rc = err_sys(e, errno, "make a directory beside %s", to);
		out->temp[0] = '\0';
	}
	pthread_mutex_unlock(&out->lock);
	if (rc)
		return rc;
	out->dir_fd = open(out->temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return out->dir_fd < 0 ? err_sys(e, errno, "open %s", out->temp) : 0;
}

/* No link was ever made in there, so that a path of names without ".." stays in it. */
static int unpack_entry(struct tree *t, struct err *e)
{
	struct tar_entry *x = &t->reader.entry;
	const char *why = tar_check(x);
	int rc = 0;

	/* The bounds of the way in; and a name that could not be taken away again is not made. */
	if (++t->entries > ENTRIES_MAX || x->size > BYTES_MAX || t->bytes > BYTES_MAX - x->size)
		return err_set(e, ERR_TOO_LARGE, "the archive has more than %d entries or 64 GiB", ENTRIES_MAX);
	if (strlen(t->temp) + strlen(x->path) + 2 > PATH_MAX)
		return err_set(e, ERR_TOO_LARGE, "a path in the archive is too long for this place");

	if (x->type == TAR_SYMLINK) {
		t->links++;
		return 0;
	}
	if (why)
		return err_set(e, ERR_PROTOCOL, "the sandbox sent an archive that is not unpacked: %s", why);
	if (x->type == TAR_DIRECTORY) {
		rc = *x->path && mkdirat(t->dir_fd, x->path, 0777) && errno != EEXIST ? -1 : 0;
	} else if (x->type == TAR_HARDLINK) {
		rc = linkat(t->dir_fd, x->target, t->dir_fd, x->path, 0);
	} else {
		rc = t->file_fd =
		    openat(t->dir_fd, x->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		t->files++;
	}
	return rc < 0 ? err_sys(e, errno, "make %s in %s", x->path, t->temp) : 0;
}

static int unpack_event(struct tree *t, enum tar_event event, struct err *e)
{
	switch (event) {
	case TAR_ENTRY:
		return unpack_entry(t, e);
	case TAR_DATA:
		t->bytes += t->reader.data_n;
		if (t->file_fd >= 0 && spill_fd(t->file_fd, t->reader.data, t->reader.data_n) < 0)
			return err_sys(e, errno, "write %s in %s", t->reader.entry.path, t->temp);
		return 0;
	case TAR_ENTRY_END:
		if (t->file_fd >= 0 && close(t->file_fd)) {
			t->file_fd = -1;
			return err_sys(e, errno, "write %s in %s", t->reader.entry.path, t->temp);
		}
		t->file_fd = -1;
		return 0;
	case TAR_END:
		t->over = true;
		return 0;
	case TAR_MORE:
		break;
	}
	return 0;
}

int tree_take(void *arg, const void *bytes, size_t n, struct err *e)
{
	struct tree *t = arg;
	const uint8_t *p = bytes;
	enum tar_event event = TAR_ENTRY;
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	while (rc == 0 && event != TAR_MORE && !t->over) {
		size_t used = 0;

		rc = tar_read(&t->reader, p, n, &used, &event)
			 ? err_set(e, ERR_PROTOCOL, "the sandbox sent no archive: %s", t->reader.why)
			 : unpack_event(t, event, e);
		p += used;
		n -= used;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int tree_settle(struct tree *t, struct err *e)
{
	mode_t mask = umask(0);
	int rc = 0;

	(void)umask(mask);
	if (!t->over)
		return err_set(e, ERR_EOF, "the archive broke off");
	pthread_mutex_lock(&t->lock);
	if (fchmod(t->dir_fd, 0777 & ~mask) || renameat2(AT_FDCWD, t->temp, AT_FDCWD, t->to, RENAME_NOREPLACE))
		rc = err_sys(e, errno, "write %s", t->to);
	else
		t->temp[0] = '\0';
	pthread_mutex_unlock(&t->lock);
	if (rc == 0 && t->links)
		fprintf(stderr, "muxctl: left out: %llu symbolic links\n", t->links);
	return rc;
}

void tree_close(struct tree *t)
{
	guard_end(t);
	if (t->file_fd >= 0)
		close(t->file_fd);
	if (t->dir_fd >= 0)
		close(t->dir_fd);
	if (t->temp[0])
		remove_all(t->temp);
	t->file_fd = t->dir_fd = -1;
	t->temp[0] = '\0';
}
