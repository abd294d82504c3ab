/* muxd-screen: one session's terminal, drawn where it can do no harm. Started by the monitor alone, with descriptor 3.
 */
#include "base/err.h"
#include "muxd/screen/worker.h"

#include <stdio.h>
#include <unistd.h>

#define FRAMES_FD 3

int main(void)
{
	struct err e = {0};
	int rc = worker_confine(&e);

	if (rc) {
		fprintf(stderr, "muxd-screen: %s\n", e.message);
		_exit(err_exit_code(rc));
	}
	rc = worker_run(FRAMES_FD);
	_exit(rc ? err_exit_code(rc) : 0); /* without the calls that an ordinary end makes */
}
