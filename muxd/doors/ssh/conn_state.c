/* The state of a connection, and why it has to end. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/conn.h"

#include "base/log.h"
#include "base/text.h"

#include <stdarg.h>

static const char *const state_names[] = {"login", "open", "flushing", "closed"};

void ssh_conn_set_state(struct ssh_conn *c, enum ssh_conn_state to)
{
	struct log_ids ids = {.peer = c->peer};

	log_debug(&ids, "connection: %s -> %s", state_names[c->state], state_names[to]);
	c->state = to;
}

void ssh_conn_doom(struct ssh_conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->doom[0])
		return;
	va_start(ap, fmt);
	text_vformat(c->doom, sizeof(c->doom), fmt, ap);
	va_end(ap);
}

bool ssh_conn_clogged(const struct ssh_conn *c)
{
	return (ssh_get_status(c->ssh) & SSH_WRITE_PENDING) != 0;
}
