#include "muxd/net/provider.h"

#include "base/err.h"
#include "base/text.h"
#include "muxd/net/ipc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MAX 16384 /* as the monitor has it */

struct provider {
	struct sandbox_provider base;
	struct ipc *ipc;
};

/* Lists, by what they are of. */
struct kind {
	const char *op, *key; /* the question, and where its answer has the list */
	size_t size;          /* of an item */
	int (*parse)(const json_t *o, void *item);
	void (*after)(const void *item, char *out, size_t size); /* where the next page begins */
};

/* A question, and of a list what came so far: it comes in pages. */
struct job {
	struct ipc *ipc;
	const struct kind *kind;
	char agent[AGENT_NAME_MAX + 1]; /* "": of all */
	void *items;
	size_t n;
	bool want_fd, run;
	sandbox_done *done;
	void *arg;
};

static int parse_state(const char *s)
{
	for (int i = SANDBOX_ABSENT; i <= SANDBOX_ERROR; i++)
		if (strcmp(s, sandbox_state_name((enum sandbox_state)i)) == 0)
			return i;
	return SANDBOX_ERROR;
}

static int parse_secret(const char *text, struct sandbox_info *out)
{
	size_t n = 0;
	uint8_t *p = NULL;
	int rc = text ? base64_decode(text, strlen(text), true, &p, &n) : ERR_INVAL;

	if (!rc && n == sizeof(out->secret))
		memcpy(out->secret, p, n);
	else if (!rc)
		rc = ERR_INVAL;
	if (p)
		explicit_bzero(p, n);
	free(p);
	return rc;
}

static void copy_str(const json_t *o, const char *key, char *out, size_t size)
{
	const char *s = json_string_value(json_object_get(o, key));

	text_put(out, size, s ? s : "");
}

/* The monitor is trusted; still, what does not parse is an error and no half sandbox. */
static int parse_info(const json_t *o, struct sandbox_info *out, bool secret)
{
	struct sandbox_info i = {0};
	char id[ID_STR_LEN], state[32];

	if (!json_is_object(o))
		return ERR_INVAL;
	copy_str(o, "agent", i.agent, sizeof(i.agent));
	copy_str(o, "sandbox_id", id, sizeof(id));
	copy_str(o, "state", state, sizeof(state));
	copy_str(o, "detail", i.detail, sizeof(i.detail));
	copy_str(o, "image", i.image, sizeof(i.image));
	copy_str(o, "image_digest", i.image_digest, sizeof(i.image_digest));
	if (resources_read(json_object_get(o, "asked"), &i.asked, NULL) ||
	    resources_read(json_object_get(o, "limits"), &i.limits, NULL))
		return ERR_INVAL;
	copy_str(o, "snapshot_id", i.snapshot_id, sizeof(i.snapshot_id));
	i.has_workspace = json_is_true(json_object_get(o, "has_workspace"));
	if (id[0] && id_parse(id, &i.sandbox_id))
		return ERR_INVAL;
	i.state = (enum sandbox_state)parse_state(state);
	i.pid = (int32_t)json_integer_value(json_object_get(o, "pid"));
	i.created_wall_ns = json_integer_value(json_object_get(o, "created_wall_ns"));
	i.epoch = (uint64_t)json_integer_value(json_object_get(o, "epoch"));
	i.oom_kills = (uint32_t)json_integer_value(json_object_get(o, "oom_kills"));
	i.cap_enforced = json_is_true(json_object_get(o, "cap_enforced"));
	i.memory_enforced = json_is_true(json_object_get(o, "memory_enforced"));
	i.pids_enforced = json_is_true(json_object_get(o, "pids_enforced"));
	i.cpu_enforced = json_is_true(json_object_get(o, "cpu_enforced"));
	if (secret && parse_secret(json_string_value(json_object_get(o, "secret")), &i))
		return ERR_INVAL;
	*out = i;
	return 0;
}

