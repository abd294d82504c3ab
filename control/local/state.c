#include "control/local/state.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/local/dir.h"

#define STATE_MAX     (16 * 1024)
#define STATE_VERSION 1

void state_init(struct state *s)
{
	memset(s, 0, sizeof(*s));
	s->state = SANDBOX_STOPPED;
}

void state_finish(struct state *s)
{
	OPENSSL_cleanse(s->secret, sizeof(s->secret));
}

void state_set(struct state *s, const char *agent, enum sandbox_state to)
{
	if (s->state != to)
		log_debug(&(struct log_ids){.agent = agent}, "sandbox %s -> %s", sandbox_state_name(s->state),
			  sandbox_state_name(to));
	s->state = to;
	if (to != SANDBOX_ERROR)
		s->error[0] = '\0';
}

bool state_alive(const struct state *s)
{
	return s->state == SANDBOX_RUNNING && strcmp(s->boot_id, clock_boot_id()) == 0 && found_alive(&s->init);
}

void state_info(const struct state *s, const char *agent, struct sandbox_info *out)
{
	enum sandbox_state now = state_alive(s) ? SANDBOX_RUNNING : s->state;

	if (now == SANDBOX_RUNNING && !state_alive(s))
		now = SANDBOX_STOPPED;
	memset(out, 0, sizeof(*out));
	text_put(out->agent, sizeof(out->agent), agent);
	out->sandbox_id = s->sandbox_id;
	out->state = now;
	text_put(out->detail, sizeof(out->detail), now == SANDBOX_ERROR ? s->error : s->detail);
	text_put(out->image, sizeof(out->image), s->image);
	text_put(out->image_digest, sizeof(out->image_digest), s->image_digest);
	out->created_wall_ns = s->created_wall_ns;
	out->epoch = s->epoch;
	if (now != SANDBOX_RUNNING)
		return;
	out->pid = s->init.pid;
	memcpy(out->secret, s->secret, sizeof(out->secret));
	out->oom_kills = cgroup_oom_kills(&s->cgroup);
	out->cap_enforced = s->cap_enforced;
	out->asked = s->asked;
	out->limits = s->limits;
	out->memory_enforced = s->memory_enforced;
	out->pids_enforced = s->pids_enforced;
	out->cpu_enforced = s->cpu_enforced;
}

static json_t *found_json(const struct found *f)
{
	return json_pack("{s:i, s:I}", "pid", (int)f->pid, "start", (json_int_t)f->start);
}

static json_t *cgroup_json(const struct cgroup *g)
{
	json_t *o = json_object();

	for (int k = 0; o && k < CGROUP_KINDS; k++)
		if (g->path[k][0])
			json_object_set_new(o, cgroup_kind_name((enum cgroup_kind)k),
					    json_pack("{s:s, s:b}", "path", g->path[k], "v2", g->v2[k]));
	return o;
}

static json_t *restoring_json(const struct state_restoring *r)
{
	char id[ID_STR_LEN];

	id_format(&r->id, id);
	return json_pack("{s:s, s:I, s:b, s:b}", "id", id, "inode", (json_int_t)r->inode, "read_only", r->read_only,
			 "was_read_only", r->was_read_only);
}

static json_t *state_json(const struct state *s)
{
	char id[ID_STR_LEN], restored[ID_STR_LEN];
	char *secret = base64_encode(s->secret, sizeof(s->secret), true);
	json_t *o = NULL;

	id_format(&s->sandbox_id, id);
	id_format(&s->restored, restored);
	if (secret)
		o = json_pack("{s:i, s:s, s:s, s:I, s:I, s:o, s:o, s:s, s:I, s:I, s:s, s:o, s:b, s:b, s:b, s:b, s:s, "
			      "s:s, s:b, s:s, s:s, s:s}",
			      "version", STATE_VERSION, "state", sandbox_state_name(s->state), "sandbox_id", id, "slot",
			      (json_int_t)s->slot, "uid", (json_int_t)s->uid, "init", found_json(&s->init), "outer",
			      found_json(&s->outer), "boot_id", s->boot_id, "created_wall_ns",
			      (json_int_t)s->created_wall_ns, "epoch", (json_int_t)s->epoch, "secret", secret, "cgroup",
			      cgroup_json(&s->cgroup), "cap_enforced", s->cap_enforced, "memory_enforced",
			      s->memory_enforced, "pids_enforced", s->pids_enforced, "cpu_enforced", s->cpu_enforced,
			      "detail", s->detail, "error", s->error, "read_only", s->read_only, "restored", restored,
			      "image", s->image, "image_digest", s->image_digest);
	if (secret)
		OPENSSL_cleanse(secret, strlen(secret));
	free(secret);
	if (o && (json_object_set_new(o, "asked", resources_json(&s->asked)) ||
		  json_object_set_new(o, "limits", resources_json(&s->limits)))) {
		json_decref(o);
		o = NULL;
	}
	if (o && !id_is_nil(&s->restoring.id) && json_object_set_new(o, "restoring", restoring_json(&s->restoring))) {
		json_decref(o);
		o = NULL;
	}
	return o;
}

