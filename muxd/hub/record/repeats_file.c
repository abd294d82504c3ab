#define LOG_SUBSYS "audit"
#include "muxd/hub/record/repeats_file.h"

#include "base/err.h"
#include "base/log.h"
#include "muxd/hub/record/repeats.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096

_Static_assert(REPEATS_EVENT_MAX < PAGE, "an event and a NUL fit into a page");

int repeats_file_open(const char *path, int *out_fd, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), rc;

	*out_fd = fd;
	if (fd < 0)
		return err_sys(e, errno, "open %s", path);
	rc = posix_fallocate(fd, 0, (off_t)(REPEATS_KINDS * REPEATS_SLOTS) * PAGE);
	/* where blocks cannot be set aside (or there are none now) each write has to find its own */
	if (rc && rc != EOPNOTSUPP && rc != EINVAL)
		log_warn(NULL, "%s: no room is set aside: %s", path, strerror(rc));
	return 0;
}

int repeats_file_put(int fd, size_t slot, const char *text, size_t n)
{
	char page[PAGE];

	if (fd < 0 || n > REPEATS_EVENT_MAX)
		return ERR_INVAL;
	memset(page, 0, sizeof(page));
	memcpy(page, text, n);
	/* one page, and the page cache takes a page whole or not at all from a process that is killed */
	return pwrite(fd, page, n ? sizeof(page) : 1, (off_t)(slot * PAGE)) > 0 ? 0 : ERR_SYS;
}

size_t repeats_file_recover(int fd, size_t first, struct repeats *f)
{
	char page[PAGE];
	size_t found = 0;

	for (size_t i = 0; fd >= 0 && i < REPEATS_SLOTS; i++) {
		ssize_t n = pread(fd, page, sizeof(page), (off_t)((first + i) * PAGE));
		size_t len = n > 0 ? strnlen(page, (size_t)n) : 0;

		if (len == 0)
			continue;
		if (repeats_owe(f, i, page, len)) {
			found++;
			continue;
		}
		log_warn(NULL, "counts of what repeats are not readable (slot %zu), and given up", first + i);
		(void)repeats_file_put(fd, first + i, "", 0);
	}
	return found;
}
