/*
 * loader.h - who loaded the configuration, as the recorder writes it into the log with every load.
 *
 * {"load","how","door","uid","principal","pid","login_uid"}: load is a mark that tells one load from the next; how is
 * start or reload; door is start, signal or admin; principal is the name of the uid, which the kernel vouches for;
 * login_uid is the person behind sudo or su where the kernel knows one (/proc/PID/loginuid).
 */
#ifndef MUXD_MONITOR_LOADER_H
#define MUXD_MONITOR_LOADER_H

#include "base/json.h"

#include <sys/types.h>

/* A new reference; NULL: no memory. pid 0: not known. */
json_t *loader_describe(const char *how, const char *door, uid_t uid, pid_t pid);

#endif
