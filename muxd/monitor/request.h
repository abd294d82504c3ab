/*
 * request.h - JSON of the monitor's questions and answers, both on admin.sock and from net.
 *
 * Pure; strings in a wish are borrowed from the packet.
 */
#ifndef MUXD_MONITOR_REQUEST_H
#define MUXD_MONITOR_REQUEST_H

#include "base/json.h"

struct wish;
struct err;

/* {"rc":-n,"error":{"code","message","hint"}}; e may be NULL. NULL when out of memory. */
json_t *request_error(int rc, const struct err *e);
/*
 * {principal, kind, agent, scopes, task, ttl_ns, reason, read, write, file_max} into w. principal, kind, agent and
 * reason are needed (an empty reason is ERR_REASON_REQUIRED later, a missing one at once). scopes: "terminal,rounds" or
 * a list.
 */
int request_wish(const json_t *o, struct wish *w, struct err *e);
/* A grant made from another: what is left out is as its parent has it. A reason is needed. */
int request_child(const json_t *o, struct wish *w, struct err *e);
/* {reason, ttl_ns}. A reason is needed. */
int request_renewal(const json_t *o, struct wish *w, struct err *e);
/* {web_url, ssh_command} of a new grant, added to o. https, ssh: addresses. */
int request_add_doors(json_t *o, const char *agent, const char *token, const char *https, const char *ssh);

#endif
