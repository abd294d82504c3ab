/*
 * ring.h - the journal ring: one file on tmpfs, one writer (the hub), one reader (the recorder).
 *
 * The writer maps it; the reader never does: it preads into private memory and
 * validates, so that a writer gone bad cannot kill it. Positions are absolute
 * 64-bit byte counts that never wrap; a position modulo the size is a place in
 * the file. The head is stored with release order after the payload. The file
 * outlives both processes: the next writer goes on from the head it finds, with
 * a higher epoch, once it holds the lock (flock) of the one before.
 *
 * The reader's progress stands in a second small file, the cursor, written by
 * the recorder alone. Space up to `durable` may be used again.
 *
 * Neither looks again and again whether the other did something: each rings a
 * bell, an eventfd, which both hold. A reader that has seen everything says in
 * the cursor that it rests, then looks at the head once more, then waits; a
 * writer that has read so rings with its next record. The reader rings whenever
 * the cursor says something new. So a record that is written between two of
 * those steps is found by the reader's last look, or by the writer's next.
 *
 * File: 4096-byte header (magic "MUXDRING", major u16, minor u16, size u64,
 * ring id 16 bytes, epoch u64, head u64 at its own cache line), then `size` bytes.
 * A record is contiguous in position space, padded to 8 bytes, and wraps at the
 * end of the file like any other byte (ring_record.h). See docs/ring-and-segments.md.
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct err;

#define RING_RECORD_MAX (128 * 1024) /* payload */

enum ring_type {
	RING_OPEN = 1,   /* JSON: a session begins (intent) */
	RING_DATA = 2,   /* bytes of one stream at `offset` */
	RING_RESIZE = 3, /* u16 cols, u16 rows, u16 xpixel, u16 ypixel */
	RING_EVENT = 4,  /* JSON: attach, detach, undelivered, pause, eof, signal ... of a session */
	RING_EXIT = 5,   /* JSON: the session's end: cause, code, signal, totals */
	RING_AUDIT = 6,  /* JSON: an audit event; session may be nil */
	RING_CLOCK = 7,  /* JSON: wall clock anchor {wall_ns, boot_id} */
	RING_SECRET = 8, /* u64 length only: secret input went through; bytes are never journaled */
};

enum ring_stream { STREAM_INPUT = 0, STREAM_OUTPUT = 1, STREAM_STDERR = 2, STREAM_COUNT = 3 };

/* One record. `offset` counts bytes of that session and stream. Times: CLOCK_BOOTTIME ns. */
struct ring_record {
	uint64_t seq; /* given by the writer, +1 each, goes on over restarts */
	uint64_t boot_ns;
	struct id session;
	uint64_t offset;
	uint8_t type;   /* enum ring_type; unknown types without RING_CRITICAL are kept and skipped */
	uint8_t stream; /* enum ring_stream */
	uint16_t flags;
	uint32_t len;
	const uint8_t *payload; /* reader: valid until the next ring_read() */
};
#define RING_CRITICAL        0x8000u
#define RING_MASKED          0x0001u /* DATA: input that was not echoed; payload is '*' of the same length */
#define RING_ORIGIN_RECORDER 0x0002u /* in segments only: written by the recorder itself */

/* What the recorder publishes. */
struct ring_cursor {
	uint64_t durable;      /* position: everything before it is in the segment log and synced */
	uint64_t durable_seq;  /* sequence of the last durable record */
	uint64_t heartbeat_ns; /* CLOCK_BOOTTIME of the last turn of its loop */
	uint32_t state;        /* enum ring_reader_state */
	uint32_t reader_pid;
	uint32_t flags; /* RING_CURSOR_* */
};
#define RING_CURSOR_REFUSE 1u /* a witness is too far behind: nothing new may start */
#define RING_CURSOR_RESTS  2u /* all was read: the next record has to ring */
#define RING_CURSOR_LOW    4u /* less than shares.record_low is free */
enum ring_reader_state {
	RING_READER_STARTING = 0,
	RING_READER_OK = 1,
	RING_READER_DISK_FULL = 2,
	RING_READER_FAILED = 3
};

