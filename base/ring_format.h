/*
 * ring_format.h - places in the ring's header and in the cursor file. Private to ring_*.c and their tests.
 *
 * The line at RING_AT_HEAD holds the head and two slots {position, next
 * sequence}. A writer fills the slot of the coming head first, the slots by
 * turns, then stores the head: whoever finds a head finds the slot that was
 * complete before it, also when the writer was killed between two stores.
 */
#ifndef BASE_RING_FORMAT_H
#define BASE_RING_FORMAT_H

#include <stdint.h>

#define RING_HEADER_SIZE 4096
#define RING_MAGIC       "MUXDRING"
#define RING_MAJOR       1
#define RING_MINOR       0
#define RING_SIZE_MIN    (UINT64_C(1) << 20)
#define RING_SIZE_MAX    (UINT64_C(1) << 34)

enum ring_at {
	RING_AT_MAGIC = 0,
	RING_AT_MAJOR = 8,
	RING_AT_MINOR = 10,
	RING_AT_HEADER = 12, /* u32 size of the header */
	RING_AT_SIZE = 16,
	RING_AT_ID = 24,
	RING_AT_CRC = 40, /* u32 over 0..39 */
	RING_AT_EPOCH = 64,
	RING_AT_HEAD = 128,
	RING_AT_SLOTS = 136, /* 2 x {u64 position, u64 next sequence} */
	RING_AT_END = 168,
};

#define CURSOR_MAGIC "MUXDCURS"
#define CURSOR_SIZE  64

enum cursor_at {
	CURSOR_AT_MAGIC = 0,
	CURSOR_AT_MAJOR = 8,
	CURSOR_AT_CRC = 12, /* u32 over 16..63 */
	CURSOR_AT_DURABLE = 16,
	CURSOR_AT_SEQ = 24,
	CURSOR_AT_HEARTBEAT = 32,
	CURSOR_AT_STATE = 40,
	CURSOR_AT_PID = 44,
	CURSOR_AT_FLAGS = 48, /* u32 */
};

struct id;
struct err;

struct ring_info {
	uint64_t size;
	uint8_t id[16];
};

/* Read and check the fixed part of a ring's header. ERR_CORRUPT, ERR_VERSION. */
int ring_info_read(int fd, struct ring_info *out, struct err *e);
/* Whole reads, EINTR handled: 0, ERR_EOF when the file is shorter, ERR_SYS. */
int ring_pread(int fd, void *p, size_t n, uint64_t at);

#endif
