#define LOG_SUBSYS "monitor"
#include "muxd/monitor/layout.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL_NOTE   "journal.json"
#define DYING_PAUSE_NS 50000000 /* between looks at a lock whose holder dies */
#define DYING_PAUSES   100      /* then it is told */

int layout_path(const struct layout *l, const char *name, char out[PATH_MAX], struct err *e)
{
	return file_join(out, PATH_MAX, l->dir, name, e);
}

/* DIR itself: one that the person who called sudo made beforehand becomes root's. */
static int make_state_dir(const char *path, const struct identity *who, char real[PATH_MAX], struct err *e)
{
	struct file_owner self = {geteuid(), getegid()};
	struct stat st;

	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return err_sys(e, errno, "create state directory %s", path);
	if (!realpath(path, real))
		return err_sys(e, errno, "find state directory %s", path);
	if (stat(real, &st) < 0)
		return err_sys(e, errno, "stat %s", real);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, ERR_CONFLICT, "state directory %s is not a directory", real);
	if (st.st_uid != self.uid && st.st_uid != who->owner.uid)
		return err_set(e, ERR_PERMISSION, "state directory %s belongs to uid %u, not to this daemon", real,
			       (unsigned)st.st_uid);
	return file_own(real, 0711, self, e);
}

/* "<monitor> <net> <recorder>", zero where there is none. */
static void read_lock(int fd, long pids[3])
{
	char text[96] = "", *at = text;
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; i < 3; i++) {
		long pid = strtol(at, &at, 10);

		pids[i] = pid > 1 && pid <= INT_MAX ? pid : 0;
	}
}

static int write_lock(int fd, pid_t net, pid_t recorder)
{
	char text[96];
	int n = snprintf(text, sizeof text, "%ld %ld %ld\n", (long)getpid(), (long)net, (long)recorder);

	return pwrite(fd, text, (size_t)n, 0) == n && ftruncate(fd, n) == 0 ? 0 : ERR_SYS;
}

/* Its memory is gone: there is no program behind its pid any more. */
static bool is_dying(long pid)
{
	char path[40], exe[8];

	snprintf(path, sizeof path, "/proc/%ld/exe", pid);
	return pid && readlink(path, exe, sizeof exe) < 0 && errno == ENOENT;
}

/* One that was killed holds the lock until its files are closed, which on a busy machine is a while after its memory.
 */
static int lock_file(int fd)
{
	const struct timespec pause = {.tv_nsec = DYING_PAUSE_NS};
	long pids[3];

	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK)
			return -1;
		read_lock(fd, pids);
		if (i == DYING_PAUSES || !is_dying(pids[0])) {
			errno = EWOULDBLOCK;
			return -1;
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static int take_lock(struct layout *l, struct err *e)
{
	char path[PATH_MAX];
	long pids[3];
	int fd, rc = layout_path(l, "muxd.lock", path, e);

	if (rc)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	if (lock_file(fd) < 0) {
		rc = errno == EWOULDBLOCK ? ERR_CONFLICT : err_sys(e, errno, "lock %s", path);
		read_lock(fd, pids);
		if (rc == ERR_CONFLICT)
			err_set(e, rc, "another daemon (pid %ld) works on %s", pids[0], l->dir);
		close(fd);
		return rc;
	}
	read_lock(fd, pids);
	rc = write_lock(fd, (pid_t)pids[1], (pid_t)pids[2]) ? err_sys(e, errno, "write %s", path) : 0;
	if (rc ==
	    ERR_DISK_FULL) /* the lock is ours all the same: its text is for people, and a hint for the next start */
		log_warn(NULL, "%s does not say who holds it: the disk is full", path);
	else if (rc) {
		close(fd);
		return rc;
	}
	l->old_net = (pid_t)pids[1];
	l->old_recorder = (pid_t)pids[2];
	l->lock_fd = fd;
	return 0;
}

void layout_note_children(const struct layout *l, pid_t net, pid_t recorder)
{
	/* A hint for the next start: when the disk is full, it waits for the ring's lock instead. */
	(void)write_lock(l->lock_fd, net, recorder);
}

static int make_dirs(const struct layout *l, const struct identity *who, struct err *e)
{
	const struct {
		const char *name;
		mode_t mode;
		struct file_owner owner;
	} dirs[] = {
	    {"keys", 0755, FILE_OWNER_SELF},        {"keys/grant", 0755, FILE_OWNER_SELF},
	    {"keys/record", 0755, FILE_OWNER_SELF}, {"sandboxes", 0711, FILE_OWNER_SELF},
	    {"record", 0700, who->recorder},        {"control", 0700, who->net},
	};
	char path[PATH_MAX];
	int rc = 0;

	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0] && rc == 0; i++) {
		rc = layout_path(l, dirs[i].name, path, e);
		if (rc == 0)
			rc = file_mkdir(path, dirs[i].mode, dirs[i].owner, e);
	}
	return rc;
}

