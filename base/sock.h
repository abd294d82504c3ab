/*
 * sock.h - the few socket calls muxd needs, each checked and close-on-exec.
 *
 * Two kinds of local conversation exist: packets (SOCK_SEQPACKET, one JSON
 * value each, descriptors may ride along) between the monitor and its children
 * and on the admin socket; and msg streams (msg.h) where bulk flows.
 */
#ifndef BASE_SOCK_H
#define BASE_SOCK_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define SOCK_PACKET_MAX (256 * 1024)
#define SOCK_FDS_MAX    20

/* Listening Unix socket at path (an old socket there is replaced, any other file is an error). type: SOCK_*. */
int sock_listen_unix(const char *path, int type, mode_t mode, int *out_fd, struct err *e);
int sock_connect_unix(const char *path, int type, int *out_fd, struct err *e);
/* "127.0.0.1:8443", "[::1]:0", "localhost:22". ERR_ADDR_IN_USE and ERR_PERMISSION say which address. */
int sock_listen_tcp(const char *hostport, int *out_fd, struct err *e);
/* "127.0.0.1:40123" of a bound or connected socket. peer: the other end. */
int sock_name(int fd, int peer, char *out, size_t size);
int sock_peer_cred(int fd, pid_t *out_pid, uid_t *out_uid, gid_t *out_gid);
int sock_set_nonblock(int fd, int on);
/* Of TCP: for so long the peer has not answered what is on its way to it, ms. 0: nothing is, or it is there, though it
 * may read nothing. */
uint32_t sock_silent_ms(int fd);
int sock_pair(int type, int out_fds[2]);

/* One packet: JSON and up to SOCK_FDS_MAX descriptors (not closed here). ERR_AGAIN when it would block. */
int sock_send_packet(int fd, const json_t *msg, const int *fds, size_t nfds, struct err *e);
/* ERR_EOF on close, ERR_AGAIN when nothing is there. Received descriptors are close-on-exec and the caller's. */
int sock_recv_packet(int fd, json_t **out_msg, int *out_fds, size_t *inout_nfds, struct err *e);

#endif
