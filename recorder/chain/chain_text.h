/*
 * chain_text.h - JSON payloads of the chain log and hexadecimal. Private to the recorder's library.
 */
#ifndef RECORDER_CHAIN_CHAIN_TEXT_H
#define RECORDER_CHAIN_CHAIN_TEXT_H

#include "base/json.h"
#include "policy/grant.h"
#include "recorder/chain/chain.h"

void chain_hex(const uint8_t *p, size_t n, char *out);  /* 2n + 1 bytes, lower case */
int chain_unhex(const char *s, uint8_t *out, size_t n); /* exactly 2n digits, else ERR_INVAL */
/* {"leaf","day","size"}; new reference, NULL when out of memory. */
json_t *chain_seal_json(const struct chain_seal *s);
/* The key that a CHAIN_KEY entry announces. ERR_CORRUPT. */
int chain_entry_key(const struct chain_entry *en, struct grant_public_key *out);
/* What it says of chain_foreign(); 0: nothing. */
uint64_t chain_entry_foreign(const struct chain_entry *en);

#endif
