/*
 * backoff.h - how long to wait before the next try: doubling, bounded, with jitter so that not all come at once.
 */
#ifndef CONTROL_KUBE_CLIENT_BACKOFF_H
#define CONTROL_KUBE_CLIENT_BACKOFF_H

#include <stdint.h>

/* Milliseconds before try number `failures` + 1: between half and the whole of min * 2^(failures - 1), at most max. */
uint64_t kube_backoff_ms(unsigned failures, uint64_t min_ms, uint64_t max_ms);
/* base plus up to a quarter of it. */
uint64_t kube_jitter(uint64_t base);

#endif
