#define LOG_SUBSYS "retention"
#include "recorder/write/retention.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "recorder/draw/keyframes.h"
#include "recorder/format/recording.h"
#include "recorder/index/holds.h"
#include "recorder/index/retention_policy.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

struct batch {
	const struct retention_job *job;
	struct id ids[RETENTION_BATCH];
	size_t n;
};

static struct hold_subject subject_of(const struct index_ended *row)
{
	return (struct hold_subject){.session = row->id,
				     .agent = row->agent,
				     .principal = row->principal,
				     .opened_ns = row->opened_ns,
				     .ended_ns = row->ended_ns};
}

static int collect(void *arg, const struct index_ended *row)
{
	struct batch *b = arg;
	struct hold_subject s = subject_of(row);

	if (holds_cover(b->job->holds, &s))
		return 0;
	b->ids[b->n++] = row->id;
	return b->n == RETENTION_BATCH;
}

/* One that goes, by its own signed word: the index is derived, and may have been written by somebody else. */
struct leaving {
	char path[PATH_MAX]; /* "": it was removed before a crash */
	struct chain_seal seal;
	json_t *open;
	struct hold_subject about;
	int64_t sealed_ns;
};

static void examine_open(struct leaving *l, const struct recording *r)
{
	const struct recording_info *info = recording_info(r);

	l->sealed_ns = info->sealed_wall_ns;
	l->about = (struct hold_subject){
	    .session = info->session, .opened_ns = info->wall_ns, .ended_ns = recording_wall_ns(r, info->last_ns)};
	if (!info->open_json || json_parse(info->open_json, strlen(info->open_json), RING_RECORD_MAX, &l->open, NULL))
		return;
	(void)json_opt_str(l->open, "agent", &l->about.agent, NULL);
	(void)json_opt_str(l->open, "principal", &l->about.principal, NULL);
}

/* What the tombstone is to say. 1: there is none to set, the file was removed before a crash. */
static int examine(const char *dir, const struct id *id, struct leaving *out, struct err *e)
{
	struct recording *r = NULL;
	int rc = recording_find(dir, id, out->path, sizeof(out->path), e);

	if (rc == ERR_NOT_FOUND) {
		out->path[0] = 0;
		return 1;
	}
	if (rc == 0)
		rc = recording_sealed(out->path, &out->seal, e);
	if (rc == 0)
		rc = recording_open(out->path, &r, e);
	if (rc == 0)
		examine_open(out, r);
	recording_close(r);
	return rc;
}

/* What an auditor needs to judge it by the log alone: verify does. */
static json_t *tombstone_of(const struct retention_job *job, const struct leaving *l)
{
	const struct retention_term *t = &job->policy->retain;

	return json_pack("{s:s,s:s,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:s?,s:s?}", "reason", "retention", "rule",
			 RETENTION_RULE, "limit_ns", (json_int_t)t->now, "policy", t->source.digest, "by", t->source.by,
			 "removed_ns", (json_int_t)job->now_ns, "sealed_ns", (json_int_t)l->sealed_ns, "opened_ns",
			 (json_int_t)l->about.opened_ns, "ended_ns", (json_int_t)l->about.ended_ns, "agent",
			 l->about.agent, "principal", l->about.principal);
}

/* One file that cannot be read or removed must not stop the cutting of all others. */
static int retention_keep(struct index *ix, const struct id *id, const char *why, const struct err *about,
			  struct err *e)
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

static int bury(const struct retention_job *job, const struct leaving *l, struct err *e)
{
	json_t *why = tombstone_of(job, l);
	int rc = why ? chain_append_tombstone(job->chain, &l->seal, why, e) : err_set(e, ERR_NOMEM, "out of memory");

	json_decref(why);
	/* The tombstone must be vouched for before what it stands for is gone. */
	return rc ? rc : chain_sign_head(job->chain, clock_wall_ns(), e);
}

/* 1: it stays for now. */
static int retention_may_go(const struct retention_job *job, const struct leaving *l)
{
	char text[ID_STR_LEN];

	if (!retention_policy_due(job->policy, l->sealed_ns, job->now_ns))
		return 1;
	if (!holds_cover(job->holds, &l->about))
		return 0;
	id_format(&l->about.session, text);
	log_error(&(struct log_ids){.session = text},
		  "kept: it is held by what it says itself, and audit.db says something else of it");
	return 1;
}

static int retire(const struct retention_job *job, const struct id *id, bool *out_gone, struct err *e)
{
	struct leaving l = {.path = ""};
	struct err why = {0};
	char text[ID_STR_LEN];
	int rc = examine(job->dir, id, &l, &why);

	*out_gone = true;
	if (rc == ERR_NOMEM) {
		rc = err_set(e, rc, "%s", why.message);
		goto out;
	}
	/* What does not verify is evidence, however old. */
	if (rc < 0) {
		rc = retention_keep(job->index, id, "cannot be read", &why, e);
		goto out;
	}
	if (rc == 0 && retention_may_go(job, &l)) {
		*out_gone = false;
		goto out;
	}
	if (rc == 0 && (rc = bury(job, &l, e)) != 0)
		goto out;
	if (remove_file(l.path, &why)) {
		rc = retention_keep(job->index, id, "cannot be removed", &why, e);
		goto out;
	}
	rc = index_put_expired(job->index, id, e);
	id_format(id, text);
	if (rc == 0)
		log_info(&(struct log_ids){.session = text}, "removed: its time under record.retain is over");
out:
	json_decref(l.open);
	return rc;
}

int retention_run(const struct retention_job *job, size_t *out_n, struct err *e)
{
	struct batch b = {.job = job};
	size_t gone = 0;
	int rc = 0;

	*out_n = 0;
	if (job->policy->retain.now == RETENTION_FOREVER)
		return 0;
	rc = index_expired(job->index, job->now_ns - (int64_t)job->policy->retain.now, collect, &b, e);
	for (size_t i = 0; rc == 0 && i < b.n; i++) {
		bool went = false;
		rc = retire(job, &b.ids[i], &went, e);
		gone += went;
	}
	if (rc == 0)
		*out_n = gone;
	return rc;
}

static uint64_t boot_mark(void)
{
	struct id boot;
	return id_parse(clock_boot_id(), &boot) ? 0 : get_u64(boot.b) & INT64_MAX;
}

int retention_guard_keep(const struct clock_guard *g, struct index *ix, struct err *e)
{
	struct index_wait w = {g->until_ns ? boot_mark() : 0, g->until_ns, clock_guard_left(g)};

	return index_put_wait(ix, &w, e);
}

int retention_guard_start(struct clock_guard *g, struct index *ix, bool *out_jumped, struct err *e)
{
	struct index_wait w = {0};
	int64_t newest = 0;
	bool same_boot;
	int rc = index_wait(ix, &w, e);

	*out_jumped = false;
	if (rc == 0)
		rc = index_newest(ix, &newest, e);
	if (rc)
		return rc;
	same_boot = w.boot == boot_mark();
	*out_jumped = clock_guard_start(g, newest, w.until_ns, same_boot, w.left_ns) == CLOCK_GUARD_JUMPED;
	return *out_jumped || (w.until_ns && !same_boot) ? retention_guard_keep(g, ix, e) : 0;
}

int retention_guard_check(struct clock_guard *g, struct index *ix, bool *out_jumped, struct err *e)
{
	enum clock_guard_news news = clock_guard_check(g);

	*out_jumped = news == CLOCK_GUARD_JUMPED;
	return news == CLOCK_GUARD_AS_BEFORE ? 0 : retention_guard_keep(g, ix, e);
}
