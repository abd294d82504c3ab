/*
 * call.h - a call as people write it, to ask a policy about: "file.write task=ci-1 kind=agent path=src/a.c".
 *
 * For muxctl policy test and diff, and for the tables of the tests. Values; pure.
 */
#ifndef POLICY_CALL_H
#define POLICY_CALL_H

#include "policy/verdict.h"

#define POLICY_CALL_MAX 1023

struct policy_call {
	struct policy_question q;       /* its texts point into text */
	char text[POLICY_CALL_MAX + 1]; /* cut into words */
};

/*
 * An operation, then words of the form KEY=VALUE: task, agent, principal, kind (agent), path (`dir/` + `**`: all
 * below), port, server, tool, time, size, rounds, sessions, contexts, requests, image (none: one without), cpu, memory,
 * pids. sandbox.wake and snapshot.fork make a sandbox, any other where one of the last four is said. ERR_INVAL says
 * which word is wrong, and what was meant.
 */
int policy_call_parse(const char *text, struct policy_call *out, struct err *e);

#endif
