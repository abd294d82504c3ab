/*
 * recorded.h - sessions that the record has, asked of the recorder: rows, without their events (record.h).
 *
 * Each opens a grant of its own, of an auditor, with the reason "muxctl session list". Errors as ctl_token() and the
 * recorder's.
 */
#ifndef MUXD_CTL_RECORDED_H
#define MUXD_CTL_RECORDED_H

#include "muxd/base/ids.h"
#include "muxd/base/json.h"

struct ctl;
struct err;

/* q: the question, which gets the token. Rows are appended to out, one by one until the last message. */
int recorded_ask(struct ctl *c, json_t *q, json_t *out, struct err *e);
/* The one with this id, the caller's. ERR_NOT_FOUND. */
int recorded_find(struct ctl *c, const char *id, json_t **out, struct err *e);
/* The newest one, live or ended. ERR_NOT_FOUND. */
int recorded_newest(struct ctl *c, char out[ID_STR_LEN], struct err *e);

#endif
