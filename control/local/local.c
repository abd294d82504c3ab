#include "control/local/local.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/err.h"
#include "control/local/dir.h"
#include "control/local/hogs.h"
#include "control/local/host.h"
#include "control/local/rootfs.h"
#include "control/local/snapshot.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOG_MAX      65536
#define DAMAGED_NAME "sandbox.json.damaged"

static void conf_take(struct local *l, const struct conf *c)
{
	l->workspace_size = c->workspace_size;
	l->create_timeout_ns = c->sandbox_create_timeout_ns;
	l->limits =
	    (struct cgroup_limits){.memory_max = c->memory_max, .pids_max = c->pids_max, .cpu_milli = c->cpu_milli};
	slots_range(l, c->sandbox_uid_base);
}

static int local_fill(struct local *l, const struct local_params *p, const struct conf *c, struct err *e)
{
	l->root = p->root;
	conf_take(l, c);
	l->state_dir = realpath(p->state_dir, NULL);
	if (!l->state_dir)
		return err_sys(e, errno, "cannot find the state directory %s", p->state_dir);
	l->muxlet = realpath(p->muxlet_path, NULL);
	if (!l->muxlet)
		return err_set(e, ERR_MISSING, "the program muxlet is not at %s: %s", p->muxlet_path, strerror(errno));
	l->archiver = realpath(p->archiver_path, NULL);
	if (!l->archiver)
		return err_set(e, ERR_MISSING, "the program muxd-archive is not at %s: %s", p->archiver_path,
			       strerror(errno));
	l->shell = strdup(c->sandbox_shell ? c->sandbox_shell : "");
	l->persist = strdup(c->sandbox_persist ? c->sandbox_persist : "");
	l->weights = strdup(c->share_weights ? c->share_weights : "");
	l->slots = calloc(l->slots_max, 1);
	if (!l->shell || !l->persist || !l->weights || !l->slots)
		return err_set(e, ERR_NOMEM, "no memory for the sandboxes");
	/* The name becomes part of paths. */
	if (token_name_check("instance", p->instance, e) != 0 || strchr(p->instance, '/') || p->instance[0] == '.' ||
	    (size_t)snprintf(l->instance, sizeof(l->instance), "%s", p->instance) >= sizeof(l->instance))
		return err_set(e, ERR_INVAL, "not an instance id: %.40s", p->instance);
	return 0;
}

/* By its state it would run, and nobody could reach it. */
static void end_cut_short(struct local *l, int dir, const char *agent, struct state *s)
{
	struct log_ids ids = {.agent = agent};
	struct err e = {0};
	int rc = end_sandbox(l, dir, agent, s, &e);

	rc = rc ? rc : state_save(dir, s, &e);
	if (rc)
		log_warn(&ids, "its end was cut short, and cannot be finished: %s", e.message);
	else
		log_info(&ids, "its end was cut short; it is finished now");
}

/* The slots of all that exist, running or not: their files belong to those uids. */
static int slots_read(struct local *l, struct err *e)
{
	char **names;
	size_t n;
	int rc = dir_names(l->base, &names, &n, e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		struct state s;
		int dir;

		if (dir_open(l->base, names[i], &dir, NULL) != 0)
			continue;
		if (state_load(dir, &s, NULL) == 0) {
			local_clean(l, dir, names[i], &s);
			if (start_cut_short(dir, &s))
				end_cut_short(l, dir, names[i], &s);
			slot_mark(l, s.slot);
			if (s.epoch > l->last_epoch && strcmp(s.boot_id, clock_boot_id()) == 0)
				l->last_epoch = s.epoch;
			state_finish(&s);
		}
		dir_close(dir);
	}
	if (rc == 0)
		dir_names_free(names);
	return rc;
}

int local_create(const struct local_params *p, const struct conf *c, struct local **out, struct err *e)
{
	struct local *l;
	int rc;

	if (p->root != (geteuid() == 0))
		return err_set(e, ERR_INVAL,
			       p->root ? "mode root needs uid 0"
				       : "mode user is not for uid 0: sandboxes would have root's uid");
	l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, ERR_NOMEM, "no memory for the sandboxes");
	l->base = l->images = -1;
	pthread_mutex_init(&l->lock, NULL);
	rc = local_fill(l, p, c, e);
	rc = rc ? rc : dir_open_base(l->state_dir, &l->base, e);
	rc = rc ? rc : host_probe(l, e);
	if (rc == 0 && !(l->hogs = hogs_new(&l->layout, l->instance, l->weights)))
		rc = err_set(e, ERR_NOMEM, "no memory for the sandboxes");
	rc = rc ? rc : slots_read(l, e);
	rc = rc ? rc : rootfs_open_base(l, e);
	rc = rc ? rc : local_images_sweep(l, c, e);
	if (rc)
		local_destroy(l);
	else
		*out = l;
	return rc;
}

void local_destroy(struct local *l)
{
	if (!l)
		return;
	hogs_free(l->hogs);
	if (l->base >= 0)
		close(l->base);
	if (l->images >= 0)
		close(l->images);
	pthread_mutex_destroy(&l->lock);
	free(l->filter);
	free(l->slots);
	free(l->shell);
	free(l->persist);
	free(l->weights);
	free(l->muxlet);
	free(l->archiver);
	free(l->state_dir);
	free(l);
}

