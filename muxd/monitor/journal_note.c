#include "muxd/monitor/journal_note.h"

#include "base/err.h"
#include "base/json.h"
#include "base/ring.h"
#include "base/text.h"
#include "muxd/monitor/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTE_MAX  (4 * PATH_MAX)
#define NOTE_STEP 512 /* so the text has room to grow where it stands */

static const char *const state_names[] = {"none", "used", "stored", "left"};

const char *journal_note_state_name(enum journal_note_state s)
{
	return state_names[s];
}

static int state_parse(const char *name, enum journal_note_state *out)
{
	for (size_t i = 1; i < sizeof state_names / sizeof state_names[0]; i++) {
		if (strcmp(state_names[i], name) == 0) {
			*out = (enum journal_note_state)i;
			return 0;
		}
	}
	return ERR_CORRUPT;
}

static int note_parse(const json_t *o, struct journal_note *out)
{
	const char *state = json_get_text(o, "state"), *dir = json_get_text(o, "dir");
	const char *journal = json_get_text(o, "journal"), *ring = json_get_text(o, "ring");
	struct id id;

	if (!*dir || !*journal || state_parse(state, &out->state) || id_parse(ring, &id))
		return ERR_CORRUPT;
	text_put(out->dir, sizeof out->dir, dir);
	text_put(out->journal, sizeof out->journal, journal);
	text_put(out->ring, sizeof out->ring, ring);
	text_put(out->boot, sizeof out->boot, json_get_text(o, "boot_id"));
	out->records = (uint64_t)json_integer_value(json_object_get(o, "records"));
	return 0;
}

int journal_note_read(const char *path, struct journal_note *out, struct err *e)
{
	struct journal_note n = {.state = JOURNAL_NONE};
	char *text = NULL;
	json_t *o = NULL;
	size_t len = 0;
	int rc = file_read(path, NOTE_MAX, &text, &len, e);

	if (rc == 0 && (json_parse(text, len, NOTE_MAX, &o, NULL) || note_parse(o, &n)))
		rc = err_set(e, ERR_CORRUPT, "%s does not say which journal was used: remove it", path);
	json_decref(o);
	free(text);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	*out = n;
	return 0;
}

/* Where the file has room for it. 1: it has not. */
static int note_overwrite(const char *path, char *text, size_t len, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || (size_t)st.st_size < len || st.st_size > NOTE_MAX) {
		rc = 1;
	} else {
		memset(text + len, ' ', (size_t)st.st_size - len);
		text[st.st_size - 1] = '\n';
		if (pwrite(fd, text, (size_t)st.st_size, 0) != st.st_size || fdatasync(fd) < 0)
			rc = err_sys(e, errno, "write %s", path);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

int journal_note_write(const char *path, const struct journal_note *n, struct err *e)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I}", "state", state_names[n->state], "ring", n->ring, "dir",
			      n->dir, "journal", n->journal, "boot_id", n->boot, "records", (json_int_t)n->records);
	char *text = o ? malloc(NOTE_MAX) : NULL;
	size_t len = text ? json_dumpb(o, text, NOTE_MAX - 2 * NOTE_STEP, JSON_COMPACT) : 0, size;
	int rc;

	json_decref(o);
	if (!len || len > NOTE_MAX - 2 * NOTE_STEP) {
		free(text);
		return err_set(e, len ? ERR_TOO_LARGE : ERR_NOMEM, "no memory for %s", path);
	}
	rc = note_overwrite(path, text, len, e);
	if (rc == 1) {
		size = (len / NOTE_STEP + 2) * NOTE_STEP;
		memset(text + len, ' ', size - len);
		text[size - 1] = '\n';
		rc = file_publish(path, text, size, 0644, FILE_OWNER_SELF, true, e);
	}
	free(text);
	return rc;
}

/* ---- the ring itself */

struct places {
	char ring[PATH_MAX], cursor[PATH_MAX];
};

static int places_of(const char *folder, struct places *out, struct err *e)
{
	int rc = file_join(out->ring, sizeof out->ring, folder, "ring", e);

	return rc ? rc : file_join(out->cursor, sizeof out->cursor, folder, "cursor", e);
}

/* A ring with a damaged record has something of its own as well. */
static uint64_t count_left(struct ring_reader *r, uint64_t durable)
{
	struct ring_record rec;
	uint64_t n = 0;

	if (ring_reader_head(r) == durable)
		return 0;
	while (ring_read(r, &rec, NULL) == 1)
		n++;
	return n ? n : 1;
}

int journal_look(const char *folder, struct journal_look *out, struct err *e)
{
	struct journal_look look = {.there = true};
	struct ring_cursor c = {.durable = 0};
	struct ring_reader *r = NULL;
	struct places p;
	int ring = -1, cursor = -1, rc = places_of(folder, &p, e);
	struct id id;

	if (rc)
		return rc;
	ring = open(p.ring, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (ring < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		*out = (struct journal_look){.there = false};
		return 0;
	}
	cursor = open(p.cursor, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (ring < 0 || (cursor < 0 && errno != ENOENT))
		rc = err_sys(e, errno, "open the journal in %s", folder);
	else if (cursor >= 0 && (rc = ring_cursor_read(cursor, &c)))
		err_set(e, rc, "the journal's cursor in %s is not readable", folder);
	else if ((rc = ring_reader_create(ring, c.durable, &r, e)) == 0) {
		ring_reader_id(r, &id);
		id_format(&id, look.ring);
		look.size = ring_reader_size(r);
		look.left = count_left(r, c.durable);
		*out = look;
	}
	ring_reader_destroy(r);
	if (ring >= 0)
		close(ring);
	if (cursor >= 0)
		close(cursor);
	return rc;
}

static int move_file(const char *from, const char *to, struct err *e)
{
	return rename(from, to) < 0 ? err_sys(e, errno, "move %s to %s", from, to) : 0;
}

int journal_bring(const char *from, const char *to, struct err *e)
{
	struct journal_look here;
	struct places old, now;
	int rc = places_of(from, &old, e);

	rc = rc ? rc : places_of(to, &now, e);
	rc = rc ? rc : journal_look(to, &here, e);
	if (rc == 0 && here.there && here.left)
		rc = err_set(e, ERR_CONFLICT, "a journal in %s holds %llu records that are nowhere else", to,
			     (unsigned long long)here.left);
	if (rc == 0 && here.there && unlink(now.ring) < 0)
		rc = err_sys(e, errno, "remove %s", now.ring);
	/* Without one in the old place a crash came between the two moves. */
	if (rc == 0 && access(old.cursor, F_OK) == 0)
		rc = move_file(old.cursor, now.cursor, e);
	rc = rc ? rc : move_file(old.ring, now.ring, e);
	if (rc == 0)
		(void)rmdir(from); /* stays when somebody keeps other files in it */
	return rc;
}
