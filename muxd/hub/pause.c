/*
 * While the record cannot be written nothing goes on, and people are told so: unless it is over before anybody would
 * have read a sentence about it, as with a recorder that is started anew.
 */
#include "base/clock.h"
#include "muxd/hub/core/hub_ground.h"
#include "muxd/hub/core/hub_rooms.h"
#include "muxd/hub/parts.h"
#include "muxd/hub/record/audit.h"
#include "muxd/hub/session/wake.h"

#include <stdlib.h>

#define PAUSE_UNTOLD_NS (2 * NS_PER_SEC) /* a pause shorter than this is nobody's news */

struct pause *pause_create(void)
{
	return calloc(1, sizeof(struct pause));
}

void pause_destroy(struct pause *p)
{
	if (p)
		free(p->recovery);
	free(p);
}

static const char *record_text(enum hub_record_state s)
{
	switch (s) {
	case RECORD_OK:
		return "the record can be written again: the session goes on";
	case RECORD_DISK_FULL:
		return "paused: the disk of the record is full; nothing is lost, it goes on when there is room";
	case RECORD_SILENT:
		return "paused: the recorder does not answer; nothing is lost, it goes on when it is back";
	default:
		return "paused: the record cannot be written; nothing is lost";
	}
}

static void tell_all(struct hub *h, const char *text, bool over)
{
	struct attachment *a;

	TAILQ_FOREACH(a, hub_attachments(h), of_hub)
	attachment_notice(a, text, over);
}

void pause_tick(struct hub *h)
{
	struct pause *p = hub_pause(h);

	if (!p->on || p->told || clock_boot_ns() - p->since_ns < PAUSE_UNTOLD_NS)
		return;
	p->told = true;
	tell_all(h, record_text(hub_record_state(h)), false);
}

void pause_begin(struct hub *h, enum hub_record_state record)
{
	struct pause *p = hub_pause(h);

	p->on = record != RECORD_OK;
	p->since_ns = clock_boot_ns();
	if (p->on)
		(void)audit_event(h, "record.unavailable", NULL, NULL, hub_record_state_name(record), NULL);
}

void pause_set_record(struct hub *h, enum hub_record_state now)
{
	struct pause *p = hub_pause(h);

	if (!hub_is_recovered(h) || (now == RECORD_OK) != p->on)
		return;
	p->on = now != RECORD_OK;
	p->since_ns = p->on ? clock_boot_ns() : 0;
	if (!p->on && p->told)
		tell_all(h, record_text(now), true);
	p->told = false;
	(void)audit_event(h, now == RECORD_OK ? "record.ok" : "record.unavailable", NULL, NULL,
			  hub_record_state_name(now), NULL);
}
