/*
 * entered.h - the commands of a session: the one that it was opened with, and those that were entered at its terminal.
 *
 * One object for each, in their order: command, source (exact: its OPEN says so, argv too; reported, inferred, claimed:
 * derived, see docs/security.md), at, input_offset, output_offset, principal, attachment, and where they hold shared,
 * truncated, prompt, claimed, screen. The derived ones are those that the log has by now: of a live session, up to some
 * seconds ago.
 */
#ifndef MUXD_CTL_ENTERED_H
#define MUXD_CTL_ENTERED_H

#include "base/json.h"

struct ctl;

/* session: its row, which gets "commands", and "commands_omitted" where there were more than are told of. Of what
 * cannot be read nothing is said. offline: there is no daemon. */
void entered_add(struct ctl *c, json_t *session, bool offline);
void entered_print(const json_t *session);

#endif
