/* A connection to a port in a sandbox: what its session is called, and how it ended. */
#include "muxd/hub/session/port.h"
#include "base/conf.h"
#include "base/err.h"
#include "base/ports.h"
#include "muxd/hub/agent/agent.h"
#include "muxd/hub/core/hub.h"

#include <errno.h>
#include <string.h>

int port_allowed(const struct hub *h, uint16_t port, struct err *e)
{
	if (!*hub_conf(h)->router_ports)
		return err_set(e, ERR_PORT_DENIED, "no port in a sandbox may be reached: router.ports is empty");
	if (!ports_allow(hub_conf(h)->router_ports, port))
		return err_set(e, ERR_PORT_DENIED, "port %u may not be reached: router.ports allows %.100s", port,
			       hub_conf(h)->router_ports);
	return 0;
}

json_t *port_json(const struct launch *l)
{
	json_t *o = json_pack("{s:i}", "port", (int)l->port);

	if (o && l->port_use)
		json_object_set_new(o, "request", json_string(l->port_use));
	return o;
}

static int code_failure(const struct session *s, int errnum, struct err *e)
{
	char buf[128];

	if (errnum == ECONNREFUSED)
		return err_set(e, ERR_PORT, "nobody listens on port %u of the loopback in the sandbox of %.100s",
			       s->launch.port, s->agent->name);
	if (errnum == ECONNRESET)
		return err_set(e, ERR_PORT, "the program on port %u in the sandbox of %.100s broke the connection off",
			       s->launch.port, s->agent->name);
	return err_set(e, ERR_PORT, "port %u in the sandbox of %.100s: %s", s->launch.port, s->agent->name,
		       strerror_r(errnum, buf, sizeof(buf)));
}

int port_result(const struct session *s, const struct session_result *r, struct err *e)
{
	if (s->killing && s->kill_text && strcmp(s->kill_text, PORT_CLOSED) == 0)
		return 0;
	if (r->cause == EXIT_EXITED && r->signal)
		return err_set(e, ERR_PORT,
			       "the connection to port %u in the sandbox of %.100s was killed by signal %s",
			       s->launch.port, s->agent->name, signal_name(r->signal));
	if (r->cause == EXIT_EXITED)
		return r->code ? code_failure(s, r->code, e) : 0;
	return err_set(e, r->cause == EXIT_LOST ? ERR_LINK_LOST : ERR_PORT, "port %u in the sandbox of %.100s: %s",
		       s->launch.port, s->agent->name, r->message[0] ? r->message : exit_cause_name(r->cause));
}
