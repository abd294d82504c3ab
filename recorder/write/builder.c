#include "recorder/write/builder.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/file.h"
#include "recorder/chain/sign.h"
#include "recorder/format/recording.h"
#include "recorder/write/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAGIC UINT32_C(0x4b435243) /* "CRCK" */
#define STATE_FRONT 24
#define EXIT_MAX    RING_RECORD_MAX

struct builder {
	char *dir;
	struct id session;
	uint8_t salt[32];
	int64_t wall_ns;   /* of the OPEN */
	struct part about; /* what of it does not change */
	struct blocks blocks;
	struct trunc *trunc;
	uint64_t seq;
	bool ended, sealed, failed, beside;
	bool full; /* its blocks are used up: from here on bytes are counted and hashed, and nothing more is kept */
	struct buf exit; /* JSON of the EXIT */
};

static int emit(void *arg, const struct ring_record *rec, struct err *e)
{
	struct builder *b = arg;

	return blocks_add(&b->blocks, rec, e);
}

static int day_of(int64_t wall_ns, char out[11])
{
	time_t t = (time_t)(wall_ns / (int64_t)NS_PER_SEC);
	struct tm tm;

	if (!gmtime_r(&t, &tm) || strftime(out, 11, "%Y-%m-%d", &tm) != 10)
		return ERR_INVAL;
	return 0;
}

static void builder_describe(struct builder *b, const struct trunc_rule *rule, const struct ring_record *open,
			     const json_t *o)
{
	b->about = (struct part){.session = b->session,
				 .open_lsn = open->seq,
				 .open_ns = open->boot_ns,
				 .open_wall_ns = b->wall_ns,
				 .rule = *rule};
	part_describe(&b->about, o);
}

/* NULL: it cannot be read. */
static json_t *open_json(const struct ring_record *open)
{
	json_t *o = NULL;

	return json_parse(open->payload, open->len, RING_RECORD_MAX, &o, NULL) ? NULL : o;
}

/* One that does not say when it was counts from 1970, which is plain to see. */
static void take_open(struct builder *b, const struct trunc_rule *rule, const struct ring_record *open)
{
	int64_t wall = 0, cols = 0, rows = 0;
	json_t *o = open_json(open);

	if (o && json_opt_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0)
		b->wall_ns = wall;
	if (o && json_opt_int(o, "cols", 0, UINT16_MAX, &cols, NULL) == 0)
		b->blocks.cols = (uint16_t)cols;
	if (o && json_opt_int(o, "rows", 0, UINT16_MAX, &rows, NULL) == 0)
		b->blocks.rows = (uint16_t)rows;
	builder_describe(b, rule, open, o);
	json_decref(o);
}

static int builder_prepare(const struct builder_options *o, const struct id *session, struct builder **out,
			   struct err *e)
{
	struct builder *b = calloc(1, sizeof *b);

	if (!b) {
		err_set(e, ERR_NOMEM, "no memory to build a recording");
		return ERR_NOMEM;
	}
	b->session = *session;
	b->beside = o->beside;
	buf_init(&b->exit, EXIT_MAX);
	blocks_init(&b->blocks, o->codec, o->files);
	if (o->blocks_most)
		b->blocks.most = o->blocks_most;
	b->dir = strdup(o->dir);
	if (!b->dir) {
		builder_destroy(b);
		err_set(e, ERR_NOMEM, "no memory to build a recording");
		return ERR_NOMEM;
	}
	*out = b;
	return 0;
}

static int open_path(const struct builder *b, char out[FILE_PATH_MAX], struct err *e)
{
	char name[ID_STR_LEN];

	id_format(&b->session, name);
	return file_path(out, e, "%s/open/%s.%s", b->dir, name, b->beside ? "recut" : "mrec");
}

static int sealed_path(const struct builder *b, char folder[FILE_PATH_MAX], char file[FILE_PATH_MAX], char day[11],
		       struct err *e)
{
	char name[ID_STR_LEN];
	int rc = day_of(b->wall_ns, day);