int state_save(int dir, const struct state *s, struct err *e)
{
	json_t *o = state_json(s);
	struct buf b;
	int rc;

	buf_init(&b, STATE_MAX);
	rc = o ? json_append(&b, o) : ERR_NOMEM;
	rc = rc ? rc : buf_append_str(&b, "\n");
	if (rc)
		err_set(e, rc, "cannot make the text of %s", STATE_NAME);
	else
		rc = dir_write_file(dir, STATE_NAME, buf_ptr(&b), buf_len(&b), e);
	buf_finish_secret(&b);
	json_decref(o);
	return rc;
}

static int parse_text(const json_t *o, const char *key, char *out, size_t size, struct err *e)
{
	const char *s;
	int rc = json_need_str(o, key, &s, e);

	if (rc == 0 && (size_t)snprintf(out, size, "%s", s) >= size)
		rc = err_set(e, ERR_INVAL, "%s is too long", key);
	return rc;
}

static int parse_found(const json_t *o, const char *key, struct found *out, struct err *e)
{
	const json_t *f = json_object_get(o, key);
	int64_t pid, start;
	int rc = json_is_object(f) ? 0 : err_set(e, ERR_INVAL, "%s is missing", key);

	rc = rc ? rc : json_need_int(f, "pid", 0, INT32_MAX, &pid, e);
	rc = rc ? rc : json_need_int(f, "start", 0, INT64_MAX, &start, e);
	if (rc == 0)
		*out = (struct found){.pid = (pid_t)pid, .start = (uint64_t)start};
	return rc;
}

static int parse_cgroup(const json_t *o, struct cgroup *out, struct err *e)
{
	const json_t *all = json_object_get(o, "cgroup");
	int rc = 0;

	for (int k = 0; rc == 0 && k < CGROUP_KINDS; k++) {
		const json_t *one = json_object_get(all, cgroup_kind_name((enum cgroup_kind)k));

		if (!one)
			continue;
		rc = parse_text(one, "path", out->path[k], sizeof(out->path[k]), e);
		rc = rc ? rc : json_opt_bool(one, "v2", &out->v2[k], e);
	}
	return rc;
}

static int parse_secret(const json_t *o, struct state *s, struct err *e)
{
	const char *text;
	uint8_t *bytes = NULL;
	size_t n = 0;
	int rc = json_need_str(o, "secret", &text, e);

	rc = rc ? rc : base64_decode(text, strlen(text), true, &bytes, &n);
	if (rc == 0 && n != sizeof(s->secret))
		rc = err_set(e, ERR_INVAL, "secret has the wrong length");
	if (rc == 0)
		memcpy(s->secret, bytes, n);
	if (bytes)
		OPENSSL_cleanse(bytes, n);
	free(bytes);
	return rc;
}

