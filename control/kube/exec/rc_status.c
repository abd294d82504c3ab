#include "control/kube/exec/rc_status.h"

#include "base/json.h"
#include "base/text.h"
#include "control/kube/client/status.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What says that nothing was begun (the kubelet, containerd, CRI-O, runc), and what that comes to. */
static const struct {
	const char *words;
	int error;
} not_begun[] = {
    {"exec failed: ", ERR_K8S},
    {"failed to start exec", ERR_K8S},
    {"failed to create exec", ERR_K8S},
    {"failed to load task", ERR_K8S},
    {"container not found", ERR_NOT_FOUND},
    {"container is in CONTAINER_", ERR_BAD_STATE},
    {"is not created or running", ERR_BAD_STATE},
    {"cannot exec in a ", ERR_BAD_STATE},
};
/* Behind one of those: whose fault it was. A container that has ended is known to its runtime first, to the kubelet and
 * the API server some seconds later; each layer of the runtime has its own words for it. */
static const struct {
	const char *words;
	int error;
} because[] = {
    {"executable file not found", ERR_NO_PROGRAM},
    {"no such file or directory", ERR_NO_PROGRAM},
    {"permission denied", ERR_NOT_EXECUTABLE},
    {"exec format error", ERR_NOT_EXECUTABLE},
    {"no running task found", ERR_BAD_STATE},
    {"container not created", ERR_BAD_STATE},
    {"container not running", ERR_BAD_STATE},
    {"ttrpc: closed", ERR_BAD_STATE}, /* what stands between runtime and container has ended */
    {"cannot exec in a ", ERR_BAD_STATE},
};

const char *rc_cause_name(enum rc_cause c)
{
	static const char *const names[] = {"exit", "unknown", "not_started", "lost"};

	return (size_t)c < sizeof(names) / sizeof(names[0]) ? names[c] : "unknown";
}

/* details.causes[{"reason":"ExitCode","message":"7"}]: 1 and up, or -1. */
static int exit_code(const json_t *status)
{
	const json_t *causes = json_object_get(json_object_get(status, "details"), "causes"), *cause;
	size_t i;

	json_array_foreach(causes, i, cause)
	{
		const char *s = json_get_text(cause, "message");
		char *end;
		long v;

		if (strcmp(json_get_text(cause, "reason"), "ExitCode") != 0 || *s < '0' || *s > '9')
			continue;
		errno = 0;
		v = strtol(s, &end, 10);
		if (!errno && !*end && v > 0 && v <= INT_MAX)
			return (int)v;
	}
	return -1;
}

int rc_status_not_begun(const char *words)
{
	int error = 0;

	for (size_t i = 0; !error && i < sizeof(not_begun) / sizeof(not_begun[0]); i++)
		if (strstr(words, not_begun[i].words))
			error = not_begun[i].error;
	for (size_t i = 0; error == ERR_K8S && i < sizeof(because) / sizeof(because[0]); i++)
		if (strstr(words, because[i].words))
			error = because[i].error;
	return error;
}

static void rc_status_judge(const json_t *o, bool had_output, struct rc_exit *x)
{
	struct err e = {0};
	int64_t http = json_integer_value(json_object_get(o, "code"));

	if (strcmp(x->reason, "NonZeroExitCode") == 0) {
		x->code = exit_code(o);
		x->cause = x->code > 0 ? RC_EXITED : RC_UNKNOWN;
		x->err.code = x->code > 0 ? 0 : ERR_K8S;
		return;
	}
	if (strcmp(x->reason, "InternalError") == 0 || !*x->reason) {
		x->err.code = had_output ? 0 : rc_status_not_begun(x->err.message);
		x->cause = x->err.code ? RC_NOT_STARTED : RC_UNKNOWN;
		x->err.code = x->err.code ? x->err.code : ERR_K8S;
		return;
	}
	x->cause = had_output ? RC_UNKNOWN : RC_NOT_STARTED;
	x->err.code = kube_status_error_json(http > 0 && http < 600 ? (int)http : 500, o, "exec", &e);
}

int rc_status_parse(const void *p, size_t n, bool had_output, struct rc_exit *out, struct err *e)
{
	struct rc_exit x = {.code = -1};
	json_t *o = NULL;
	int rc;

	rc = json_parse(p, n, RC_STATUS_MAX, &o, e);
	if (rc)
		return ERR_INVAL;
	text_put(x.reason, sizeof(x.reason), json_get_text(o, "reason"));
	text_put(x.err.message, sizeof(x.err.message), json_get_text(o, "message"));
	if (strcmp(json_get_text(o, "status"), "Success") == 0) {
		x.cause = RC_EXITED;
		x.code = 0;
	} else if (strcmp(json_get_text(o, "status"), "Failure") == 0) {
		rc_status_judge(o, had_output, &x);
	} else {
		rc = err_set(e, ERR_INVAL, "the status channel's \"status\" is neither Success nor Failure");
	}
	if (rc == 0)
		*out = x;
	json_decref(o);
	return rc;
}
