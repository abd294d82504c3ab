/*
 * diff.h - how one text becomes another, as the hunks of a unified diff with three lines of context.
 *
 * The shortest way by lines (Myers, in linear space) as long as that is found within a bound of work; behind the bound
 * a stretch is told as taken away and added anew, which is longer and as right. Lines end with "\n"; the last one may
 * lack it and says so. Pure, libc alone; bytes of any kind.
 */
#ifndef FILES_DIFF_H
#define FILES_DIFF_H

#include <stddef.h>

#define DIFF_TEXT_MAX (16u << 20) /* bytes of each: as patch.h takes them */

/* 0, or whatever shall end it. */
typedef int diff_put(void *arg, const char *p, size_t n);
/*
 * The hunks from a to b; nothing where they are the same. 0, what put said, or -1: no memory, or more than
 * DIFF_TEXT_MAX.
 */
int diff_unified(const char *a, size_t an, const char *b, size_t bn, diff_put *put, void *arg);

#endif
