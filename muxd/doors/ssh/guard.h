/*
 * guard.h - a defence against one defect of libssh 0.10.
 *
 * A client that opens a channel with a maximum packet of 10 bytes makes
 * ssh_channel_write() loop until it has filled 256 MB: it sends packets of
 * 10 - 10 bytes. The library has no call that tells this number, so it is read
 * from the channel itself, and only believed when the library's version and
 * everything around it are what they must be.
 */
#ifndef MUXD_DOORS_SSH_GUARD_H
#define MUXD_DOORS_SSH_GUARD_H

#include <libssh/libssh.h>
#include <stdint.h>

/* RFC 4253 has every implementation take 32 KiB; what cannot take this has no use for a terminal. */
#define SSH_PACKET_MIN 512

/* What the client said it takes in one packet; UINT32_MAX when this library's channels look otherwise. */
uint32_t ssh_guard_packet_max(ssh_channel ch);

#endif