static int load_instance(struct layout *l, struct err *e)
{
	char path[PATH_MAX], text[ID_STR_LEN + 1], *old = NULL;
	size_t len = 0;
	struct id id;
	int rc = layout_path(l, "instance", path, e);

	if (rc)
		return rc;
	rc = file_read(path, 64, &old, &len, e);
	if (rc == 0) {
		old[strcspn(old, "\n")] = '\0';
		if (id_parse(old, &id))
			rc = err_set(e, ERR_CORRUPT, "%s holds no instance id", path);
	} else if (rc == ERR_NOT_FOUND) {
		rc = id_new(&id);
		if (rc)
			return err_set(e, rc, "no random bytes for an instance id");
		id_format(&id, text);
		strcat(text, "\n");
		rc = file_publish(path, text, strlen(text), 0644, FILE_OWNER_SELF, false, e);
	}
	if (rc == 0)
		id_format(&id, l->instance);
	free(old);
	return rc;
}

/* One journal for one state directory, found again by its path alone. */
static int journal_name(struct layout *l, const struct conf *c, struct err *e)
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	int n;

	if (*c->journal_dir) {
		n = snprintf(l->journal, sizeof l->journal, "%s", c->journal_dir);
	} else {
		if (EVP_Digest(l->dir, strlen(l->dir), digest, NULL, EVP_sha256(), NULL) != 1)
			return err_set(e, ERR_INTERNAL, "libcrypto has no SHA-256");
		n = snprintf(l->journal, sizeof l->journal, "/dev/shm/muxd-%02x%02x%02x%02x%02x%02x", digest[0],
			     digest[1], digest[2], digest[3], digest[4], digest[5]);
	}
	return n < 0 || (size_t)n >= sizeof l->journal ? err_set(e, ERR_CONFIG, "journal.dir is too long") : 0;
}

/*
 * After a change of journal.size: a ring that holds nothing but what the record has is made anew. The cursor goes with
 * it: it counts the old one's bytes.
 */
static void resize_journal(const struct layout *l, const char *ring, const char *cursor, size_t size)
{
	struct err e = {0};
	struct journal_look was;

	if (access(cursor, F_OK) < 0 || journal_look(l->journal, &was, &e) || was.size == size)
		return; /* a fresh one, or one that only the recorder can judge */
	if (was.left)
		err_set(&e, ERR_CONFLICT, "it holds what the record does not have yet");
	if (!was.left && ring_file_renew(ring, size, &e) == 0 && unlink(cursor) == 0)
		log_info(NULL, "the journal was made anew: %zu bytes instead of %zu", size, was.size);
	else
		log_warn(NULL, "the journal keeps its %zu bytes, journal.size is %zu: %s", was.size, size, e.message);
}

/* ---- a ring that is not where this start would look for it */