static void provider_on_answer(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct job *j = arg;
	struct sandbox_info info = {0};
	struct err here = {0};
	const json_t *o = json_object_get(json, "sandbox");

	if (!rc && (o || j->want_fd))
		rc = parse_info(o, &info, j->want_fd);
	if (!rc && j->want_fd && fd < 0)
		rc = ERR_INVAL;
	if (rc && !e)
		err_set(&here, ERR_INTERNAL, "the monitor's answer about a sandbox is not understood"), e = &here;
	if ((rc || !j->want_fd) && fd >= 0) {
		close(fd);
		fd = -1;
	}
	sandbox_answer(j->done, j->arg, rc, e, &info, fd);
	explicit_bzero(&info, sizeof(info));
	free(j);
}

static int not_understood(struct err *e)
{
	return err_set(e, ERR_INTERNAL, "the monitor's answer about sandboxes is not understood");
}

/* ---- lists */

static void list_end(struct job *j, int rc, const struct err *e)
{
	struct sandbox_answer a = {.rc = rc, .e = rc ? e : NULL, .n = rc ? 0 : j->n, .fd = -1};

	if (!rc && j->kind->size == sizeof(struct sandbox_info))
		a.info = j->items;
	else if (!rc)
		a.snapshots = j->items;
	j->done(j->arg, &a);
	free(j->items);
	free(j);
}

static void *item_at(const struct job *j, size_t i)
{
	return (char *)j->items + i * j->kind->size;
}

/* What does not parse is left out. */
static int list_append(struct job *j, const json_t *answer, struct err *e)
{
	const json_t *a = json_object_get(answer, j->kind->key);
	size_t n = json_array_size(a);
	void *items = realloc(j->items, (j->n + n + 1) * j->kind->size);

	if (!items)
		return err_set(e, ERR_NOMEM, "no memory for a list of %s", j->kind->key);
	j->items = items;
	for (size_t i = 0; i < n; i++)
		if (j->kind->parse(json_array_get(a, i), item_at(j, j->n)) == 0)
			j->n++;
	return 0;
}

static void provider_list_page(struct job *j);

static void provider_on_page(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct job *j = arg;
	struct err here = {0};
	size_t before = j->n;

	if (fd >= 0)
		close(fd);
	if (rc == 0 && (rc = list_append(j, json, &here)))
		e = &here;
	if (rc == 0 && json_is_true(json_object_get(json, "more"))) {
		if (j->n > before) {
			provider_list_page(j);
			return;
		}
		rc = not_understood(&here), e = &here;
	}
	list_end(j, rc, e);
}

static void provider_list_page(struct job *j)
{
	char after[AGENT_NAME_MAX + 1 + ID_STR_LEN];
	json_t *q = json_pack("{s:s}", "op", j->kind->op);

	if (q && j->agent[0])
		json_object_set_new(q, "agent", json_string(j->agent));
	if (q && j->run)
		json_object_set_new(q, "run", json_true());
	if (q && j->n) {
		j->kind->after(item_at(j, j->n - 1), after, sizeof(after));
		json_object_set_new(q, "after", json_string(after));
	}
	ipc_ask(j->ipc, q, provider_on_page, j);
}

/* ---- the list of sandboxes */

static int parse_listed(const json_t *o, void *item)
{
	return parse_info(o, item, false);
}

static void after_sandbox(const void *item, char *out, size_t size)
{
	text_put(out, size, ((const struct sandbox_info *)item)->agent);
}

static const struct kind sandboxes = {"sandbox.list", "sandboxes", sizeof(struct sandbox_info), parse_listed,
				      after_sandbox};

/* ---- snapshots */

