/*
 * retry.h - when something that failed is tried again: after a second, then each time after twice as long, at most 16.
 *
 * A value in whoever tries. It fails again and again for hours where a disk or a folder is gone: each try costs. Who is
 * waited for tries each second all the same. Times are boot ns.
 */
#ifndef RECORDER_WRITE_RETRY_H
#define RECORDER_WRITE_RETRY_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct retry {
	unsigned failures; /* since it was steady */
	unsigned hurried;  /* of them, after which it was tried again at once */
	uint64_t at_ns, soon_ns;
	uint64_t last_ns; /* of the failures */
};

#define RETRY_STEADY_NS (60 * NS_PER_SEC)

/* at_once: what failed is mended by the next try. So many times that helps; then it waits, too. */
void retry_failed(struct retry *r, uint64_t now, unsigned at_once);
bool retry_due(const struct retry *r, uint64_t now, bool awaited);
/*
 * A try came through. That says little where what failed is still to be done: unless all is done the pauses begin anew
 * once nothing has failed for RETRY_STEADY_NS. True: that is so now, after failures.
 */
bool retry_worked(struct retry *r, uint64_t now, bool all_done);

#endif
