#include "recorder/format/recording.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "recorder/chain/file.h"
#include "recorder/format/recording_load.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the frame: header, list of blocks, footer */

#define BLOCK_LEAST (BLOCK_HEADER + BLOCK_HASH)

void recording_file_finish(struct recording_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	block_coder_destroy(f->coder);
	buf_finish(&f->header);
	free(f->blocks);
	free(f->open_json);
	free(f->exit_json);
	f->coder = NULL;
	f->blocks = NULL;
	f->open_json = f->exit_json = NULL;
}

static char *recording_load_text_of(const uint8_t *p, size_t n)
{
	char *s = malloc(n + 1);

	if (s) {
		if (n)
			memcpy(s, p, n);
		s[n] = '\0';
	}
	return s;
}

static void take_boot_id(struct recording_file *f)
{
	json_t *o = NULL;
	const char *s = NULL;

	if (json_parse(f->open_json, strlen(f->open_json), FORMAT_HEADER_MAX, &o, NULL))
		return;
	if (json_opt_str(o, "boot_id", &s, NULL) == 0 && s)
		snprintf(f->info.boot_id, sizeof f->info.boot_id, "%s", s);
	json_decref(o);
}

static int take_header(struct recording_file *f, struct err *e)
{
	uint8_t front[FORMAT_HEADER_MIN], *p = NULL;
	struct format_header h;
	size_t n = 0;
	int rc = file_read_at(f->fd, front, sizeof front, 0, f->path, e);

	if (rc == ERR_EOF)
		return err_set(e, ERR_CORRUPT, "%s is too short to be a recording", f->path);
	if (!rc)
		rc = format_header_size(front, &n, e);
	if (!rc && n > f->info.file_size)
		rc = err_set(e, ERR_CORRUPT, "%s ends within its header", f->path);
	if (!rc)
		rc = buf_reserve(&f->header, n, &p);
	if (!rc)
		rc = file_read_at(f->fd, p, n, 0, f->path, e);
	if (rc)
		return rc;
	buf_commit(&f->header, n);
	rc = format_header_decode(p, n, &h, e);
	if (rc)
		return rc;
	f->open_json = recording_load_text_of(h.open, h.open_len);
	if (!f->open_json)
		return err_set(e, ERR_NOMEM, "no memory for a recording");
	memcpy(f->salt, h.salt, sizeof f->salt);
	f->info.session = h.session;
	f->info.open_json = f->open_json;
	f->info.open_seq = h.open_seq;
	f->info.first_ns = f->info.last_ns = h.open_ns;
	f->info.wall_ns = h.wall_ns;
	f->info.rule = h.rule;
	f->end = n;
	take_boot_id(f);
	return 0;
}

int recording_file_begin(struct recording_file *f, const char *path, struct err *e)
{
	int rc;

	memset(f, 0, sizeof *f);
	f->fd = -1; /* recording_file_finish() comes in any case */
	buf_init(&f->header, FORMAT_HEADER_MAX);
	rc = file_open_found(path, &f->fd, &f->info.file_size, e);
	if (rc)
		return rc;
	rc = file_path(f->path, e, "%s", path);
	if (!rc && block_coder_create(&f->coder))
		rc = err_set(e, ERR_NOMEM, "no memory for a recording");
	if (!rc)
		rc = take_header(f, e);
	if (rc)
		recording_file_finish(f);
	return rc;
}

static int unusable(const struct recording_file *f, const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: %s", f->path, what);
}

/* The index may name only blocks that follow one another from the header to itself. */
static int take_entries(struct recording_file *f, const struct format_index *x, uint64_t index_pos, struct err *e)
{
	uint64_t pos = buf_len(&f->header);

	if (x->n > f->info.file_size / BLOCK_LEAST)
		return unusable(f, "the index names more blocks than fit", e);
	f->blocks = malloc((x->n ? x->n : 1) * sizeof *f->blocks);
	if (!f->blocks)
		return err_set(e, ERR_NOMEM, "no memory for the index of %s", f->path);
	for (size_t i = 0; i < x->n; i++) {
		struct format_entry *en = &f->blocks[i];
		if (format_entry_decode(x->entries + i * FORMAT_ENTRY, en) || en->pos != pos ||
		    en->header.type == BLOCK_INDEX || block_size(&en->header) > index_pos - pos)
			return unusable(f, "the index does not fit the file", e);
		pos += block_size(&en->header);
	}
	f->n = x->n;
	f->end = pos;
	return pos == index_pos ? 0 : unusable(f, "the index leaves a part of the file out", e);
}

