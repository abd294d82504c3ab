/*
 * login.h - what a client says of itself before it is anybody: its login name and its key.
 *
 * A login name is `agent` or `agent+session`; session is an id, or `last` for the
 * newest terminal. Pure functions over text, no libssh, no state.
 */
#ifndef MUXD_DOORS_SSH_LOGIN_H
#define MUXD_DOORS_SSH_LOGIN_H

#include "base/ids.h"

#include <stdbool.h>
#include <stddef.h>

struct conf;
struct conf_staff;
struct err;

struct ssh_login {
	char agent[AGENT_NAME_MAX + 1];
	bool attach;              /* a session was named: come back to it */
	char session[ID_STR_LEN]; /* its id, "" = the newest terminal */
};

/* ERR_INVAL says what is wrong with the name. */
int ssh_login_parse(const char *user, struct ssh_login *out, struct err *e);

/*
 * Whose key this is: blob is the base64 text of a public key as in OpenSSH's
 * one-line form, type its first word. NULL when no one of staff with this key
 * may enter this agent. Certificates match nobody.
 */
const struct conf_staff *ssh_login_staff(const struct conf *c, const char *type, const char *blob, const char *agent);
/* Whether anybody may log in by key at all. */
bool ssh_login_has_staff(const struct conf *c);

/* A peer's text by the rule of visible.h, at most size-1 bytes (size >= 4). */
void ssh_login_printable(char *out, size_t size, const char *text);

#endif
