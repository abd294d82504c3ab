/*
 * context_call.h - how the programs of a context are called: arguments, and the socket between them.
 *
 * Pure. The values point into the call, or to texts that stay.
 */
#ifndef MUXD_HUB_SESSION_CONTEXT_CALL_H
#define MUXD_HUB_SESSION_CONTEXT_CALL_H

#include "muxd/hub/session/contexts.h"

struct context_call {
	const char *argv[16]; /* NULL-ended */
	char socket[ID_STR_LEN + 48], numbers[3][24], grace[24];
};

/* The programs, as texts (muxd/hub/session/contexts). */
extern const char context_kernel_py[], context_run_py[], context_kernel_js[], context_run_js[];

/* Of an interpreter, an execution (timeout_ms) or one without a context. Not of bash. */
void context_call(const struct context_use *u, int64_t timeout_ms, struct context_call *out);

#endif