	if (rc)
		return err_set(e, rc, "the OPEN record has an impossible wall time");
	id_format(&b->session, name);
	rc = file_path(folder, e, "%s/sealed/%s", b->dir, day);
	return rc ? rc : file_path(file, e, "%s/sealed/%s/%s.mrec", b->dir, day, name);
}

/* A sealed recording is never made a second time: its salt, and so its leaf, would be another. */
static int check_not_sealed(const struct builder *b, struct err *e)
{
	char folder[FILE_PATH_MAX], file[FILE_PATH_MAX], day[11];
	int rc = sealed_path(b, folder, file, day, e);

	if (!rc && access(file, F_OK) == 0)
		rc = err_set(e, ERR_CONFLICT, "%s is sealed already", file);
	return rc;
}

static int create_file(struct builder *b, const struct builder_options *o, const struct ring_record *open,
		       struct err *e)
{
	struct format_header h = {.session = b->session,
				  .open = open->payload,
				  .open_len = open->len,
				  .open_seq = open->seq,
				  .open_ns = open->boot_ns,
				  .wall_ns = b->wall_ns,
				  .rule = o->rule};
	char path[FILE_PATH_MAX];
	int rc = file_path(path, e, "%s/open", b->dir);

	if (!rc)
		rc = file_make_folder(path, e);
	if (!rc)
		rc = open_path(b, path, e);
	if (!rc && random_bytes(b->salt, sizeof b->salt))
		rc = err_set(e, ERR_SYS, "no randomness for the recording's salt");
	memcpy(h.salt, b->salt, sizeof h.salt);
	return rc ? rc : blocks_create(&b->blocks, path, &h, e);
}

int builder_create(const struct builder_options *o, const struct ring_record *open, struct builder **out, struct err *e)
{
	struct builder *b = NULL;
	int rc;

	if (open->type != RING_OPEN)
		return err_set(e, ERR_INVAL, "a recording begins with an OPEN record");
	rc = builder_prepare(o, &open->session, &b, e);
	if (rc)
		return rc;
	take_open(b, &o->rule, open);
	rc = check_not_sealed(b, e);
	if (!rc && trunc_create(&o->rule, emit, b, &b->trunc))
		rc = err_set(e, ERR_NOMEM, "no memory to build a recording");
	if (!rc)
		rc = create_file(b, o, open, e);
	if (!rc)
		rc = trunc_put(b->trunc, open, e);
	if (rc) {
		builder_destroy(b);
		return rc;
	}
	b->seq = open->seq;
	*out = b;
	return 0;
}

/* The journal goes on further than expected: say how much it lacks. */
static int put_missing(struct builder *b, const struct ring_record *rec, struct err *e)
{
	struct ring_record missing = *rec;
	uint8_t count[8];

	missing.type = EVENT_MISSING;
	missing.flags = 0;
	missing.offset = trunc_expected(b->trunc, rec->stream);
	put_u64(count, rec->offset - missing.offset);
	missing.payload = count;
	missing.len = sizeof count;
	return trunc_put(b->trunc, &missing, e);
}

static int builder_put_data(struct builder *b, const struct ring_record *rec, struct err *e)
{
	uint64_t expected, known;
	struct ring_record part = *rec;

	if (rec->stream >= STREAM_COUNT || rec->len > UINT64_MAX - rec->offset)
		return err_set(e, ERR_INVAL, "a data record names a stream or an offset that cannot be");
	expected = trunc_expected(b->trunc, rec->stream);
	if (rec->offset > expected) {
		int rc = put_missing(b, rec, e);
		if (rc)
			return rc;
		expected = rec->offset;
	}
	known = expected - rec->offset; /* sent twice: the first time counts */
	if (known >= rec->len)
		return 0;
	part.offset += known;
	part.payload += known;
	part.len -= (uint32_t)known;
	return trunc_put(b->trunc, &part, e);
}

