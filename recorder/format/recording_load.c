#include "recorder/format/recording_load.h"

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "recorder/chain/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
