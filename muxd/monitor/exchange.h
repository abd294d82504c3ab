/*
 * exchange.h - a token of an outside issuer becomes a grant (docs/issuers.md).
 *
 * asked of the checker -> mapped (policy/outside.h), counted, signed -> done; or refused. One for each question of
 * net's; owned by the monitor's loop. Whatever net and the checker say, the grant is within what the configuration
 * names for that issuer, and ends with the token.
 */
#ifndef MUXD_MONITOR_EXCHANGE_H
#define MUXD_MONITOR_EXCHANGE_H

#include "muxd/monitor/issue.h"

/*
 * msg: net's {issuer, token, grant: {agent, task, reason, scopes, ttl_ns, read, write, file_max}}, or {token, shown:
 * true} of a token that a client shows at /mcp as it is: then it is one of the issuers with a reason, in their order,
 * past those that cannot be asked, and the grant is as the configuration says. done is called once, unless this returns
 * an error. ERR_ISSUER_UNKNOWN, ERR_UNAVAILABLE (the checker is starting), ERR_AGAIN. An exchange that the checker does
 * not answer in its issuer's time ends with ERR_ISSUER.
 */
int exchange_begin(struct monitor *m, const json_t *msg, issue_done *done, void *arg, struct err *e);
void exchange_answer(struct monitor *m, const json_t *msg); /* the checker's, of a tag */
void exchange_heard(struct monitor *m);                     /* the checker, whatever it said: it answers */
void exchange_ended(struct monitor *m);                     /* the checker has ended: nobody answers any more */
/*
 * Grants of issuers and of staff that the configuration does not name any more are revoked, with all made from them: a
 * hundred at once, and what is left in turns of the loop (monitor.h, shut_out).
 */
void exchange_shut_out(struct monitor *m);
void exchange_tick(struct monitor *m); /* each minute: those that could not be revoked are tried again */

#endif