unsigned local_look(struct local *l)
{
	return hogs_look(l->hogs, clock_boot_ns());
}

int local_check_agent(const char *agent, struct err *e)
{
	if (strchr(agent, '/'))
		return err_set(
		    e, ERR_UNSUPPORTED,
		    "%.200s names a pod: that needs the Kubernetes backend, this daemon runs local sandboxes", agent);
	return agent_name_check(agent, e);
}

void local_info(const struct state *s, int dir, const char *agent, struct sandbox_info *out)
{
	state_info(s, agent, out);
	out->has_workspace = workspace_exists(dir);
}

static void hand_out(struct local *l, int dir, const char *agent, const struct state *s, struct sandbox_info *out)
{
	local_info(s, dir, agent, out);
	out->epoch = epoch_next(l);
}

/* A first state with a slot of its own, on disk before anything belongs to that uid. */
static int state_begin(struct local *l, int dir, struct state *s, struct err *e)
{
	int rc;

	state_init(s);
	rc = slot_take(l, &s->slot, e);
	if (rc)
		return rc;
	s->uid = slot_uid(l, s->slot);
	rc = state_save(dir, s, e);
	if (rc)
		slot_release(l, s->slot);
	return rc;
}

/*
 * A file that cannot be read is put aside and made anew, with another uid: the
 * start then finds the workspace's owner changed and corrects it, and refuses
 * when the image is still mounted by a sandbox that was lost with the file.
 */
int local_state_get(struct local *l, int dir, const char *agent, struct state *s, struct err *e)
{
	struct err why = {0};
	int rc = state_load(dir, s, &why);

	if (rc == ERR_CORRUPT) {
		log_error(&(struct log_ids){.agent = agent}, "%s; it is kept as %s", why.message, DAMAGED_NAME);
		if (renameat(dir, STATE_NAME, dir, DAMAGED_NAME) != 0)
			return err_sys(e, errno, "cannot put the damaged %s aside", STATE_NAME);
		rc = ERR_NOT_FOUND;
	}
	if (rc == ERR_NOT_FOUND)
		return state_begin(l, dir, s, e);
	return rc ? err_set(e, rc, "sandbox %s: %.300s", agent, why.message) : 0;
}

static int ensure_locked(struct local *l, int dir, const char *agent, const struct local_shape *shape,
			 struct sandbox_info *out, int *out_fd, struct err *e)
{
	struct state s;
	int rc = local_state_get(l, dir, agent, &s, e);

	if (rc)
		return rc;
	rc = state_alive(&s) ? start_connect(dir, agent, out_fd, e) : ERR_NOT_FOUND;
	if (rc == ERR_NOT_FOUND) {
		rc = end_sandbox(l, dir, agent, &s, e);
		rc = rc ? rc : start_sandbox(l, dir, agent, &s, shape, out_fd, e);
	}
	if (rc == 0)
		hand_out(l, dir, agent, &s, out);
	state_finish(&s);
	return rc;
}

int local_ensure(struct local *l, const char *agent, struct sandbox_info *out, int *out_fd, struct err *e)
{
	return local_ensure_shape(l, agent, &(struct local_shape){0}, out, out_fd, e);
}

int local_ensure_shape(struct local *l, const char *agent, const struct local_shape *shape, struct sandbox_info *out,
		       int *out_fd, struct err *e)
{
	int dir, rc = local_check_agent(agent, e);

	/* One that runs is reached without the lock: a snapshot that is being taken holds it for as long as the copy
	 * takes. */
	if (rc == 0 && local_connect(l, agent, out, out_fd, NULL) == 0)
		return 0;

	rc = rc ? rc : dir_open_locked(l->base, agent, true, &dir, e);
	if (rc)
		return rc;
	rc = ensure_locked(l, dir, agent, shape, out, out_fd, e);
	dir_close(dir);
	return rc;
}

int local_connect(struct local *l, const char *agent, struct sandbox_info *out, int *out_fd, struct err *e)
{
	struct state s;
	int dir, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open(l->base, agent, &dir, e);
	if (rc)
		return rc;
	rc = state_load(dir, &s, e);
	if (rc == 0) {
		rc = state_alive(&s) ? start_connect(dir, agent, out_fd, e)
				     : err_set(e, ERR_NOT_FOUND, "the sandbox of %s does not run", agent);
		if (rc == 0)
			hand_out(l, dir, agent, &s, out);
		state_finish(&s);
	}
	dir_close(dir);
	return rc;
}

