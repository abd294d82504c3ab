/*
 * backoff.h - how long to wait before the next try: doubling, bounded; with jitter where many would come at once. Pure
 * but for the jitter's randomness. Any unit of time.
 */
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

/* Before the next try after so many failures: first * 2^(failures - 1), at most `most`. */
uint64_t backoff(unsigned failures, uint64_t first, uint64_t most);
/* The same for who keeps the last wait instead of a count; last 0: there was none. */
uint64_t backoff_after(uint64_t last, uint64_t first, uint64_t most);
/* Between half and the whole of backoff(). */
uint64_t backoff_spread(unsigned failures, uint64_t first, uint64_t most);
/* base plus up to a quarter of it. */
uint64_t backoff_jitter(uint64_t base);

#endif
