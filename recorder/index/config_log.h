/*
 * config_log.h - a configuration in force as events of the audit log: who loaded it, its text, what changed.
 *
 * `config.loaded` tells of each load: digest (SHA-256 of the text), the text with secrets left out
 * (base/conf_text.h), who and by which door, every key that differs from the configuration told before it, and
 * what that makes of retention. A text that is too long for one event stands in pieces in `config.text` events before
 * it. A value: made when the configuration comes, told once, freed.
 */
#ifndef RECORDER_INDEX_CONFIG_LOG_H
#define RECORDER_INDEX_CONFIG_LOG_H

#include "base/conf.h"
#include "base/json.h"
#include "recorder/index/retention_policy.h"

struct err;

#define CONFIG_TEXT_EVENT "config.text"
#define CONFIG_INLINE     (16 * 1024) /* a text up to this stands in config.loaded itself */
#define CONFIG_PIECE      (32 * 1024) /* bytes of it in one config.text */

#define CONFIG_LOADS 64 /* that wait to be told; of more only the newest counts */

struct config_load {
	struct config_load *next;
	char *text;
	json_t *values;
	char digest[RETENTION_DIGEST];
	uint64_t retain_ns, wait_ns;
	json_t *loaded; /* the monitor's word: {"load","how","door","uid","principal",...} */
	char load[ID_STR_LEN];
	bool queued; /* its events are on their way into the log */
};

/* loaded: NULL when nobody says who. Copies what it keeps. */
int config_load_create(const struct conf *conf, const json_t *loaded, struct config_load **out, struct err *e);
void config_load_destroy(struct config_load *l);
/* Configurations that wait, the oldest first: each is told, also one that was in force for a moment only. l becomes the
 * list's.
 */
void config_loads_add(struct config_load **list, struct config_load *l);
void config_loads_pop(struct config_load **list);

/* What was told last. */
struct config_told {
	char *text; /* NULL: nothing */
	bool first; /* nothing was told, and nothing is recorded that retention could remove */
};
typedef int config_put(void *arg, const char *json); /* an event, in order; its errors end it */
/* now: what holds, before this. */
int config_load_tell(const struct config_load *l, const struct config_told *before, const struct retention_policy *now,
		     int64_t wall_ns, config_put *put, void *arg, struct err *e);

#endif
