/*
 * freeze.h - the file system of a running sandbox's workspace stands still while its image is copied.
 *
 * FIFREEZE outlives whoever asked for it, so a process of its own asks: it thaws
 * when it is told to, when its asker has died, and when the time is up. Should
 * that process be killed, freeze_lift() thaws: of who asked, or of the next start.
 *
 * States: none -> frozen (freeze_begin) -> none (freeze_end).
 */
#ifndef CONTROL_LOCAL_FREEZE_H
#define CONTROL_LOCAL_FREEZE_H

#include "control/local/found.h"

#include <stdint.h>

struct err;

struct freeze {
	int fd; /* to the process that holds it; -1: none */
};

/*
 * init: process 1 of the sandbox; device: the loop device that must be behind its /workspace. What was written before
 * is in the image when it returns; who writes after waits. Lasts until freeze_end() or the deadline. ERR_TIMEOUT,
 * ERR_NOT_FOUND (the sandbox ended), ERR_SYS.
 */
int freeze_begin(const struct found *init, const char *device, uint64_t deadline_ns, struct freeze *out, struct err *e);
/* ERR_TIMEOUT: it did not last until now. None is fine. */
int freeze_end(struct freeze *f, struct err *e);
/* Thaws what a killed holder left frozen; nothing frozen is fine. */
void freeze_lift(const struct found *init, const char *device);

#endif
