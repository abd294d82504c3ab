/* Questions of the local door about agents and their sandboxes: shown, listed, made, ended, moved through their lives.
 */
#define LOG_SUBSYS "local"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "muxd/doors/life_args.h"
#include "muxd/doors/local/local.h"

#include <string.h>

static void ask_life_on_agent(void *arg, int rc, const struct err *e, json_t *result)
{
	local_conn_answer(arg, "agent", rc, e, result);
}

/* The answer's own keys beside "event". */
static void ask_life_on_object(void *arg, int rc, const struct err *e, json_t *result)
{
	local_conn_answer(arg, NULL, rc, e, result);
}

static void ask_show(struct local_conn *c, const json_t *o)
{
	const char *agent;
	struct err e = {0};
	int rc = json_need_str(o, "agent", &agent, &e);

	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_agent(c->door->hub, &c->rq, agent, ask_life_on_agent, c->ticket);
}

static void ask_destroy(struct local_conn *c, const json_t *o)
{
	const char *agent, *reason = "";
	bool wipe = false;
	struct err e = {0};
	int rc = json_need_str(o, "agent", &agent, &e);

	if (!rc)
		rc = json_opt_bool(o, "wipe", &wipe, &e);
	if (!rc)
		rc = json_opt_str(o, "reason", &reason, &e);
	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_destroy(c->door->hub, &c->rq, agent, reason, wipe, ask_life_on_agent, c->ticket);
}

static void ask_list(struct local_conn *c, const json_t *o)
{
	static const char *const keys[] = {"op", "token", "state", "prefix", "after", "limit", NULL};
	struct life_filter f = {0};
	int64_t limit = BROKER_AGENTS_MAX;
	struct err e = {0};
	int rc = json_only_keys(o, keys, &e);

	if (!rc)
		rc = json_opt_str(o, "state", &f.state, &e);
	if (!rc)
		rc = json_opt_str(o, "prefix", &f.prefix, &e);
	if (!rc)
		rc = json_opt_str(o, "after", &f.after, &e);
	if (!rc)
		rc = json_opt_int(o, "limit", 1, BROKER_AGENTS_MAX, &limit, &e);
	f.limit = (size_t)limit;
	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_agents(c->door->hub, &c->rq, &f, ask_life_on_object, c->ticket);
}

static void ask_snapshots(struct local_conn *c, const json_t *o)
{
	const char *agent;
	struct err e = {0};
	int rc = json_need_str(o, "agent", &agent, &e);

	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_snapshots(c->door->hub, &c->rq, agent, ask_life_on_object, c->ticket);
}

static void ask_log(struct local_conn *c, const json_t *o)
{
	const char *agent;
	int64_t bytes = BROKER_LOG_MAX;
	struct err e = {0};
	int rc = json_need_str(o, "agent", &agent, &e);

	if (!rc)
		rc = json_opt_int(o, "bytes", 1, BROKER_LOG_MAX, &bytes, &e);
	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_log(c->door->hub, &c->rq, agent, (size_t)bytes, ask_life_on_object, c->ticket);
}

static void ask_moment(struct local_conn *c, const json_t *o)
{
	const char *agent, *opened, *snapshot = "";
	json_t *result = NULL;
	int64_t wall = 0;
	struct err e = {0};
	int rc = json_need_str(o, "agent", &agent, &e);

	if (!rc)
		rc = json_need_str(o, "opened_at", &opened, &e);
	if (!rc && clock_parse_utc(opened, &wall))
		rc = err_set(&e, ERR_INVAL, "opened_at is no time");
	if (!rc)
		rc = json_opt_str(o, "snapshot_id", &snapshot, &e);
	if (!rc)
		rc = broker_moment(c->door->hub, &c->rq, agent, wall, snapshot, &result, &e);
	if (rc)
		local_conn_error(c, rc, &e);
	else
		local_conn_result(c, "moment", result);
}

static int read_session(const json_t *o, struct id *out, struct err *e)
{
	const char *text = NULL;
	int rc = json_opt_str(o, "session", &text, e);

	if (!rc && text && id_parse(text, out))
		rc = err_set(e, ERR_INVAL, "\"%.64s\" is not a session id", text);
	return rc;
}

static void ask_verb(struct local_conn *c, const json_t *o, enum life_verb v)
{
	static const char *const keys[] = {"op", "token", "agent", "session", NULL};
	bool made = v == VERB_SNAPSHOT || v == VERB_DROP;
	struct life_call call;
	struct err e = {0};
	int rc = life_args_read(v, o, keys, json_object_get(o, "session") != NULL, &call, &e);

	if (!rc)
		rc = json_opt_str(o, "agent", &call.agent, &e);
	if (!rc)
		rc = read_session(o, &call.session, &e);
	if (!rc && !call.agent && v != VERB_FORK)
		rc = err_set(&e, ERR_INVAL, "agent is missing");
	if (rc) {
		local_conn_error(c, rc, &e);
		return;
	}
	local_conn_set_state(c, LOCAL_ASKED);
	broker_life(c->door->hub, &c->rq, v, &call, made ? ask_life_on_object : ask_life_on_agent, c->ticket);
}

#define ASK_VERB(function, verb)                                                                                       \
	static void function(struct local_conn *c, const json_t *o)                                                    \
	{                                                                                                              \
		ask_verb(c, o, verb);                                                                                  \
	}
ASK_VERB(ask_resume, VERB_RESUME)
ASK_VERB(ask_stop, VERB_STOP)
ASK_VERB(ask_end, VERB_TERMINATE)
ASK_VERB(ask_snapshot, VERB_SNAPSHOT)
ASK_VERB(ask_restore, VERB_RESTORE)
ASK_VERB(ask_fork, VERB_FORK)
ASK_VERB(ask_drop, VERB_DROP)
ASK_VERB(ask_kill, VERB_KILL)
_Static_assert(VERB_COUNT == 8, "a verb is missing here");

const struct local_op local_life_ops[] = {
    {"agent", ask_show},
    {"agents", ask_list},
    {"resume", ask_resume},
    {"sandbox.resume", ask_resume},
    {"sandbox.stop", ask_stop},
    {"sandbox.kill", ask_kill},
    {"sandbox.terminate", ask_end},
    {"sandbox.snapshot", ask_snapshot},
    {"sandbox.restore", ask_restore},
    {"sandbox.fork", ask_fork},
    {"sandbox.drop", ask_drop},
    {"sandbox.destroy", ask_destroy},
    {"sandbox.snapshots", ask_snapshots},
    {"sandbox.moment", ask_moment},
    {"sandbox.log", ask_log},
    {0},
};
