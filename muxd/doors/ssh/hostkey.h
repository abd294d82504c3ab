/*
 * hostkey.h - the ssh_bind that every connection is accepted with: host key and pinned algorithms.
 *
 * Made once when the door opens; the key's text is wiped after it was imported.
 */
#ifndef MUXD_DOORS_SSH_HOSTKEY_H
#define MUXD_DOORS_SSH_HOSTKEY_H

#include <libssh/server.h>

struct err;

/* fd: an OpenSSH private key file (Ed25519), read from its beginning; stays the caller's. */
int ssh_hostkey_bind(int fd, ssh_bind *out, struct err *e);
/* Algorithms that are options of a session, not of a bind. */
int ssh_hostkey_session(ssh_session s, uint64_t rekey_bytes);

#endif
