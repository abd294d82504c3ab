#include "muxd/doors/ssh/guard.h"

#include <stddef.h>
#include <string.h>

/* The head of libssh 0.10's struct ssh_channel_struct. */
struct channel_head {
	ssh_session session;
	uint32_t local_channel, local_window;
	int local_eof;
	uint32_t local_maxpacket;
	uint32_t remote_channel, remote_window;
	int remote_eof;
	uint32_t remote_maxpacket;
};

/* What 0.10 tells every client that opens a channel to a server. */
#define LOCAL_MAXPACKET 35000

uint32_t ssh_guard_packet_max(ssh_channel ch)
{
	struct channel_head h;

	if (!ssh_version(SSH_VERSION_INT(0, 10, 0)) || ssh_version(SSH_VERSION_INT(0, 11, 0)))
		return UINT32_MAX;
	memcpy(&h, (const void *)ch, sizeof(h));
	if (h.session != ssh_channel_get_session(ch) || h.remote_window != ssh_channel_window_size(ch) ||
	    h.local_maxpacket != LOCAL_MAXPACKET)
		return UINT32_MAX;
	return h.remote_maxpacket;
}
