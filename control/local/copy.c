#include "control/local/copy.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP  (INT64_C(8) << 20) /* between looks at the clock */
#define CHUNK 65536

/* Where the kernel cannot copy between these two file systems. */
static ssize_t copy_by_hand(int from, int to, off_t at, off_t end)
{
	char chunk[CHUNK];
	off_t left = end - at;
	ssize_t n = pread(from, chunk, left < CHUNK ? (size_t)left : CHUNK, at);
	ssize_t done = 0;

	while (n > 0 && done < n) {
		ssize_t w = pwrite(to, chunk + done, (size_t)(n - done), at + done);

		if (w < 0 && errno != EINTR)
			return -1;
		done += w > 0 ? w : 0;
	}
	return n < 0 ? n : done;
}

static ssize_t copy_some(int from, int to, off_t at, off_t end)
{
	off_t in = at, out = at;
	ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at < STEP ? end - at : STEP), 0);

	if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS))
		n = copy_by_hand(from, to, at, end);
	return n;
}

static int copy_range(int from, int to, off_t at, off_t end, uint64_t deadline_ns, struct err *e)
{
	while (at < end) {
		ssize_t n = copy_some(from, to, at, end);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "cannot copy the workspace");
		if (n == 0)
			return err_set(e, ERR_SYS, "the workspace became shorter while it was copied");
		if (clock_boot_ns() > deadline_ns)
			return err_set(e, ERR_TIMEOUT, "copying the workspace took longer than allowed");
		at += n;
	}
	return 0;
}

static int copy_data(int from, int to, off_t size, uint64_t deadline_ns, struct err *e)
{
	off_t at = 0;
	int rc = 0;

	if (ftruncate(to, size) != 0)
		return err_sys(e, errno, "cannot size the copy of the workspace");
	while (rc == 0 && at < size) {
		off_t data = lseek(from, at, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno == ENXIO) /* only a hole is left */
			return 0;
		hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return err_sys(e, errno, "cannot read the workspace");
		rc = copy_range(from, to, data, hole, deadline_ns, e);
		at = hole;
	}
	return rc;
}

int copy_file(int from, int to, uint64_t deadline_ns, bool *out_reflink, struct err *e)
{
	struct stat st;
	int rc;

	if (ioctl(to, FICLONE, from) == 0) {
		*out_reflink = true;
		return 0;
	}
	if (fstat(from, &st) != 0)
		return err_sys(e, errno, "cannot read the workspace");
	rc = copy_data(from, to, st.st_size, deadline_ns, e);
	if (rc == 0)
		*out_reflink = false;
	return rc;
}
