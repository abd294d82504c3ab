/*
 * holder.h - processes that keep a workspace mounted although nobody knows them any more.
 *
 * A start that was cut short, or a lost sandbox.json, can leave a process whose
 * mount namespace holds the image. It is known by two things together: the
 * loop device in its mount table, and an outside uid that only sandboxes have.
 */
#ifndef CONTROL_LOCAL_HOLDER_H
#define CONTROL_LOCAL_HOLDER_H

#include <stddef.h>
#include <sys/types.h>

/* Kills those with a uid from first on (count of them) that have the device mounted; returns how many. */
size_t holder_kill(const char *device, uid_t first, uid_t count);

#endif
