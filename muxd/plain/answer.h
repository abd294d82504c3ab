/*
 * answer.h - what the scripts of script.h say: one line each, read from bytes of the container. Pure.
 *
 * A start's line comes on the program's own stdout, before the program is there to write: what follows it is the
 * program's, and nothing the program writes can take its place.
 */
#ifndef MUXD_PLAIN_ANSWER_H
#define MUXD_PLAIN_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ANSWER_MAX 160 /* bytes of a line, its end included */

enum answer_kind { ANSWER_MORE, ANSWER_NONE, ANSWER_STARTED, ANSWER_REFUSED };

/* "muxd started PID GROUP SESSION START\n", "muxd cwd ERRNO\n" or "muxd exec ERRNO\n"; \r\n on a terminal. */
struct answer_start {
	int64_t pid, session; /* 0: there is no /proc */
	char start[24];
	char at[8]; /* refused: "cwd" or "exec" */
	int error;  /* refused: errno */
};

/*
 * The line at the front of p. ANSWER_MORE: not whole yet; ANSWER_NONE: it is no such line. *used: bytes of the line,
 * when it is one.
 */
enum answer_kind answer_start(const uint8_t *p, size_t n, struct answer_start *out, size_t *used);

/* "muxd probe PROC HEAD DD BASH\n", 0 or 1 each. */
struct answer_probe {
	bool proc, head, dd, bash;
};
bool answer_probe(const char *text, struct answer_probe *out);

/* The n-th "muxd left FOUND\n" of a sweep: how many processes were there. -1: it does not say. */
int64_t answer_left(const char *text, size_t nth);

#endif
