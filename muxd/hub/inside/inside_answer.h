/*
 * inside_answer.h - what may be in an answer of a server inside, and in a caller's parameters. Pure.
 *
 * A server may not ask its client back: not by a request, and not by an answer in place of one. Such an answer is a
 * `resultType` other than `complete` (2026-07-28), or error -32042, which names addresses to send people to. Members
 * that carry a question or the answer to one are taken out on both ways.
 */
#ifndef MUXD_HUB_INSIDE_INSIDE_ANSWER_H
#define MUXD_HUB_INSIDE_INSIDE_ANSWER_H

#include "base/json.h"

#include <stddef.h>

/* false: it asks back, and out names by what; else what is left in it is an answer. One of both is NULL. */
bool inside_answer_clean(json_t *result, json_t *error, char *out, size_t size);
/* Parameters of a caller, without what only an answer to a server's question would hold. */
void inside_params_clean(json_t *params);
/* Text of a stranger, of at most 60 bytes and cut between characters. */
void inside_word(char *out, size_t size, const char *text);

#endif
