#include "recorder/format/recording.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/file.h"
#include "recorder/format/recording_load.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct recording {
	struct recording_file f;
	/* where the reader stands */
	size_t block;       /* the one in memory, or to be loaded next */
	const uint8_t *raw; /* NULL: not loaded */
	size_t raw_len, at;
	struct event_context context;
	unsigned cols, rows;
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
		r->cols = header_of(r, block)->cols;
		r->rows = header_of(r, block)->rows;
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

static void note(struct recording *r, const struct ring_record *rec)
{
	if (rec->type == RING_RESIZE && rec->len >= 4) {
		r->cols = get_u16(rec->payload);
		r->rows = get_u16(rec->payload + 2);
	}
	if (rec->type == RING_CLOCK)
		take_anchor(r, rec);
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
	note(r, &rec);
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
	unsigned cols, rows;
	uint64_t anchor_ns;
	int64_t anchor_wall;
};

static struct place recording_place_of(const struct recording *r)
{
	return (struct place){r->at, r->context, r->cols, r->rows, r->anchor_ns, r->anchor_wall};
}

static void recording_go_back(struct recording *r, const struct place *p)
{
	r->at = p->at;
	r->context = p->context;
	r->cols = p->cols;
	r->rows = p->rows;
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

void recording_size(const struct recording *r, unsigned *out_cols, unsigned *out_rows)
{
	*out_cols = r->cols;
	*out_rows = r->rows;
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

/* Leave out whole blocks in which the stream does not move. */
static void skip_quiet(struct recording *r, unsigned stream)
{
	if (r->raw && r->at < r->raw_len)
		return;
	if (r->raw)
		stand_before(r, r->block + 1);
	while (r->block + 1 < r->f.n && header_of(r, r->block)->type == BLOCK_EVENTS &&
	       header_of(r, r->block + 1)->offset[stream] == header_of(r, r->block)->offset[stream])
		stand_before(r, r->block + 1);
}

static int recording_give(const struct ring_record *rec, uint64_t *at, uint64_t *left, recording_bytes *cb, void *arg)
{
	uint64_t skip = *at > rec->offset ? *at - rec->offset : 0;
	uint64_t extent = event_extent(rec), n;
	bool gap = rec->type != RING_DATA;

	if (skip >= extent)
		return 0;
	n = extent - skip;
	if (!gap && n > *left)
		n = *left;
	*at = rec->offset + skip + n;
	if (!gap)
		*left -= n;
	return cb(arg, rec->offset + skip, gap ? NULL : rec->payload + skip, n, gap);
}

int recording_range(struct recording *r, unsigned stream, uint64_t offset, uint64_t limit, recording_bytes *cb,
		    void *arg, uint64_t *out_end, struct err *e)
{
	struct ring_record rec = {.seq = 0};
	uint64_t at = offset;
	int rc = recording_seek_offset(r, stream, offset, e);

	while (!rc && limit) {
		skip_quiet(r, stream);
		rc = recording_next(r, &rec, e);
		if (rc <= 0)
			break;
		rc = rec.stream == stream && event_extent(&rec) ? recording_give(&rec, &at, &limit, cb, arg) : 0;
	}
	if (rc >= 0)
		*out_end = at;
	return rc;
}

int recording_find(const char *dir, const struct id *session, char *out_path, size_t size, struct err *e)
{
	char name[ID_STR_LEN], sealed[FILE_PATH_MAX], path[FILE_PATH_MAX] = "";
	struct dirent *de;
	DIR *d = NULL;
	int rc;

	id_format(session, name);
	rc = file_path(sealed, e, "%s/sealed", dir);
	if (rc)
		return rc;
	d = opendir(sealed);
	while (d && !path[0] && (de = readdir(d))) {
		if (de->d_name[0] == '.')
			continue;
		rc = file_path(path, e, "%s/%s/%s.mrec", sealed, de->d_name, name);
		if (rc || access(path, F_OK) != 0)
			path[0] = '\0';
	}
	if (d)
		closedir(d);
	if (!path[0]) {
		rc = file_path(path, e, "%s/open/%s.mrec", dir, name);
		if (!rc && access(path, F_OK) != 0)
			return err_set(e, ERR_NOT_FOUND, "there is no recording of session %s", name);
	}
	if (strlen(path) >= size)
		return err_set(e, ERR_TOO_LARGE, "the path of recording %s does not fit", name);
	memcpy(out_path, path, strlen(path) + 1);
	return 0;
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
