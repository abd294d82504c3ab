#define LOG_SUBSYS "retention"
#include "recorder/retention.h"

#include "muxd/base/bytes.h"
#include "muxd/base/clock.h"
#include "muxd/base/err.h"
#include "muxd/base/log.h"
#include "recorder/keyframes.h"
#include "recorder/recording.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct batch {
	struct id ids[RETENTION_BATCH];
	size_t n;
};

static int collect(void *arg, const struct id *id)
{
	struct batch *b = arg;
	b->ids[b->n++] = *id;
	return 0;
}

/* What the tombstone is to say. 1: there is none to set, the file was removed before a crash. */
static int examine(const char *dir, const struct id *id, char path[PATH_MAX], struct chain_seal *out, struct err *e)
{
	int rc = recording_find(dir, id, path, PATH_MAX, e);
	if (rc == ERR_NOT_FOUND) {
		path[0] = 0;
		return 1;
	}
	return rc ? rc : recording_sealed(path, out, e);
}

/* One file that cannot be read or removed must not stop the cutting of all others. */
static int keep(struct index *ix, const struct id *id, const char *why, const struct err *about, struct err *e)
{
	char text[ID_STR_LEN];
	id_format(id, text);
	struct log_ids ids = {.session = text};
	log_error(&ids, "kept past its time because it %s: %s", why, about->message);
	return index_put_kept(ix, id, e);
}

static int remove_one(const char *path, struct err *e)
{
	return unlink(path) < 0 && errno != ENOENT ? err_sys(e, errno, "cannot remove %s", path) : 0;
}

/* The screens of it, and those that were being drawn. */
static int remove_keyframes(const char *recording, struct err *e)
{
	char path[FILE_PATH_MAX], part[FILE_PATH_MAX];
	int rc = keyframes_path(recording, path, e);

	if (rc == 0)
		rc = file_path(part, e, "%s.part", path);
	if (rc == 0)
		rc = remove_one(part, e);
	return rc ? rc : remove_one(path, e);
}

/* The recording, and what was derived from it. */
static int remove_file(const char *path, struct err *e)
{
	int rc = path[0] ? remove_keyframes(path, e) : 0;
	if (rc || !path[0] || (rc = remove_one(path, e)) != 0)
		return rc;
	/* Again, as they may have got their name meanwhile. The recording is gone, so this decides nothing. */
	(void)remove_keyframes(path, NULL);
	return 0;
}

static int retire(const char *dir, struct index *ix, struct chain *chain, const struct id *id, struct err *e)
{
	char path[PATH_MAX], text[ID_STR_LEN];
	struct chain_seal seal;
	struct err why = {0};

	int rc = examine(dir, id, path, &seal, &why);
	if (rc == ERR_NOMEM)
		return err_set(e, rc, "%s", why.message);
	/* What does not verify is evidence, however old. */
	if (rc < 0)
		return keep(ix, id, "cannot be read", &why, e);
	if (rc == 0)
		rc = chain_append_tombstone(chain, &seal, "retention", "recorder", e);
	/* The tombstone must be vouched for before what it stands for is gone. */
	if (rc == 0)
		rc = chain_sign_head(chain, clock_wall_ns(), e);
	if (rc < 0)
		return rc;
	if (remove_file(path, &why))
		return keep(ix, id, "cannot be removed", &why, e);
	rc = index_put_expired(ix, id, e);
	id_format(id, text);
	if (rc == 0)
		log_info(&(struct log_ids){.session = text}, "removed: its time under record.retain is over");
	return rc;
}

int retention_run(const char *dir, struct index *ix, struct chain *chain, int64_t before_ns, size_t *out_n,
		  struct err *e)
{
	struct batch b = {.n = 0};
	int rc = index_expired(ix, before_ns, RETENTION_BATCH, collect, &b, e);
	for (size_t i = 0; rc == 0 && i < b.n; i++)
		rc = retire(dir, ix, chain, &b.ids[i], e);
	if (rc == 0)
		*out_n = b.n;
	return rc;
}

static uint64_t boot_mark(void)
{
	struct id boot;
	return id_parse(clock_boot_id(), &boot) ? 0 : get_u64(boot.b) & INT64_MAX;
}

/* Uptime counts, and only that: how long it is by the wall clock is what nobody knows now. */
static int begin_wait(struct retention_guard *g, struct index *ix, struct err *e)
{
	g->until_ns = g->boot_ns + RETENTION_WAIT_NS;
	return index_put_wait(ix, boot_mark(), g->until_ns, e);
}

int retention_guard_start(struct retention_guard *g, struct index *ix, bool *out_jumped, struct err *e)
{
	uint64_t boot = 0, until = 0;
	int64_t newest = 0;

	*g = (struct retention_guard){.boot_ns = clock_boot_ns(), .wall_ns = clock_wall_ns()};
	*out_jumped = false;
	int rc = index_wait(ix, &boot, &until, e);
	if (rc == 0)
		rc = index_newest(ix, &newest, e);
	if (rc)
		return rc;
	if (until && boot == boot_mark())
		g->until_ns = until;
	if ((!until || boot == boot_mark()) && (!newest || g->wall_ns - newest <= RETENTION_AHEAD_NS))
		return 0;
	*out_jumped = true;
	return begin_wait(g, ix, e);
}

int retention_guard_check(struct retention_guard *g, struct index *ix, bool *out_jumped, struct err *e)
{
	uint64_t boot = clock_boot_ns();
	int64_t wall = clock_wall_ns(), ahead = wall - g->wall_ns - (int64_t)(boot - g->boot_ns);

	g->boot_ns = boot;
	g->wall_ns = wall;
	*out_jumped = ahead > RETENTION_JUMP_NS;
	if (*out_jumped)
		return begin_wait(g, ix, e);
	if (!g->until_ns || boot < g->until_ns)
		return 0;
	g->until_ns = 0;
	return index_put_wait(ix, 0, 0, e);
}
