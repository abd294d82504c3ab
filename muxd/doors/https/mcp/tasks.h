/*
 * tasks.h - long calls as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28): a task is a round, by
 * another name. So nothing is kept for it: it is in the record before its id is told, and is found there after a
 * restart of the daemon.
 *
 * Its id is "round." or "code." and the round's id: the answers of both are shown in different ways.
 */
#ifndef MUXD_DOORS_HTTPS_MCP_TASKS_H
#define MUXD_DOORS_HTTPS_MCP_TASKS_H

#include "muxd/doors/https/mcp/question.h"

/* CreateTaskResult of a round that runs, as the API tells of it. NULL: no memory. */
json_t *mcp_task_created(const json_t *round);

enum mcp_task_verb { MCP_TASK_GET, MCP_TASK_CANCEL, MCP_TASK_UPDATE };
/* Answers q, whose verb is one of these: what the task is, or an empty result. An unknown id is -32602. */
void mcp_task(struct mcp_question *q, const char *task);

#endif
