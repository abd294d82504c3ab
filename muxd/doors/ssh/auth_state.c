/* The state of a log-in, whom its failures are told to, and its end. */
#define LOG_SUBSYS "ssh"
#include "muxd/doors/ssh/auth.h"

#include "base/clock.h"
#include "base/log.h"
#include "muxd/doors/ssh/conn.h"

#include <stdlib.h>

static const char *const state_names[] = {"start",   "token asked", "key shown", "reason asked",
					  "issuing", "issued",      "done",      "failed"};

void ssh_auth_set_state(struct ssh_conn *c, enum ssh_auth_state to)
{
	struct log_ids ids = {.peer = c->peer};

	log_debug(&ids, "log-in: %s -> %s", state_names[c->auth.state], state_names[to]);
	c->auth.state = to;
}

struct origin ssh_auth_origin(const struct ssh_conn *c)
{
	return (struct origin){.door = "ssh", .peer = c->peer, .endpoint = "login"};
}

void ssh_auth_audit(struct ssh_conn *c, const char *what, int code, const char *text)
{
	struct origin from = ssh_auth_origin(c);
	struct err e;

	err_set(&e, code, "%s", text);
	broker_audit_refused(c->door->hub, &from, what, NULL, &e);
}

void ssh_auth_given_up(struct ssh_conn *c, const char *what, int code, const char *text)
{
	ssh_auth_audit(c, what, code, text);
	(void)admit_failed(c->place, clock_boot_ns());
}

void ssh_auth_timeout(struct ssh_conn *c)
{
	if (c->auth.user[0])
		ssh_auth_given_up(c, "login grace", ERR_TIMEOUT, "the log-in took longer than ssh.login_grace");
	ssh_auth_set_state(c, SSH_AUTHN_FAILED);
}

void ssh_auth_forget_issue(struct ssh_conn *c)
{
	free(c->auth.issue);
	c->auth.issue = NULL;
}

void ssh_auth_end(struct ssh_conn *c)
{
	if (c->auth.offers > 0 && c->auth.state < SSH_AUTHN_KEY_SHOWN)
		ssh_auth_given_up(c, "key", ERR_UNAUTHENTICATED,
				  "no key that was offered is one of staff for this agent");
	if (c->auth.issue && !c->auth.issue->refused.code) {
		c->auth.issue->conn = NULL; /* the broker's still */
		c->auth.issue = NULL;
	}
	ssh_auth_forget_issue(c);
}
