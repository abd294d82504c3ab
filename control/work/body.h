/*
 * body.h - the bodies of the calls for leases and runs: JSON in, fields out, or an error that names the field.
 *
 * Pure. Names are checked by ids.h; strings are copied, but for the token of a run, which is borrowed from the body.
 */
#ifndef CONTROL_WORK_BODY_H
#define CONTROL_WORK_BODY_H

#include "control/work/db.h"

struct work_limits {
	int64_t ttl_s, ttl_max_s;                 /* of a lease: default, longest */
	int64_t run_timeout_s, run_timeout_max_s; /* of a run */
};

/* {userId, workflowId, requestId, ttlSeconds?} into user, workflow, request, ttl_s, asked_ttl_s. */
int lease_body(const json_t *o, const struct work_limits *l, struct lease_row *out, struct err *e);

struct run_body {
	char lease[ID_STR_LEN], workflow[WORK_NAME_MAX + 1], run[WORK_NAME_MAX + 1];
	const char *token;
	size_t token_len;
	int64_t asked_timeout_s; /* 0: none was named */
};
/* {leaseId, workflowId, runId, token, timeoutSeconds?}. */
int run_body(const json_t *o, const struct work_limits *l, struct run_body *out, struct err *e);

#endif
