/* A local sandbox from its workspace to its processes, and back: each step undoes itself where a later one fails. */
#include "base/conf.h"
#include "control/local/host.h"

#include "base/err.h"
#include "control/local/cmdline.h"
#include "control/local/dir.h"
#include "control/local/holder.h"
#include "control/local/image.h"
#include "control/local/rootfs.h"
#include "control/local/spawn.h"
#include "control/local/tool.h"
#define LOG_SUBSYS "sandbox"
#include "base/log.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define SOCKET_NAME  "link.sock"
#define SOCKET_EARLY "link.new"        /* its name until muxlet has its secret */
#define HOLDER_NS    (200 * NS_PER_MS) /* a mount goes with its last process, a moment later */
#define END_NS       (5 * NS_PER_SEC)
#define BACKLOG      64

/* One start under way: what is open, to be closed whatever happens. */
struct start {
	struct local *l;
	int dir;
	const char *agent;
	struct state *s;
	const struct local_image *wanted; /* its root; NULL: the host's */
	struct cgroup_limits limits;      /* the configured ones, or what was asked for where that is less */
	struct rootfs *rootfs;
	uint64_t deadline;
	bool image, fresh; /* of the workspace */
	char loop[IMAGE_LOOP_MAX], image_at[64];
	int loop_fd, workspace_fd, listen_fd, seccomp_fd;
	int cgroup_fds[CGROUP_KINDS];
	int ncgroup_fds, programs_fd;
	struct cmdline cmdline;
	struct spawn spawn;
};

