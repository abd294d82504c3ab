/* The limits of the SSH door, and its memory. */
#include "muxd/doors/ssh/door_state.h"

#include "base/conf.h"
#include "muxd/hub/core/hub.h"

#include <stdlib.h>
#include <unistd.h>

/* New connections a second from one address; twice as many after a quiet time. */
#define CONNECT_RATE 200
/* Failed log-ins of late with which an address is turned away. */
#define FAILURES_MAX 30

struct admit_rules ssh_door_rules(const struct ssh_door *d)
{
	const struct conf *c = hub_conf(d->hub);

	return (struct admit_rules){.max = c->ssh_max_connections,
				    .per_address = c->ssh_max_per_address,
				    .rate = CONNECT_RATE,
				    .gateways = c->listen_gateways,
				    .gateway_max = c->ssh_max_per_gateway,
				    .failures_max = FAILURES_MAX};
}

static void parting_end(struct ssh_parting *p)
{
	for (size_t i = 0; i < sizeof(p->fds) / sizeof(p->fds[0]); i++)
		if (p->fds[i])
			close(p->fds[i]);
}

void ssh_door_released(struct ssh_door *d)
{
	if (--d->handles > 0)
		return;
	close(d->listen_fd);
	ssh_bind_free(d->bind);
	admit_destroy(d->admit);
	parting_end(&d->parting);
	free(d);
}