static int stat_one(struct local *l, const char *agent, struct sandbox_info *out, struct err *e)
{
	struct err why = {0};
	struct state s;
	int dir = -1, rc = dir_open(l->base, agent, &dir, &why);

	rc = rc ? rc : state_load(dir, &s, &why);
	if (rc == 0) {
		local_info(&s, dir, agent, out);
		state_finish(&s);
	} else if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
		memset(out, 0, sizeof(*out));
		text_put(out->agent, sizeof(out->agent), agent);
		out->state = rc == ERR_NOT_FOUND ? SANDBOX_ABSENT : SANDBOX_ERROR;
		text_format(out->detail, sizeof(out->detail), "%.250s", why.message);
		out->has_workspace = dir >= 0 && workspace_exists(dir);
		rc = 0;
	} else {
		err_set(e, rc, "%.390s", why.message);
	}
	dir_close(dir);
	return rc;
}

int local_stat(struct local *l, const char *agent, struct sandbox_info *out, struct err *e)
{
	int rc = local_check_agent(agent, e);

	return rc ? rc : stat_one(l, agent, out, e);
}

/*
 * The state file goes last: a crash in between leaves a sandbox that can be destroyed once more. Snapshots are not the
 * workspace: each goes by its own drop, and the last one takes the directory with it.
 */
int local_wipe(struct local *l, int dir, const char *agent, uint32_t slot, struct err *e)
{
	static const char *const parts[] = {LOG_NAME, DAMAGED_NAME, STATE_NAME};
	int rc = workspace_remove(dir, e);

	for (size_t i = 0; rc == 0 && i < sizeof(parts) / sizeof(parts[0]); i++)
		rc = dir_remove(dir, parts[i], e);
	if (rc == 0 && snapshot_dir_drop(dir))
		rc = dir_remove(l->base, agent, e);
	if (rc == 0)
		slot_release(l, slot);
	return rc;
}

bool local_is_wiped(int dir)
{
	return faccessat(dir, STATE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT && !workspace_exists(dir);
}

static int destroy_locked(struct local *l, int dir, const char *agent, bool wipe_too, struct err *e)
{
	struct state s;
	int rc;

	if (!wipe_too && local_is_wiped(dir))
		return 0;
	rc = local_state_get(l, dir, agent, &s, e);
	if (rc)
		return rc;
	rc = end_sandbox(l, dir, agent, &s, e);
	if (rc == 0)
		rc = wipe_too ? local_wipe(l, dir, agent, s.slot, e) : state_save(dir, &s, e);
	state_finish(&s);
	return rc;
}

int local_destroy_sandbox(struct local *l, const char *agent, bool wipe_too, struct err *e)
{
	int dir, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open_locked(l->base, agent, false, &dir, e);
	if (rc)
		return rc == ERR_NOT_FOUND ? 0 : rc;
	rc = destroy_locked(l, dir, agent, wipe_too, e);
	dir_close(dir);
	return rc;
}

int local_list(struct local *l, const char *after, size_t max, struct sandbox_info **out, size_t *out_n, bool *out_more,
	       struct err *e)
{
	struct sandbox_info *list;
	char **names = NULL;
	size_t n = 0, k = 0;
	bool more = false;
	int rc = dir_names(l->base, &names, &n, e);

	if (rc)
		return rc;
	if (max > n)
		max = n;
	list = calloc(max ? max : 1, sizeof(*list));
	if (!list) {
		dir_names_free(names);
		return err_set(e, ERR_NOMEM, "no memory for the list of sandboxes");
	}
	for (size_t i = 0; rc == 0 && i < n && !more; i++) {
		if (agent_name_check(names[i], NULL) != 0 || (after && strcmp(names[i], after) <= 0))
			continue;
		if (k == max) {
			more = true;
			break;
		}
		rc = stat_one(l, names[i], &list[k], e);
		if (rc == 0 && list[k].state != SANDBOX_ABSENT)
			k++;
	}
	dir_names_free(names);
	if (rc) {
		free(list);
		return rc;
	}
	*out = list;
	*out_n = k;
	*out_more = more;
	return 0;
}

int local_destroy_all(struct local *l, struct err *e)
{
	char **names;
	size_t n;
	int first = 0, rc = dir_names(l->base, &names, &n, e);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		struct err why = {0};

		if (agent_name_check(names[i], NULL) != 0)
			continue;
		rc = local_destroy_sandbox(l, names[i], false, &why);
		if (rc && !first)
			first = err_set(e, rc, "sandbox %s: %.330s", names[i], why.message);
	}
	dir_names_free(names);
	return first;
}

int local_log(struct local *l, const char *agent, size_t max, struct buf *b, struct err *e)
{
	struct buf all;
	size_t n;
	int dir, rc = local_check_agent(agent, e);

	rc = rc ? rc : dir_open(l->base, agent, &dir, e);
	if (rc)
		return rc;
	buf_init(&all, LOG_MAX);
	rc = dir_read_file(dir, LOG_NAME, &all, NULL);
	dir_close(dir);
	if (rc == ERR_NOT_FOUND)
		err_set(e, rc, "nothing is kept of what the sandbox of %s said at its start", agent);
	else if (rc)
		err_set(e, rc, "the log of sandbox %s cannot be read", agent);
	n = buf_len(&all) < max ? buf_len(&all) : max;
	if (rc == 0)
		rc = buf_append(b, (const uint8_t *)buf_ptr(&all) + buf_len(&all) - n, n);
	buf_finish(&all);
	return rc;
}
