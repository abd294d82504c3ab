/*
 * sync_list, sync_get and sync_put: the workspace's end of a filespace (docs/filespace.md), in records of
 * files/syncrec.h. Regular files alone; links are neither followed nor told as files, and what cannot be read is told
 * as left out, so that nobody takes it for deleted.
 *
 * A file is put only where what stands there is still what the caller saw. Contents are on the disk before they get
 * names: a power cut leaves each file as it was or as it was to be, and so does a kill.
 */
#include "files/syncrec.h"
#include "muxd/muxlet/fs_op.h"
#include "muxd/muxlet/fs_walk.h"
#include "muxd/muxlet/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OWN       ".muxd"
#define MARKER    OWN "/filespace" /* the daemon's, which is none of the files that are counted */
#define CHUNK     (64 * 1024)
#define BATCH     128 /* files that get their names together; each holds two descriptors */
#define NS        INT64_C(1000000000)
#define CLOCK_LAG INT64_C(20000000) /* the kernel's stamps are behind by a tick, 10 ms at most */

struct known {
	char *path;
	struct syncrec_stat st;
	uint8_t sha256[SHA256_LEN];
};

struct waiting {
	struct newfile file;
	struct fs_place place;
	struct syncrec r;
	int err;
};

struct syncing {
	struct fs_work *w;
	struct syncrec_reader reader;
	struct known *known; /* sync_list: with digests; sync_get: names */
	size_t nknown, size;
	long long left; /* files that may still be told */
	uint8_t out[CHUNK];
	size_t out_n;
	int err;
	struct waiting batch[BATCH];
	size_t nbatch;
	struct sha256 sum;
};

/* ---- what goes out */

static int sync_flush(struct syncing *s)
{
	int err = newfile_write(STDOUT_FILENO, s->out, s->out_n);

	s->out_n = 0;
	return err;
}

static int sync_put_record(struct syncing *s, const struct syncrec *r)
{
	int err = s->out_n + SYNCREC_HEAD + r->path_len > sizeof(s->out) ? sync_flush(s) : 0;

	syncrec_head(r, s->out + s->out_n);
	memcpy(s->out + s->out_n + SYNCREC_HEAD, r->path, r->path_len);
	s->out_n += SYNCREC_HEAD + r->path_len;
	return err;
}

static void sync_stat(const struct stat *st, struct syncrec *r)
{
	r->st.size = (uint64_t)st->st_size;
	r->st.inode = st->st_ino;
	r->st.mtime_ns = st->st_mtim.tv_sec * NS + st->st_mtim.tv_nsec;
	r->st.ctime_ns = st->st_ctim.tv_sec * NS + st->st_ctim.tv_nsec;
	r->executable = st->st_mode & 0100;
}

/* Bytes that the file uses on the disk: one with holes may say any size. */
static uint64_t sync_used(const struct stat *st)
{
	uint64_t used = (uint64_t)st->st_blocks * 512, size = (uint64_t)st->st_size;

	return used < size ? used : size;
}

static int sync_skip(struct syncing *s, struct syncrec *r, int why)
{
	r->kind = SYNCREC_SKIPPED;
	r->why = (uint16_t)why;
	r->content = 0;
	r->used_kib = 0;
	return sync_put_record(s, r);
}

static bool same_stat(const struct syncrec_stat *a, const struct syncrec_stat *b)
{
	return a->inode && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns == b->ctime_ns;
}

/* ---- what comes in: a list of files */

static int known_add(struct syncing *s, const struct syncrec *r)
{
	struct known *k = s->known;

	if (s->nknown == s->size) {
		size_t size = s->size ? 2 * s->size : 256;

		k = realloc(k, size * sizeof(*k));
		if (!k)
			return ENOMEM;
		s->known = k;
		s->size = size;
	}
	k = &s->known[s->nknown];
	k->path = strdup(r->path);
	k->st = r->st;
	memcpy(k->sha256, r->sha256, sizeof(k->sha256));
	return k->path ? (s->nknown++, 0) : ENOMEM;
}

