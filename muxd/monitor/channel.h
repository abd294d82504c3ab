/*
 * channel.h - one packet conversation (sock.h) on the monitor's loop.
 *
 * Owned by its maker. Incoming packets come by callback; what cannot be sent at
 * once waits in a bounded queue. A callback may destroy its channel.
 *
 * States: open -> closed (end-of-file, error, bad packet or full queue; `closed`
 * is called once, never from channel_destroy) -> destroyed.
 */
#ifndef MUXD_MONITOR_CHANNEL_H
#define MUXD_MONITOR_CHANNEL_H

#include "base/json.h"

#include <stddef.h>
#include <uv.h>

struct channel;
struct err;

/* msg: an object, borrowed. Descriptors that came along are closed afterwards: no peer of ours sends any. */
typedef void channel_packet(void *arg, const json_t *msg);
typedef void channel_closed(void *arg, const struct err *why);

struct channel_ops {
	channel_packet *packet;
	channel_closed *closed;
	size_t queue_max; /* packets that may wait */
};

/* fd becomes the channel's, also on failure. */
int channel_create(uv_loop_t *loop, int fd, const struct channel_ops *ops, void *arg, struct channel **out,
		   struct err *e);
void channel_destroy(struct channel *c); /* NULL-safe */
/* msg is borrowed, descriptors are duplicated when they must wait. ERR_EOF once closed, ERR_LIMIT when the queue is
 * full. */
int channel_send(struct channel *c, const json_t *msg, const int *fds, size_t nfds);

#endif
