/* A peer as all its parts know it: it is marked due, and its turn comes before the loop sleeps (plain.c). */
#include "muxd/plain/peer.h"

void peer_kick(struct plain_peer *p)
{
	p->due = true;
}

void peer_timer(struct plain_peer *p)
{
	p->retime = true;
}
