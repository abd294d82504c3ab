/*
 * session_end.h - how a session ends, and what its sandbox says of it. States: enum session_end (session_state.h).
 */
#ifndef MUXD_HUB_SESSION_SESSION_END_H
#define MUXD_HUB_SESSION_SESSION_END_H

#include "base/json.h"
#include "muxd/link/link.h"

struct session;

void session_finish(struct session *s, enum exit_cause cause, int code, int signum, const char *message);
void session_never_came(struct session *s); /* its OPEN did not reach the sandbox: not started, did_not_run */
void session_pump(struct session *s);       /* backlog, queued stdin, windows, pending exit */
void session_audit_end(struct session *s);
void session_kill(struct session *s, enum exit_cause cause, const char *why);
/* The same, but for the word to its sandbox: that is the caller's. False: there is none to be said now. */
bool session_condemn(struct session *s, enum exit_cause cause, const char *why);
void session_settle(struct session *s);              /* kills one that is doomed */
void session_sweep(struct session *s, uint64_t now); /* an end that is known does not wait for ever */
void session_on_consumed(struct session *s, uint64_t offset);
void session_on_exit(struct session *s, const struct link_exit *x);
/* Its sandbox was told to start it: kills for want of memory before that are none of its. */
void session_oom_begin(struct session *s);

#endif
