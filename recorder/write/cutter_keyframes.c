/* What the log says of keyframes: their digest, when they are drawn. */
#define LOG_SUBSYS "keyframes"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "recorder/chain/chain_text.h"
#include "recorder/write/cutter_state.h"

#include <stdlib.h>

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
	char *text = o ? json_text(o) : NULL;
	if (!text || drain_append_own(c->p.drain, RING_AUDIT, session, text))
		log_error(NULL, "%s could not be audited", event);
	free(text);
	json_decref(o);
}
