/*
 * hostkey.h - the SSH host key in OpenSSH's own private-key format ("openssh-key-v1").
 *
 * That is the one Ed25519 format which every libssh and OpenSSH reads; it is a
 * few length-prefixed strings, so it is written here rather than linking libssh
 * into the monitor. Pure.
 */
#ifndef MUXD_MONITOR_HOSTKEY_H
#define MUXD_MONITOR_HOSTKEY_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define HOSTKEY_FINGERPRINT_MAX 64 /* "SHA256:" and 43 characters of base64 */

/* Text of the private key file (to be wiped and freed) and of the one-line public key (to be freed). */
int hostkey_encode(const uint8_t seed[32], const uint8_t public_key[32], const char *comment, char **out_private,
		   char **out_public, struct err *e);
/* As ssh-keygen -l shows it, from a one-line public key. */
int hostkey_fingerprint(const char *public_line, char out[HOSTKEY_FINGERPRINT_MAX], struct err *e);

#endif
