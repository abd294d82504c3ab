#include "base/list.h"
#include "recorder/verify/verify_whole.h"

#include "base/err.h"
#include "base/text.h"
#include "recorder/chain/chain_text.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"
#include "recorder/chain/succession.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum word_kind { WORD_CREATE, WORD_HASH, WORD_DROP };

/* What one event of the log says of a snapshot; merged: what all of them say. */
struct word {
	struct id id;
	uint64_t seq;
	enum word_kind kind;
	char agent[AGENT_NAME_MAX + 1];
	bool hashed, never, dropped; /* never: nobody can read it */
	bool unsure;                 /* dropped by an entry that no trusted head vouches for */
	uint8_t digest[DIGEST_LEN];
	int64_t stored, mtime_ns; /* when it was taken; 0: not told */
	bool moved;               /* another length or time when it was hashed */
};

struct snapshots {
	struct verify_whole *w;
	struct word *words;
	size_t n;
};

static bool word_kind_of(const char *event, enum word_kind *out)
{
	static const char *const names[] = {"snapshot.create", "snapshot.hash", "snapshot.drop"};

	for (size_t i = 0; event && i < sizeof names / sizeof names[0]; i++)
		if (strcmp(event, names[i]) == 0) {
			*out = (enum word_kind)i;
			return true;
		}
	return false;
}

static bool word_read(const json_t *o, struct word *out)
{
	const char *event = NULL, *outcome = NULL, *agent = NULL, *id = NULL, *digest = NULL;
	const json_t *detail = json_object_get(o, "detail");

	(void)json_opt_str(o, "event", &event, NULL);
	(void)json_opt_str(o, "outcome", &outcome, NULL);
	(void)json_opt_str(o, "agent", &agent, NULL);
	(void)json_opt_str(detail, "id", &id, NULL);
	(void)json_opt_str(detail, "digest", &digest, NULL);
	if (!word_kind_of(event, &out->kind) || !outcome || strcmp(outcome, "ok") != 0 || !agent ||
	    agent_name_check(agent, NULL) || !id || id_parse(id, &out->id))
		return false;
	text_put(out->agent, sizeof out->agent, agent);
	out->hashed = digest && chain_unhex(digest, out->digest, DIGEST_LEN) == 0;
	out->never = digest && strcmp(digest, "cannot_be_hashed") == 0;
	(void)json_opt_int(detail, "stored", 0, INT64_MAX, &out->stored, NULL);
	(void)json_opt_int(detail, "mtime_ns", INT64_MIN, INT64_MAX, &out->mtime_ns, NULL);
	return true;
}

/* What no trusted head vouches for yet names a digest where none is named before it, and excuses nothing that is gone.
 */
static int verify_snapshots_take_entry(void *arg, const struct chain_entry *en, struct err *e)
{
	static const char begins[] = "\"snapshot.";
	struct word word = {.seq = en->seq};
	struct snapshots *s = arg;
	json_t *o = NULL;
	int rc = 0;

	if (en->type != CHAIN_AUDIT || !memmem(en->payload, en->len, begins, sizeof begins - 1))
		return 0;
	word.unsure = !succession_vouches(&s->w->log.line, en->seq);
	if (chain_entry_json(en, &o) == 0 && word_read(o, &word))
		rc = list_append(&s->words, &s->n, &word, sizeof word)
			 ? err_set(e, ERR_NOMEM, "no memory for what the log says of snapshots")
			 : 0;
	json_decref(o);
	return rc;
}

