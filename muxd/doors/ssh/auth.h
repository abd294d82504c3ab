/*
 * auth.h - the log-in of one SSH connection.
 *
 * Part of its conn. Two ways in: a grant token, as password or as the answer to
 * "Token as password: "; or a key of staff, then the reason at "Reason: ", for which the monitor
 * signs a grant.
 *
 * START -> TOKEN_ASKED -> DONE                                 token by keyboard-interactive
 * START -> DONE                                                token as password
 * START -> KEY_SHOWN -> REASON_ASKED -> ISSUING -> ISSUED -> DONE   key and reason
 * any -> FAILED: no more tries on this connection.
 *
 * libssh takes an answer only from inside its callback, and a grant takes a trip to the
 * monitor. So the reason is answered with a request that has no prompts, and nothing
 * more is read until the grant is there: the client's empty answer then finds it. In
 * the same way a delay after a failure is a pause in reading; nothing blocks.
 */
#ifndef MUXD_DOORS_SSH_AUTH_H
#define MUXD_DOORS_SSH_AUTH_H

#include "base/err.h"
#include "muxd/doors/ssh/login.h"
#include "muxd/hub/broker/broker.h"
#include "muxd/hub/core/request_kept.h"

#include <libssh/server.h>

struct ssh_conn;
struct ssh_auth_issue;

enum ssh_auth_state {
	SSH_AUTHN_START,
	SSH_AUTHN_TOKEN_ASKED,
	SSH_AUTHN_KEY_SHOWN,
	SSH_AUTHN_REASON_ASKED,
	SSH_AUTHN_ISSUING,
	SSH_AUTHN_ISSUED,
	SSH_AUTHN_DONE,
	SSH_AUTHN_FAILED,
};

struct ssh_auth {
	enum ssh_auth_state state;
	char user[AGENT_NAME_MAX + ID_STR_LEN + 2]; /* the first one said; another one is refused */
	struct ssh_login login;
	char principal[GRANT_NAME_MAX + 1]; /* of the key that was shown */
	unsigned failures, offers;
	struct ssh_auth_issue *issue; /* a grant is asked for, or was refused; NULL: neither */
	struct request_kept *in;      /* from ISSUED or DONE on: under which grant; else NULL */
};

/* A grant that is asked for: the broker's until it answers, whatever becomes of the connection; a refusal is the
 * log-in's, until the client asks for it. */
struct ssh_auth_issue {
	struct ssh_conn *conn; /* NULL: gone */
	struct err refused;    /* code 0: not answered yet */
};

/* auth.c: callbacks of a fresh connection's log-in into c->callbacks. */
void ssh_auth_begin(struct ssh_conn *c);
/* The message callback's part: true when msg was a log-in's and has been answered. */
bool ssh_auth_message(struct ssh_conn *c, ssh_message msg);

/* auth_state.c */
void ssh_auth_set_state(struct ssh_conn *c, enum ssh_auth_state to);
/* Everything before somebody is in is one endpoint: the log-in. */
struct origin ssh_auth_origin(const struct ssh_conn *c);
/* A refusal, for the audit log; code: ERR_*. */
void ssh_auth_audit(struct ssh_conn *c, const char *what, int code, const char *text);
/* The end of a log-in without a wrong answer: for its address, it has failed all the same. */
void ssh_auth_given_up(struct ssh_conn *c, const char *what, int code, const char *text);
/* The answer about a grant is taken, or nobody comes for it. */
void ssh_auth_forget_issue(struct ssh_conn *c);
/* The login grace is over. */
void ssh_auth_timeout(struct ssh_conn *c);
/* The connection ends; an answer that comes later finds nobody. */
void ssh_auth_end(struct ssh_conn *c);

#endif
