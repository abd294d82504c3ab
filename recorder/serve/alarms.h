/*
 * alarms.h - what is wrong with the record although it goes on: told in /healthz until it is over.
 *
 * One line for each code: what was found, and what to do. Whoever finds or settles it sets or clears it, from any
 * thread; the process sends the list to the monitor when it changed, which hands it to net.
 */
#ifndef RECORDER_SERVE_ALARMS_H
#define RECORDER_SERVE_ALARMS_H

#include "base/json.h"

struct alarms;

int alarms_create(struct alarms **out);
void alarms_destroy(struct alarms *a); /* NULL-safe */
/* code: stable, lower case ("record_key_foreign"). What is set already as it is changes nothing. a may be NULL. */
void alarms_set(struct alarms *a, const char *code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void alarms_clear(struct alarms *a, const char *code);
/* [{"code","message","hint"}], a new reference, when the list changed since the last call; else NULL. */
json_t *alarms_changed(struct alarms *a);

#endif