static int take_index(struct recording_file *f, const struct format_footer *foot, struct err *e)
{
	uint8_t head[BLOCK_HEADER];
	struct block_header h;
	struct format_index x;
	const uint8_t *raw = NULL;
	uint64_t size = f->info.file_size - FORMAT_FOOTER;
	int rc;

	if (foot->index_pos < buf_len(&f->header) || foot->index_pos > size ||
	    foot->index_size != size - foot->index_pos || foot->index_size < BLOCK_LEAST)
		return unusable(f, "the footer does not fit the file", e);
	rc = file_read_at(f->fd, head, sizeof head, foot->index_pos, f->path, e);
	if (rc)
		return rc;
	if (block_header_decode(head, &h) || h.type != BLOCK_INDEX || block_size(&h) != foot->index_size ||
	    h.raw_len > f->info.file_size / BLOCK_LEAST * FORMAT_ENTRY + 2 * RING_RECORD_MAX)
		return unusable(f, "there is no index where the footer says", e);
	rc = block_read(f->coder, f->fd, foot->index_pos + BLOCK_HEADER, &h, f->path, &raw, e);
	if (!rc)
		rc = format_index_decode(raw, h.raw_len, &x, e);
	if (!rc)
		rc = take_entries(f, &x, foot->index_pos, e);
	if (rc)
		return rc;
	if (x.exit) {
		f->exit_json = recording_load_text_of(x.exit, x.exit_len);
		if (!f->exit_json)
			return err_set(e, ERR_NOMEM, "no memory for the exit of %s", f->path);
	}
	f->info.exit_json = f->exit_json;
	f->info.events = x.events;
	f->info.last_ns = x.last_ns;
	f->last_seq = x.last_seq;
	memcpy(f->info.streams, x.streams, sizeof x.streams);
	return 0;
}

int recording_file_index(struct recording_file *f, struct err *e)
{
	struct format_footer foot;
	uint64_t size = f->info.file_size;
	int rc;

	if (size < buf_len(&f->header) + BLOCK_LEAST + FORMAT_FOOTER)
		return unusable(f, "there is no footer", e);
	rc = file_read_at(f->fd, f->footer, FORMAT_FOOTER, size - FORMAT_FOOTER, f->path, e);
	if (rc)
		return rc;
	if (format_footer_decode(f->footer, &foot))
		return unusable(f, "there is no footer", e);
	rc = take_index(f, &foot, e);
	if (rc) {
		free(f->blocks);
		f->blocks = NULL;
		f->n = 0;
		f->end = buf_len(&f->header);
		return rc;
	}
	f->info.sealed = true;
	f->info.blocks = f->n;
	memcpy(f->info.kid, foot.kid, sizeof f->info.kid);
	f->info.sealed_wall_ns = foot.sealed_wall_ns;
	f->info.log_id = foot.log_id;
	f->info.chain_seq = foot.chain_seq;
	return 0;
}

/* Not sealed: from header to header. What is no whole block ends the list. */
static int recording_load_scan(struct recording_file *f, struct err *e)
{
	struct format_entry en;
	uint8_t head[BLOCK_HEADER];
	int rc = 0;

	while (!rc && f->info.file_size - f->end >= BLOCK_LEAST && f->n < BLOCK_COUNT_MAX) {
		en.pos = f->end;
		rc = file_read_at(f->fd, head, sizeof head, f->end, f->path, e);
		if (rc || block_header_decode(head, &en.header) ||
		    block_size(&en.header) > f->info.file_size - f->end || en.header.type == BLOCK_INDEX)
			break;
		rc = file_read_at(f->fd, en.hash, sizeof en.hash, f->end + block_size(&en.header) - BLOCK_HASH, f->path,
				  e);
		if (!rc && list_append(&f->blocks, &f->n, &en, sizeof en))
			rc = err_set(e, ERR_NOMEM, "no memory for the blocks of %s", f->path);
		f->end += block_size(&en.header);
		f->info.events += en.header.events;
		f->info.last_ns = en.header.last_ns;
		f->last_seq = en.header.last_seq;
	}
	f->info.blocks = f->n;
	f->info.torn = f->end != f->info.file_size;
	return rc == ERR_EOF ? 0 : rc;
}