static int parse_state(const json_t *o, struct state *s, struct err *e)
{
	const char *name;
	int rc = json_need_str(o, "state", &name, e);

	if (rc)
		return rc;
	for (int i = SANDBOX_RUNNING; i <= SANDBOX_ERROR; i++) {
		if (strcmp(name, sandbox_state_name((enum sandbox_state)i)) == 0) {
			s->state = (enum sandbox_state)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVAL, "unknown state %s", name);
}

static int parse_flags(const json_t *o, struct state *s, struct err *e)
{
	int rc = json_opt_bool(o, "cap_enforced", &s->cap_enforced, e);

	rc = rc ? rc : json_opt_bool(o, "memory_enforced", &s->memory_enforced, e);
	rc = rc ? rc : json_opt_bool(o, "pids_enforced", &s->pids_enforced, e);
	return rc ? rc : json_opt_bool(o, "cpu_enforced", &s->cpu_enforced, e);
}

/* Not in files of versions before snapshots. */
static int parse_workspace(const json_t *o, struct state *s, struct err *e)
{
	const char *restored = NULL;
	int rc = json_opt_bool(o, "read_only", &s->read_only, e);

	rc = rc ? rc : json_opt_str(o, "restored", &restored, e);
	return rc ? rc : restored ? id_parse(restored, &s->restored) : 0;
}

/* Nor those before images. */
static int parse_image(const json_t *o, struct state *s, struct err *e)
{
	int rc = json_object_get(o, "image") ? parse_text(o, "image", s->image, sizeof(s->image), e) : 0;

	if (rc == 0 && json_object_get(o, "image_digest"))
		rc = parse_text(o, "image_digest", s->image_digest, sizeof(s->image_digest), e);
	return rc;
}

static int parse_resources(const json_t *o, struct state *s, struct err *e)
{
	int rc = resources_read(json_object_get(o, "asked"), &s->asked, e);

	return rc ? rc : resources_read(json_object_get(o, "limits"), &s->limits, e);
}

static int parse_restoring(const json_t *o, struct state_restoring *out, struct err *e)
{
	struct state_restoring r = {0};
	int64_t inode;
	char id[ID_STR_LEN];
	int rc;

	if (!o)
		return 0;
	rc = parse_text(o, "id", id, sizeof(id), e);
	rc = rc ? rc : id_parse(id, &r.id);
	rc = rc ? rc : json_need_int(o, "inode", INT64_MIN, INT64_MAX, &inode, e);
	rc = rc ? rc : json_opt_bool(o, "read_only", &r.read_only, e);
	rc = rc ? rc : json_opt_bool(o, "was_read_only", &r.was_read_only, e);
	if (rc)
		return rc;
	r.inode = (uint64_t)inode;
	*out = r;
	return 0;
}

static int state_parse(const json_t *o, struct state *s, struct err *e)
{
	int64_t version, slot, uid, created, epoch;
	char id[ID_STR_LEN];
	int rc = json_need_int(o, "version", STATE_VERSION, STATE_VERSION, &version, e);

	rc = rc ? rc : parse_state(o, s, e);
	rc = rc ? rc : parse_text(o, "sandbox_id", id, sizeof(id), e);
	rc = rc ? rc : id_parse(id, &s->sandbox_id);
	rc = rc ? rc : json_need_int(o, "slot", 0, UINT32_MAX, &slot, e);
	rc = rc ? rc : json_need_int(o, "uid", 0, UINT32_MAX, &uid, e);
	rc = rc ? rc : json_need_int(o, "created_wall_ns", INT64_MIN, INT64_MAX, &created, e);
	rc = rc ? rc : json_need_int(o, "epoch", 0, INT64_MAX, &epoch, e);
	rc = rc ? rc : parse_found(o, "init", &s->init, e);
	rc = rc ? rc : parse_found(o, "outer", &s->outer, e);
	rc = rc ? rc : parse_text(o, "boot_id", s->boot_id, sizeof(s->boot_id), e);
	rc = rc ? rc : parse_text(o, "detail", s->detail, sizeof(s->detail), e);
	rc = rc ? rc : parse_text(o, "error", s->error, sizeof(s->error), e);
	rc = rc ? rc : parse_cgroup(o, &s->cgroup, e);
	rc = rc ? rc : parse_secret(o, s, e);
	rc = rc ? rc : parse_flags(o, s, e);
	rc = rc ? rc : parse_workspace(o, s, e);
	rc = rc ? rc : parse_image(o, s, e);
	rc = rc ? rc : parse_resources(o, s, e);
	rc = rc ? rc : parse_restoring(json_object_get(o, "restoring"), &s->restoring, e);
	if (rc)
		return rc;
	s->slot = (uint32_t)slot;
	s->uid = (uint32_t)uid;
	s->created_wall_ns = created;
	s->epoch = (uint64_t)epoch;
	return 0;
}

int state_load(int dir, struct state *out, struct err *e)
{
	struct err why = {0};
	struct state s;
	struct buf b;
	json_t *o = NULL;
	int rc;

	state_init(&s);
	buf_init(&b, STATE_MAX);
	rc = dir_read_file(dir, STATE_NAME, &b, e);
	if (rc == ERR_NOT_FOUND || rc == ERR_SYS || rc == ERR_PERMISSION)
		goto out;
	rc = rc ? rc : json_parse(buf_ptr(&b), buf_len(&b), STATE_MAX, &o, &why);
	rc = rc ? rc : state_parse(o, &s, &why);
	if (rc)
		rc = err_set(e, ERR_CORRUPT, "%s is damaged: %s", STATE_NAME, why.message);
	else
		*out = s;
out:
	buf_finish_secret(&b);
	json_decref(o);
	state_finish(&s);
	return rc;
}
