#include "control/sandbox.h"

#include "base/err.h"
#include "base/text.h"

#include <string.h>

#define WHY_ROOM 160 /* of a message with many names, for the first one's reason */

static const struct {
	const char *name, *lacks; /* lacks: of a backend that cannot, after its name */
} ops[SANDBOX_OPS] = {
    [SANDBOX_ENSURE] = {"ensure", "makes no sandboxes"},
    [SANDBOX_CONNECT] = {"connect", "has no streams"},
    [SANDBOX_STAT] = {"stat", "cannot be asked"},
    [SANDBOX_DESTROY] = {"destroy", "ends no sandboxes"},
    [SANDBOX_WIPE] = {"wipe", "does not remove workspaces"},
    [SANDBOX_LIST] = {"list", "has no list"},
    [SANDBOX_RESOLVE] = {"resolve", "has whole names"},
    [SANDBOX_TAKE] = {"take", "has no snapshots"},
    [SANDBOX_SNAPSHOTS] = {"snapshots", "has no snapshots"},
    [SANDBOX_DROP] = {"drop", "has no snapshots"},
    [SANDBOX_SWEEP] = {"sweep", "leaves nothing behind"},
    [SANDBOX_HASH] = {"hash", "lets nobody read a snapshot"},
    [SANDBOX_RESTORE] = {"restore", "cannot restore that snapshot"},
    [SANDBOX_DROP_WORKSPACE] = {"drop workspace", "keeps its workspace"},
    [SANDBOX_LOG] = {"log", "keeps no log"},
};

const char *sandbox_op_name(enum sandbox_op op)
{
	return ops[op].name;
}

void sandbox_answer(sandbox_done *done, void *arg, int rc, const struct err *e, const struct sandbox_info *info, int fd)
{
	done(arg, &(struct sandbox_answer){
		      .rc = rc, .e = rc ? e : NULL, .info = rc ? NULL : info, .n = !rc && info, .fd = rc ? -1 : fd});
}

void sandbox_answer_snapshots(sandbox_done *done, void *arg, int rc, const struct err *e,
			      const struct sandbox_snapshot *list, size_t n)
{
	done(arg, &(struct sandbox_answer){
		      .rc = rc, .e = rc ? e : NULL, .snapshots = rc ? NULL : list, .n = rc ? 0 : n, .fd = -1});
}

void sandbox_ask(struct sandbox_provider *p, const struct sandbox_ask *q, sandbox_done *done, void *arg)
{
	struct err e = {0};

	if (sandbox_can(p, q->op)) {
		p->ops->ask(p, q, done, arg);
	} else if (q->op == SANDBOX_RESOLVE) {
		done(arg, &(struct sandbox_answer){.name = q->agent, .fd = -1});
	} else if (q->op == SANDBOX_SNAPSHOTS) { /* a backend without snapshots has none */
		sandbox_answer_snapshots(done, arg, 0, NULL, NULL, 0);
	} else {
		err_set(&e, ERR_UNSUPPORTED, "the backend of %.192s %s", q->agent ? q->agent : "agents",
			ops[q->op].lacks);
		sandbox_answer(done, arg, e.code, &e, NULL, -1);
	}
}

const char *sandbox_state_name(enum sandbox_state s)
{
	switch (s) {
	case SANDBOX_ABSENT:
		return "absent";
	case SANDBOX_RUNNING:
		return "running";
	case SANDBOX_STOPPED:
		return "stopped";
	case SANDBOX_ERROR:
		return "error";
	}
	return "error";
}

const char *sandbox_backend_name(enum sandbox_backend b)
{
	static const char *const names[] = {"local", "link", "plain"};

	return names[b];
}

static size_t names_of(const struct err *e)
{
	const char *end = strstr(e->message, " stays");

	return end ? (size_t)(end - e->message) : 0;
}

void sandbox_kept_add(struct err *all, const struct err *one)
{
	static const char more[] = "others, ";
	size_t n = names_of(one);

	if (!all->code)
		*all = *one;
	else if (n && n + names_of(all) + WHY_ROOM < sizeof(all->message))
		err_set(all, all->code, "%.*s, %s", (int)n, one->message, all->message);
	else if (strncmp(all->message, more, sizeof(more) - 1) != 0)
		err_set(all, all->code, "%s%s", more, all->message);
}
