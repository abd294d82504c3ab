/*
 * stream_fd.h - a connected descriptor in front of a stream that is none: who wants a socket gets one.
 *
 * Owned by whoever owns the stream (an exec). States: open -> ending
 * (stream_fd_end(): what is buffered still goes) -> over (closed() was called; only
 * stream_fd_destroy() is left). Flow control both ways: the stream may send
 * STREAM_FD_WINDOW bytes beyond what the socket took, and the socket is not read
 * while the stream takes nothing. An idle one holds no buffer.
 */
#ifndef CONTROL_KUBE_EXEC_STREAM_FD_H
#define CONTROL_KUBE_EXEC_STREAM_FD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stream_fd;
struct uv_loop_s;

#define STREAM_FD_WINDOW (512 * 1024)

struct stream_fd_ops {
	/* Bytes taken; fewer than n: stream_fd_writable() is called when there is room again. Negative: the stream is
	 * over. */
	ssize_t (*input)(void *arg, const uint8_t *p, size_t n);
	/* The stream may send up to this many bytes in all. Never goes down. */
	void (*window)(void *arg, uint64_t until);
	/* The descriptor's owner closed it, or all was said after stream_fd_end(). Once; may destroy. */
	void (*closed)(void *arg);
};

/* received: bytes that the stream sent before, for window(). *out_fd is the caller's. ERR_SYS, ERR_NOMEM. */
int stream_fd_create(struct uv_loop_s *loop, const struct stream_fd_ops *ops, void *arg, uint64_t received,
		     struct stream_fd **out, int *out_fd);
/* From the stream to the descriptor. ERR_TOO_LARGE beyond the window, ERR_NOMEM: end the stream. */
int stream_fd_output(struct stream_fd *f, const uint8_t *p, size_t n);
void stream_fd_writable(struct stream_fd *f);
/* The stream sends no more. May call closed(), which may destroy f: touch nothing afterwards. */
void stream_fd_end(struct stream_fd *f);
/* NULL-safe; closed() is not called. The loop has to turn once more. */
void stream_fd_destroy(struct stream_fd *f);

#endif
