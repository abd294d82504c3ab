#include "recorder/write/blocks.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "recorder/chain/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* 2: a block in the making stands behind the state. One without is written as 1. */
#define STATE_VERSION 1
#define STATE_WAITING 2
#define WAITING_LEN   120 /* its place in the state */
#define CONTEXT_SIZE  (8 * (2 + STREAM_COUNT))
/* Later blocks are larger: the index of a very long recording stays below its limit. */
#define GROW_AFTER  65536
#define GROW_TARGET (2 * 1024 * 1024)
#define RAW_LEAST   1024
/* A checkpoint ends whatever it finds, as long as there are few blocks; then a block is to be worth its line. */
#define SMALL_AFTER 1024
#define SMALL       (4 * 1024)
#define SMALL_LATER (64 * 1024)

void blocks_init(struct blocks *b, int codec, struct open_files *files)
{
	memset(b, 0, sizeof *b);
	b->files = files;
	open_file_init(&b->file);
	b->codec = codec;
	b->most = BLOCK_COUNT_MAX;
	buf_init(&b->entries, (size_t)BLOCK_COUNT_MAX * FORMAT_ENTRY);
}

/* Most sessions are idle most of the time; thousands of them must not each hold buffers for a flood. */
void blocks_rest(struct blocks *b)
{
	uint8_t *less = b->raw_len ? realloc(b->raw, b->raw_len) : NULL;

	if (!b->raw_len)
		free(b->raw);
	if (!b->raw_len || less) {
		b->raw = less;
		b->raw_cap = b->raw_len;
	}
	block_coder_destroy(b->coder);
	b->coder = NULL;
}

void blocks_finish(struct blocks *b)
{
	open_file_close(b->files, &b->file);
	buf_finish(&b->entries);
	block_coder_destroy(b->coder);
	b->coder = NULL;
	free(b->raw);
	b->raw = NULL;
	free(b->path);
	b->path = NULL;
}

static int blocks_set_path(struct blocks *b, const char *path, struct err *e)
{
	char *own = strdup(path);

	if (!own)
		return err_set(e, ERR_NOMEM, "no memory for the path %s", path);
	free(b->path);
	b->path = own;
	return 0;
}

int blocks_rename(struct blocks *b, const char *to, struct err *e)
{
	char *own = strdup(to);

	if (!own)
		return err_set(e, ERR_NOMEM, "no memory for the path %s", to);
	if (rename(b->path, to) != 0) {
		int rc = err_sys(e, errno, "cannot move %s to %s", b->path, to);

		free(own);
		return rc;
	}
	free(b->path);
	b->path = own;
	return 0;
}

static int blocks_open_file(struct blocks *b, const char *path, int flags, struct err *e)
{
	int rc = blocks_set_path(b, path, e);

	if (rc)
		return rc;
	return open_file_use(b->files, &b->file, b->path, flags, e);
}

static int write_pieces(struct blocks *b, struct iovec *pieces, int n, uint64_t pos, struct err *e)
{
	int rc = open_file_use(b->files, &b->file, b->path, 0, e);

	b->file.unsynced = true;
	return rc ? rc : file_write_pieces_at(b->file.fd, pieces, n, pos, b->path, e);
}

static int write_at(struct blocks *b, const void *p, size_t n, uint64_t pos, struct err *e)
{
	struct iovec all = {(void *)(uintptr_t)p, n};

	return write_pieces(b, &all, 1, pos, e);
}

int blocks_put(struct blocks *b, const void *p, size_t n, struct err *e)
{
	return write_at(b, p, n, b->pos, e);
}

int blocks_sync(struct blocks *b, struct err *e)
{
	return open_file_sync(b->files, &b->file, e);
}

int blocks_read_back(struct blocks *b, bool whole, struct err *e)
{
	if (whole)
		b->seen = (struct readback){.pos = 0};
	return readback_to(&b->seen, b->path, b->file.fd, b->pos, b->hash, e);
}

