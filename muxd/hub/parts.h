/*
 * parts.h - what the files of muxd/hub itself, above all rooms, have of each other; net_main() sees setup.h.
 *
 * The record can be written or it cannot: RUNNING -> PAUSED (sessions stand still, and who is attached is told once
 * that lasts) -> RUNNING. Before the hub has recovered it is neither: recovery waits for the recorder's first word.
 * Owner: the hub.
 */
#ifndef MUXD_HUB_PARTS_H
#define MUXD_HUB_PARTS_H

#include "muxd/hub/core/hub.h"

struct recovery;

struct pause {
	bool on;                   /* the record cannot be written */
	bool told;                 /* people were told of it */
	uint64_t since_ns;         /* boot; 0: it is not on */
	struct recovery *recovery; /* recover.c: waits for the recorder to say how it is; NULL: none does */
};

/* pause.c */
struct pause *pause_create(void);                              /* NULL: no memory */
void pause_destroy(struct pause *p);                           /* NULL-safe; a recovery that waits is not told */
void pause_begin(struct hub *h, enum hub_record_state record); /* as recovery finds the record */
void pause_set_record(struct hub *h, enum hub_record_state now);
void pause_tick(struct hub *h);

/* recover.c: the recorder may have said how it is. */
void recovery_check(struct hub *h);
/* grants.c: each second */
void grants_tick(struct hub *h);
/* lifecycle.c: the hub as life sees it */
void lifecycle_begin(struct hub *h);

#endif
