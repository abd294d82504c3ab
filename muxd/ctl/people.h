/*
 * people.h - who was at a session, from when to when, and how much of its input is theirs: read off its recording.
 *
 * One object for each attachment, in the order they came: attachment, principal, role, door, peer, grant_id, from, to
 * (absent: until the end), typed_bytes. Input of before there were attachments in recordings is nobody's. At most
 * 1,000.
 */
#ifndef MUXD_CTL_PEOPLE_H
#define MUXD_CTL_PEOPLE_H

#include "base/json.h"

struct ctl;

/* Reads all of the recording. NULL: it cannot be read by whoever asks, or there is no memory. */
json_t *people_read(struct ctl *c, const char *session);
void people_print(const json_t *list);

#endif
