#include "control/local/image.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "control/local/found.h"
#include "control/local/tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOOP_CONTROL   "/dev/loop-control"
#define TOOL_TIMEOUT   (UINT64_C(120) * NS_PER_SEC)
#define ATTACH_TRIES   64
#define LOCK_NS        (3 * NS_PER_SEC)
#define SUPERBLOCK_AT  1024
#define SUPERBLOCK_LEN 256

static int loop_control_open(void)
{
	int fd = open(LOOP_CONTROL, O_RDWR | O_CLOEXEC);

	/* A root made by debootstrap has no such node; the kernel loads the module when it is opened. */
	if (fd < 0 && errno == ENOENT && mknod(LOOP_CONTROL, S_IFCHR | 0600, makedev(10, 237)) == 0)
		fd = open(LOOP_CONTROL, O_RDWR | O_CLOEXEC);
	return fd;
}

static int loop_open(int number, char path[IMAGE_LOOP_MAX])
{
	int fd;

	snprintf(path, IMAGE_LOOP_MAX, "/dev/loop%d", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT &&
	    (mknod(path, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)number)) == 0 || errno == EEXIST))
		fd = open(path, O_RDWR | O_CLOEXEC);
	return fd;
}

int image_loops_check(struct err *e)
{
	char path[IMAGE_LOOP_MAX];
	int number, fd = loop_control_open();
	int rc = 0;

	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "no loop devices: %s: %s", LOOP_CONTROL, strerror(errno));
	number = ioctl(fd, LOOP_CTL_GET_FREE);
	if (number < 0)
		rc = err_set(e, ERR_UNSUPPORTED, "no loop devices: %s", strerror(errno));
	close(fd);
	if (rc)
		return rc;
	fd = loop_open(number, path);
	if (fd < 0)
		return err_set(e, ERR_UNSUPPORTED, "no loop devices: %s: %s", path, strerror(errno));
	close(fd);
	return 0;
}