static void detail_add(struct state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void detail_add(struct state *s, const char *fmt, ...)
{
	size_t n = strlen(s->detail);
	va_list ap;

	if (n > 0 && n + 2 < sizeof(s->detail)) {
		strcpy(s->detail + n, "; ");
		n += 2;
	}
	va_start(ap, fmt);
	text_vformat(s->detail + n, sizeof(s->detail) - n, fmt, ap);
	va_end(ap);
	tool_text_clean(s->detail);
}

static int plain_workspace(struct start *t, const char *why, struct err *e)
{
	if (mkdirat(t->dir, WORKSPACE_NAME, 0700) != 0 && errno != EEXIST)
		return err_sys(e, errno, "cannot make the workspace directory");
	t->workspace_fd = openat(t->dir, WORKSPACE_NAME, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (t->workspace_fd < 0)
		return err_sys(e, errno, "cannot open the workspace directory");
	/* Without root its owner may have locked himself out; he is who we are. */
	if (!t->l->root && fchmodat(t->dir, WORKSPACE_NAME, 0700, 0) != 0)
		return err_sys(e, errno, "cannot open the workspace directory to its owner");
	detail_add(t->s, "workspace cap not enforced: %s", why);
	return 0;
}

static int image_workspace(struct start *t, struct err *e)
{
	bool repaired;
	int rc = image_wait_free(t->dir, clock_boot_ns() + END_NS, e);

	if (rc == 0 && !image_exists(t->dir)) {
		rc = image_make(t->dir, t->l->workspace_size, t->s->uid, t->s->uid, e);
		t->fresh = true;
	}
	rc = rc ? rc : image_check(t->dir, &repaired, e);
	rc = rc ? rc : image_attach(t->dir, t->loop, &t->loop_fd, e);
	if (rc)
		return rc;
	if (repaired)
		log_warn(&(struct log_ids){.agent = t->agent},
			 "workspace was not cleanly unmounted, e2fsck repaired it");
	t->image = t->s->cap_enforced = true;
	return 0;
}

/* What is there already decides first: nobody's files are left behind because the host changed. */
static int start_workspace(struct start *t, struct err *e)
{
	bool plain = faccessat(t->dir, WORKSPACE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

	if (image_exists(t->dir) && !t->l->loops)
		return err_set(e, ERR_SANDBOX_CREATE, "the workspace is an image and cannot be mounted: %s",
			       t->l->loops_why);
	if (image_exists(t->dir) || (t->l->loops && !plain))
		return image_workspace(t, e);
	return plain_workspace(t, t->l->loops ? "the workspace was made as a plain directory" : t->l->loops_why, e);
}

static int start_cgroups(struct start *t, struct err *e)
{
	static const char *const promises[CGROUP_ACCOUNT] = {"memory", "process", "CPU"};
	struct cgroup *g = &t->s->cgroup;
	struct cgroup_limits limits = t->limits;
	char missing[64] = "";
	int n;

	limits.pids_max += limits.pids_max ? PIDS_KEPT : 0;
	limits.weight = conf_weight(t->l->weights, t->agent);
	cgroup_make(&t->l->layout, t->l->instance, t->agent, &limits, g);
	n = cgroup_open_procs(g, t->cgroup_fds, e);
	if (n < 0)
		return n;
	t->ncgroup_fds = n;
	t->programs_fd = cgroup_open_programs(g);
	t->s->memory_enforced = g->path[CGROUP_MEMORY][0];
	/* muxlet gives programs a resource limit, so that some are left for it; where that counts this sandbox alone it
	 * serves without a group, too. */
	t->s->pids_enforced = limits.pids_max && (g->path[CGROUP_PIDS][0] || t->l->counts_by_sandbox);
	t->s->cpu_enforced = g->path[CGROUP_CPU][0];
	for (int k = 0; k < CGROUP_ACCOUNT; k++)
		if (!g->path[k][0] && !(k == CGROUP_PIDS && t->s->pids_enforced))
			snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing), "%s%s",
				 missing[0] ? ", " : "", promises[k]);
	if (missing[0])
		detail_add(t->s, "limits not enforced (%s): no control group can be written", missing);
	if (!t->l->root)
		detail_add(t->s, "its processes have the uid of the daemon");
	return 0;
}

/* The address goes through the directory's descriptor, so the length of DIR does not matter. */
static socklen_t link_address(int dir, const char *name, struct sockaddr_un *out)
{
	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%s", dir, name);
	return sizeof(*out);
}

static int start_listener(struct start *t, struct err *e)
{
	struct sockaddr_un sun;
	socklen_t len = link_address(t->dir, SOCKET_EARLY, &sun);

	unlinkat(t->dir, SOCKET_EARLY, 0);
	t->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (t->listen_fd < 0 || fchmod(t->listen_fd, 0600) != 0 ||
	    bind(t->listen_fd, (struct sockaddr *)&sun, len) != 0 || listen(t->listen_fd, BACKLOG) != 0)
		return err_sys(e, errno, "cannot listen on %s", SOCKET_EARLY);
	return 0;
}

/* A stream to the listener that muxlet inherited. A full backlog is a muxlet that does not answer. */
int start_connect(int dir, const char *agent, int *out_fd, struct err *e)
{
	struct sockaddr_un sun;
	socklen_t len = link_address(dir, SOCKET_NAME, &sun);
	int rc = 0, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_sys(e, errno, "cannot make a socket");
	if (connect(fd, (struct sockaddr *)&sun, len) == 0 && fcntl(fd, F_SETFL, 0) == 0) {
		*out_fd = fd;
		return 0;
	}
	if (errno == EAGAIN)
		rc = err_set(e, ERR_UNAVAILABLE, "sandbox %s runs but does not answer", agent);
	else
		rc = err_set(e, ERR_NOT_FOUND, "sandbox %s cannot be reached: %s", agent, strerror(errno));
	close(fd);
	return rc;
}

bool start_cut_short(int dir, const struct state *s)
{
	return state_alive(s) && faccessat(dir, SOCKET_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

/* Unpacked where it is not yet; the time for the start itself begins afterwards. */
static int start_rootfs(struct start *t, struct err *e)
{
	int rc;

	t->s->image[0] = t->s->image_digest[0] = '\0';
	if (!t->wanted)
		return 0;
	rc = rootfs_get(t->l, t->wanted, &t->rootfs, e);
	if (rc)
		return rc;
	t->deadline = clock_boot_ns() + t->l->create_timeout_ns;
	text_put(t->s->image, sizeof(t->s->image), t->wanted->name);
	text_put(t->s->image_digest, sizeof(t->s->image_digest), t->wanted->digest);
	if (t->rootfs->notes[0])
		detail_add(t->s, "image %.60s: %.120s", t->wanted->name, t->rootfs->notes);
	return 0;
}

static int start_shell(const struct start *t, const char **out, struct err *e)
{
	static const char *const shells[] = {"/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"};

	*out = t->l->shell;
	if (!t->rootfs || (*t->l->shell && rootfs_runs(t->rootfs, t->l->shell)))
		return 0;
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (rootfs_runs(t->rootfs, shells[i])) {
			*out = shells[i];
			return 0;
		}
	return err_set(e, ERR_IMAGE, "image %.128s: there is no shell in it, neither bash nor sh", t->wanted->name);
}

static int start_cmdline(struct start *t, struct err *e)
{
	char workspace[4096], muxlet[4096];
	struct cmdline_image image;
	struct cmdline_params p = {.bwrap = t->l->bwrap,
				   .agent = t->agent,
				   .workspace = workspace,
				   .muxlet = muxlet,
				   .shell = t->l->shell,
				   .persist = t->l->persist,
				   .read_only = t->s->read_only,
				   .programs = t->programs_fd >= 0,
				   .pids = t->l->counts_by_sandbox ? t->limits.pids_max : 0,
				   .memory_max = t->limits.memory_max};
	struct err why = {0};
	int n, m, rc = start_shell(t, &p.shell, e);

	if (rc)
		return rc;
	if (t->rootfs) {
		image = (struct cmdline_image){.root = t->l->root ? t->image_at : t->rootfs->path,
					       .fd = t->rootfs->fd,
					       .env = t->rootfs->env,
					       .env_len = t->rootfs->env_len};
		p.image = &image;
		snprintf(t->image_at, sizeof(t->image_at), "%s/" SPAWN_IMAGE, t->l->root ? t->l->staging : "");
	}
	if (t->l->root) {
		n = snprintf(workspace, sizeof(workspace), "%s/" SPAWN_WORKSPACE, t->l->staging);
		m = snprintf(muxlet, sizeof(muxlet), "%s/" SPAWN_MUXLET, t->l->staging);
	} else {
		n = snprintf(workspace, sizeof(workspace), "%s/sandboxes/%s/" WORKSPACE_NAME, t->l->state_dir,
			     t->agent);
		m = snprintf(muxlet, sizeof(muxlet), "%s", t->l->muxlet);
	}
	if ((size_t)n >= sizeof(workspace) || (size_t)m >= sizeof(muxlet))
		return err_set(e, ERR_CONFIG, "the path of the state directory is too long");
	if (cmdline_memfile("seccomp", t->l->filter, t->l->filter_size, &t->seccomp_fd, e) != 0)
		return ERR_SYS;
	rc = cmdline_make(&p, &t->cmdline, &why);
	if (rc && t->rootfs)
		return err_set(e, rc, "image %.128s: %.300s", t->wanted->name, why.message);
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

static int start_identity(struct start *t, struct err *e)
{
	struct state *s = t->s;
	int rc;

	if (s->slot >= t->l->slots_max && (rc = slot_take(t->l, &s->slot, e)) != 0)
		return rc;
	/* The base may have been configured anew since; the workspace follows. */
	s->uid = slot_uid(t->l, s->slot);
	s->detail[0] = '\0';
	s->cap_enforced = s->memory_enforced = s->pids_enforced = s->cpu_enforced = false;
	s->created_wall_ns = clock_wall_ns();
	s->epoch = epoch_next(t->l);
	snprintf(s->boot_id, sizeof(s->boot_id), "%s", clock_boot_id());
	if (id_new(&s->sandbox_id) != 0 || random_bytes(s->secret, sizeof(s->secret)) != 0)
		return err_set(e, ERR_SYS, "no randomness for a new sandbox");
	return 0;
}

/*
 * The file is saved between the start of process 1 and its secret: a monitor
 * killed before leaves none running. The socket gets its name after that, so
 * one that will never get its secret cannot be taken for a sandbox that runs.
 */
static int start_processes(struct start *t, struct err *e)
{
	bool grouped = t->s->cgroup.path[CGROUP_PIDS][0];
	uint32_t pids = t->limits.pids_max ? t->limits.pids_max + PIDS_KEPT : 0;
	struct spawn_params p = {.agent = t->agent,
				 .cmdline = &t->cmdline,
				 .listen_fd = t->listen_fd,
				 .seccomp_fd = t->seccomp_fd,
				 .programs_fd = t->programs_fd,
				 .root = t->l->root,
				 .uid = t->s->uid,
				 .gid = t->s->uid,
				 .staging = t->l->staging,
				 .loop = t->image ? t->loop : NULL,
				 .workspace_fd = t->workspace_fd,
				 .muxlet = t->l->muxlet,
				 .image = t->rootfs ? t->rootfs->path : NULL,
				 .fresh = t->fresh,
				 .ncgroup_fds = t->ncgroup_fds,
				 .own_cpu = t->s->cgroup.path[CGROUP_CPU][0],
				 .nproc_max = grouped ? 0 : pids};
	int rc;

	memcpy(p.cgroup_fds, t->cgroup_fds, sizeof(p.cgroup_fds));
	rc = spawn_start(&p, t->deadline, &t->spawn, e);
	if (rc)
		return rc;
	t->s->init = t->spawn.init;
	t->s->outer = t->spawn.outer;
	state_set(t->s, t->agent, SANDBOX_RUNNING);
	rc = state_save(t->dir, t->s, e);
	rc = rc ? rc : spawn_finish_start(&t->spawn, t->agent, t->s->secret, t->deadline, e);
	if (rc == 0 && renameat(t->dir, SOCKET_EARLY, t->dir, SOCKET_NAME) != 0)
		rc = err_sys(e, errno, "cannot name %s", SOCKET_NAME);
	return rc;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void start_release(struct start *t)
{
	close_fd(t->loop_fd);
	close_fd(t->workspace_fd);
	close_fd(t->listen_fd);
	close_fd(t->seccomp_fd);
	close_fd(t->programs_fd);
	for (int i = 0; i < t->ncgroup_fds; i++)
		close(t->cgroup_fds[i]);
	cmdline_finish(&t->cmdline);
	rootfs_put(t->rootfs);
	spawn_close(&t->spawn);
}

/* What bwrap and muxlet said while starting; an empty one is worth its absence only. */
static void start_log(const struct start *t)
{
	if (t->spawn.tail_len == 0 || dir_write_file(t->dir, LOG_NAME, t->spawn.tail, t->spawn.tail_len, NULL) != 0)
		unlinkat(t->dir, LOG_NAME, 0);
}

static int start_run(struct start *t, struct err *e)
{
	int rc = start_identity(t, e);

	rc = rc ? rc : start_rootfs(t, e);
	rc = rc ? rc : start_workspace(t, e);
	rc = rc ? rc : start_cgroups(t, e);
	rc = rc ? rc : start_listener(t, e);
	rc = rc ? rc : start_cmdline(t, e);
	rc = rc ? rc : start_processes(t, e);
	if (rc)
		spawn_abort(&t->spawn, t->agent);
	start_log(t);
	start_release(t);
	return rc;
}

/* The start failed: nothing of it is left, and the reason stays in the file. */
static int start_failed(struct local *l, int dir, const char *agent, struct state *s, const struct err *why,
			struct err *e)
{
	end_sandbox(l, dir, agent, s, NULL);
	state_set(s, agent, SANDBOX_ERROR);
	text_put(s->error, sizeof(s->error), why->message);
	tool_text_clean(s->error);
	state_save(dir, s, NULL);
	return err_set(e, why->code, "sandbox %s: %.330s", agent, why->message);
}

static void start_limits(struct start *t, const struct resources *asked)
{
	const struct cgroup_limits *l = &t->l->limits;
	const struct resources most = {l->memory_max, l->cpu_milli, l->pids_max};
	struct resources r = resources_clip(asked, &most);

	t->s->asked = *asked;
	t->s->limits = r;
	t->limits = (struct cgroup_limits){.memory_max = r.memory, .cpu_milli = r.cpu_milli, .pids_max = r.pids};
}

int start_sandbox(struct local *l, int dir, const char *agent, struct state *s, const struct local_shape *shape,
		  int *out_fd, struct err *e)
{
	struct start t = {
	    .l = l,
	    .dir = dir,
	    .agent = agent,
	    .s = s,
	    .wanted = shape->image,
	    .deadline = clock_boot_ns() + l->create_timeout_ns,
	    .loop_fd = -1,
	    .workspace_fd = -1,
	    .listen_fd = -1,
	    .seccomp_fd = -1,
	    .programs_fd = -1,
	    .spawn = {.outer_fd = -1, .init_fd = -1, .secret_fd = -1, .secret_read_fd = -1, .stderr_fd = -1}};
	struct err why = {0};
	int rc;

	start_limits(&t, &shape->resources);
	rc = start_run(&t, &why);

	if (rc == 0 && start_connect(dir, agent, out_fd, &why) != 0)
		rc = err_set(&why, ERR_SANDBOX_CREATE, "muxlet ended right after its start");
	return rc ? start_failed(l, dir, agent, s, &why, e) : 0;
}

/* Only processes of this boot: after another one the numbers belong to strangers. */
static int end_processes(const struct state *s, uint64_t until, struct err *e)
{
	int rc = 0;

	if (strcmp(s->boot_id, clock_boot_id()) != 0)
		return 0;
	rc = found_kill_world(&s->init, until);
	/* bwrap's outer process only waits for process 1 and ends by itself. */
	if (rc == 0)
		rc = found_kill(&s->outer, until);
	return rc ? err_set(e, rc, "process %d of the sandbox does not end", (int)s->init.pid) : 0;
}

/* The image is free, also of processes that no file and no group leads to. */
static int end_image(struct local *l, int dir, const char *agent, uint64_t until, struct err *e)
{
	char loop[IMAGE_LOOP_MAX];
	size_t n;

	if (image_wait_free(dir, clock_boot_ns() + HOLDER_NS, NULL) == 0)
		return 0;
	if (l->root && image_in_use(dir, loop) &&
	    (n = holder_kill(loop, l->uid_base, l->slots_low) + holder_kill(loop, SLOT_UID_HIGH, slots_high(l))) > 0)
		log_warn(&(struct log_ids){.agent = agent}, "ended %zu lost processes that held the workspace", n);
	return image_wait_free(dir, until, e);
}

int end_sandbox(struct local *l, int dir, const char *agent, struct state *s, struct err *e)
{
	uint64_t until = clock_boot_ns() + END_NS;
	struct cgroup none = {0}, left;
	int rc;

	/* The name first: whoever goes on after a crash right here must not take the dying one for a running one. */
	unlinkat(dir, SOCKET_NAME, 0);
	unlinkat(dir, SOCKET_EARLY, 0);
	rc = end_processes(s, until, e);
	rc = rc ? rc : cgroup_remove(&s->cgroup, until, e);
	cgroup_find(&l->layout, l->instance, agent, &left);
	rc = rc ? rc : cgroup_remove(&left, until, e);
	cgroup_tidy(&l->layout, l->instance);
	rc = rc ? rc : end_image(l, dir, agent, until, e);
	if (rc)
		return rc;
	s->init = s->outer = (struct found){0};
	s->cgroup = none;
	if (s->state != SANDBOX_STOPPED) /* programs may have written */
		s->restored = (struct id){0};
	workspace_settle(dir, s);
	state_set(s, agent, SANDBOX_STOPPED);
	explicit_bzero(s->secret, sizeof(s->secret));
	return 0;
}
