/* What the log says of keeping: configurations, legal holds, an admin's word. Only this file takes it into force. */
#define LOG_SUBSYS "cutter"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "recorder/draw/commander.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>
#include <string.h>

#define FORGED_SHOWN 2048

static int take_row(void *arg, uint64_t lsn, const json_t *record)
{
	struct cutter *c = arg;

	retention_policy_take(&c->policy, lsn, record);
	return 0;
}

struct loading {
	struct cutter *c;
	struct err *e;
};

static int take_hold(void *arg, const json_t *hold, const json_t *released)
{
	struct loading *l = arg;

	(void)released;
	return holds_take(&l->c->holds, hold, l->e);
}

int cut_policy_load(struct cutter *c, struct err *e)
{
	struct loading l = {.c = c, .e = e};

	holds_finish(&c->holds);
	retention_policy_init(&c->policy);
	int rc = index_policy(c->index, take_row, c, e);
	return rc ? rc : index_holds(c->index, false, take_hold, &l, e);
}

/* A hold stands in the chain as an entry of its own, which no reader may skip, and in front of its audit event. */
static int take_hold_event(struct cutter *c, const struct segment_record *sr, const char *event, const char *text,
			   json_t *o, struct err *e)
{
	const char *id = json_string_value(json_object_get(o, "hold"));
	struct id session, *about = NULL;
	int rc = 0;

	if (!id)
		return 0;
	const char *held = json_string_value(json_object_get(o, "session"));
	if (held && id_parse(held, &session) == 0)
		about = &session;
	if (sr->lsn > chain_audit_seq(c->chain))
		rc = chain_append_json(c->chain, CHAIN_HOLD, about, o, e);
	/* The event counts only under a head; segments that it could be made from again may go with this step. */
	c->sign_now = true;
	if (rc == 0)
		rc = strcmp(event, HOLD_ADD) == 0 ? index_put_hold(c->index, id, text, e)
						  : index_put_release(c->index, id, text, e);
	return rc ? rc : holds_take(&c->holds, o, e);
}

static int cutter_policy_take_event(struct cutter *c, const struct segment_record *sr, const char *event,
				    const char *text, json_t *o, struct err *e)
{
	if (strcmp(event, HOLD_ADD) == 0 || strcmp(event, HOLD_RELEASE) == 0)
		return take_hold_event(c, sr, event, text, o, e);
	retention_policy_take(&c->policy, sr->lsn, o);
	c->retention_ns = 0; /* look at once */
	if (c->load && c->load->queued && strcmp(c->policy.load, c->load->load) == 0 &&
	    strcmp(c->policy.loaded.digest, c->load->digest) == 0)
		config_loads_pop(&c->load);
	return 0;
}

/* Net writes the journal, and does not decide what is kept: what only the recorder says is told as what it is. */
static int tell_forged(struct segment_record *sr, const char *event, char **json, struct err *e)
{
	char shown[FORGED_SHOWN];

	log_error(NULL, "an event '%s' came through the journal: only the recorder writes those", event);
	text_put(shown, sizeof(shown), *json);
	json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:s}", "event", "record.forged", "outcome", "denied", "principal",
			      "recorder", "claimed", event, "text", shown);
	char *text = o ? json_text(o) : NULL;
	json_decref(o);
	if (!text)
		return err_set(e, ERR_NOMEM, "out of memory");
	free(*json);
	*json = text;
	sr->rec.payload = (const uint8_t *)text;
	sr->rec.len = (uint32_t)strlen(text);
	return 0;
}

int cut_policy_audit(struct cutter *c, struct segment_record *sr, char **json, struct err *e)
{
	json_t *o = NULL;
	int rc = 0;

	if (json_parse(*json, strlen(*json), RING_RECORD_MAX, &o, NULL))
		return 0;
	const char *event = json_string_value(json_object_get(o, "event"));
	if (retention_policy_reserved(event))
		rc = sr->own ? cutter_policy_take_event(c, sr, event, *json, o, e) : tell_forged(sr, event, json, e);
	else if (!sr->own && event && strcmp(event, COMMANDER_EVENT) == 0)
		rc = tell_forged(sr, event, json, e);
	json_decref(o);
	return rc;
}

