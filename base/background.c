#include "base/background.h"

#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BACKGROUND_NICE 15
#define LAST_LEVEL      7 /* ioprio_set(2): the lowest of the best-effort class */

void background_enter(void)
{
	/* On Linux a nice value is a thread's own (setpriority(2), "C library/kernel differences"). */
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), BACKGROUND_NICE);
	(void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, LAST_LEVEL));
}