/* A session may last for years; its recording ends before, and says from where on it has nothing more. */
static bool keeps(struct builder *b, const struct ring_record *rec)
{
	if (!b->full && blocks_full(&b->blocks)) {
		b->full = true;
		trunc_close(b->trunc);
	}
	return !b->full || rec->type == RING_DATA || rec->type == RING_EXIT;
}

static int builder_take(struct builder *b, const struct ring_record *rec, struct err *e)
{
	struct ring_record plain = *rec;

	if (rec->type == RING_DATA)
		return builder_put_data(b, rec, e);
	plain.stream = rec->stream < STREAM_COUNT ? rec->stream : 0;
	if (rec->type == RING_EXIT) {
		b->ended = true;
		buf_clear(&b->exit);
		if (buf_append(&b->exit, rec->payload, rec->len))
			return err_set(e, ERR_NOMEM, "no memory for the exit of a recording");
	}
	return trunc_put(b->trunc, &plain, e);
}

int builder_append(struct builder *b, const struct ring_record *rec, struct err *e)
{
	bool clock = rec->type == RING_CLOCK && id_is_nil(&rec->session);
	int rc;

	if (b->failed || b->sealed)
		return err_set(e, ERR_BAD_STATE, "the recording is %s", b->sealed ? "sealed" : "not writable any more");
	if (!clock && !id_equal(&rec->session, &b->session))
		return err_set(e, ERR_INVAL, "a record of another session was given to a recording");
	if (rec->type == RING_OPEN ? rec->seq > b->seq : rec->type >= EVENT_GAP || rec->len > RING_RECORD_MAX)
		return err_set(e, ERR_INVAL, "a record of type %u does not belong into a recording here", rec->type);
	if (rec->seq <= b->seq)
		return 0;
	rc = keeps(b, rec) ? builder_take(b, rec, e) : 0;
	if (rc && rc != ERR_INVAL)
		b->failed = true;
	if (!rc)
		b->seq = rec->seq;
	return rc;
}

int builder_checkpoint(struct builder *b, struct buf *state, struct err *e)
{
	uint8_t front[STATE_FRONT] = {0}, blocks[BLOCKS_STATE_SIZE];
	int rc;

	if (b->failed || b->sealed)
		return err_set(e, ERR_BAD_STATE, "the recording is %s", b->sealed ? "sealed" : "not writable any more");
	rc = blocks_settle(&b->blocks, e);
	if (!rc)
		rc = blocks_sync(&b->blocks, e);
	if (rc) {
		b->failed = true;
		return rc;
	}
	blocks_rest(&b->blocks);
	put_u32(front, STATE_MAGIC);
	put_u32(front + 4, b->ended);
	put_u64(front + 8, b->seq);
	put_u32(front + 16, (uint32_t)buf_len(&b->exit));
	blocks_save(&b->blocks, blocks);
	rc = buf_append(state, front, sizeof front);
	if (!rc)
		rc = buf_append(state, blocks, sizeof blocks);
	if (!rc)
		rc = blocks_save_waiting(&b->blocks, state);
	if (!rc && buf_len(&b->exit))
		rc = buf_append(state, buf_ptr(&b->exit), buf_len(&b->exit));
	if (!rc)
		rc = trunc_save(b->trunc, state);
	return rc ? err_set(e, rc, "the state of a recording does not fit into its buffer") : 0;
}

int builder_settle(struct builder *b, struct err *e)
{
	int rc;

	if (b->failed || b->sealed)
		return err_set(e, ERR_BAD_STATE, "the recording is %s", b->sealed ? "sealed" : "not writable any more");
	if (blocks_closed(&b->blocks))
		return 0;
	rc = trunc_flush(b->trunc, e);
	if (!rc)
		rc = blocks_end(&b->blocks, e);
	b->failed = rc != 0;
	return rc;
}

