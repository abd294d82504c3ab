/* Where each room of the hub finds its own state: the one place beside setup.c and hub.c that knows where that is. */
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/core/hub_state.h"

struct audit_repeats *hub_repeats(const struct hub *h)
{
	return h->repeats;
}
