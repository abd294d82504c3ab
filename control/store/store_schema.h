/*
 * store_schema.h - the steps that make control.db, one number each; user_version says how many were done.
 *
 * A step is never changed once it was released: what comes later is another one, at the end of
 * the table in store_schema.c. A noun's SQL stands in a file of its own (store_schema_NOUN.c).
 */
#ifndef CONTROL_STORE_STORE_SCHEMA_H
#define CONTROL_STORE_STORE_SCHEMA_H

struct err;
struct sqlite3;

#define STORE_APPLICATION_ID 0x6d757863 /* "muxc" */
#define OUTBOX_CALL          "call"     /* in outbox.detail: an object whose members become those of the event */

/* What a step runs; in the table of store_schema.c. */
extern const char store_schema_life_1[], store_schema_life_2[], store_schema_life_3[];
extern const char store_schema_life_4[], store_schema_life_5[], store_schema_life_6[];
extern const char store_schema_life_7[], store_schema_life_8[], store_schema_life_9[];
extern const char store_schema_life_10[];
extern const char store_schema_life_11[];
extern const char store_schema_filespace_1[];
extern const char store_schema_locks_1[];
extern const char store_schema_servers_1[];
extern const char store_schema_servers_2[];
extern const char store_schema_services_1[], store_schema_services_2[];
extern const char store_schema_work_1[], store_schema_work_2[];
extern const char store_schema_outbox_1[], store_schema_outbox_2[];
extern const char store_schema_artifacts_1[], store_schema_artifacts_2[];

int store_schema_version(void); /* of this program */
/*
 * Looks without touching: 0 with *out_version (0: empty), ERR_UNSUPPORTED for what a newer program wrote,
 * ERR_CORRUPT for what is damaged or is no control database; ERR_DISK_FULL, ERR_SYS, ...: it could not be looked at.
 */
int store_schema_check(struct sqlite3 *db, const char *path, int *out_version, struct err *e);
/* From that version to this program's, in one transaction. */
int store_schema_apply(struct sqlite3 *db, int from, struct err *e);

#endif
