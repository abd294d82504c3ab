#include "muxd/ctl/people.h"

#include "base/clock.h"
#include "base/err.h"
#include "muxd/ctl/record.h"
#include "recorder/format/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PEOPLE_MAX 1000

struct people {
	struct record *r;
	json_t *list; /* in the order they came */
	json_t *typist;
};

static void people_set_time(const struct people *p, json_t *who, const char *key, uint64_t boot_ns)
{
	char text[40];

	clock_format_utc(record_wall_ns(p->r, boot_ns), text, sizeof(text));
	json_object_set_new(who, key, json_string(text));
}

static json_t *people_find(const struct people *p, const char *attachment)
{
	json_t *who;
	size_t i;

	json_array_foreach(p->list, i, who)
	{
		const char *id = json_string_value(json_object_get(who, "attachment"));
		if (id && strcmp(id, attachment) == 0)
			return who;
	}
	return NULL;
}

static void came(struct people *p, const json_t *event, uint64_t boot_ns)
{
	static const char *const keys[] = {"attachment", "principal", "role", "door", "peer", "grant_id"};
	json_t *who = json_object();

	if (json_array_size(p->list) >= PEOPLE_MAX) {
		json_decref(who);
		return;
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (json_object_get(event, keys[i]))
			json_object_set(who, keys[i], json_object_get(event, keys[i]));
	people_set_time(p, who, "from", boot_ns);
	json_object_set_new(who, "typed_bytes", json_integer(0));
	json_array_append_new(p->list, who);
}

static void people_take_event(struct people *p, const struct ring_record *rec)
{
	const char *name = "", *attachment = "";
	json_t *o = NULL, *who;

	if (json_parse(rec->payload, rec->len, RING_RECORD_MAX, &o, NULL))
		return;
	(void)json_opt_str(o, "event", &name, NULL); /* one that is no text is none of these */
	(void)json_opt_str(o, "attachment", &attachment, NULL);
	who = people_find(p, attachment);
	if (strcmp(name, "attach") == 0)
		came(p, o, rec->boot_ns);
	else if (strcmp(name, "detach") == 0 && who)
		people_set_time(p, who, "to", rec->boot_ns);
	else if (strcmp(name, "input") == 0)
		p->typist = who;
	json_decref(o);
}

static void take_input(struct people *p, const struct ring_record *rec)
{
	json_int_t before = json_integer_value(json_object_get(p->typist, "typed_bytes"));

	if (p->typist)
		json_object_set_new(p->typist, "typed_bytes", json_integer(before + (json_int_t)event_extent(rec)));
}

json_t *people_read(struct ctl *c, const char *session)
{
	struct people p = {.list = json_array()};
	struct ring_record rec;
	struct err e = {0};
	int rc = record_open(c, session, "muxctl session show", &p.r, &e);

	while (rc >= 0 && (rc = record_next(p.r, &rec, &e)) == 1) {
		if (rec.type == RING_EVENT)
			people_take_event(&p, &rec);
		else if (event_extent(&rec) && rec.stream == STREAM_INPUT)
			take_input(&p, &rec);
	}
	record_close(p.r);
	if (rc == 0)
		return p.list;
	c->hint[0] = '\0'; /* the session is shown all the same */
	json_decref(p.list);
	return NULL;
}

void people_print(const json_t *list)
{
	const json_t *who;
	size_t i;

	json_array_foreach(list, i, who)
	{
		const char *words[] = {"principal", "role", "door", "peer", "from", "to"};
		char *shown[6];

		for (size_t k = 0; k < 6; k++)
			shown[k] = ctl_clean(json_string_value(json_object_get(who, words[k])) ?: "");
		printf("%-22s %s, %s by %s from %s, %s to %s, typed %" JSON_INTEGER_FORMAT " bytes\n",
		       i ? "" : "people", shown[0], shown[1], shown[2], shown[3], shown[4],
		       shown[5] && *shown[5] ? shown[5] : "the end",
		       json_integer_value(json_object_get(who, "typed_bytes")));
		for (size_t k = 0; k < 6; k++)
			free(shown[k]);
	}
}
