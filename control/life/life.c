#define LOG_SUBSYS "life"
#include "control/life/life.h"

#include "muxd/base/err.h"

#include <stdlib.h>

struct life {
	struct sandbox_provider base;
	struct life_params p;
};

const char *life_state_name(enum life_state s)
{
	static const char *const names[] = {"stopped",  "starting",   "running", "idle_stopping",
					    "stopping", "destroying", "error"};

	return names[s];
}

int life_create(const struct life_params *p, struct life **out, struct err *e)
{
	struct life *l = calloc(1, sizeof(*l));

	if (!l)
		return err_set(e, ERR_NOMEM, "no memory for lifecycle");
	l->p = *p;
	*out = l;
	return 0;
}
void life_destroy(struct life *l)
{
	if (!l)
		return;
	l->p.inner->ops->destroy(l->p.inner);
	free(l);
}
void life_set_host(struct life *l, const struct life_host *h)
{
	(void)l, (void)h;
}
void life_set_conf(struct life *l, const struct conf *c)
{
	(void)l, (void)c;
}
void life_begin(struct life *l)
{
	(void)l;
}
struct sandbox_provider *life_provider(struct life *l)
{
	return l->p.inner;
}
void life_current(struct life *l, const char *agent, char out[ID_STR_LEN])
{
	(void)l, (void)agent, (void)out;
}

static void not_yet(life_done *done, void *arg)
{
	struct err e = {0};

	err_set(&e, ERR_UNSUPPORTED, "lifecycle is not there yet");
	done(arg, e.code, &e, NULL);
}
void life_resume(struct life *l, const char *agent, const struct life_options *o, uint64_t timeout_ns, life_done *done,
		 void *arg)
{
	(void)l, (void)agent, (void)o, (void)timeout_ns;
	not_yet(done, arg);
}
void life_stop(struct life *l, const char *agent, const char *reason, uint64_t timeout_ns, life_done *done, void *arg)
{
	(void)l, (void)agent, (void)reason, (void)timeout_ns;
	not_yet(done, arg);
}
void life_terminate(struct life *l, const char *agent, const char *reason, enum life_end how, uint64_t timeout_ns,
		    life_done *done, void *arg)
{
	(void)l, (void)agent, (void)reason, (void)how, (void)timeout_ns;
	not_yet(done, arg);
}
void life_snapshot(struct life *l, const char *agent, uint64_t timeout_ns, life_done *done, void *arg)
{
	(void)l, (void)agent, (void)timeout_ns;
	not_yet(done, arg);
}
void life_restore(struct life *l, const char *agent, const struct id *snapshot, uint64_t timeout_ns, life_done *done,
		  void *arg)
{
	(void)l, (void)agent, (void)snapshot, (void)timeout_ns;
	not_yet(done, arg);
}
void life_fork(struct life *l, const struct life_fork *f, uint64_t timeout_ns, life_done *done, void *arg)
{
	(void)l, (void)f, (void)timeout_ns;
	not_yet(done, arg);
}
void life_snapshot_drop(struct life *l, const char *agent, const struct id *snapshot, life_done *done, void *arg)
{
	(void)l, (void)agent, (void)snapshot;
	not_yet(done, arg);
}
int life_show(struct life *l, const char *agent, json_t **out, struct err *e)
{
	(void)l, (void)out;
	return err_set(e, ERR_NOT_FOUND, "no agent %s", agent);
}
int life_list(struct life *l, const struct life_filter *f, json_t **out, struct err *e)
{
	(void)l, (void)f, (void)out;
	return err_set(e, ERR_UNSUPPORTED, "lifecycle is not there yet");
}
int life_snapshots(struct life *l, const char *agent, json_t **out, struct err *e)
{
	(void)l, (void)agent, (void)out;
	return err_set(e, ERR_UNSUPPORTED, "lifecycle is not there yet");
}
json_t *life_metrics(struct life *l)
{
	(void)l;
	return json_object();
}
