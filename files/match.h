/*
 * match.h - does a line match a pattern, and where: literal text and regular expressions without backtracking.
 *
 * The room's rule: files is pure (bytes in, bytes out), and includes libc and itself alone, because muxlet runs it
 * inside the sandbox. The hub uses the same engine over rounds' output.
 *
 * Syntax: as RE2 and `grep -E` have in common. Characters, `.`, [classes], [^negated], [[:alpha:]], \d \w \s \D \W \S
 * (ASCII), ^ $ \A \z (a line's ends), \b \B \< \>, (groups), (?:...), (?i) and (?i:...), |, * + ? {n} {n,} {,m} {n,m},
 * \t \n \r \f \v \a \e \xHH \x{H...} \uHHHH. A `{` that begins no repeat is itself. Lazy repeats (`*?`) are taken and
 * are not lazy: of all matches in a line the leftmost is told, and of those the longest. There are neither
 * backreferences nor lookaround: an error names them. A character is a code point of UTF-8; a byte that belongs to none
 * is matched by nothing (MATCH_BYTES: each byte is a character).
 *
 * How: a Thompson automaton over bytes, determinized while it runs (at most MATCH_CACHE bytes of states, then anew).
 * Time is linear in the text; what one step may cost is bounded by the automaton's size, and all of it together by a
 * budget of work, behind which the answer is MATCH_TOO_COMPLEX.
 *
 * A match belongs to whoever made it, and to one thread: it learns while it searches.
 */
#ifndef FILES_MATCH_H
#define FILES_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATCH_PATTERN_MAX 4096         /* bytes */
#define MATCH_REPEAT_MAX  1000         /* in {n,m} */
#define MATCH_DEPTH_MAX   100          /* groups in groups */
#define MATCH_SIZE_MAX    40000        /* steps of the automaton */
#define MATCH_CACHE       (2u << 20)   /* bytes of states, for each of three directions */
#define MATCH_WORK        400000000ull /* steps of building states, a second or two */

#define MATCH_LITERAL 1u  /* the pattern is text, not an expression */
#define MATCH_NOCASE  2u  /* ASCII, Latin, Greek, Cyrillic and Armenian letters in either case */
#define MATCH_BYTES   4u  /* each byte is a character: names of files */
#define MATCH_WHOLE   8u  /* the whole line */
#define MATCH_WORD    16u /* between \b and \b */

enum match_result { MATCH_TOO_COMPLEX = -1, MATCH_NO = 0, MATCH_YES = 1 };

struct match_error {
	size_t at;     /* offset into the pattern, in bytes */
	char why[160]; /* "nothing before * to repeat: write \* for the character" */
};

struct match_span {
	size_t from, to; /* offsets into the line, in bytes; from == to: an empty match */
};

/* NULL with *err: a syntax error, or one that names which bound was passed, or no memory. */
struct match *match_new(const char *pattern, size_t n, unsigned flags, struct match_error *err);
void match_free(struct match *m); /* NULL allowed */
/* How many bytes of a line are its text: its end is "\n", "\r\n", or a "\r" behind which nothing comes. */
size_t match_line_text(const void *p, size_t n);
/* The first match in a line (without its end). out_span NULL: only whether, which is cheaper. */
enum match_result match_line(struct match *m, const void *p, size_t n, struct match_span *out_span);
/* Could text that begins with these bytes match from its first byte on? What prunes a walk. */
enum match_result match_begins(struct match *m, const void *p, size_t n);
/* Text that every match holds; its length is 0 where none is known. Lines without it need not be looked at. */
const char *match_needs(const struct match *m, size_t *out_n);
/* A new budget of work, for a new file. */
void match_refuel(struct match *m);

#endif