static int verify_snapshots_compare(const void *a, const void *b)
{
	const struct word *x = a, *y = b;
	int d = memcmp(x->id.b, y->id.b, sizeof x->id.b);

	return d ? d : x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* The first digest counts: a later one is of a file that may have changed by then. */
static void merge(struct snapshots *s)
{
	size_t n = 0;

	if (s->n)
		qsort(s->words, s->n, sizeof *s->words, verify_snapshots_compare);
	for (size_t i = 0; i < s->n; i++) {
		const struct word *x = &s->words[i];
		struct word *last = n ? &s->words[n - 1] : NULL;

		if (!last || !id_equal(&last->id, &x->id)) {
			s->words[n] = *x;
			s->words[n].unsure &= x->kind == WORD_DROP;
			s->words[n++].dropped = x->kind == WORD_DROP && !x->unsure;
			continue;
		}
		last->dropped |= x->kind == WORD_DROP && !x->unsure;
		last->unsure |= x->kind == WORD_DROP && x->unsure;
		if (x->kind != WORD_HASH || last->hashed)
			continue;
		last->hashed = x->hashed;
		memcpy(last->digest, x->digest, sizeof last->digest);
		last->moved = last->kind == WORD_CREATE && last->stored &&
			      (last->stored != x->stored || last->mtime_ns != x->mtime_ns);
	}
	s->n = n;
}

static void judge_file(const struct snapshots *s, const struct word *x, int fd, uint64_t size, const char *path)
{
	uint8_t have[DIGEST_LEN];
	char id[ID_STR_LEN];

	id_format(&x->id, id);
	if (x->moved)
		verify_whole_found(s->w, VERIFY_INTEGRITY, "snapshot_changed", path, NULL,
				   "snapshot %s of %s was written to after it was taken and before it was hashed", id,
				   x->agent);
	if (x->stored && (uint64_t)x->stored != size)
		verify_whole_found(s->w, VERIFY_INTEGRITY, "snapshot_changed", path, NULL,
				   "snapshot %s of %s has %" PRIu64 " bytes, and not the %" PRId64 " that were written",
				   id, x->agent, size, x->stored);
	else if (!x->hashed)
		verify_whole_found(s->w, VERIFY_NOTE, "snapshot_unhashed", path, NULL,
				   "snapshot %s of %s is not hashed yet: whether it changed cannot be told", id,
				   x->agent);
	else if (file_digest(fd, path, size, have) || memcmp(have, x->digest, sizeof have) != 0)
		verify_whole_found(s->w, VERIFY_INTEGRITY, "snapshot_changed", path, NULL,
				   "snapshot %s of %s is not what it was when it was hashed", id, x->agent);
}

static int find_file(const struct snapshots *s, const struct word *x, char path[FILE_PATH_MAX], int *out_fd,
		     uint64_t *out_size)
{
	static const char *const suffixes[] = {"img", "tar.zst"};
	char id[ID_STR_LEN];
	int rc = ERR_NOT_FOUND;

	id_format(&x->id, id);
	for (size_t i = 0; rc == ERR_NOT_FOUND && i < sizeof suffixes / sizeof suffixes[0]; i++) {
		rc = file_path(path, NULL, "%s/%s/snapshots/%s.%s", s->w->ask->sandboxes, x->agent, id, suffixes[i]);
		if (rc == 0)
			rc = file_open_found(path, out_fd, out_size, NULL);
	}
	return rc;
}

static void verify_snapshots_judge(const struct snapshots *s, const struct word *x)
{
	char path[FILE_PATH_MAX] = "", id[ID_STR_LEN];
	uint64_t size = 0;
	int fd = -1, rc;

	if (x->dropped || x->never || x->kind != WORD_CREATE)
		return;
	id_format(&x->id, id);
	rc = find_file(s, x, path, &fd, &size);
	if (rc == ERR_NOT_FOUND)
		verify_whole_found(s->w, x->unsure ? VERIFY_NOTE : VERIFY_COMPLETENESS, "snapshot_missing", path, NULL,
				   "snapshot %s of %s is not there, and no %s of the log says that it was removed", id,
				   x->agent, x->unsure ? "signed entry" : "entry");
	else if (rc)
		verify_whole_found(s->w, VERIFY_INTEGRITY, "snapshot_unreadable", path, NULL,
				   "snapshot %s of %s cannot be read as a file", id, x->agent);
	else
		judge_file(s, x, fd, size, path);
	if (fd >= 0)
		close(fd);
}

int verify_snapshots(struct verify_whole *w, struct err *e)
{
	struct snapshots s = {.w = w};
	int rc = w->ask->sandboxes ? verify_whole_entries(w, verify_snapshots_take_entry, &s, e) : 0;

	if (rc == 0)
		merge(&s);
	for (size_t i = 0; rc == 0 && i < s.n; i++)
		verify_snapshots_judge(&s, &s.words[i]);
	w->sum->snapshots = s.n;
	free(s.words);
	return rc;
}