int blocks_create(struct blocks *b, const char *path, const struct format_header *h, struct err *e)
{
	struct buf header;
	int rc = blocks_open_file(b, path, O_CREAT | O_TRUNC, e);

	if (rc)
		return rc;
	buf_init(&header, FORMAT_HEADER_MAX);
	rc = format_header_encode(h, &header, b->hash);
	if (rc)
		err_set(e, rc, "the header of the recording %s does not fit", path);
	else
		rc = write_at(b, buf_ptr(&header), buf_len(&header), 0, e);
	if (!rc) {
		b->pos = buf_len(&header);
		b->anchor_ns = h->open_ns;
		b->anchor_wall = h->wall_ns;
	}
	buf_finish(&header);
	return rc;
}

static size_t target(const struct blocks *b)
{
	return b->count < GROW_AFTER ? BLOCK_TARGET : GROW_TARGET;
}

static int reserve(struct blocks *b, size_t need, struct err *e)
{
	uint8_t *grown;

	if (need <= b->raw_cap)
		return 0;
	if (need < b->raw_cap + b->raw_cap / 2)
		need = b->raw_cap + b->raw_cap / 2;
	if (need < RAW_LEAST)
		need = RAW_LEAST;
	grown = realloc(b->raw, need);
	if (!grown)
		return err_set(e, ERR_NOMEM, "no memory for a block of %zu bytes", need);
	b->raw = grown;
	b->raw_cap = need;
	return 0;
}

static void begin_block(struct blocks *b, const struct ring_record *rec)
{
	memset(&b->head, 0, sizeof b->head);
	memset(&b->context, 0, sizeof b->context);
	b->head.type = BLOCK_EVENTS;
	b->head.flags = BLOCK_CRITICAL;
	b->head.first_ns = rec->boot_ns;
	b->head.first_seq = rec->seq;
	b->head.cols = b->cols;
	b->head.rows = b->rows;
	b->head.wall_ns = b->anchor_wall + (int64_t)(rec->boot_ns - b->anchor_ns);
	memcpy(b->head.offset, b->offset, sizeof b->offset);
}

/* A clock record that is no JSON is kept like any other; it only anchors nothing. */
static void take_anchor(struct blocks *b, const struct ring_record *rec)
{
	json_t *o = NULL;
	int64_t wall = 0;

	if (json_parse(rec->payload, rec->len, 4096, &o, NULL))
		return;
	if (json_need_int(o, "wall_ns", 0, INT64_MAX, &wall, NULL) == 0) {
		b->anchor_ns = rec->boot_ns;
		b->anchor_wall = wall;
	}
	json_decref(o);
}

static void note_event(struct blocks *b, const struct ring_record *rec)
{
	b->head.events++;
	b->head.last_ns = rec->boot_ns;
	b->head.last_seq = rec->seq;
	b->events++;
	b->last_ns = rec->boot_ns;
	b->last_seq = rec->seq;
	if (rec->type == RING_DATA || rec->type == EVENT_GAP || rec->type == EVENT_MISSING)
		b->offset[rec->stream] = rec->offset + event_extent(rec);
	if (rec->type == RING_RESIZE && rec->len >= 4) {
		b->cols = get_u16(rec->payload);
		b->rows = get_u16(rec->payload + 2);
	}
	if (rec->type == RING_CLOCK)
		take_anchor(b, rec);
}

int blocks_add(struct blocks *b, const struct ring_record *rec, struct err *e)
{
	int rc = reserve(b, b->raw_len + EVENT_HEADER_MAX + rec->len, e);

	if (rc)
		return rc;
	if (!b->raw_len)
		begin_block(b, rec);
	b->raw_len += event_encode(&b->context, rec, b->raw + b->raw_len);
	if (rec->len)
		memcpy(b->raw + b->raw_len, rec->payload, rec->len);
	b->raw_len += rec->len;
	note_event(b, rec);
	return b->raw_len >= target(b) ? blocks_end(b, e) : 0;
}

int blocks_end(struct blocks *b, struct err *e)
{
	int rc;

	if (!b->raw_len)
		return 0;
	rc = blocks_write(b, &b->head, b->raw, b->raw_len, e);
	if (!rc)
		b->raw_len = 0;
	return rc;
}

int blocks_settle(struct blocks *b, struct err *e)
{
	size_t small = b->count < SMALL_AFTER ? 0 : b->count < GROW_AFTER ? SMALL : SMALL_LATER;

	return b->raw_len < small ? 0 : blocks_end(b, e);
}

