/*
 * copy.h - a file becomes a copy of another, holes and all, as cheaply as the file system allows.
 *
 * A reflink where both lie on a file system that has them (one call, one moment
 * in time), else the ranges that hold data, within the kernel. No state.
 */
#ifndef CONTROL_LOCAL_COPY_H
#define CONTROL_LOCAL_COPY_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/*
 * `to` is empty and open for writing; it gets from's size. Nothing is synced. CLOCK_BOOTTIME deadline.
 * *out_reflink: how. ERR_DISK_FULL, ERR_TIMEOUT, ERR_SYS.
 */
int copy_file(int from, int to, uint64_t deadline_ns, bool *out_reflink, struct err *e);

#endif