int builder_missing(struct builder *b, unsigned stream, uint64_t until, uint64_t boot_ns, struct err *e)
{
	struct ring_record rec = {
	    .stream = (uint8_t)stream, .session = b->session, .seq = b->seq, .boot_ns = boot_ns, .offset = until};

	return trunc_expected(b->trunc, stream) < until ? put_missing(b, &rec, e) : 0;
}

int builder_copy(struct builder *b, const struct ring_record *rec, struct err *e)
{
	int rc = 0;

	if (rec->type == EVENT_GAP)
		return err_set(e, ERR_UNSUPPORTED, "what a rule left out of a recording cannot be copied");
	if (rec->type == EVENT_MISSING)
		return builder_missing(b, rec->stream, rec->offset + event_extent(rec), rec->boot_ns, e);
	if (rec->type >= EVENT_GAP || rec->seq < b->seq || rec->type == RING_OPEN)
		return 0;
	rc = builder_take(b, rec, e);
	/* The recording's rule has decided: all of it was kept. */
	if (!rc)
		rc = trunc_flush(b->trunc, e);
	if (!rc)
		b->seq = rec->seq;
	return rc;
}

uint64_t builder_lost(const struct builder *b, unsigned stream)
{
	struct trunc_totals t;

	trunc_totals(b->trunc, stream, &t);
	return t.missing;
}

int builder_publish(struct builder *b, struct err *e)
{
	char to[FILE_PATH_MAX], folder[FILE_PATH_MAX];
	int rc;

	b->beside = false;
	rc = open_path(b, to, e);
	if (!rc)
		rc = file_path(folder, e, "%s/open", b->dir);
	if (!rc)
		rc = blocks_rename(&b->blocks, to, e);
	return rc ? rc : file_sync_folder(folder, e);
}

int builder_read_back(struct builder *b, bool whole, struct err *e)
{
	return blocks_read_back(&b->blocks, whole, e);
}

void builder_part(const struct builder *b, struct part *out)
{
	const struct blocks *k = &b->blocks;
	struct part p = b->about;

	p.lsn = b->seq;
	p.size = k->pos;
	memcpy(p.hash, k->hash, sizeof p.hash);
	for (unsigned i = 0; i < STREAM_COUNT; i++)
		p.offsets[i] = trunc_expected(b->trunc, i);
	p.last_ns = k->last_ns ? k->last_ns : p.open_ns;
	p.last_wall_ns = k->last_ns ? k->anchor_wall + (int64_t)(k->last_ns - k->anchor_ns) : p.open_wall_ns;
	*out = p;
}

static int restore(struct builder *b, const uint8_t *p, size_t n, struct err *e)
{
	size_t fixed = STATE_FRONT + BLOCKS_STATE_SIZE, waiting;
	struct format_header h;
	struct buf header;
	char path[FILE_PATH_MAX];
	size_t exit_len;
	int rc = open_path(b, path, e);

	if (rc)
		return rc;
	waiting = n < fixed ? 0 : blocks_waiting(p + STATE_FRONT);
	if (n < fixed || get_u32(p) != STATE_MAGIC || waiting > n - fixed || get_u32(p + 16) > n - fixed - waiting)
		return err_set(e, ERR_CORRUPT, "the saved state of %s is damaged", path);
	fixed += waiting;
	exit_len = get_u32(p + 16);
	buf_init(&header, FORMAT_HEADER_MAX);
	rc = blocks_reopen(&b->blocks, path, p + STATE_FRONT, &h, &header, e);
	if (!rc && !id_equal(&h.session, &b->session))
		rc = err_set(e, ERR_CORRUPT, "%s holds another session than its name says", path);
	if (!rc) {
		memcpy(b->salt, h.salt, sizeof b->salt);
		b->wall_ns = h.wall_ns;
		b->ended = get_u32(p + 4) != 0;
		b->seq = get_u64(p + 8);
		struct ring_record open = {
		    .seq = h.open_seq, .boot_ns = h.open_ns, .payload = h.open, .len = (uint32_t)h.open_len};
		json_t *o = open_json(&open);
		builder_describe(b, &h.rule, &open, o);
		json_decref(o);
		rc = trunc_create(&h.rule, emit, b, &b->trunc);
	}
	buf_finish(&header);
	if (!rc && waiting)
		rc = blocks_load_waiting(&b->blocks, p + fixed - waiting, waiting, e);
	if (!rc && exit_len)
		rc = buf_append(&b->exit, p + fixed, exit_len);
	return rc ? rc : trunc_restore(b->trunc, p + fixed + exit_len, n - fixed - exit_len, e);
}

