#include "control/local/cgroup.h"

#include "base/err.h"
#include "control/local/found.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAKE_TRIES       8
#define CPU_PERIOD_US    100000
#define CPU_QUOTA_MIN_US 1000
#define MIB              (UINT64_C(1) << 20)

enum leaf { KEEP, PROGRAMS, LEAVES };
static const char *const leaf_names[LEAVES] = {"keep", "programs"};

static int knob_write(const char *dir, const char *name, const char *text)
{
	char path[CGROUP_PATH_MAX + 64];
	ssize_t n;
	int fd, rc = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	if (n != (ssize_t)strlen(text))
		rc = n < 0 ? -errno : -EIO;
	close(fd);
	return rc;
}

static int knob_number(const char *dir, const char *name, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	return knob_write(dir, name, text);
}

/* 0 bytes when it cannot be read. */
static size_t knob_read(const char *dir, const char *name, char *out, size_t size)
{
	char path[CGROUP_PATH_MAX + 64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, out, size - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

static bool words_have(const char *dir, const char *name, const char *word)
{
	char text[1024];
	char *save = NULL;

	if (!knob_read(dir, name, text, sizeof(text)))
		return false;
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		if (strcmp(w, word) == 0)
			return true;
	return false;
}

/* Version 2: may children of dir use the controller? Asks for it when they may not yet. */
static bool v2_hand_down(const char *dir, const char *controller)
{
	char text[32];

	if (words_have(dir, "cgroup.subtree_control", controller))
		return true;
	if (!words_have(dir, "cgroup.controllers", controller))
		return false;
	snprintf(text, sizeof(text), "+%s", controller);
	return knob_write(dir, "cgroup.subtree_control", text) == 0;
}

static int mkdir_fine(const char *path)
{
	return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/*
 * place/muxd-<instance>/<agent>. Another sandbox's end may remove the
 * instance's group between the two steps: then once more.
 */
static int group_make(const char *place, const char *instance, const char *agent, char out[CGROUP_PATH_MAX])
{
	char top[CGROUP_PATH_MAX];
	int rc = -ENOENT;

	if ((size_t)snprintf(top, sizeof(top), "%s/muxd-%s", place, instance) >= sizeof(top) ||
	    (size_t)snprintf(out, CGROUP_PATH_MAX, "%s/muxd-%s/%s", place, instance, agent) >= CGROUP_PATH_MAX)
		rc = -ENAMETOOLONG;
	for (int i = 0; i < MAKE_TRIES && rc == -ENOENT; i++) {
		rc = mkdir_fine(top);
		if (rc == -ENOENT) /* the place itself is gone */
			break;
		rc = rc ? rc : mkdir_fine(out);
	}
	if (rc)
		out[0] = '\0';
	return rc;
}

/* False: the name does not fit. */
static bool leaf_path(const char *group, enum leaf leaf, char out[CGROUP_PATH_MAX])
{
	return (size_t)snprintf(out, CGROUP_PATH_MAX, "%s/%s", group, leaf_names[leaf]) < CGROUP_PATH_MAX;
}

/* Removes a group with its leaves and, when it was the last, the instance's. */
static int group_remove(const char *path)
{
	char leaf[CGROUP_PATH_MAX];
	char top[CGROUP_PATH_MAX];
	char *slash;

	for (int i = 0; i < LEAVES; i++)
		if (leaf_path(path, (enum leaf)i, leaf) && rmdir(leaf) != 0 && errno != ENOENT)
			return -errno;
	if (rmdir(path) != 0 && errno != ENOENT)
		return -errno;
	snprintf(top, sizeof(top), "%s", path);
	slash = strrchr(top, '/');
	if (slash && strstr(top, "/muxd-")) {
		*slash = '\0';
		rmdir(top); /* refused while others are in it */
	}
	return 0;
}

static int limit_memory(const char *dir, bool v2, uint64_t max)
{
	int rc = knob_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", max);

	if (rc)
		return rc;
	/* No way round by swapping; kernels without swap accounting have no such file. */
	if (v2)
		knob_number(dir, "memory.swap.max", 0);
	else
		knob_number(dir, "memory.memsw.limit_in_bytes", max);
	return 0;
}

static int limit_cpu(const char *dir, bool v2, uint32_t milli)
{
	uint64_t quota = (uint64_t)milli * (CPU_PERIOD_US / 1000);
	char text[64];
	int rc;

	if (quota < CPU_QUOTA_MIN_US)
		quota = CPU_QUOTA_MIN_US;
	if (v2) {
		snprintf(text, sizeof(text), "%" PRIu64 " %d", quota, CPU_PERIOD_US);
		return knob_write(dir, "cpu.max", text);
	}
	rc = knob_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US);
	return rc ? rc : knob_number(dir, "cpu.cfs_quota_us", quota);
}

/* The part of a sandbox where all of them want more than there is. No limit: without it all weigh the same. */
static void weigh(const char *dir, bool v2, uint32_t weight)
{
	uint64_t shares = (uint64_t)weight * 1024 / 100;

	if (weight)
		(void)knob_number(dir, v2 ? "cpu.weight" : "cpu.shares", v2 ? weight : shares < 2 ? 2 : shares);
}

/* 0 when the limit is in force; a limit that is not asked for is not in force either. */
static int limit_set(enum cgroup_kind k, const char *dir, bool v2, const struct cgroup_limits *lim)
{
	switch (k) {
	case CGROUP_MEMORY:
		return lim->memory_max ? limit_memory(dir, v2, lim->memory_max) : -ENODATA;
	case CGROUP_PIDS:
		return lim->pids_max ? knob_number(dir, "pids.max", lim->pids_max) : -ENODATA;
	case CGROUP_CPU:
		weigh(dir, v2, lim->weight);
		return lim->cpu_milli ? limit_cpu(dir, v2, lim->cpu_milli) : -ENODATA;
	case CGROUP_ACCOUNT:
		return v2 || !lim->cpu_milli ? -ENODATA : 0;
	case CGROUP_KINDS:
		break;
	}
	return -EINVAL;
}

uint64_t cgroup_reserve(uint64_t memory_max)
{
	uint64_t reserve = memory_max / 8;

	if (reserve < 32 * MIB) /* muxlet and a shell or two */
		reserve = memory_max / 4 < 32 * MIB ? memory_max / 4 : 32 * MIB;
	return reserve < 128 * MIB ? reserve : 128 * MIB;
}

/* Does a limit hold for what is in groups below? Version 1 before 5.11 has to be asked. */
static bool counts_below(const char *dir, bool v2)
{
	if (v2)
		return v2_hand_down(dir, cgroup_kind_name(CGROUP_MEMORY));
	(void)knob_write(dir, "memory.use_hierarchy", "1");
	return words_have(dir, "memory.use_hierarchy", "1");
}

/* All or none: with one leaf alone there would be no place for the others (version 2). */
static void leaves_make(const char *group, bool v2, uint64_t memory_max)
{
	char path[LEAVES][CGROUP_PATH_MAX];
	int made = 0;

	if (!counts_below(group, v2))
		return;
	while (made < LEAVES && leaf_path(group, (enum leaf)made, path[made]) && mkdir_fine(path[made]) == 0)
		made++;
	if (made == LEAVES && limit_memory(path[PROGRAMS], v2, memory_max - cgroup_reserve(memory_max)) == 0)
		return;
	while (made > 0)
		rmdir(path[--made]);
	if (v2) /* a group that hands memory down takes no processes itself */
		(void)knob_write(group, "cgroup.subtree_control", "-memory");
}

static void group_set(struct cgroup *g, enum cgroup_kind k, const char *path, bool v2)
{
	snprintf(g->path[k], sizeof(g->path[k]), "%s", path);
	g->v2[k] = v2;
}

static void v1_make(const struct cgroup_place *place, enum cgroup_kind k, const char *instance, const char *agent,
		    const struct cgroup_limits *lim, struct cgroup *out)
{
	char path[CGROUP_PATH_MAX];

	for (int i = 0; i < CGROUP_PLACES && place->dir[i][0]; i++) {
		if (group_make(place->dir[i], instance, agent, path) != 0)
			continue;
		if (limit_set(k, path, false, lim) == 0) {
			group_set(out, k, path, false);
			return;
		}
		group_remove(path);
	}
}

/* One group for every controller that version 1 does not have: the first place that hands down any of them. */
static void v2_make(const struct cgroup_layout *l, const char *instance, const char *agent,
		    const struct cgroup_limits *lim, struct cgroup *out)
{
	for (int i = 0; i < CGROUP_PLACES && l->v2.dir[i][0]; i++) {
		const char *place = l->v2.dir[i];
		char path[CGROUP_PATH_MAX], top[CGROUP_PATH_MAX];
		bool any = false, usable = false;

		for (int k = 0; k < CGROUP_KINDS; k++)
			any |= !l->v1[k].dir[0][0] && v2_hand_down(place, cgroup_kind_name((enum cgroup_kind)k));
		if (!any || group_make(place, instance, agent, path) != 0)
			continue;
		/* bytes: a path, and none of it is cut */
		snprintf(top, sizeof(top), "%.*s", (int)(strrchr(path, '/') - path), path);
		for (int k = 0; k < CGROUP_KINDS; k++) {
			enum cgroup_kind kind = (enum cgroup_kind)k;

			if (l->v1[k].dir[0][0] || !v2_hand_down(top, cgroup_kind_name(kind)) ||
			    limit_set(kind, path, true, lim) != 0)
				continue;
			group_set(out, kind, path, true);
			usable = true;
		}
		if (usable)
			return;
		group_remove(path);
	}
}

void cgroup_make(const struct cgroup_layout *l, const char *instance, const char *agent,
		 const struct cgroup_limits *lim, struct cgroup *out)
{
	const char *memory = out->path[CGROUP_MEMORY];

	memset(out, 0, sizeof(*out));
	for (int k = 0; k < CGROUP_KINDS; k++)
		v1_make(&l->v1[k], (enum cgroup_kind)k, instance, agent, lim, out);
	v2_make(l, instance, agent, lim, out);
	if (memory[0])
		leaves_make(memory, out->v2[CGROUP_MEMORY], lim->memory_max);
}

static void place_find(const struct cgroup_place *place, enum cgroup_kind k, bool v2, const char *instance,
		       const char *agent, struct cgroup *out)
{
	for (int i = 0; i < CGROUP_PLACES && place->dir[i][0] && !out->path[k][0]; i++) {
		char path[CGROUP_PATH_MAX];
		int n = snprintf(path, sizeof(path), "%s/muxd-%s/%s", place->dir[i], instance, agent);

		if (n > 0 && (size_t)n < sizeof(path) && access(path, F_OK) == 0)
			group_set(out, k, path, v2);
	}
}

void cgroup_find(const struct cgroup_layout *l, const char *instance, const char *agent, struct cgroup *out)
{
	memset(out, 0, sizeof(*out));
	for (int k = 0; k < CGROUP_KINDS; k++) {
		bool v1 = l->v1[k].dir[0][0];

		if (!v1 && k == CGROUP_ACCOUNT)
			continue;
		place_find(v1 ? &l->v1[k] : &l->v2, (enum cgroup_kind)k, !v1, instance, agent, out);
	}
}

/* Is kind k the first with its path? Version 2 and co-mounted controllers share one directory. */
static bool kind_is_first(const struct cgroup *g, int k)
{
	if (!g->path[k][0])
		return false;
	for (int i = 0; i < k; i++)
		if (strcmp(g->path[i], g->path[k]) == 0)
			return false;
	return true;
}

static int procs_open(const char *dir)
{
	char path[CGROUP_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	return open(path, O_WRONLY | O_CLOEXEC);
}

/* Where a process of that hierarchy goes: the group, or the leaf that it has. */
static int leaf_open(const char *group, enum leaf leaf)
{
	char path[CGROUP_PATH_MAX];

	if (!leaf_path(group, leaf, path)) {
		errno = ENOENT;
		return -1;
	}
	return procs_open(path);
}

int cgroup_open_programs(const struct cgroup *g)
{
	return g->path[CGROUP_MEMORY][0] ? leaf_open(g->path[CGROUP_MEMORY], PROGRAMS) : -1;
}

int cgroup_open_procs(const struct cgroup *g, int out_fds[CGROUP_KINDS], struct err *e)
{
	int n = 0;

	for (int k = 0; k < CGROUP_KINDS; k++) {
		if (!kind_is_first(g, k))
			continue;
		out_fds[n] = leaf_open(g->path[k], KEEP);
		if (out_fds[n] < 0 && errno == ENOENT)
			out_fds[n] = procs_open(g->path[k]);
		if (out_fds[n] < 0) {
			int rc = err_sys(e, errno, "cannot open the processes of the group %s", g->path[k]);

			while (n > 0)
				close(out_fds[--n]);
			return rc;
		}
		n++;
	}
	return n;
}

static uint32_t oom_kills(const char *dir, bool v2)
{
	char text[1024];
	char *p;

	knob_read(dir, v2 ? "memory.events" : "memory.oom_control", text, sizeof(text));
	p = strstr(text, "oom_kill ");
	return p ? (uint32_t)strtoul(p + strlen("oom_kill "), NULL, 10) : 0;
}

/*
 * Version 1 counts a kill in the victim's own group, version 2 in those above as well, unless it was mounted with
 * memory_localevents.
 */
uint32_t cgroup_oom_kills(const struct cgroup *g)
{
	const char *group = g->path[CGROUP_MEMORY];
	bool v2 = g->v2[CGROUP_MEMORY];
	char path[CGROUP_PATH_MAX];
	uint32_t own, below = 0;

	if (!group[0])
		return 0;
	own = oom_kills(group, v2);
	for (int i = 0; i < LEAVES; i++)
		if (leaf_path(group, (enum leaf)i, path))
			below += oom_kills(path, v2);
	if (v2)
		return own > below ? own : below;
	return own + below;
}

/* The processes of our own groups only; version 2's cgroup.kill would do it at once, this does it on both. */
static void members_kill(const char *dir)
{
	char path[CGROUP_PATH_MAX + 32];
	long pid;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fscanf(f, "%ld", &pid) == 1)
		if (pid > 1)
			kill((pid_t)pid, SIGKILL);
	fclose(f);
}

static void group_kill(const char *dir)
{
	char path[CGROUP_PATH_MAX];

	for (int i = 0; i < LEAVES; i++)
		if (leaf_path(dir, (enum leaf)i, path))
			members_kill(path);
	members_kill(dir);
}

int cgroup_remove(const struct cgroup *g, uint64_t deadline_ns, struct err *e)
{
	for (int k = 0; k < CGROUP_KINDS; k++) {
		int rc;

		if (!kind_is_first(g, k))
			continue;
		while ((rc = group_remove(g->path[k])) == -EBUSY && deadline_ms(deadline_ns) > 0) {
			group_kill(g->path[k]);
			pause_ms(2);
		}
		if (rc == -EBUSY)
			return err_set(e, ERR_TIMEOUT, "processes are left in the group %s", g->path[k]);
		if (rc)
			return err_sys(e, -rc, "cannot remove the group %s", g->path[k]);
	}
	return 0;
}

/* ---- processor time */

static uint64_t number_behind(const char *text, const char *word)
{
	const char *p = strstr(text, word);

	return p ? strtoull(p + strlen(word), NULL, 10) : 0;
}

int cgroup_used(const struct cgroup *g, uint64_t *out_ns)
{
	bool v2 = g->v2[CGROUP_CPU];
	const char *dir = g->path[v2 ? CGROUP_CPU : CGROUP_ACCOUNT];
	char text[1024];

	if (!dir[0] || !knob_read(dir, v2 ? "cpu.stat" : "cpuacct.usage", text, sizeof(text)))
		return -ENOENT;
	*out_ns = v2 ? number_behind(text, "usage_usec ") * 1000 : strtoull(text, NULL, 10);
	return 0;
}

int cgroup_set_behind(const struct cgroup *g, bool behind, uint32_t weight)
{
	const char *dir = g->path[CGROUP_CPU];
	int rc = dir[0] ? knob_number(dir, "cpu.idle", behind) : -ENOENT;

	if (rc == 0 && !behind) /* the kernel has forgotten it */
		weigh(dir, g->v2[CGROUP_CPU], weight);
	return rc;
}

bool cgroup_is_behind(const struct cgroup *g)
{
	return g->path[CGROUP_CPU][0] && words_have(g->path[CGROUP_CPU], "cpu.idle", "1");
}

/* An agent may have its group in another place than the next one does. */
void cgroup_each(const struct cgroup_layout *l, const char *instance, void (*each)(void *arg, const char *agent),
		 void *arg)
{
	const struct cgroup_place *place = l->v1[CGROUP_CPU].dir[0][0] ? &l->v1[CGROUP_CPU] : &l->v2;
	char top[CGROUP_PATH_MAX];
	struct dirent *d;
	DIR *dir;

	for (int i = 0; i < CGROUP_PLACES && place->dir[i][0]; i++) {
		if ((size_t)snprintf(top, sizeof(top), "%s/muxd-%s", place->dir[i], instance) >= sizeof(top))
			continue;
		dir = opendir(top);
		while (dir && (d = readdir(dir)))
			if (d->d_type == DT_DIR && d->d_name[0] != '.')
				each(arg, d->d_name);
		if (dir)
			closedir(dir);
	}
}

/* ---- */

static void place_tidy(const struct cgroup_place *place, const char *instance)
{
	char top[CGROUP_PATH_MAX];

	for (int i = 0; i < CGROUP_PLACES && place->dir[i][0]; i++)
		if ((size_t)snprintf(top, sizeof(top), "%s/muxd-%s", place->dir[i], instance) < sizeof(top))
			(void)rmdir(top); /* refused while others are in it */
}

void cgroup_tidy(const struct cgroup_layout *l, const char *instance)
{
	for (int k = 0; k < CGROUP_KINDS; k++)
		place_tidy(&l->v1[k], instance);
	place_tidy(&l->v2, instance);
}