static int parse_snapshot(const json_t *o, void *item)
{
	struct sandbox_snapshot s = {0};
	char id[ID_STR_LEN];

	copy_str(o, "id", id, sizeof(id));
	if (id_parse(id, &s.id))
		return ERR_INVAL;
	copy_str(o, "agent", s.agent, sizeof(s.agent));
	copy_str(o, "name", s.name, sizeof(s.name));
	copy_str(o, "how", s.how, sizeof(s.how));
	copy_str(o, "detail", s.detail, sizeof(s.detail));
	copy_str(o, "digest", s.digest, sizeof(s.digest));
	s.stored = (uint64_t)json_integer_value(json_object_get(o, "stored"));
	s.mtime_ns = json_integer_value(json_object_get(o, "mtime_ns"));
	s.size = (uint64_t)json_integer_value(json_object_get(o, "size"));
	s.created_wall_ns = json_integer_value(json_object_get(o, "created_wall_ns"));
	s.ready = json_is_true(json_object_get(o, "ready"));
	*(struct sandbox_snapshot *)item = s;
	return 0;
}

static void after_snapshot(const void *item, char *out, size_t size)
{
	const struct sandbox_snapshot *s = item;
	char id[ID_STR_LEN];

	id_format(&s->id, id);
	text_format(out, size, "%s/%s", s->agent, id);
}

static const struct kind snapshots = {"sandbox.snapshots", "snapshots", sizeof(struct sandbox_snapshot), parse_snapshot,
				      after_snapshot};

/* A take's answer is a list of one. */
static void provider_on_snapshot(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct job *j = arg;
	struct err here = {0};

	if (fd >= 0)
		close(fd);
	if (rc == 0 && (rc = list_append(j, json, &here)))
		e = &here;
	if (rc == 0 && j->n != 1)
		rc = not_understood(&here), e = &here;
	list_end(j, rc, e);
}

static void provider_on_dropped(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	(void)json;
	if (fd >= 0)
		close(fd);
	list_end(arg, rc, e);
}

/* ---- the log */

static void provider_on_log(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct job *j = arg;
	struct sandbox_answer a = {.fd = -1};
	const char *text = json_string_value(json_object_get(json, "text"));
	const char *encoding = json_string_value(json_object_get(json, "encoding"));
	struct err here = {0};
	uint8_t *bytes = NULL;
	size_t n = text ? strlen(text) : 0;

	if (fd >= 0)
		close(fd);
	if (rc == 0 && (!text || !encoding))
		rc = not_understood(&here), e = &here;
	if (rc == 0 && strcmp(encoding, "base64") == 0 && base64_decode(text, n, false, &bytes, &n))
		rc = not_understood(&here), e = &here;
	a.rc = rc;
	a.e = rc ? e : NULL;
	a.text = rc ? NULL : bytes ? bytes : (const uint8_t *)text;
	a.n = rc ? 0 : n;
	j->done(j->arg, &a);
	free(bytes);
	free(j);
}

/* ---- questions */

/* Of each operation: how the monitor calls it, which of the question's fields it is told, who hears the answer. */
enum field {
	F_REASON = 1,
	F_FROM = 2,
	F_SNAPSHOT = 4,
	F_TIMEOUT = 8,
	F_IDLE = 16,
	F_READ_ONLY = 32,
	F_MAX = 64,
	F_SHAPE = 128
};