int builder_reopen(const struct builder_options *o, const struct id *session, const uint8_t *state, size_t n,
		   struct builder **out, struct err *e)
{
	struct builder *b = NULL;
	int rc = builder_prepare(o, session, &b, e);

	if (!rc)
		rc = restore(b, state, n, e);
	if (rc) {
		builder_destroy(b);
		return rc;
	}
	*out = b;
	return 0;
}

uint64_t builder_seq(const struct builder *b)
{
	return b->seq;
}
bool builder_ended(const struct builder *b)
{
	return b->ended;
}
bool builder_full(const struct builder *b)
{
	return b->full;
}
const struct id *builder_session(const struct builder *b)
{
	return &b->session;
}
uint64_t builder_offset(const struct builder *b, unsigned stream)
{
	return trunc_expected(b->trunc, stream);
}

int builder_digest(const struct builder *b, unsigned stream, uint8_t out[32])
{
	struct trunc_totals t;

	trunc_totals(b->trunc, stream, &t);
	if (t.missing)
		return ERR_EOF;
	trunc_digest(b->trunc, stream, out);
	return 0;
}

static int write_index(struct builder *b, struct err *e)
{
	struct blocks *k = &b->blocks;
	struct format_index x = {.entries = buf_ptr(&k->entries),
				 .n = k->count,
				 .events = k->events,
				 .last_seq = b->seq,
				 .last_ns = k->last_ns,
				 .exit = b->ended ? buf_ptr(&b->exit) : NULL,
				 .exit_len = buf_len(&b->exit)};
	struct block_header h = {.type = BLOCK_INDEX, .flags = BLOCK_CRITICAL};
	struct buf raw;
	int rc;

	for (unsigned i = 0; i < STREAM_COUNT; i++)
		trunc_totals(b->trunc, i, &x.streams[i]);
	buf_init(&raw, BLOCK_INDEX_MAX);
	rc = format_index_encode(&x, &raw);
	if (rc)
		err_set(e, rc, "the index of %s does not fit", k->path);
	else
		rc = blocks_write(k, &h, buf_ptr(&raw), buf_len(&raw), e);
	buf_finish(&raw);
	return rc;
}

static int write_footer(struct builder *b, const struct signer *s, const struct chain_head *head, uint64_t index_pos,
			uint8_t out[FORMAT_FOOTER], struct err *e)
{
	struct blocks *k = &b->blocks;
	struct format_footer f = {.blocks = k->count,
				  .file_size = k->pos + FORMAT_FOOTER,
				  .index_pos = index_pos,
				  .index_size = k->pos - index_pos,
				  .log_id = head->log_id,
				  .chain_seq = head->seq,
				  .sealed_wall_ns = clock_wall_ns(),
				  .session = b->session};
	int rc;

	memcpy(f.final_hash, k->hash, DIGEST_LEN);
	memcpy(f.chain_hash, head->hash, CHAIN_HASH);
	memcpy(f.kid, signer_public(s)->kid, sizeof f.kid);
	format_footer_encode(&f, out);
	rc = signer_sign(s, FORMAT_PURPOSE, out, FORMAT_SIGNED, out + FORMAT_SIGNED, e);
	return rc ? rc : blocks_put(k, out, FORMAT_FOOTER, e);
}