/* Create the file when missing (posix_fallocate; ERR_DISK_FULL), check it when there. size: power of two >= 1 MiB. */
int ring_file_prepare(const char *path, size_t size, struct err *e);
/* A fresh one in the place of what is there, or nothing changes. For a ring that nobody uses and nobody needs. */
int ring_file_renew(const char *path, size_t size, struct err *e);
int ring_cursor_prepare(const char *path, struct err *e);

struct ring_writer;
/* Takes both descriptors (dup'ed; caller keeps its own). Waits up to 5 s for the previous writer's lock. */
int ring_writer_create(int ring_fd, int cursor_fd, struct ring_writer **out, struct err *e);
void ring_writer_destroy(struct ring_writer *w);
/*
 * Append; sets rec->seq (and boot_ns when 0). payload is given as iov (rec->payload ignored).
 * reserve: true for input, control and audit records, which may use the last eighth of the ring.
 * ERR_AGAIN when full, ERR_TOO_LARGE over RING_RECORD_MAX. No system call.
 */
int ring_append(struct ring_writer *w, struct ring_record *rec, const struct iovec *iov, int iovcnt, bool reserve);
/*
 * The records that are appended from here on are seen, by the reader and by the next writer, all at once or, after a
 * kill, not at all: by ring_let(). keep false: they were never appended.
 */
void ring_hold(struct ring_writer *w);
void ring_let(struct ring_writer *w, bool keep);
uint64_t ring_head(const struct ring_writer *w);             /* with what is held */
size_t ring_room(const struct ring_writer *w, bool reserve); /* bytes free for payload and headers */
size_t ring_size(const struct ring_writer *w);
/*
 * Bytes that were appended, for as long as nothing stands in their place: of the payload of the record that begins at
 * position `at`, from byte skip on, at most max, to `to`. Only of the record that is meant: type, session, stream and
 * offset of `meant`. Returns the count (0: skip is its end), ERR_NOT_FOUND: other bytes stand there.
 */
ssize_t ring_recall(const struct ring_writer *w, uint64_t at, const struct ring_record *meant, size_t skip, void *to,
		    size_t max);
/* pread the cursor; cheap, call it from a timer. ERR_CORRUPT when torn (keeps the old one). */
int ring_cursor_read(int cursor_fd, struct ring_cursor *out);
int ring_writer_refresh(struct ring_writer *w, struct ring_cursor *out); /* reads cursor, frees space */

struct ring_reader;
int ring_reader_create(int ring_fd, uint64_t from, struct ring_reader **out, struct err *e);
void ring_reader_destroy(struct ring_reader *r);
/* 1 and a record, 0 at the head, ERR_CORRUPT with *e saying where (the reader stays before it). */
int ring_read(struct ring_reader *r, struct ring_record *out, struct err *e);
uint64_t ring_reader_position(const struct ring_reader *r);
uint64_t ring_reader_head(struct ring_reader *r);
void ring_reader_id(const struct ring_reader *r, struct id *out_ring_id);
uint64_t ring_reader_size(const struct ring_reader *r);
uint32_t ring_reader_epoch(const struct ring_reader *r);           /* low half, of the last record */
void ring_reader_expect(struct ring_reader *r, uint64_t next_seq); /* the next record must carry it; 0 = any */
int ring_cursor_write(int cursor_fd, const struct ring_cursor *c); /* one pwrite, with CRC */
/* The head as it is in the file now, without a reader. ERR_CORRUPT. */
int ring_head_read(int ring_fd, uint64_t *out);
/* Bells: eventfds that do not block. To ring twice is to ring once; who answers one takes all of it. */
int bell_create(int *out_fd, struct err *e);
void bell_ring(int fd);
void bell_answer(int fd);

#endif