static const struct question {
	const char *op;
	unsigned fields;
	ipc_answer *heard;
	const struct kind *list; /* of what the answer is a list */
	bool pages, fd;
} questions[SANDBOX_OPS] = {
    [SANDBOX_ENSURE] = {"sandbox.ensure", F_SHAPE, provider_on_answer, .fd = true},
    [SANDBOX_CONNECT] = {"sandbox.connect", 0, provider_on_answer, .fd = true},
    [SANDBOX_STAT] = {"sandbox.stat", 0, provider_on_answer},
    [SANDBOX_DESTROY] = {"sandbox.destroy", F_REASON, provider_on_answer},
    [SANDBOX_WIPE] = {"sandbox.wipe", F_REASON, provider_on_answer},
    [SANDBOX_LIST] = {.list = &sandboxes, .pages = true},
    [SANDBOX_TAKE] = {"sandbox.snapshot", F_SNAPSHOT | F_TIMEOUT, provider_on_snapshot, .list = &snapshots},
    [SANDBOX_SNAPSHOTS] = {.list = &snapshots, .pages = true},
    [SANDBOX_DROP] = {"sandbox.snapshot_drop", F_SNAPSHOT, provider_on_dropped, .list = &snapshots},
    [SANDBOX_HASH] = {"sandbox.snapshot_hash", F_SNAPSHOT | F_IDLE, provider_on_snapshot, .list = &snapshots},
    [SANDBOX_RESTORE] = {"sandbox.restore", F_FROM | F_SNAPSHOT | F_READ_ONLY | F_TIMEOUT, provider_on_answer},
    [SANDBOX_DROP_WORKSPACE] = {"sandbox.drop_workspace", 0, provider_on_answer},
    [SANDBOX_LOG] = {"sandbox.log", F_MAX, provider_on_log},
};

/* NULL: no memory, which ipc_ask() answers. */
static json_t *question_json(const struct question *k, const struct sandbox_ask *q)
{
	json_t *o = json_pack("{s:s,s:s}", "op", k->op, "agent", q->agent);
	size_t max = q->max < LOG_MAX ? q->max : LOG_MAX;
	char id[ID_STR_LEN];

	if (!o)
		return NULL;
	if (k->fields & F_REASON)
		json_object_set_new(o, "reason", json_string(q->reason));
	if (k->fields & F_FROM)
		json_object_set_new(o, "from", json_string(q->from));
	if (k->fields & F_SNAPSHOT) {
		id_format(q->snapshot, id);
		json_object_set_new(o, "snapshot", json_string(id));
	}
	if (k->fields & F_TIMEOUT)
		json_object_set_new(o, "timeout_ns", json_integer((json_int_t)q->timeout_ns));
	if (k->fields & F_IDLE)
		json_object_set_new(o, "idle", json_boolean(q->idle));
	if (k->fields & F_READ_ONLY)
		json_object_set_new(o, "read_only", json_boolean(q->read_only));
	if (k->fields & F_SHAPE && q->image && *q->image)
		json_object_set_new(o, "image", json_string(q->image));
	if (k->fields & F_SHAPE && !resources_none(&q->resources))
		json_object_set_new(o, "resources", resources_json(&q->resources));
	if (q->run)
		json_object_set_new(o, "run", json_true());
	if (k->fields & F_MAX)
		json_object_set_new(o, "max", json_integer(max ? (json_int_t)max : 1));
	return o;
}

static void provider_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	const struct question *k = &questions[q->op];
	struct ipc *ipc = ((struct provider *)p)->ipc;
	struct job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		err_set(&e, ERR_NOMEM, "no memory");
		sandbox_answer(done, arg, e.code, &e, NULL, -1);
		return;
	}
	*j = (struct job){.ipc = ipc, .kind = k->list, .want_fd = k->fd, .run = q->run, .done = done, .arg = arg};
	text_put(j->agent, sizeof(j->agent), q->agent ? q->agent : "");
	if (k->pages)
		provider_list_page(j);
	else
		ipc_ask(ipc, question_json(k, q), k->heard, j);
}

static void provider_destroy(struct sandbox_provider *p)
{
	free(p);
}

static const struct sandbox_provider_ops provider_ops = {.ask = provider_ask, .destroy = provider_destroy};

int provider_create(struct ipc *ipc, struct sandbox_provider **out)
{
	struct provider *p = calloc(1, sizeof(*p));

	if (!p)
		return ERR_NOMEM;
	p->base.ops = &provider_ops;
	p->base.can = SANDBOX_CAN_ALL & ~(SANDBOX_CAN(SANDBOX_RESOLVE) | SANDBOX_CAN(SANDBOX_SWEEP));
	p->ipc = ipc;
	*out = &p->base;
	return 0;
}
