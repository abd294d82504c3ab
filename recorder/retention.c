#define LOG_SUBSYS "retention"
#include "recorder/retention.h"

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

/* A file that is not there was removed before a crash: only its row is left to empty. */
static int bury(const char *dir, struct chain *chain, const struct id *id, char path[PATH_MAX], struct err *e)
{
	struct chain_seal seal;
	int rc = recording_find(dir, id, path, PATH_MAX, e);
	if (rc == ERR_NOT_FOUND) {
		path[0] = 0;
		return 0;
	}
	if (rc == 0)
		rc = recording_sealed(path, &seal, e);
	return rc ? rc : chain_append_tombstone(chain, &seal, "retention", "recorder", e);
}

/* The recording, and what was derived from it. */
static int remove_file(const char *path, struct err *e)
{
	char keyframes[FILE_PATH_MAX];

	if (path[0] && keyframes_path(path, keyframes, NULL) == 0 && unlink(keyframes) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot remove %s", keyframes);
	if (path[0] && unlink(path) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot remove %s", path);
	return 0;
}

static int retire(const char *dir, struct index *ix, struct chain *chain, const struct id *id, struct err *e)
{
	char path[PATH_MAX], text[ID_STR_LEN];
	id_format(id, text);
	struct log_ids ids = {.session = text};

	int rc = bury(dir, chain, id, path, e);
	if (rc == ERR_CORRUPT) {
		/* What does not verify is evidence, however old. */
		log_warn(&ids, "kept past its time because it is damaged: %s", e ? e->message : "");
		return index_put_kept(ix, id, e);
	}
	/* The tombstone must be vouched for before what it stands for is gone. */
	if (rc == 0)
		rc = chain_sign_head(chain, clock_wall_ns(), e);
	if (rc == 0)
		rc = remove_file(path, e);
	if (rc == 0)
		rc = index_put_expired(ix, id, e);
	if (rc == 0)
		log_info(&ids, "removed: its time under record.retain is over");
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
