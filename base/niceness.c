#include "base/niceness.h"

#include <fcntl.h>
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
