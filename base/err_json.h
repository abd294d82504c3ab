/*
 * err_json.h - what an error says to programs, as JSON. No state.
 */
#ifndef BASE_ERR_JSON_H
#define BASE_ERR_JSON_H

#include "base/json.h"

struct err;
struct err_share;

/* {limit, of, value, in_use}. NULL: it is no limit. */
json_t *err_share_json(const struct err_share *s);
/*
 * "details" of an answer: of Kubernetes, of the limit that is reached (retry_after as well), of the policy, and what
 * had begun. NULL: there are none.
 */
json_t *err_details_json(const struct err *e);
/* Between processes: the limit as a member "limit" of o, where it is one; and back. */
void err_share_send(const struct err *e, json_t *o);
void err_share_take(const json_t *o, struct err *e);

#endif
