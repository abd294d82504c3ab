#define LOG_SUBSYS "monitor"
#include "muxd/monitor/rotation.h"

#include "base/log.h"
#include "base/slurp.h"
#include "muxd/monitor/admin.h"
#include "muxd/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum rotation_state { ROTATION_NAMING, ROTATION_USING };

struct rotation {
	enum rotation_state state;
	struct admin_call *call;
	uint8_t seed[GRANT_KEY_LEN];
	struct grant_public_key next;
};

static void rotation_set_state(struct rotation *r, enum rotation_state to)
{
	static const char *const names[] = {"naming", "using"};

	log_debug(NULL, "rotation of the record key: %s -> %s", names[r->state], names[to]);
	r->state = to;
}

/* Done, or given up: the call has its answer. */
static void rotation_end(struct monitor *m, int rc, const struct err *e)
{
	struct rotation *r = m->rotation;

	m->rotation = NULL;
	if (rc == 0) {
		log_info(NULL, "the record is signed by key %s from now on, by %s", r->next.kid, r->call->by);
		admin_answer(r->call, json_pack("{s:i, s:s}", "rc", 0, "kid", r->next.kid));
	} else {
		log_error(NULL, "the record key was not rotated: %s", e->message);
		admin_answer(r->call, request_error(rc, e));
	}
	OPENSSL_cleanse(r, sizeof *r);
	free(r);
}

int rotation_begin(struct monitor *m, struct admin_call *c, struct err *e)
{
	struct rotation *r = NULL;
	json_t *msg = NULL;
	char *text = NULL;
	int rc = 0;

	if (m->rotation)
		return err_set(e, ERR_BAD_STATE, "the record key is being rotated already");
	if ((rc = keys_record_room(&m->layout, e)) != 0)
		return rc;
	r = calloc(1, sizeof *r);
	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for a key");
	r->state = ROTATION_NAMING;
	r->call = c;
	rc = grant_key_create(r->seed, &r->next);
	if (rc)
		err_set(e, rc, "a signing key could not be made");
	if (rc == 0 && !(text = base64_encode(r->next.key, GRANT_KEY_LEN, true)))
		rc = err_set(e, ERR_NOMEM, "no memory for a key");
	if (rc == 0)
		msg = json_pack("{s:s, s:s}", "op", "key.name", "public_key", text);
	if (rc == 0 && (m->recorder.state != PROC_READY || !msg || proc_send(&m->recorder, msg, NULL, 0)))
		rc = err_set(e, ERR_UNAVAILABLE, "the recorder is not up");
	json_decref(msg);
	free(text);
	if (rc == 0) {
		m->rotation = r;
		return 0;
	}
	OPENSSL_cleanse(r, sizeof *r);
	free(r);
	return rc;
}

static void rotation_audit(struct monitor *m, const struct rotation *r)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "event", "key.rotate", "key", "record", "kid", r->next.kid,
			      "by", r->call->by, "outcome", "ok");

	if (audit_put(m->audit, o, 0, NULL, NULL))
		log_error(NULL, "the audit queue is full: the rotation to record key %s is not in it", r->next.kid);
}

/* The log names it: now it goes to the disk in place of the old one, and to the recorder. */
static int use(struct monitor *m, struct rotation *r, struct err *e)
{
	json_t *msg = json_pack("{s:s, s:[s]}", "op", "key.use", "fds", "record_key");
	int fd = -1, rc = msg ? 0 : err_set(e, ERR_NOMEM, "no memory for a key");

	if (rc == 0)
		rc = keys_use_record(&m->keys, &m->layout, &m->who, r->seed, &r->next, e);
	if (rc == 0)
		rotation_audit(m, r);
	if (rc == 0)
		rc = slurp_open(m->keys.record_seed, O_RDONLY | O_NOFOLLOW, &fd, e);
	if (rc == 0)
		rotation_set_state(r, ROTATION_USING);
	if (rc == 0 && proc_send(&m->recorder, msg, &fd, 1))
		rc = err_set(e, ERR_UNAVAILABLE, "the recorder is not up; the new key is in force at its next start");
	if (fd >= 0)
		close(fd);
	json_decref(msg);
	return rc;
}

void rotation_told(struct monitor *m, const char *op, const json_t *msg)
{
	struct rotation *r = m->rotation;
	const char *why = "";
	struct err e = {0};
	int64_t result = 0;
	int rc;

	if (!r || strcmp(op, r->state == ROTATION_NAMING ? "key.named" : "key.used") != 0)
		return; /* of one that was given up */
	rc = json_need_int(msg, "rc", INT32_MIN, 0, &result, &e);
	if (rc == 0)
		(void)json_opt_str(msg, "message", &why, NULL);
	if (rc == 0 && result)
		rc = err_set(&e, (int)result, "%s", why);
	if (rc == 0 && r->state == ROTATION_NAMING)
		rc = use(m, r, &e);
	else if (rc == 0)
		rotation_end(m, 0, NULL);
	if (rc)
		rotation_end(m, rc, &e);
}

void rotation_recorder_gone(struct monitor *m)
{
	struct err e = {0};

	if (!m->rotation)
		return;
	if (m->rotation->state == ROTATION_USING) /* the next start signs with it */
		rotation_end(m, 0, NULL);
	else
		rotation_end(m, err_set(&e, ERR_UNAVAILABLE, "the recorder went away; nothing was changed"), &e);
}
