/*
 * recorded.h - lists that the recorder answers, sessions above all: rows, without their events (record.h).
 *
 * Each question opens a grant of its own. Errors as of ctl_token(), and the recorder's.
 */
#ifndef MUXD_CTL_RECORDED_H
#define MUXD_CTL_RECORDED_H

#include "base/ids.h"
#include "base/json.h"

struct ctl;
struct err;

/*
 * q: the question, which gets the token of an auditor's grant with this reason. Messages that have `key` are rows,
 * appended to out until the last one; the last one's warnings go to stderr.
 */
int recorded_rows(struct ctl *c, const char *reason, const char *key, json_t *q, json_t *out, struct err *e);
/* The warnings in the last message of a list: rows that were not the recorder's, rows that are left out. */
void recorded_warn(const json_t *last);
/* Rows of sessions, with "id". */
int recorded_ask(struct ctl *c, json_t *q, json_t *out, struct err *e);
/* The one with this id, the caller's. ERR_NOT_FOUND. */
int recorded_find(struct ctl *c, const char *id, json_t **out, struct err *e);
/* The newest one, live or ended. ERR_NOT_FOUND. */
int recorded_newest(struct ctl *c, char out[ID_STR_LEN], struct err *e);

#endif
