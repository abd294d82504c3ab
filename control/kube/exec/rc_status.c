#include "control/kube/exec/rc_status.h"

#include "base/json.h"
#include "base/text.h"
#include "control/kube/client/status.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words of the kubelet or of a runtime (containerd, CRI-O, runc), and the error that they come to. */
struct words {
	const char *words;
	int error;
};

/* Nothing was begun. ERR_K8S: the words behind it say why. */
static const struct words not_begun[] = {
    {"exec failed: ", ERR_K8S},
    {"failed to start exec", ERR_K8S},
    {"failed to create exec", ERR_K8S},
    {"failed to load task", ERR_K8S},
    {"container not found", ERR_NOT_FOUND},
    {"container is in CONTAINER_", ERR_BAD_STATE},
    {"is not created or running", ERR_BAD_STATE},
    {"cannot exec in a stopped", ERR_BAD_STATE},
    {"cannot exec in a deleted", ERR_BAD_STATE},
};
/* The fault behind it. A container that has ended is known to its runtime first, to the kubelet and the API server some
 * seconds later; each layer of the runtime has its own words for it. */
static const struct words because[] = {
    {"to cgroups: ", ERR_K8S}, /* a missing file of the control group's is not a missing program */
    {"executable file not found", ERR_NO_PROGRAM},
    {"no such file or directory", ERR_NO_PROGRAM},
    {"permission denied", ERR_NOT_EXECUTABLE},
    {"exec format error", ERR_NOT_EXECUTABLE},
    {"no running task found", ERR_BAD_STATE},
    {"container not created", ERR_BAD_STATE},
    {"container not running", ERR_BAD_STATE},
    {"ttrpc: closed", ERR_BAD_STATE}, /* what stands between runtime and container has ended */
    {"cannot exec in a stopped", ERR_BAD_STATE},
    {"cannot exec in a deleted", ERR_BAD_STATE},
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

static int first_of(const struct words *table, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(text, table[i].words))
			return table[i].error;
	return 0;
}

/* containerd's shim was asked to start it, and ended before it answered. */
static bool may_have_begun(const char *text)
{
	return strstr(text, "failed to start exec") && strstr(text, "ttrpc: closed");
}

enum rc_cause rc_status_words(const char *text, int *out_error)
{
	int error = first_of(not_begun, sizeof(not_begun) / sizeof(not_begun[0]), text), why = 0;

	if (!error)
		return RC_UNKNOWN;
	if (error == ERR_K8S)
		why = first_of(because, sizeof(because) / sizeof(because[0]), text);
	*out_error = why ? why : error;
	return may_have_begun(text) ? RC_UNKNOWN : RC_NOT_STARTED;
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
		x->err.code = ERR_K8S;
		x->cause = had_output ? RC_UNKNOWN : rc_status_words(x->err.message, &x->err.code);
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