static int sync_list_take(void *arg, const uint8_t *p, size_t n)
{
	struct syncing *s = arg;
	int err = 0;

	while (n && !err) {
		enum syncrec_event event;
		size_t used;

		if (syncrec_read(&s->reader, p, n, &used, &event))
			return fs_fail(s->w, EINVAL, "the list: %s", s->reader.why);
		p += used;
		n -= used;
		if (event == SYNCREC_RECORD)
			err = known_add(s, &s->reader.r);
	}
	return err;
}

static int fs_sync_by_name(const void *a, const void *b)
{
	return strcmp(((const struct known *)a)->path, ((const struct known *)b)->path);
}

static int receive_list(struct syncing *s)
{
	int err = newfile_receive_each(sync_list_take, s);

	if (!err && !syncrec_between(&s->reader))
		err = fs_fail(s->w, EINVAL, "the list ends in the middle");
	if (!err && s->nknown)
		qsort(s->known, s->nknown, sizeof(*s->known), fs_sync_by_name);
	return err;
}

/* ---- sync_list */

static int digest_of(int fd, uint8_t out[SHA256_LEN])
{
	static uint8_t buf[CHUNK];
	struct sha256 sum;
	ssize_t n;

	sha256_init(&sum);
	while ((n = newfile_read(fd, buf, sizeof(buf))) > 0)
		sha256_add(&sum, buf, (size_t)n);
	sha256_finish(&sum, out);
	return n < 0 ? errno : 0;
}

