#include "base/niceness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void niceness_set(int nice)
{
	int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	char text[8];
	int n = snprintf(text, sizeof(text), "%d", nice);

	(void)setpriority(PRIO_PROCESS, 0, nice);
	if (fd >= 0) {
		(void)!write(fd, text, (size_t)n);
		close(fd);
	}
}

int niceness_ahead(pid_t pid, bool on)
{
	const struct sched_param one = {.sched_priority = on};

	if (pid <= 0) /* to the kernel that is the caller */
		return -EINVAL;
	return sched_setscheduler(pid, on ? SCHED_RR : SCHED_OTHER, &one) ? -errno : 0;
}

bool niceness_is_ahead(pid_t pid)
{
	return sched_getscheduler(pid) == SCHED_RR;
}