bool image_exists(int dir)
{
	struct stat st;

	return fstatat(dir, IMAGE_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static int image_mkfs(int dir, const char *file, uid_t uid, gid_t gid, struct err *e)
{
	char mkfs[64], said[256], options[128];
	/* The file is fresh and sparse, so it holds zeros already: no tables need writing now or later. */
	const char *argv[] = {mkfs, "-q", "-F", "-t", "ext4", "-m", "0", "-i", "16384", "-E", options, file, NULL};
	int code, rc = tool_find("mkfs.ext4", mkfs, sizeof(mkfs), e);

	if (rc)
		return rc;
	snprintf(options, sizeof(options), "nodiscard,assume_storage_prezeroed=1,root_owner=%u:%u", (unsigned)uid,
		 (unsigned)gid);
	rc = tool_run(dir, argv, TOOL_TIMEOUT, &code, said, sizeof(said), e);
	if (rc == 0 && code != 0)
		rc = err_set(e, ERR_SANDBOX_CREATE, "mkfs.ext4 failed with %d: %s", code, said);
	return rc;
}

int image_make(int dir, uint64_t size, uid_t uid, gid_t gid, struct err *e)
{
	static const char fresh[] = IMAGE_NAME ".new";
	int rc = 0, fd;

	if (size < IMAGE_SIZE_MIN)
		return err_set(e, ERR_CONFIG, "sandbox.workspace_size is under 4 MiB, too small for a file system");
	unlinkat(dir, fresh, 0);
	fd = openat(dir, fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot make %s", fresh);
	if (ftruncate(fd, (off_t)size) != 0)
		rc = err_sys(e, errno, "cannot make %s of %llu bytes", fresh, (unsigned long long)size);
	if (rc == 0)
		rc = image_mkfs(dir, fresh, uid, gid, e);
	if (rc == 0 && fdatasync(fd) != 0)
		rc = err_sys(e, errno, "cannot write %s", fresh);
	close(fd);
	if (rc == 0 && renameat(dir, fresh, dir, IMAGE_NAME) != 0)
		rc = err_sys(e, errno, "cannot name %s", IMAGE_NAME);
	if (rc)
		unlinkat(dir, fresh, 0);
	return rc;
}

/* Magic, state and feature words of the superblock: was it unmounted cleanly, without errors, journal empty? */
static bool image_is_clean(int dir)
{
	uint8_t sb[SUPERBLOCK_LEN];
	int fd = openat(dir, IMAGE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, sb, sizeof(sb), SUPERBLOCK_AT);

	if (fd >= 0)
		close(fd);
	if (n != (ssize_t)sizeof(sb) || get_u16(sb + 56) != 0xEF53)
		return false;
	return (get_u16(sb + 58) & 3) == 1 && !(get_u32(sb + 96) & 4); /* valid, no error; no journal to replay */
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

int image_lock(int dir, int *out_fd, struct err *e)
{
	uint64_t until = clock_boot_ns() + LOCK_NS;
	int fd = openat(dir, IMAGE_NAME, O_RDWR | O_NOFOLLOW | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", IMAGE_NAME);
	while (rc == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno != EWOULDBLOCK)
			rc = err_sys(e, errno, "cannot lock %s", IMAGE_NAME);
		else if (clock_boot_ns() >= until)
			rc = err_set(e, ERR_SANDBOX_CREATE,
				     "%s is still being repaired, for a daemon that has ended; try again later",
				     IMAGE_NAME);
		else
			pause_ms(20);
	}
	if (rc)
		close(fd);
	else
		*out_fd = fd;
	return rc;
}

/* lock: image_lock()'s. */
static int image_repair(int dir, int lock, bool *out_repaired, struct err *e)
{
	char fsck[64], said[300];
	const char *argv[] = {fsck, "-p", IMAGE_NAME, NULL};
	char busy[IMAGE_LOOP_MAX];
	int code, rc;

	if (image_in_use(dir, busy)) /* repairing under a mount would destroy it */
		return err_set(e, ERR_SANDBOX_CREATE, "%s is still in use by %s", IMAGE_NAME, busy);
	if (image_is_clean(dir)) {
		*out_repaired = false;
		return 0;
	}
	rc = tool_find("e2fsck", fsck, sizeof(fsck), e);
	if (rc == 0)
		rc = tool_run_held(dir, argv, lock, TOOL_TIMEOUT, &code, said, sizeof(said), e);
	if (rc)
		return rc;
	if (code & ~3) /* 1 and 2: corrected */
		return err_set(e, ERR_CORRUPT, "%s is damaged, e2fsck gave %d: %s", IMAGE_NAME, code, said);
	*out_repaired = code != 0;
	return 0;
}

int image_check(int dir, bool *out_repaired, struct err *e)
{
	int lock, rc = image_lock(dir, &lock, e);

	if (rc)
		return rc;
	rc = image_repair(dir, lock, out_repaired, e);
	close(lock);
	return rc;
}

static int image_configure(int loop, int image)
{
	struct loop_config c = {.fd = (uint32_t)image, .block_size = 0};

	c.info.lo_flags = LO_FLAGS_AUTOCLEAR;
	snprintf((char *)c.info.lo_file_name, LO_NAME_SIZE, "muxd %s", IMAGE_NAME);
	return ioctl(loop, LOOP_CONFIGURE, &c) == 0 ? 0 : -errno;
}

/* Another program may take the free device between the question and the answer: then ask again. */
static int image_attach_try(int control, int image, char path[IMAGE_LOOP_MAX], int *out_fd)
{
	int rc = -EBUSY;

	for (int i = 0; i < ATTACH_TRIES && rc == -EBUSY; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		int fd = number < 0 ? -1 : loop_open(number, path);

		if (fd < 0)
			return -errno;
		rc = image_configure(fd, image);
		if (rc == 0) {
			*out_fd = fd;
			return 0;
		}
		close(fd);
		pause_ms(i < 8 ? 0 : 2);
	}
	return rc;
}

int image_attach(int dir, char out_path[IMAGE_LOOP_MAX], int *out_fd, struct err *e)
{
	char busy[IMAGE_LOOP_MAX];
	int image, control, rc = image_lock(dir, &image, e);

	if (rc)
		return rc;
	if (image_in_use(dir, busy)) {
		close(image);
		return err_set(e, ERR_SANDBOX_CREATE, "%s is still in use by %s", IMAGE_NAME, busy);
	}
	control = loop_control_open();
	rc = control < 0 ? -errno : image_attach_try(control, image, out_path, out_fd);
	if (rc)
		rc = err_sys(e, -rc, "cannot attach %s to a loop device", IMAGE_NAME);
	if (control >= 0)
		close(control);
	(void)flock(image, LOCK_UN); /* the device keeps the file open, and would the lock */
	close(image);
	return rc;
}

static bool loop_has(const char *name, const struct stat *image)
{
	struct loop_info64 info;
	char path[IMAGE_LOOP_MAX];
	bool yes = false;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "/dev/%s", name) >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (ioctl(fd, LOOP_GET_STATUS64, &info) == 0)
		yes = info.lo_inode == image->st_ino && info.lo_device == image->st_dev;
	close(fd);
	return yes;
}

bool image_in_use(int dir, char out_path[IMAGE_LOOP_MAX])
{
	struct stat st;
	bool yes = false;
	DIR *d;

	if (fstatat(dir, IMAGE_NAME, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	d = opendir("/dev");
	if (!d)
		return false;
	for (struct dirent *de; !yes && (de = readdir(d));) {
		if (strncmp(de->d_name, "loop", 4) != 0 || de->d_name[4] < '0' || de->d_name[4] > '9')
			continue;
		yes = loop_has(de->d_name, &st);
		if (yes && out_path)
			/* bytes: the kernel's own name of a device */
			snprintf(out_path, IMAGE_LOOP_MAX, "/dev/%.24s", de->d_name);
	}
	closedir(d);
	return yes;
}

int image_wait_free(int dir, uint64_t deadline_ns, struct err *e)
{
	char path[IMAGE_LOOP_MAX];

	while (image_in_use(dir, path)) {
		if (deadline_ms(deadline_ns) == 0)
			return err_set(e, ERR_TIMEOUT, "%s still has %s attached", path, IMAGE_NAME);
		pause_ms(2);
	}
	return 0;
}
