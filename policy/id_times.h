/*
 * id_times.h - a set of ids, each with a time until which it counts.
 *
 * Of grants: which were taken back before their time, and until when those go on that were renewed (grant_kin.h).
 * Owned by each process that verifies tokens. Times are of the wall clock.
 */
#ifndef POLICY_ID_TIMES_H
#define POLICY_ID_TIMES_H

#include "base/ids.h"

struct id_times;

int id_times_create(struct id_times **out);
void id_times_destroy(struct id_times *t); /* NULL-safe */
/* One that is there keeps the later of both times. ERR_NOMEM. */
int id_times_add(struct id_times *t, const struct id *id, int64_t until_ns);
bool id_times_has(const struct id_times *t, const struct id *id);
/* 0: it is not there. */
int64_t id_times_until(const struct id_times *t, const struct id *id);
/* Forget what counts no longer. */
void id_times_expire(struct id_times *t, int64_t now_ns);
size_t id_times_count(const struct id_times *t);

#endif