static int make_sealed(const struct builder *b, const char *folder, struct err *e)
{
	char above[FILE_PATH_MAX];
	int rc = file_path(above, e, "%s/sealed", b->dir);

	if (!rc)
		rc = file_make_folder(above, e);
	return rc ? rc : file_make_folder(folder, e);
}

static int rename_to(struct builder *b, const char *file, struct err *e)
{
	int rc;

	if (renameat2(AT_FDCWD, b->blocks.path, AT_FDCWD, file, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s is sealed already", file)
				       : err_sys(e, errno, "cannot move %s to %s", b->blocks.path, file);
	/* A file system without it: one recorder holds the folder, so nobody comes between. */
	rc = check_not_sealed(b, e);
	if (!rc && rename(b->blocks.path, file) != 0)
		rc = err_sys(e, errno, "cannot move %s to %s", b->blocks.path, file);
	return rc;
}

int builder_close(struct builder *b, const struct signer *s, const struct chain_head *head, struct chain_seal *out,
		  struct err *e)
{
	struct chain_seal seal = {.session = b->session};
	uint8_t footer[FORMAT_FOOTER];
	uint64_t index_pos;
	int rc;

	if (b->failed || b->sealed)
		return err_set(e, ERR_BAD_STATE, "the recording is %s", b->sealed ? "sealed" : "not writable any more");
	b->failed = true; /* until all of it is done: half a seal is begun anew */
	rc = day_of(b->wall_ns, seal.day);
	if (rc)
		return err_set(e, rc, "the OPEN record has an impossible wall time");
	rc = trunc_flush(b->trunc, e);
	if (!rc)
		rc = blocks_end(&b->blocks, e);
	index_pos = b->blocks.pos;
	if (!rc)
		rc = write_index(b, e);
	if (!rc)
		rc = write_footer(b, s, head, index_pos, footer, e);
	if (rc)
		return rc;
	seal.journal_seq = b->seq;
	seal.size = b->blocks.pos + FORMAT_FOOTER;
	format_leaf(b->salt, footer, seal.leaf);
	*out = seal;
	return 0;
}

int builder_sync(struct builder *b, struct err *e)
{
	return blocks_sync(&b->blocks, e);
}

int builder_move(struct builder *b, struct err *e)
{
	char folder[FILE_PATH_MAX], file[FILE_PATH_MAX], day[11];
	int rc = sealed_path(b, folder, file, day, e);

	if (!rc && access(folder, F_OK) != 0)
		rc = make_sealed(b, folder, e);
	if (!rc)
		rc = rename_to(b, file, e);
	b->sealed = rc == 0;
	return rc;
}

int builder_moved(const char *dir, const char *day, struct err *e)
{
	char folder[FILE_PATH_MAX];
	int rc = day ? file_path(folder, e, "%s/sealed/%s", dir, day) : file_path(folder, e, "%s/open", dir);

	return rc ? rc : file_sync_folder(folder, e);
}

int builder_seal(struct builder *b, const struct signer *s, const struct chain_head *head, struct chain_seal *out,
		 struct err *e)
{
	struct chain_seal seal;
	int rc = builder_close(b, s, head, &seal, e);

	if (!rc)
		rc = builder_sync(b, e);
	if (!rc)
		rc = builder_move(b, e);
	if (!rc)
		rc = builder_moved(b->dir, seal.day, e);
	if (!rc)
		rc = builder_moved(b->dir, NULL, e);
	if (!rc)
		*out = seal;
	return rc;
}

void builder_destroy(struct builder *b)
{
	if (!b)
		return;
	trunc_destroy(b->trunc);
	blocks_finish(&b->blocks);
	buf_finish(&b->exit);
	free(b->dir);
	free(b);
}

void builder_abort(struct builder *b)
{
	if (b && !b->sealed && b->blocks.path)
		(void)unlink(b->blocks.path); /* what stays is begun anew by the next builder_create() */
	builder_destroy(b);
}
