/*
 * A peer as all its parts know it: it is marked due, and its turn comes before the loop sleeps (plain.c). What is said
 * to the hub goes into its buffer.
 */
#define LOG_SUBSYS "plain"
#include "muxd/plain/peer.h"
#include "base/log.h"

#include <string.h>

void peer_kick(struct plain_peer *p)
{
	p->due = true;
}

void peer_timer(struct plain_peer *p)
{
	p->retime = true;
}

void wire_put(struct plain_peer *p, const struct frame *f)
{
	size_t cap = f->type == FRAME_DATA ? FRAME_DATA_HEADER + f->n : 512, n;
	uint8_t *to;

	if (p->state == PEER_CLOSED || p->broken)
		return;
	if (buf_reserve(&p->out, cap, &to) || !(n = frame_encode(f, to, cap))) {
		log_error(&(struct log_ids){.agent = p->agent}, "a %s has no room: the peer ends",
			  frame_type_name(f->type));
		p->broken = true;
	} else {
		buf_commit(&p->out, n);
	}
	peer_kick(p);
}

void wire_error(struct plain_peer *p, uint32_t channel, uint16_t code, const char *text)
{
	wire_put(p, &(struct frame){.type = FRAME_ERROR,
				    .channel = channel,
				    .p = (const uint8_t *)text,
				    .n = strlen(text),
				    .u.opened.code = code});
}