bool blocks_full(const struct blocks *b)
{
	return b->count >= b->most - b->most / 8;
}

bool blocks_closed(const struct blocks *b)
{
	return b->count + 4 >= b->most;
}

static int add_entry(struct blocks *b, const struct format_entry *en, struct err *e)
{
	uint8_t line[FORMAT_ENTRY];

	format_entry_encode(en, line);
	if (buf_append(&b->entries, line, sizeof line))
		return err_set(e, ERR_TOO_LARGE, "the recording %s has more blocks than an index can hold", b->path);
	b->count++;
	return 0;
}

int blocks_write(struct blocks *b, struct block_header *h, const void *raw, size_t n, struct err *e)
{
	struct format_entry en = {.pos = b->pos};
	uint8_t head[BLOCK_HEADER];
	const uint8_t *stored = NULL;
	int rc;

	h->number = b->count;
	if (!b->coder && block_coder_create(&b->coder))
		return err_set(e, ERR_NOMEM, "no memory to pack a block");
	rc = block_compress(b->coder, b->codec, raw, n, h, &stored, e);
	if (rc)
		return rc;
	block_header_encode(h, head);
	digest_link(b->hash, head, sizeof head, stored, h->stored_len, en.hash);
	rc = write_pieces(
	    b, (struct iovec[]){{head, sizeof head}, {(void *)(uintptr_t)stored, h->stored_len}, {en.hash, DIGEST_LEN}},
	    3, b->pos, e);
	en.header = *h;
	if (!rc && h->type != BLOCK_INDEX)
		rc = add_entry(b, &en, e);
	if (rc)
		return rc;
	memcpy(b->hash, en.hash, DIGEST_LEN);
	b->pos += block_size(h);
	return 0;
}

void blocks_save(const struct blocks *b, uint8_t out[BLOCKS_STATE_SIZE])
{
	memset(out, 0, BLOCKS_STATE_SIZE);
	put_u32(out, b->raw_len ? STATE_WAITING : STATE_VERSION);
	put_u32(out + 4, b->count);
	put_u64(out + 8, b->pos);
	memcpy(out + 16, b->hash, DIGEST_LEN);
	for (int i = 0; i < STREAM_COUNT; i++)
		put_u64(out + 48 + 8 * i, b->offset[i]);
	put_u16(out + 72, b->cols);
	put_u16(out + 74, b->rows);
	put_u64(out + 80, b->anchor_ns);
	put_u64(out + 88, (uint64_t)b->anchor_wall);
	put_u64(out + 96, b->events);
	put_u64(out + 104, b->last_seq);
	put_u64(out + 112, b->last_ns);
	put_u32(out + WAITING_LEN, b->raw_len ? (uint32_t)(BLOCK_HEADER + CONTEXT_SIZE + b->raw_len) : 0);
}

size_t blocks_waiting(const uint8_t state[BLOCKS_STATE_SIZE])
{
	return get_u32(state) == STATE_WAITING ? get_u32(state + WAITING_LEN) : 0;
}

int blocks_save_waiting(const struct blocks *b, struct buf *out)
{
	uint8_t front[BLOCK_HEADER + CONTEXT_SIZE], *context = front + BLOCK_HEADER;

	if (!b->raw_len)
		return 0;
	block_header_encode(&b->head, front);
	put_u64(context, b->context.seq);
	put_u64(context + 8, b->context.boot_ns);
	for (int i = 0; i < STREAM_COUNT; i++)
		put_u64(context + 16 + 8 * i, b->context.offset[i]);
	if (buf_append(out, front, sizeof front))
		return ERR_TOO_LARGE;
	return buf_append(out, b->raw, b->raw_len);
}

int blocks_load_waiting(struct blocks *b, const uint8_t *p, size_t n, struct err *e)
{
	const uint8_t *context = p + BLOCK_HEADER;
	size_t raw = n - BLOCK_HEADER - CONTEXT_SIZE;
	int rc;

	if (n <= BLOCK_HEADER + CONTEXT_SIZE || n > BLOCKS_WAITING_MAX || block_header_decode(p, &b->head))
		return err_set(e, ERR_CORRUPT, "the saved block of %s is damaged", b->path);
	rc = reserve(b, raw, e);
	if (rc)
		return rc;
	memcpy(b->raw, context + CONTEXT_SIZE, raw);
	b->raw_len = raw;
	b->context.seq = get_u64(context);
	b->context.boot_ns = get_u64(context + 8);
	for (int i = 0; i < STREAM_COUNT; i++)
		b->context.offset[i] = get_u64(context + 16 + 8 * i);
	return 0;
}