/* ---- telling of a configuration */

struct told {
	struct cutter *c;
	char *text;
	uint64_t lsn;
	json_int_t parts;
};

static int keep_told(void *arg, uint64_t lsn, const json_t *record)
{
	struct told *t = arg;
	const char *event = json_string_value(json_object_get(record, "event"));
	const char *text = json_string_value(json_object_get(record, "text"));

	if (!event || strcmp(event, RETENTION_CONFIG_EVENT) != 0)
		return 0;
	free(t->text);
	t->text = text ? strdup(text) : NULL;
	t->lsn = lsn;
	t->parts = json_integer_value(json_object_get(record, "parts"));
	return text && !t->text ? ERR_NOMEM : 0;
}

static int add_piece(void *arg, uint64_t lsn, const json_t *record)
{
	const char *text = json_string_value(json_object_get(record, "text"));

	(void)lsn;
	return text ? buf_append(arg, text, strlen(text)) : 0;
}

/* The text of the configuration that was told last; NULL: none. */
static int told_before(struct cutter *c, char **out, struct err *e)
{
	struct told t = {.c = c};
	struct buf b;
	int rc = index_policy(c->index, keep_told, &t, e);

	buf_init(&b, CHECKPOINT_BLOB_MAX);
	if (rc == 0 && t.parts > 0)
		rc = index_config_pieces(c->index, t.lsn, (size_t)t.parts, add_piece, &b, e);
	if (rc == 0 && t.parts > 0 && buf_cstr(&b)) {
		free(t.text);
		t.text = strdup(buf_cstr(&b));
	}
	buf_finish(&b);
	if (rc)
		free(t.text);
	else
		*out = t.text;
	return rc;
}

static int put_own(void *arg, const char *json)
{
	static const struct id nobody;
	struct cutter *c = arg;

	return drain_append_own(c->p.drain, RING_AUDIT, &nobody, json);
}

int cut_config_due(struct cutter *c, struct err *e)
{
	struct config_told before = {.text = NULL};
	struct config_load *l = c->load;
	struct err why = {0};
	int rc;

	if (!l || l->queued)
		return 0;
	/* The same load, by a recorder that was killed meanwhile. */
	if (*l->load && strcmp(c->policy.load, l->load) == 0) {
		config_loads_pop(&c->load);
		return 0;
	}
	rc = told_before(c, &before.text, e);
	if (rc)
		return rc;
	/* What was sealed since this start was under this configuration already. */
	before.first = c->fresh && !c->policy.known;
	/* What has no room on its way is told with the next step: until then what was in force stays so. */
	if (config_load_tell(l, &before, &c->policy, clock_wall_ns(), put_own, c, &why))
		log_warn(NULL, "%s", why.message);
	else
		l->queued = true;
	free(before.text);
	return 0;
}

/* ---- asked from outside */

json_t *cutter_retention(struct cutter *c)
{
	pthread_mutex_lock(&c->turn);
	struct retention_policy p = c->policy;
	if (!c->guard.until_ns)
		retention_policy_advance(&p, clock_wall_ns());
	json_t *o = retention_policy_json(&p);
	if (o) {
		json_object_set_new(o, "rule", json_string(RETENTION_RULE));
		json_object_set_new(o, "loaded", json_pack("{s:s,s:s}", "digest", p.loaded.digest, "by", p.loaded.by));
		json_object_set_new(o, "holds", json_integer((json_int_t)c->holds.n));
		json_object_set_new(o, "clock_waits", json_boolean(c->guard.until_ns != 0));
		json_object_set_new(o, "waits", json_boolean(p.retain.waits || p.wait.waits));
	}
	pthread_mutex_unlock(&c->turn);
	return o;
}
