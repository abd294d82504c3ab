/*
 * digest.h - the SHA-256 of JSON, whatever the order of its members: as hexadecimal of 64 digits. Pure.
 */
#ifndef CONTROL_SERVERS_DIGEST_H
#define CONTROL_SERVERS_DIGEST_H

#include "base/json.h"

#define DIGEST_SZ 65

int digest_json(const json_t *v, char out[DIGEST_SZ]); /* ERR_NOMEM */
int digest_bytes(const void *p, size_t n, char out[DIGEST_SZ]);

#endif
