/*
 * rc_status.h - how an exec stream ended, and the status channel that says so. Pure.
 *
 * The rule: 0 is said by a Success alone, a code by reason NonZeroExitCode with a
 * cause ExitCode alone. A refusal in the API server's words never ran. The runtime
 * wraps what went wrong around a program into InternalError: that it never ran is
 * believed only where the words say that it could not be started; else nothing is
 * known, for it may have run. No status at all is `unknown`, and never 0.
 */
#ifndef CONTROL_KUBE_EXEC_RC_STATUS_H
#define CONTROL_KUBE_EXEC_RC_STATUS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum rc_cause {
	RC_EXITED,      /* code is the program's; 128+n may be a signal: the protocol does not tell */
	RC_UNKNOWN,     /* it ran, or may have run; how it ended nobody said */
	RC_NOT_STARTED, /* refused, or could not be started */
	RC_LOST,        /* the connection went while it ran; it may run still */
};

struct rc_exit {
	enum rc_cause cause;
	int code;        /* RC_EXITED: 0 and up; else -1 */
	int http_status; /* of a refused upgrade (401, 403, 404...), else 0 */
	char reason[64]; /* the Status' own: "NonZeroExitCode", "Forbidden"; or "" */
	struct err err;  /* for whoever has to answer for it, in the server's words; code 0 when RC_EXITED */
};

#define RC_STATUS_MAX (64 * 1024)

const char *rc_cause_name(enum rc_cause c); /* exit unknown not_started lost */
/*
 * One metav1.Status of the status channel. ERR_INVAL when it is none (e says why; *out is untouched).
 * had_output: something of the program was seen, so it did start.
 */
int rc_status_parse(const void *p, size_t n, bool had_output, struct rc_exit *out, struct err *e);
/*
 * Words of a kubelet or a runtime tell of a program's beginning: RC_NOT_STARTED, or RC_UNKNOWN, where it may have
 * run. *out_error: ERR_* when they say what was wrong (ERR_BAD_STATE: its container has ended), else untouched.
 */
enum rc_cause rc_status_words(const char *words, int *out_error);

#endif
