/*
 * rc_frame.h - the channel protocol inside an exec WebSocket: v5 and v4.channel.k8s.io. Pure.
 *
 * A message is one byte of channel, then bytes. It may come in any pieces: one
 * byte at a time, in fragments, empty. Channel 255 exists in v5 alone and closes
 * the channel in its second byte. What to do with channels is the stream's affair.
 *
 * Follows KEP-4006 and k8s.io/apimachinery/pkg/util/remotecommand.
 */
#ifndef CONTROL_KUBE_EXEC_RC_FRAME_H
#define CONTROL_KUBE_EXEC_RC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rc_channel {
	RC_CH_STDIN = 0,
	RC_CH_STDOUT = 1,
	RC_CH_STDERR = 2,
	RC_CH_STATUS = 3, /* one metav1.Status, at the end */
	RC_CH_RESIZE = 4,
	RC_CH_CLOSE = 255,
};

#define RC_PROTOCOL_V5 "v5.channel.k8s.io"
#define RC_PROTOCOL_V4 "v4.channel.k8s.io"
/* 5, 4, or 0 for a name that is neither (or NULL). */
int rc_protocol_version(const char *name);

/* Zeroed at the start; belongs to one WebSocket. */
struct rc_decoder {
	bool inside; /* the channel byte of the present message is known */
	uint8_t channel;
};

struct rc_piece {
	uint8_t channel;
	const uint8_t *p; /* inside what was given; NULL when n is 0 */
	size_t n;
	bool end; /* the message ends here */
};

/*
 * The next n bytes of a message; last: its last. Fills *out and returns true when there is something to act on:
 * bytes, or the end of a message that had a channel. An empty message is nothing.
 */
bool rc_decode(struct rc_decoder *d, const uint8_t *p, size_t n, bool last, struct rc_piece *out);

#define RC_RESIZE_MAX 48
/* {"Width":80,"Height":24} behind its channel byte. Returns its length; 0 for a side of 0: servers stop resizing then.
 */
size_t rc_encode_resize(uint16_t cols, uint16_t rows, uint8_t out[RC_RESIZE_MAX]);

#define RC_CLOSE_LEN 2
void rc_encode_close(enum rc_channel channel, uint8_t out[RC_CLOSE_LEN]);

#endif