static int load_state(struct blocks *b, const uint8_t *p, uint32_t *out_count, uint64_t *out_pos, struct err *e)
{
	if (get_u32(p) != STATE_VERSION && get_u32(p) != STATE_WAITING)
		return err_set(e, ERR_VERSION, "the saved state of %s is not one of this version", b->path);
	*out_count = get_u32(p + 4);
	*out_pos = get_u64(p + 8);
	memcpy(b->hash, p + 16, DIGEST_LEN);
	for (int i = 0; i < STREAM_COUNT; i++)
		b->offset[i] = get_u64(p + 48 + 8 * i);
	b->cols = get_u16(p + 72);
	b->rows = get_u16(p + 74);
	b->anchor_ns = get_u64(p + 80);
	b->anchor_wall = (int64_t)get_u64(p + 88);
	b->events = get_u64(p + 96);
	b->last_seq = get_u64(p + 104);
	b->last_ns = get_u64(p + 112);
	return 0;
}

static int read_header(struct blocks *b, struct format_header *out, struct buf *bytes, struct err *e)
{
	uint8_t front[FORMAT_HEADER_MIN], *p = NULL;
	size_t n = 0;
	int rc = file_read_at(b->file.fd, front, sizeof front, 0, b->path, e);

	if (!rc)
		rc = format_header_size(front, &n, e);
	if (!rc)
		rc = buf_reserve(bytes, n, &p);
	if (!rc)
		rc = file_read_at(b->file.fd, p, n, 0, b->path, e);
	if (!rc) {
		buf_commit(bytes, n);
		rc = format_header_decode(p, n, out, e);
	}
	if (!rc)
		b->pos = n;
	return rc;
}

static int read_entries(struct blocks *b, uint32_t count, uint64_t end, uint8_t hash[DIGEST_LEN], struct err *e)
{
	struct format_entry en;
	uint8_t head[BLOCK_HEADER];
	int rc = 0;

	while (!rc && b->count < count) {
		en.pos = b->pos;
		rc = file_read_at(b->file.fd, head, sizeof head, b->pos, b->path, e);
		if (rc || block_header_decode(head, &en.header) || block_size(&en.header) > end - b->pos)
			return ERR_CORRUPT;
		b->pos += block_size(&en.header);
		rc = file_read_at(b->file.fd, en.hash, DIGEST_LEN, b->pos - DIGEST_LEN, b->path, e);
		if (!rc)
			rc = add_entry(b, &en, e);
		memcpy(hash, en.hash, DIGEST_LEN);
	}
	return rc;
}

int blocks_reopen(struct blocks *b, const char *path, const uint8_t state[BLOCKS_STATE_SIZE],
		  struct format_header *out_header, struct buf *header_bytes, struct err *e)
{
	uint8_t hash[DIGEST_LEN];
	uint32_t count = 0;
	uint64_t end = 0, size = 0;
	int rc = blocks_open_file(b, path, 0, e);

	if (!rc)
		rc = load_state(b, state, &count, &end, e);
	if (!rc)
		rc = file_size(b->file.fd, path, &size, e);
	if (!rc)
		rc = read_header(b, out_header, header_bytes, e);
	if (rc)
		return rc;
	if (size < end || b->pos > end)
		return err_set(e, ERR_CORRUPT, "%s is shorter than its checkpoint", path);
	memcpy(hash, b->hash, sizeof hash);
	rc = read_entries(b, count, end, hash, e);
	if (rc || b->pos != end || (count && memcmp(hash, b->hash, sizeof hash) != 0))
		return err_set(e, ERR_CORRUPT, "%s does not fit its checkpoint", path);
	if (ftruncate(b->file.fd, (off_t)end) != 0)
		return err_sys(e, errno, "cannot cut %s to its checkpoint", path);
	return 0;
}