int recording_file_load(struct recording_file *f, const char *path, struct err *e)
{
	int rc = recording_file_begin(f, path, e);

	if (rc)
		return rc;
	rc = recording_file_index(f, NULL);
	if (rc == ERR_CORRUPT || rc == ERR_EOF)
		rc = recording_load_scan(f, e);
	else if (rc)
		err_set(e, rc, "cannot read the index of %s", path);
	if (rc)
		recording_file_finish(f);
	return rc;
}

/* ---- events */

struct recording {
	struct recording_file f;
	/* where the reader stands */
	size_t block;       /* the one in memory, or to be loaded next */
	const uint8_t *raw; /* NULL: not loaded */
	size_t raw_len, at;
	struct event_context context;
	uint64_t anchor_ns;
	int64_t anchor_wall;
};

int recording_open(const char *path, struct recording **out, struct err *e)
{
	struct recording *r = calloc(1, sizeof *r);
	int rc;

	if (!r)
		return err_set(e, ERR_NOMEM, "no memory for a recording");
	rc = recording_file_load(&r->f, path, e);
	if (!rc)
		rc = recording_rewind(r, e);
	if (rc) {
		recording_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

void recording_close(struct recording *r)
{
	if (!r)
		return;
	recording_file_finish(&r->f);
	free(r);
}

const struct recording_info *recording_info(const struct recording *r)
{
	return &r->f.info;
}

static const struct block_header *header_of(const struct recording *r, size_t i)
{
	return &r->f.blocks[i].header;
}

const struct block_header *recording_block(const struct recording *r, size_t i)
{
	return i < r->f.n ? header_of(r, i) : NULL;
}

static void stand_before(struct recording *r, size_t block)
{
	r->block = block;
	r->raw = NULL;
	r->at = 0;
	if (block < r->f.n) {
		r->anchor_ns = header_of(r, block)->first_ns;
		r->anchor_wall = header_of(r, block)->wall_ns;
	}
}

static int load_block(struct recording *r, struct err *e)
{
	const struct format_entry *en = &r->f.blocks[r->block];
	const uint8_t *raw = NULL;
	int rc = block_read(r->f.coder, r->f.fd, en->pos + BLOCK_HEADER, &en->header, r->f.path, &raw, e);

	if (rc)
		return rc;
	memset(&r->context, 0, sizeof r->context);
	r->raw = raw;
	r->raw_len = en->header.raw_len;
	r->at = 0;
	return 0;
}

/* Blocks of events only; others (keyframes, later) are stepped over. 1: one is loaded, 0: the end. */
static int need_block(struct recording *r, struct err *e)
{
	for (;;) {
		int rc;

		if (r->raw && r->at < r->raw_len)
			return 1;
		if (r->raw)
			stand_before(r, r->block + 1);
		if (r->block >= r->f.n)
			return 0;
		if (header_of(r, r->block)->type != BLOCK_EVENTS) {
			stand_before(r, r->block + 1);
			continue;
		}
		rc = load_block(r, e);
		if (rc)
			return rc;
		if (!r->raw_len)
			stand_before(r, r->block + 1);
	}
}

static void take_anchor(struct recording *r, const struct ring_record *rec)
{
	json_t *o = NULL;
	int64_t wall = 0;

	if (json_parse(rec->payload, rec->len, 4096, &o, NULL))
		return;
	if (json_need_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0) {
		r->anchor_ns = rec->boot_ns;
		r->anchor_wall = wall;
	}
	json_decref(o);
}

int recording_next(struct recording *r, struct ring_record *out, struct err *e)
{
	struct ring_record rec;
	int rc = need_block(r, e), used;

	if (rc <= 0)
		return rc;
	memset(&rec, 0, sizeof rec);
	rec.session = r->f.info.session;
	used = event_decode(&r->context, r->raw + r->at, r->raw_len - r->at, &rec);
	if (used < 0)
		return err_set(e, ERR_CORRUPT, "%s: block %zu holds no event at its byte %zu", r->f.path, r->block,
			       r->at);
	r->at += (size_t)used;
	if (rec.type == RING_CLOCK)
		take_anchor(r, &rec);
	*out = rec;
	return 1;
}

int recording_rewind(struct recording *r, struct err *e)
{
	(void)e;
	stand_before(r, 0);
	return 0;
}

/* Where to go back to: before the event that next() would give. */
struct place {
	size_t at;
	struct event_context context;
	uint64_t anchor_ns;
	int64_t anchor_wall;
};

static struct place recording_place_of(const struct recording *r)
{
	return (struct place){r->at, r->context, r->anchor_ns, r->anchor_wall};
}

static void recording_go_back(struct recording *r, const struct place *p)
{
	r->at = p->at;
	r->context = p->context;
	r->anchor_ns = p->anchor_ns;
	r->anchor_wall = p->anchor_wall;
}

static bool holds_offset(const struct ring_record *rec, unsigned stream, uint64_t offset)
{
	uint64_t n = event_extent(rec);

	return n && rec->stream == stream && offset < rec->offset + n;
}

/* Step on until `wanted` is the next event. */
static int step_to(struct recording *r, bool by_time, unsigned stream, uint64_t value, struct err *e)
{
	struct ring_record rec = {.seq = 0};

	for (;;) {
		int rc = need_block(r, e);
		struct place before;

		if (rc <= 0)
			return rc;
		before = recording_place_of(r);
		rc = recording_next(r, &rec, e);
		if (rc <= 0)
			return rc;
		if (by_time ? rec.boot_ns >= value : holds_offset(&rec, stream, value)) {
			recording_go_back(r, &before);
			return 0;
		}
	}
}

int recording_seek_time(struct recording *r, uint64_t boot_ns, struct err *e)
{
	size_t low = 0, high = r->f.n;

	while (low < high) { /* the first block that ends at or after it */
		size_t mid = low + (high - low) / 2;
		if (header_of(r, mid)->last_ns < boot_ns)
			low = mid + 1;
		else
			high = mid;
	}
	stand_before(r, low);
	return step_to(r, true, 0, boot_ns, e);
}

int recording_seek_offset(struct recording *r, unsigned stream, uint64_t offset, struct err *e)
{
	size_t low = 0, high = r->f.n;

	if (stream >= STREAM_COUNT)
		return err_set(e, ERR_INVAL, "there is no stream %u", stream);
	while (low < high) { /* the first block that begins behind it; the one before holds it */
		size_t mid = low + (high - low) / 2;
		if (header_of(r, mid)->offset[stream] <= offset)
			low = mid + 1;
		else
			high = mid;
	}
	stand_before(r, low ? low - 1 : 0);
	return step_to(r, false, stream, offset, e);
}

int recording_seek_seq(struct recording *r, uint64_t seq, struct err *e)
{
	size_t low = 0, high = r->f.n;

	(void)e;
	while (low < high) { /* the first block that ends behind it */
		size_t mid = low + (high - low) / 2;
		if (header_of(r, mid)->last_seq <= seq)
			low = mid + 1;
		else
			high = mid;
	}
	stand_before(r, low);
	return 0;
}

int64_t recording_wall_ns(const struct recording *r, uint64_t boot_ns)
{
	return (int64_t)((uint64_t)r->anchor_wall + (boot_ns - r->anchor_ns));
}

#define END_BLOCKS 4 /* what comes behind an EXIT fits in less */

int recording_end(struct recording *r, uint64_t *out_seq, int64_t *out_wall_ns, struct err *e)
{
	size_t first = r->f.n > END_BLOCKS ? r->f.n - END_BLOCKS : 0;
	struct ring_record rec;
	int rc;

	*out_seq = r->f.last_seq;
	*out_wall_ns = r->f.info.wall_ns;
	stand_before(r, first);
	while ((rc = recording_next(r, &rec, e)) == 1) {
		*out_wall_ns = recording_wall_ns(r, rec.boot_ns);
		*out_seq = rec.seq;
		if (rec.type == RING_EXIT)
			return 0;
	}
	return rc;
}

/* out: "" where no day has it. */
static int find_sealed(const char *dir, const char *name, char out[FILE_PATH_MAX], struct err *e)
{
	char sealed[FILE_PATH_MAX];
	struct dirent *de;
	int rc = file_path(sealed, e, "%s/sealed", dir);
	DIR *d = rc ? NULL : opendir(sealed);

	out[0] = '\0';
	while (d && !out[0] && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		rc = file_path(out, e, "%s/%s/%s.mrec", sealed, de->d_name, name);
		if (rc || access(out, F_OK) != 0)
			out[0] = '\0';
	}
	if (d)
		closedir(d);
	return rc;
}

int recording_find(const char *dir, const struct id *session, char *out_path, size_t size, struct err *e)
{
	char name[ID_STR_LEN], path[FILE_PATH_MAX] = "";
	int rc;

	id_format(session, name);
	rc = find_sealed(dir, name, path, e);
	if (!rc && !path[0]) {
		rc = file_path(path, e, "%s/open/%s.mrec", dir, name);
		/* The cutter may have sealed it, and moved it, behind the first look. */
		if (!rc && access(path, F_OK) != 0)
			rc = find_sealed(dir, name, path, e);
	}
	if (rc)
		return rc;
	if (!path[0])
		return err_set(e, ERR_NOT_FOUND, "there is no recording of session %s", name);
	if (strlen(path) >= size)
		return err_set(e, ERR_TOO_LARGE, "the path of recording %s does not fit", name);
	memcpy(out_path, path, strlen(path) + 1);
	return 0;
}

int recording_open_found(const char *dir, const struct id *session, char out_path[FILE_PATH_MAX],
			 struct recording **out, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = ERR_NOT_FOUND;

	/* A recording moves once, when it is sealed: one that was found and is gone is found where it went. */
	for (int i = 0; i < 2 && rc == ERR_NOT_FOUND; i++) {
		rc = recording_find(dir, session, path, sizeof(path), e);
		if (rc)
			return rc;
		rc = recording_open(path, out, e);
	}
	if (!rc && out_path)
		memcpy(out_path, path, strlen(path) + 1);
	return rc;
}

bool recording_name(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".mrec") == 0;
}

int recording_name_id(const char *name, struct id *out)
{
	char text[ID_STR_LEN];

	if (strlen(name) < ID_STR_LEN - 1)
		return ERR_INVAL;
	memcpy(text, name, ID_STR_LEN - 1);
	text[ID_STR_LEN - 1] = '\0';
	return id_parse(text, out);
}

bool recording_day(const char *path, char out_day[11])
{
	static const char form[] = "dddd-dd-dd";
	const char *end = strrchr(path, '/'), *begin = end;

	while (begin && begin > path && begin[-1] != '/')
		begin--;
	if (!end || end - begin != (ptrdiff_t)strlen(form))
		return false;
	for (size_t i = 0; form[i]; i++)
		if (form[i] == 'd' ? begin[i] < '0' || begin[i] > '9' : begin[i] != form[i])
			return false;
	memcpy(out_day, begin, strlen(form));
	out_day[strlen(form)] = '\0';
	return true;
}

int recording_sealed(const char *path, struct chain_seal *out, struct err *e)
{
	struct recording_file f;
	struct chain_seal seal;
	char day[11];
	int rc = recording_file_load(&f, path, e);

	if (rc)
		return rc;
	memset(&seal, 0, sizeof seal);
	seal.session = f.info.session;
	seal.journal_seq = f.last_seq;
	seal.size = f.info.file_size;
	if (!f.info.sealed)
		rc = err_set(e, ERR_BAD_STATE, "%s is not sealed", path);
	else if (!recording_day(path, day))
		rc = err_set(e, ERR_INVAL, "%s does not stand in the folder of a day", path);
	else
		memcpy(seal.day, day, 10);
	if (!rc) {
		format_leaf(f.salt, f.footer, seal.leaf);
		*out = seal;
	}
	recording_file_finish(&f);
	return rc;
}
