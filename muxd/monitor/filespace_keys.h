/*
 * filespace_keys.h - token and certificate authority of the file store (filespace.token_file, filespace.ca_file), for
 * net.
 *
 * Both are often root's alone: the monitor copies them into DIR/keys/filespace (net's, 0600), at the start, at SIGHUP
 * and each minute, and net reads them again by itself (control/filespace/fstore.h). What is not configured is removed.
 */
#ifndef MUXD_MONITOR_FILESPACE_KEYS_H
#define MUXD_MONITOR_FILESPACE_KEYS_H

#include "muxd/monitor/layout.h"

struct conf;

/* ERR_CONFIG, ERR_NOT_FOUND, ERR_PERMISSION: one sentence. */
int filespace_keys_open(const struct conf *conf, const struct layout *l, const struct identity *who, struct err *e);
/* The same later: a file that cannot be read leaves the old one, and is logged. */
void filespace_keys_refresh(const struct conf *conf, const struct layout *l, const struct identity *who);

#endif
