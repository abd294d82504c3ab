/*
 * status.h - what the API server says when it refuses: HTTP status and metav1.Status become our error.
 *
 * Pure; no state. The server's reason, message and causes stand in the error's
 * message in its own words (cut at ERR_MESSAGE_MAX), after what was tried.
 */
#ifndef CONTROL_KUBE_CLIENT_STATUS_H
#define CONTROL_KUBE_CLIENT_STATUS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

struct err;

#define KUBE_STATUS_BODY_MAX (64 * 1024) /* a longer one is not looked at */

/*
 * ERR_* for an answer of 400 or more, also in e. what: "get pods/x at https://10.0.0.1:6443".
 * body: whatever came; a Status is quoted, short text too, anything else is not.
 *	401 ERR_K8S_UNAUTHENTICATED	403 ERR_K8S_FORBIDDEN	404 ERR_NOT_FOUND	409 ERR_K8S_CONFLICT
 *	410 ERR_K8S_GONE		422 ERR_K8S_INVALID	413 ERR_TOO_LARGE	429 ERR_K8S_BUSY
 *	504 ERR_TIMEOUT			503 ERR_K8S_BUSY	others ERR_K8S
 */
int kube_status_error(int http_status, const void *body, size_t len, const char *what, struct err *e);
/* The same for one that is parsed already (an ERROR event of a watch: its "code" is the HTTP status). */
int kube_status_error_json(int http_status, const json_t *status, const char *what, struct err *e);
/* Is this a metav1.Status at all? */
bool kube_status_is(const json_t *o);
/* "Expired", "AlreadyExists"; "" where there is none. Lives as long as o. */
const char *kube_status_reason(const json_t *o);
/* The object that it is about, as details.name has it; "" where it names none. Lives as long as o. */
const char *kube_status_object(const json_t *o);
/* The whole number in details.retryAfterSeconds; 0 where there is none. */
int kube_status_retry_after(const json_t *o);

#endif
