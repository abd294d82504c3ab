#include "muxd/net/provider.h"

#include "muxd/base/err.h"
#include "muxd/net/ipc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct provider {
	struct sandbox_provider base;
	struct ipc *ipc;
};

struct job {
	sandbox_done *done;
	sandbox_list_done *list_done;
	void *arg;
	bool want_fd;
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

	snprintf(out, size, "%s", s ? s : "");
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
	copy_str(o, "snapshot_id", i.snapshot_id, sizeof(i.snapshot_id));
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

static void on_answer(void *arg, int rc, const struct err *e, const json_t *json, int fd)
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
	j->done(j->arg, rc, rc ? e : NULL, rc ? NULL : &info, fd);
	explicit_bzero(&info, sizeof(info));
	free(j);
}

static void ask(struct sandbox_provider *p, json_t *q, bool want_fd, sandbox_done *done, void *arg)
{
	struct job *j = calloc(1, sizeof(*j));
	struct err e = {0};

	if (!j) {
		json_decref(q);
		err_set(&e, ERR_NOMEM, "no memory");
		done(arg, ERR_NOMEM, &e, NULL, -1);
		return;
	}
	j->done = done;
	j->arg = arg;
	j->want_fd = want_fd;
	ipc_ask(((struct provider *)p)->ipc, q, on_answer, j);
}

static void ensure(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	ask(p, json_pack("{s:s,s:s}", "op", "sandbox.ensure", "agent", agent), true, done, arg);
}

static void connect_to(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	ask(p, json_pack("{s:s,s:s}", "op", "sandbox.connect", "agent", agent), true, done, arg);
}

static void stat_one(struct sandbox_provider *p, const char *agent, sandbox_done *done, void *arg)
{
	ask(p, json_pack("{s:s,s:s}", "op", "sandbox.stat", "agent", agent), false, done, arg);
}

static void end_one(struct sandbox_provider *p, const char *agent, const char *reason, sandbox_done *done, void *arg)
{
	ask(p, json_pack("{s:s,s:s,s:s}", "op", "sandbox.destroy", "agent", agent, "reason", reason), false, done, arg);
}

static void on_list(void *arg, int rc, const struct err *e, const json_t *json, int fd)
{
	struct job *j = arg;
	const json_t *a = json_object_get(json, "sandboxes");
	size_t n = json_array_size(a), got = 0;
	struct sandbox_info *list = calloc(n + 1, sizeof(*list));

	if (fd >= 0)
		close(fd);
	for (size_t i = 0; list && i < n; i++)
		if (parse_info(json_array_get(a, i), &list[got], false) == 0)
			got++;
	j->list_done(j->arg, list ? rc : ERR_NOMEM, e, list, got);
	free(list);
	free(j);
}

static void list_all(struct sandbox_provider *p, sandbox_list_done *done, void *arg)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j) {
		done(arg, ERR_NOMEM, NULL, NULL, 0);
		return;
	}
	j->list_done = done;
	j->arg = arg;
	ipc_ask(((struct provider *)p)->ipc, json_pack("{s:s}", "op", "sandbox.list"), on_list, j);
}

static void destroy(struct sandbox_provider *p)
{
	free(p);
}

static const struct sandbox_provider_ops provider_ops = {.ensure = ensure,
							 .connect = connect_to,
							 .stat = stat_one,
							 .destroy_sandbox = end_one,
							 .list = list_all,
							 .destroy = destroy};

int provider_create(struct ipc *ipc, struct sandbox_provider **out)
{
	struct provider *p = calloc(1, sizeof(*p));

	if (!p)
		return ERR_NOMEM;
	p->base.ops = &provider_ops;
	p->ipc = ipc;
	*out = &p->base;
	return 0;
}