static bool is_same_folder(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Does a daemon work on that state directory? */
static bool is_worked_on(const char *dir)
{
	char path[PATH_MAX];
	int fd =
	    file_join(path, sizeof path, dir, "muxd.lock", NULL) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool works = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;

	if (fd >= 0)
		close(fd);
	return works;
}

/* DIR was moved, or journal.dir is another one: the ring follows. A copy of DIR leaves it to the original. */
static int follow_journal(const struct layout *l, const struct journal_note *n, const struct journal_look *old,
			  struct err *e)
{
	char instance[PATH_MAX];
	bool moved = is_same_folder(n->dir, l->dir) || file_join(instance, sizeof instance, n->dir, "instance", NULL) ||
		     access(instance, F_OK) < 0;
	struct err why = {0};

	if (!moved && (!old->left || is_worked_on(n->dir))) {
		log_info(NULL, "%s is a copy of %s, whose journal stays with it", l->dir, n->dir);
		return 0;
	}
	if (!moved)
		return err_set(e, ERR_CONFLICT,
			       "%s is a copy of %s, whose journal %s has %llu records that are in no record: to go on "
			       "here in its place, mv %s %s; else remove journal.json here",
			       l->dir, n->dir, n->journal, (unsigned long long)old->left, n->journal, l->journal);
	if (file_mkdir(l->journal, 0750, FILE_OWNER_SELF, &why) == 0 &&
	    journal_bring(n->journal, l->journal, &why) == 0) {
		log_info(NULL, "the journal of before was found in %s, and is in %s now", n->journal, l->journal);
		return 0;
	}
	if (old->left)
		return err_set(e, ERR_CONFLICT,
			       "the journal in %s has %llu records that the record does not have, and cannot be moved "
			       "to %s (%.200s): move it there",
			       n->journal, (unsigned long long)old->left, l->journal, why.message);
	log_info(NULL, "the journal in %s, which the record has all of, is not needed any more", n->journal);
	return 0;
}

static int find_journal(struct layout *l, struct err *e)
{
	struct journal_look here, there = {.there = false};
	struct journal_note n;
	char path[PATH_MAX];
	int rc = layout_path(l, JOURNAL_NOTE, path, e);

	if (rc == 0 && journal_note_read(path, &n, e)) {
		log_warn(NULL, "%s", e->message);
		return 0;
	}
	if (rc || n.state == JOURNAL_NONE || journal_look(l->journal, &here, NULL) ||
	    (here.there && strcmp(here.ring, n.ring) == 0))
		return rc; /* what cannot be read is for the recorder to judge */
	if (strcmp(n.journal, l->journal) != 0 && journal_look(n.journal, &there, NULL) == 0 && there.there &&
	    strcmp(there.ring, n.ring) == 0)
		return follow_journal(l, &n, &there, e);
	if (n.state != JOURNAL_STORED)
		l->missed = n;
	return 0;
}

static int note_journal(const struct layout *l, enum journal_note_state s, uint64_t records, const char *ring,
			struct err *e)
{
	struct journal_note n = {.state = s, .records = records};
	char path[PATH_MAX];
	int rc = layout_path(l, JOURNAL_NOTE, path, e);

	memcpy(n.dir, l->dir, sizeof n.dir);
	memcpy(n.journal, l->journal, sizeof n.journal);
	snprintf(n.ring, sizeof n.ring, "%s", ring);
	snprintf(n.boot, sizeof n.boot, "%s", clock_boot_id());
	return rc ? rc : journal_note_write(path, &n, e);
}

/* A full disk keeps no daemon from starting. */
static int begin_note(const struct layout *l, struct err *e)
{
	struct journal_look look;
	int rc = journal_look(l->journal, &look, e);

	if (rc) /* the recorder judges it, and says more */
		return 0;
	rc = note_journal(l, JOURNAL_USED, 0, look.ring, e);
	if (rc != ERR_DISK_FULL)
		return rc;
	log_warn(NULL, "which journal is used is not noted: %s", e->message);
	return 0;
}

int layout_make_journal(struct layout *l, const struct identity *who, const struct conf *c, struct err *e)
{
	char ring[PATH_MAX], cursor[PATH_MAX];
	int rc = journal_name(l, c, e);

	if (rc == 0)
		rc = find_journal(l, e);
	if (rc == 0)
		rc = file_mkdir(l->journal, 0750, FILE_OWNER_SELF, e);
	if (rc == 0)
		rc = file_join(ring, sizeof ring, l->journal, "ring", e);
	if (rc == 0)
		rc = file_join(cursor, sizeof cursor, l->journal, "cursor", e);
	if (rc == 0)
		rc = ring_file_prepare(ring, c->journal_size, e);
	if (rc == 0)
		resize_journal(l, ring, cursor, c->journal_size);
	if (rc == 0)
		rc = file_own(ring, 0600, who->net, e);
	if (rc == 0)
		rc = ring_cursor_prepare(cursor, e);
	if (rc == 0)
		rc = file_own(cursor, 0644, who->recorder, e);
	return rc ? rc : begin_note(l, e);
}

static int check_reach(const struct layout *l, const struct identity *who, struct err *e)
{
	char inside[PATH_MAX];
	int rc = layout_path(l, "record", inside, e);

	return rc ? rc : identity_can_reach(&who->recorder, inside, "the recorder", e);
}

int layout_open(const char *state_dir, const struct identity *who, struct layout *out, struct err *e)
{
	struct layout l = {.lock_fd = -1};
	int rc = make_state_dir(state_dir, who, l.dir, e);

	if (rc == 0)
		rc = take_lock(&l, e);
	if (rc == 0)
		rc = make_dirs(&l, who, e);
	if (rc == 0)
		rc = check_reach(&l, who, e);
	if (rc == 0)
		rc = load_instance(&l, e);
	if (rc == 0)
		*out = l;
	else
		layout_close(&l);
	return rc;
}

void layout_close(struct layout *l)
{
	if (!l || l->lock_fd < 0)
		return;
	close(l->lock_fd);
	l->lock_fd = -1;
}

/* Is pid still a process that a monitor started under this name? */
static bool still_there(pid_t pid, const char *name)
{
	char path[64], *cmdline = NULL;
	size_t len = 0;
	bool same;

	snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
	if (pid == 0 || file_read(path, 4096, &cmdline, &len, NULL))
		return false;
	/* "muxd\0net\0" or "muxd-recorder\0": argv as child_spawn() sets it. A zombie has none. */
	for (size_t i = 0; i + 1 < len; i++) {
		if (cmdline[i] == '\0')
			cmdline[i] = ' ';
	}
	same = len > 0 && strncmp(cmdline, name, strlen(name)) == 0;
	free(cmdline);
	return same;
}

int layout_wait_leftovers(const struct layout *l, uint64_t timeout_ns, struct err *e)
{
	const struct timespec nap = {0, 20 * NS_PER_MS};
	uint64_t end = clock_boot_ns() + timeout_ns;

	for (;;) {
		bool net = still_there(l->old_net, "muxd net");
		bool recorder = still_there(l->old_recorder, "muxd-recorder");

		if (!net && !recorder)
			return 0;
		if (clock_boot_ns() > end)
			return err_set(e, ERR_TIMEOUT,
				       "the %s process (pid %ld) of the daemon before has not ended; end it first",
				       net ? "net" : "recorder", (long)(net ? l->old_net : l->old_recorder));
		nanosleep(&nap, NULL);
	}
}

static int drop_journal(const struct layout *l, struct err *e)
{
	char ring[PATH_MAX], cursor[PATH_MAX];
	int rc = file_join(ring, sizeof ring, l->journal, "ring", e);

	if (rc == 0)
		rc = file_join(cursor, sizeof cursor, l->journal, "cursor", e);
	if (rc == 0 && (unlink(ring) < 0 || unlink(cursor) < 0))
		rc = err_sys(e, errno, "remove the journal in %s", l->journal);
	if (rc == 0)
		rmdir(l->journal); /* stays when somebody keeps other files in it */
	return rc;
}

int layout_end_journal(const struct layout *l, bool drop, uint64_t *out_left, struct err *e)
{
	struct journal_look look;
	int rc = journal_look(l->journal, &look, e);

	if (rc)
		return rc;
	if (!look.there)
		return err_set(e, ERR_NOT_FOUND, "the journal in %s is gone", l->journal);
	*out_left = look.left;
	rc = note_journal(l, look.left ? JOURNAL_LEFT : JOURNAL_STORED, look.left, look.ring, e);
	return rc || !drop || look.left ? rc : drop_journal(l, e);
}
