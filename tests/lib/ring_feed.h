/*
 * ring_feed.h - what the hub writes into the ring, written by a test: for the rigs of the recorder and of its cutter.
 */
#ifndef TESTS_LIB_RING_FEED_H
#define TESTS_LIB_RING_FEED_H

#include "base/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

/* Waits while the ring is full, 10 s at the most. */
static inline void ring_feed(struct ring_writer *w, struct ring_record *rec, const void *bytes, size_t n)
{
	struct iovec iov = {(void *)(uintptr_t)bytes, n};
	struct ring_cursor c;

	for (int i = 0; ring_append(w, rec, &iov, 1, true); i++) {
		if (i > 20000)
			fail_msg("the ring stayed full for 10 s");
		usleep(500);
		(void)ring_writer_refresh(w, &c);
	}
}

#endif
