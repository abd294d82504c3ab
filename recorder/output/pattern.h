/*
 * pattern.h - what is looked for in a line: some text as it is, or a regular expression, in time that is linear.
 *
 * The expression becomes a nondeterministic automaton whose states are followed all at once (K. Thompson, 1968), with
 * the sets of states that occurred remembered as a deterministic one, as RE2 does it. A byte costs one look in a table,
 * or at most one pass over the automaton: no expression and no line makes it slow, and memory has a bound. Hence
 * neither the C library's regexec(), which backtracks, nor PCRE2, whose DFA matcher begins anew at each byte without a
 * bound, nor TRE, whose compiler has none; RE2 itself is C++, and its runtime would come into the process that holds
 * the record's key.
 *
 * Bytes, not characters: `.` is one byte. Known: literals, `.`, `[a-z]`, `[^a-z]`, `\d \w \s \D \W \S \t \r \n \xHH`,
 * `\` before a punctuation mark, groups `( )` and `(?: )`, `|`, `* + ? {m} {m,} {m,n}`, `^` and `$` for the line's
 * ends. What is not known (back references, looking around) is refused by name. Owned by one thread.
 */
#ifndef RECORDER_OUTPUT_PATTERN_H
#define RECORDER_OUTPUT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct pattern;

#define PATTERN_MAX 1024 /* bytes of it */

enum pattern_flags { PATTERN_REGEX = 1, PATTERN_IGNORE_CASE = 2 };

/* ERR_INVAL says what is wrong and where; ERR_TOO_LARGE: it is longer than PATTERN_MAX, or its automaton too large. */
int pattern_create(const char *text, size_t n, unsigned flags, struct pattern **out, struct err *e);
void pattern_destroy(struct pattern *p); /* NULL-safe */
/* Somewhere in the line, which is without its end. */
bool pattern_matches(struct pattern *p, const uint8_t *line, size_t n);

#endif
