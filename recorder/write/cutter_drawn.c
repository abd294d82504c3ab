/* The log's events about drawings: of keyframes their digest, of commands how far they are told. */
#define LOG_SUBSYS "keyframes"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "recorder/chain/chain_text.h"
#include "recorder/draw/commander.h"
#include "recorder/write/cutter_state.h"

static json_t *digest_json(const struct keyframes_digest *d)
{
	char leaf[2 * DIGEST_LEN + 1], root[2 * DIGEST_LEN + 1], sha256[2 * DIGEST_LEN + 1];

	chain_hex(d->leaf, DIGEST_LEN, leaf);
	chain_hex(d->root, DIGEST_LEN, root);
	chain_hex(d->sha256, DIGEST_LEN, sha256);
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s}", "of", "keyframes", "leaf", leaf, "root", root,
			 "sha256", sha256, "size", (json_int_t)d->size, "screens", (json_int_t)d->n, "by",
			 "muxd-screen", "drawing", d->drawing);
}

static int put_root(struct cutter *c, const struct id *session, const char *root, struct err *e)
{
	int rc = index_begin(c->index, e);

	if (rc == 0)
		rc = index_put_keyframes(c->index, session, root, e);
	if (rc == 0)
		rc = index_commit(c->index, false, e);
	if (rc)
		index_rollback(c->index);
	return rc;
}

int cutter_keyframes(struct cutter *c, const struct id *session, const struct keyframes_digest *d, struct err *e)
{
	json_t *o = digest_json(d);
	int rc = o ? 0 : err_set(e, ERR_NOMEM, "out of memory");

	pthread_mutex_lock(&c->turn);
	if (rc == 0 && c->failed)
		rc = err_set(e, ERR_AGAIN, "the recorder cannot write now");
	if (rc == 0)
		rc = chain_append_json(c->chain, CHAIN_DIGEST, session, o, e);
	if (rc == 0)
		rc = chain_sign_head(c->chain, clock_wall_ns(), e);
	if (rc == 0)
		rc = put_root(c, session, json_string_value(json_object_get(o, "root")), e);
	pthread_mutex_unlock(&c->turn);
	json_decref(o);
	return rc;
}

int cutter_keyframes_root(struct cutter *c, const struct id *session, char out[65], struct err *e)
{
	pthread_mutex_lock(&c->turn);
	int rc = index_keyframes(c->index, session, out, e);
	pthread_mutex_unlock(&c->turn);
	return rc;
}

void cutter_tell(struct cutter *c, const char *event, const struct id *session, const char *detail)
{
	char id[ID_STR_LEN];

	id_format(session, id);
	log_error(&(struct log_ids){.session = id}, "%s: %s", event, detail);
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "event", event, "outcome", "error", "principal", "recorder",
			      "session", id, "detail", detail);
	if (drain_audit(c->p.drain, session, o))
		log_error(NULL, "%s could not be audited", event);
}

/* The log's events about commands, for those who look for them (commander.h). */

static int take_told(void *arg, json_t *row)
{
	commander_told_parse(json_object_get(json_object_get(row, "record"), "detail"), arg);
	return 0;
}

int cutter_commands_told(struct cutter *c, const struct id *session, struct commander_told *out, struct err *e)
{
	char text[ID_STR_LEN];
	struct index_filter f = {.session = text, .event = COMMANDER_EVENT, .limit = 1, .pass_over = true};
	int rc;

	*out = (struct commander_told){.n = 0};
	id_format(session, text);
	pthread_mutex_lock(&c->turn);
	rc = index_audit_start(c->index, &f, &f.since, e);
	if (rc == 0)
		rc = index_audit(c->index, &f, take_told, out, e);
	pthread_mutex_unlock(&c->turn);
	return rc;
}

int cutter_commands_tell(struct cutter *c, const struct id *session, const json_t *event, struct err *e)
{
	int rc = drain_audit(c->p.drain, session, json_incref((json_t *)(uintptr_t)event));

	return rc ? err_set(e, rc, "they could not be audited now") : 0;
}

struct sealed {
	struct id *ids;
	size_t n, max;
};

static int take_sealed(void *arg, json_t *row)
{
	struct sealed *s = arg;
	const char *id = json_string_value(json_object_get(row, "session"));
	bool pty = json_is_true(json_object_get(json_object_get(row, "open"), "pty"));
	bool typed = json_integer_value(json_array_get(json_object_get(row, "offsets"), STREAM_INPUT)) > 0;

	if (id && pty && typed && s->n < s->max && id_parse(id, &s->ids[s->n]) == 0)
		s->n++;
	return 0;
}

size_t cutter_commands_due(struct cutter *c, struct id *out, size_t max)
{
	struct index_filter f = {.state = "sealed", .limit = (int64_t)max, .pass_over = true};
	struct sealed s = {.ids = out, .max = max};
	struct commander_told told;
	size_t n = 0;

	pthread_mutex_lock(&c->turn);
	(void)index_sessions(c->index, &f, take_sealed, &s, NULL);
	pthread_mutex_unlock(&c->turn);
	for (size_t i = 0; i < s.n; i++)
		if (cutter_commands_told(c, &out[i], &told, NULL) == 0 && !told.final)
			out[n++] = out[i];
	return n;
}