static int list_file(struct syncing *s, int dir_fd, const char *base, struct syncrec *r)
{
	const struct known *k =
	    s->nknown ? bsearch(&(struct known){.path = r->path}, s->known, s->nknown, sizeof(*k), fs_sync_by_name)
		      : NULL;
	struct timespec now;
	struct stat st = {0};
	int fd, err;

	if (k && same_stat(&k->st, &r->st)) {
		memcpy(r->sha256, k->sha256, sizeof(r->sha256));
		return sync_put_record(s, r);
	}
	fd = openat(dir_fd, base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : sync_skip(s, r, errno);
	err = fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : ENODEV;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (!err) {
		sync_stat(&st, r);
		err = digest_of(fd, r->sha256);
	}
	close(fd);
	if (err)
		return sync_skip(s, r, err);
	/* Written again within the same tick it would look the same: its digest counts this once. */
	r->why = r->st.ctime_ns >= now.tv_sec * NS + now.tv_nsec - CLOCK_LAG;
	return sync_put_record(s, r);
}

/* A directory that cannot be looked into is told: what is in it is not gone. */
static bool can_enter(int dir_fd, const char *base)
{
	int fd = openat(dir_fd, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0 || errno == ENOENT;
}

static uint16_t used_kib(const struct stat *st)
{
	uint64_t kib = (sync_used(st) + 1023) / 1024;

	return kib < UINT16_MAX ? (uint16_t)kib : UINT16_MAX;
}

/* Nobody enters it: what is below is as deep as a path goes, or deeper. */
static bool is_too_deep(const char *path)
{
	int depth = 1;

	for (const char *p = path; (p = strchr(p, '/')); p++)
		depth++;
	return depth >= FS_WALK_DEPTH;
}

static enum fs_walk_next sync_list_visit(void *arg, int dir_fd, const char *base, const char *path,
					 const struct stat *st)
{
	struct syncing *s = arg;
	static struct syncrec r;
	enum fs_walk_next next = FS_WALK_ON;

	r = (struct syncrec){.kind = SYNCREC_FILE, .path_len = (uint16_t)strlen(path)};
	memcpy(r.path, path, r.path_len + 1u);
	sync_stat(st, &r);
	r.used_kib = used_kib(st);
	if (S_ISDIR(st->st_mode)) {
		bool deep = is_too_deep(path);

		if (!deep && can_enter(dir_fd, base))
			return FS_WALK_ON;
		next = FS_WALK_PAST;
		r.st.size = 0;
		s->err = sync_skip(s, &r, deep ? ENAMETOOLONG : EACCES);
	} else if (!S_ISREG(st->st_mode)) {
		r.st.size = sync_used(st);
		s->err = sync_skip(s, &r, S_ISLNK(st->st_mode) ? ELOOP : ENODEV);
	} else if (s->w->ask.size_max >= 0 && st->st_size > s->w->ask.size_max) {
		r.st.size = sync_used(st);
		s->err = sync_skip(s, &r, EFBIG);
	} else {
		s->err = list_file(s, dir_fd, base, &r);
	}
	if (!s->err && strcmp(path, MARKER) != 0 && s->left-- == 0)
		s->err = fs_fail(s->w, EFBIG, "the workspace has more than %lld files", s->w->ask.limit);
	return s->err ? FS_WALK_STOP : next;
}

static int list_all(struct syncing *s)
{
	struct fs_walk walk = {.visit = sync_list_visit, .arg = s, .depth = FS_WALK_DEPTH};
	int fd = -1, err = fs_root_openat(&s->w->root, s->w->name, O_RDONLY | O_DIRECTORY, &fd);

	if (err)
		return err;
	err = fs_op_ignore(s->w, &walk);
	if (!err)
		err = fs_walk_run(&walk, fd, "");
	ignore_free(walk.ignore);
	close(fd);
	if (!err && !s->err && walk.unread > walk.too_long) /* a path that is too long stands in no store */
		err = fs_fail(s->w, EACCES, "%u directories could not be read", walk.unread - walk.too_long);
	return s->err ? s->err : err;
}

static struct syncing *syncing_begin(struct fs_work *w)
{
	static struct syncing s;

	s.w = w;
	s.left = w->ask.limit >= 0 ? w->ask.limit : INT32_MAX;
	s.reader.content_max = w->ask.size_max >= 0 ? (uint64_t)w->ask.size_max : UINT64_MAX;
	w->root.no_links = true;
	return &s;
}

static int syncing_end(struct syncing *s, int err)
{
	for (size_t i = 0; i < s->nknown; i++)
		free(s->known[i].path);
	free(s->known);
	return err ? err : sync_flush(s);
}

int fs_sync_list(struct fs_work *w)
{
	struct syncing *s = syncing_begin(w);
	int err = receive_list(s);

	if (!err)
		err = list_all(s);
	return syncing_end(s, err);
}

/* ---- sync_get */

/* As long as its head says: what became shorter ends in zeros, and its digest tells. */
static int get_content(struct syncing *s, int fd, uint64_t left)
{
	static uint8_t buf[CHUNK];
	int err = sync_flush(s);

	while (!err && left) {
		size_t want = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		ssize_t n = newfile_read(fd, buf, want);

		if (n < (ssize_t)want)
			memset(buf + (n > 0 ? n : 0), 0, want - (size_t)(n > 0 ? n : 0));
		err = newfile_write(STDOUT_FILENO, buf, want);
		left -= want;
	}
	return err;
}

static int get_file(struct syncing *s, const char *path)
{
	static struct syncrec r;
	struct fs_place p = {.dir_fd = -1};
	struct stat st = {0};
	int fd = -1, err = fs_root_place(&s->w->root, path, &p);

	r = (struct syncrec){.kind = SYNCREC_CONTENT, .path_len = (uint16_t)strlen(path)};
	memcpy(r.path, path, r.path_len + 1u);
	if (!err)
		fd = openat(p.dir_fd, p.base, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (!err)
		err = fd < 0 || fstat(fd, &st) ? errno : S_ISREG(st.st_mode) ? 0 : ENODEV;
	if (!err && s->w->ask.size_max >= 0 && st.st_size > s->w->ask.size_max)
		err = EFBIG;
	if (err) {
		err = sync_skip(s, &r, err);
	} else {
		sync_stat(&st, &r);
		r.content = r.st.size;
		err = sync_put_record(s, &r);
		if (!err)
			err = get_content(s, fd, r.content);
	}
	if (fd >= 0)
		close(fd);
	fs_root_leave(&p);
	return err;
}

int fs_sync_get(struct fs_work *w)
{
	struct syncing *s = syncing_begin(w);
	int err = receive_list(s);

	for (size_t i = 0; i < s->nknown && !err; i++)
		err = get_file(s, s->known[i].path);
	return syncing_end(s, err);
}

/* ---- sync_put */

/* Is that still there which the caller saw? An empty directory may give way to a file. */
static int as_seen(const struct syncrec *r, const struct fs_place *p)
{
	struct syncrec now = {0};
	struct stat st = {0};

	if (fstatat(p->dir_fd, p->base, &st, AT_SYMLINK_NOFOLLOW))
		return errno != ENOENT ? errno : r->st.inode ? ECANCELED : 0;
	if (!r->st.inode)
		return S_ISDIR(st.st_mode) ? 0 : ECANCELED;
	sync_stat(&st, &now);
	return S_ISREG(st.st_mode) && same_stat(&now.st, &r->st) ? 0 : ECANCELED;
}

static int put_told(struct syncing *s, struct syncrec *r, int err)
{
	r->kind = SYNCREC_DONE;
	r->why = (uint16_t)err;
	r->content = 0;
	return sync_put_record(s, r);
}

/* The marker is muxd's own: a program that has put something in its place does not keep it from there. */
static bool is_own(const char *path)
{
	return strncmp(path, OWN "/", sizeof(OWN)) == 0;
}

static int name_own(struct waiting *x)
{
	char aside[64];
	int err = newfile_link(&x->file, true);

	if (err != EISDIR && err != EEXIST && err != ENOTEMPTY)
		return err;
	snprintf(aside, sizeof(aside), "aside-%lld", (long long)x->r.st.inode ^ (long long)time(NULL));
	return renameat(x->place.dir_fd, x->place.base, x->place.dir_fd, aside) ? errno : newfile_link(&x->file, true);
}

static void make_way(const struct fs_root *root)
{
	struct stat st;

	if (fstatat(root->fd, OWN, &st, AT_SYMLINK_NOFOLLOW))
		return;
	if (!S_ISDIR(st.st_mode))
		(void)unlinkat(root->fd, OWN, 0);
	else if ((st.st_mode & 0700) != 0700)
		(void)fs_root_chmod_dir(root->fd, OWN, 0755);
}

static int name_one(struct waiting *x)
{
	int err;

	if (is_own(x->r.path))
		return name_own(x);
	err = as_seen(&x->r, &x->place);

	if (!err)
		err = newfile_link(&x->file, true);
	if (err == EISDIR || err == EEXIST)
		err = unlinkat(x->place.dir_fd, x->place.base, AT_REMOVEDIR) ? errno : newfile_link(&x->file, true);
	return err;
}

/* All contents of a batch are on the disk ahead of the first name. */
static int put_batch(struct syncing *s)
{
	int err = s->nbatch && syncfs(s->w->root.fd) ? errno : 0, told = 0;

	for (size_t i = 0; i < s->nbatch; i++) {
		struct waiting *x = &s->batch[i];
		struct stat st;

		if (!x->err)
			x->err = err ? err : name_one(x);
		if (!x->err && fstat(x->file.fd, &st) == 0)
			sync_stat(&st, &x->r);
		newfile_drop(&x->file);
		if (x->file.fd >= 0)
			close(x->file.fd);
		fs_root_leave(&x->place);
		if (!told)
			told = put_told(s, &x->r, x->err);
	}
	s->nbatch = 0;
	return told;
}

static void put_begin(struct syncing *s)
{
	struct waiting *x = &s->batch[s->nbatch];

	x->r = s->reader.r;
	x->file = (struct newfile){.fd = -1};
	x->place = (struct fs_place){.dir_fd = -1};
	sha256_init(&s->sum);
	if (is_own(x->r.path))
		make_way(&s->w->root);
	x->err = fs_root_parents(&s->w->root, x->r.path, 0777);
	if (!x->err)
		x->err = fs_root_place(&s->w->root, x->r.path, &x->place);
	x->file.dir_fd = x->place.dir_fd;
	memcpy(x->file.base, x->place.base, sizeof(x->file.base));
	if (!x->err)
		x->err = newfile_open(&x->file);
}

static int put_end(struct syncing *s)
{
	struct waiting *x = &s->batch[s->nbatch];
	uint8_t sum[SHA256_LEN];

	sha256_finish(&s->sum, sum);
	if (!x->err && memcmp(sum, x->r.sha256, sizeof(sum)) != 0)
		x->err = EBADMSG;
	if (!x->err && fchmod(x->file.fd, x->r.executable ? 0755 : 0644))
		x->err = errno;
	return ++s->nbatch == BATCH ? put_batch(s) : 0;
}

/* The directories that it leaves empty go, too: a store knows none. */
static void leave_no_shell(const struct syncing *s, char *path)
{
	struct fs_place p;
	char *slash;

	while ((slash = strrchr(path, '/'))) {
		*slash = '\0';
		if (fs_root_place(&s->w->root, path, &p))
			return;
		if (unlinkat(p.dir_fd, p.base, AT_REMOVEDIR)) {
			fs_root_leave(&p);
			return;
		}
		fs_root_leave(&p);
	}
}

static int put_deletion(struct syncing *s)
{
	static struct syncrec r;
	struct fs_place p = {.dir_fd = -1};
	char path[SYNCREC_PATH_MAX];
	int err;

	r = s->reader.r;
	memcpy(path, r.path, r.path_len + 1u);
	err = fs_root_place(&s->w->root, r.path, &p);
	if (!err)
		err = as_seen(&r, &p);
	if (!err && unlinkat(p.dir_fd, p.base, 0))
		err = errno;
	fs_root_leave(&p);
	if (!err)
		leave_no_shell(s, path);
	return put_told(s, &r, err);
}

static int put_event(struct syncing *s, enum syncrec_event event)
{
	struct waiting *x = &s->batch[s->nbatch];

	switch (event) {
	case SYNCREC_RECORD:
		if (s->reader.r.kind == SYNCREC_DELETE)
			return put_deletion(s);
		if (s->reader.r.kind != SYNCREC_CONTENT)
			return fs_fail(s->w, EINVAL, "a record that puts nothing");
		put_begin(s);
		return 0;
	case SYNCREC_DATA:
		sha256_add(&s->sum, s->reader.data, s->reader.data_n);
		if (!x->err)
			x->err = newfile_write(x->file.fd, s->reader.data, s->reader.data_n);
		return 0;
	case SYNCREC_DATA_END:
		return put_end(s);
	case SYNCREC_MORE:
		break;
	}
	return 0;
}

static int sync_put_take(void *arg, const uint8_t *p, size_t n)
{
	struct syncing *s = arg;
	enum syncrec_event event;
	size_t used;
	int err = 0;

	do {
		if (syncrec_read(&s->reader, p, n, &used, &event))
			return fs_fail(s->w, EINVAL, "the records: %s", s->reader.why);
		p += used;
		n -= used;
		err = put_event(s, event);
	} while (!err && (n || event != SYNCREC_MORE));
	return err;
}

int fs_sync_put(struct fs_work *w)
{
	struct syncing *s = syncing_begin(w);
	int err = newfile_receive_each(sync_put_take, s);

	if (!err && !syncrec_between(&s->reader))
		err = fs_fail(w, EINVAL, "the records end in the middle");
	if (!err)
		err = put_batch(s);
	if (!err && syncfs(w->root.fd))
		err = errno;
	return syncing_end(s, err);
}
