/* Sessions of the record, as the recorder lists them; it checks the token itself, and writes down who looked. */
#define LOG_SUBSYS "broker"
#include "muxd/base/err.h"
#include "muxd/hub/internal.h"
#include "recorder/client.h"

#include <stdlib.h>
#include <string.h>

struct listing {
	broker_json_done *done;
	void *arg;
	json_t *list;
};

static void on_row(void *arg, int rc, const struct err *e, const json_t *json, const uint8_t *p, size_t n, bool end)
{
	struct listing *l = arg;
	json_t *o;

	(void)p, (void)n;
	if (!rc && json && json_object_get(json, "session"))
		json_array_append_new(l->list, json_deep_copy(json));
	if (!rc && !end)
		return;
	o = rc ? NULL : json_pack("{s:O}", "recordings", l->list);
	l->done(l->arg, rc, rc ? e : NULL, o);
	json_decref(o);
	json_decref(l->list);
	free(l);
}

static json_t *question(const struct request *rq, const struct recording_filter *f)
{
	const struct {
		const char *key, *value;
	} texts[] = {{"agent", f->agent}, {"principal", f->principal}, {"kind", f->kind}, {"state", f->state}};
	json_t *q = json_pack("{s:s,s:s,s:I}", "op", "sessions", "token", rq->token, "limit", (json_int_t)f->limit);
	char id[ID_STR_LEN];

	for (size_t i = 0; q && i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].value)
			json_object_set_new(q, texts[i].key, json_string(texts[i].value));
	if (q && !id_is_nil(&f->before)) {
		id_format(&f->before, id);
		json_object_set_new(q, "before", json_string(id));
	}
	return q;
}

void broker_recordings(struct hub *h, const struct request *rq, const struct recording_filter *f,
		       broker_json_done *done, void *arg)
{
	struct listing *l = calloc(1, sizeof(*l));
	struct err e = {0};
	json_t *q = question(rq, f);
	int rc = ERR_NOMEM;

	if (l && q && (l->list = json_array())) {
		l->done = done;
		l->arg = arg;
		rc = h->recorder ? recorder_client_ask(h->recorder, q, on_row, l) : ERR_UNAVAILABLE;
	}
	json_decref(q);
	if (!rc)
		return;
	if (l)
		json_decref(l->list);
	free(l);
	err_set(&e, rc, "the recorder could not be asked");
	done(arg, rc, &e, NULL);
}
