/* The log of heads read in order, file by file, and found again behind damage. */
#include "recorder/chain/chain_format.h"

#include "base/bytes.h"
#include "base/err.h"
#include "recorder/chain/digest.h"
#include "recorder/chain/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW      (CHAIN_ENTRY_HEADER + CHAIN_PAYLOAD_MAX + CHAIN_HASH)
#define ENTRY_LEAST (CHAIN_ENTRY_HEADER + CHAIN_HASH)

struct chain_reader {
	char *dir;
	unsigned *files;
	size_t nfiles, next; /* next: index of the file to be opened next */
	struct id log_id;
	bool log_id_known;
	uint64_t from_seq;
	/* the open file */
	int fd;
	char path[FILE_PATH_MAX];
	unsigned number;
	uint64_t size, pos;
	/* where the chain stands */
	uint8_t hash[CHAIN_HASH];
	bool hash_known; /* false behind damage, until an entry was taken at its word */
	/* Behind a changed entry: what its hash should have been, in case the hash was what changed. */
	uint8_t other[CHAIN_HASH];
	bool other_known;
	bool torn;    /* the damage that was told last is a torn tail */
	uint64_t seq; /* of the last entry */
	/* buffered window of the file */
	uint8_t *buf;
	uint64_t buf_pos;
	size_t buf_len;
};

void chain_reader_destroy(struct chain_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	free(r->buf);
	free(r->files);
	free(r->dir);
	free(r);
}

const struct id *chain_reader_log_id(const struct chain_reader *r)
{
	return &r->log_id;
}

/* n bytes at pos, by way of the window; NULL when the file ends before or cannot be read. */
static const uint8_t *view(struct chain_reader *r, uint64_t pos, size_t n)
{
	size_t want = 2 * WINDOW;

	if (pos > r->size || n > r->size - pos)
		return NULL;
	if (pos >= r->buf_pos && pos - r->buf_pos <= r->buf_len && n <= r->buf_len - (size_t)(pos - r->buf_pos))
		return r->buf + (pos - r->buf_pos);
	if (want > r->size - pos)
		want = (size_t)(r->size - pos);
	r->buf_len = 0;
	if (file_read_at(r->fd, r->buf, want, pos, r->path, NULL))
		return NULL;
	r->buf_pos = pos;
	r->buf_len = want;
	return r->buf;
}

static int fault(struct chain_reader *r, uint64_t from, uint64_t to, const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: bytes %llu to %llu: %s", r->path, (unsigned long long)from,
		       (unsigned long long)to, what);
}

bool chain_reader_torn(const struct chain_reader *r)
{
	return r->torn;
}

/* Compare a file's header with where the chain stands; take it at its word where that is not known. */
static int take_file_header(struct chain_reader *r, unsigned expected, struct err *e)
{
	struct chain_file_header h;
	const uint8_t *p = view(r, 0, CHAIN_FILE_HEADER);
	uint8_t genesis[CHAIN_HASH];
	int rc = p ? chain_file_decode(p, &h) : ERR_CORRUPT;

	r->pos = CHAIN_FILE_HEADER;
	if (rc == ERR_VERSION)
		return err_set(e, rc, "%s is of a version that this program does not read", r->path);
	if (rc || h.number != r->number) {
		r->hash_known = r->hash_known && r->number == expected;
		return fault(r, 0, CHAIN_FILE_HEADER, "the file's header was changed", e);
	}
	if (r->log_id_known && !id_equal(&h.log_id, &r->log_id))
		return fault(r, 0, CHAIN_FILE_HEADER, "the file belongs to another log", e);
	r->log_id = h.log_id;
	r->log_id_known = true;
	chain_genesis(&h.log_id, genesis);
	if (r->number != expected) {
		uint64_t lost = h.first_seq - r->seq - 1;
		memcpy(r->hash, h.prev, CHAIN_HASH);
		r->hash_known = true;
		r->seq = h.first_seq - 1;
		return err_set(e, ERR_CORRUPT, "%llu entries are missing in front of %s: a file of the log is gone",
			       (unsigned long long)lost, r->path);
	}
	if (r->number == 1) {
		memcpy(r->hash, genesis, CHAIN_HASH);
		r->hash_known = true;
		if (memcmp(h.prev, genesis, CHAIN_HASH) != 0 || h.first_seq != 1)
			return fault(r, 0, CHAIN_FILE_HEADER, "the log does not begin with its id", e);
		return 0;
	}
	if (r->hash_known && (memcmp(h.prev, r->hash, CHAIN_HASH) != 0 || h.first_seq != r->seq + 1))
		return fault(r, 0, CHAIN_FILE_HEADER, "the file does not follow the one before it", e);
	memcpy(r->hash, h.prev, CHAIN_HASH);
	r->hash_known = true;
	r->seq = h.first_seq - 1;
	return 0;
}

static int open_next(struct chain_reader *r, struct err *e)
{
	unsigned expected = r->number + 1;
	struct err why = {0};
	int rc;

	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	r->number = r->files[r->next++];
	r->buf_len = 0;
	rc = chain_file_name(r->dir, r->number, "mchain", r->path, sizeof r->path);
	if (rc)
		return err_set(e, rc, "the path of the log is too long");
	rc = file_open_found(r->path, &r->fd, &r->size, &why);
	if (rc == ERR_NOT_A_FILE ||
	    rc == ERR_NOT_FOUND) { /* of a log of several files the others are still to be read */
		r->hash_known = false;
		return err_set(e, ERR_CORRUPT, "%s", why.message);
	}
	if (rc)
		return err_set(e, rc, "%s", why.message);
	uint64_t size = r->size;
	if (size > CHAIN_FILE_MAX)
		r->size = CHAIN_FILE_MAX;
	rc = take_file_header(r, expected, e);
	if (rc || size <= CHAIN_FILE_MAX)
		return rc;
	r->hash_known = false;
	return fault(r, CHAIN_FILE_MAX, size, "a file of the log is never so large", e);
}

/* Where the next entry header stands behind pos, or the end of the file. */
static uint64_t resync(struct chain_reader *r, uint64_t pos)
{
	struct chain_entry_header h;

	for (; r->size - pos >= ENTRY_LEAST; pos++) {
		const uint8_t *p = view(r, pos, CHAIN_ENTRY_HEADER);
		if (!p)
			break;
		if (p[0] == 'M' && chain_entry_decode(p, &h) == 0 && h.seq > r->seq &&
		    h.len + (uint64_t)ENTRY_LEAST <= r->size - pos)
			return pos;
	}
	return r->size;
}

static void chain_reader_fill(struct chain_reader *r, const struct chain_entry_header *h, const uint8_t *p,
			      struct chain_entry *out)
{
	memset(out, 0, sizeof *out);
	out->seq = h->seq;
	out->journal_seq = h->journal_seq;
	out->wall_ns = h->wall_ns;
	out->type = h->type;
	out->session = h->session;
	out->payload = p + CHAIN_ENTRY_HEADER;
	out->len = h->len;
	memcpy(out->prev, r->hash, CHAIN_HASH);
	memcpy(out->hash, p + CHAIN_ENTRY_HEADER + h->len, CHAIN_HASH);
	out->file = r->number;
	out->pos = r->pos;
}

static bool try_other(struct chain_reader *r, const uint8_t *p, const struct chain_entry_header *h,
		      struct chain_entry *out)
{
	uint8_t hash[CHAIN_HASH];

	if (!r->other_known)
		return false;
	digest_link(r->other, p, CHAIN_ENTRY_HEADER, p + CHAIN_ENTRY_HEADER, h->len, hash);
	if (memcmp(hash, out->hash, CHAIN_HASH) != 0)
		return false;
	memcpy(out->prev, r->other, CHAIN_HASH);
	return true;
}

static int read_entry(struct chain_reader *r, struct chain_entry *out, struct err *e)
{
	struct chain_entry_header h;
	const uint8_t *p = view(r, r->pos, CHAIN_ENTRY_HEADER);
	uint8_t hash[CHAIN_HASH];
	uint64_t start = r->pos, size;
	bool whole;

	if (!p || chain_entry_decode(p, &h) || h.len + (uint64_t)ENTRY_LEAST > r->size - r->pos) {
		/* The file ends within an entry: what a crash leaves, and what a reader sees of a write at work. */
		bool ends = r->size - start < CHAIN_ENTRY_HEADER || (p && chain_entry_decode(p, &h) == 0);

		r->pos = resync(r, r->pos + 1);
		r->hash_known = false;
		r->torn = ends && r->pos == r->size && r->next == r->nfiles;
		return fault(r, start, r->pos, r->torn ? "the log ends within an entry" : "no entry can be read here",
			     e);
	}
	if (h.seq != r->seq + 1 && r->hash_known) {
		uint64_t before = r->seq;
		r->hash_known = false;
		r->seq = h.seq - 1;
		return err_set(e, ERR_CORRUPT,
			       "%s: byte %llu: entry %llu follows entry %llu: entries are missing or moved", r->path,
			       (unsigned long long)start, (unsigned long long)h.seq, (unsigned long long)before);
	}
	size = (uint64_t)ENTRY_LEAST + h.len;
	p = view(r, start, (size_t)size);
	if (!p)
		return err_set(e, ERR_SYS, "cannot read %s", r->path);
	if (h.critical && !chain_type_known(h.type))
		return err_set(e, ERR_VERSION, "%s: byte %llu: an entry of type %u, which this program must know",
			       r->path, (unsigned long long)start, h.type);
	chain_reader_fill(r, &h, p, out);
	digest_link(r->hash, p, CHAIN_ENTRY_HEADER, p + CHAIN_ENTRY_HEADER, h.len, hash);
	whole = !r->hash_known || memcmp(hash, out->hash, CHAIN_HASH) == 0 || try_other(r, p, &h, out);
	r->pos = start + size;
	r->seq = h.seq;
	memcpy(r->hash, out->hash, CHAIN_HASH);
	r->other_known = !whole;
	memcpy(r->other, hash, CHAIN_HASH);
	if (!whole)
		return err_set(e, ERR_CORRUPT, "%s: bytes %llu to %llu: entry %llu was changed", r->path,
			       (unsigned long long)start, (unsigned long long)r->pos, (unsigned long long)h.seq);
	r->hash_known = true;
	return 1;
}

int chain_reader_next(struct chain_reader *r, struct chain_entry *out, struct err *e)
{
	struct chain_entry en = {.seq = 0};
	int rc;

	r->torn = false;
	do {
		while (r->fd < 0 || r->pos >= r->size) {
			if (r->next >= r->nfiles)
				return 0;
			rc = open_next(r, e);
			if (rc)
				return rc;
		}
		rc = read_entry(r, &en, e);
		if (rc < 0)
			return rc;
	} while (en.seq < r->from_seq);
	*out = en;
	return 1;
}

int chain_reader_refresh(struct chain_reader *r, struct err *e)
{
	unsigned *files = NULL;
	size_t n = 0;
	int rc = chain_file_list(r->dir, &files, &n, e);

	if (!rc && r->fd >= 0)
		rc = file_size(r->fd, r->path, &r->size, e);
	if (rc) {
		free(files);
		return rc;
	}
	free(r->files);
	r->files = files;
	r->nfiles = n;
	r->buf_len = 0;
	for (r->next = 0; r->next < n && files[r->next] <= r->number;)
		r->next++;
	return 0;
}

/* Skip whole files that end before from_seq: the header of the next one says so. */
static int skip_files(struct chain_reader *r, struct err *e)
{
	while (r->next + 1 < r->nfiles) {
		uint8_t p[CHAIN_FILE_HEADER];
		char path[FILE_PATH_MAX];
		struct chain_file_header h;
		uint64_t size;
		int fd, rc = chain_file_name(r->dir, r->files[r->next + 1], "mchain", path, sizeof path);

		if (rc)
			return err_set(e, rc, "the path of the log is too long");
		if (file_open_found(path, &fd, &size, NULL))
			return 0; /* whoever reads on hears of it */
		rc = file_read_at(fd, p, sizeof p, 0, path, NULL);
		close(fd);
		if (rc || chain_file_decode(p, &h) || h.first_seq > r->from_seq)
			return 0;
		r->next++;
		r->number = r->files[r->next] - 1;
		r->hash_known = false;
	}
	return 0;
}

int chain_reader_create_last(const char *dir, unsigned nth, struct chain_reader **out, struct err *e)
{
	struct chain_reader *r = NULL;
	int rc = chain_reader_create(dir, 0, &r, e);

	if (rc)
		return rc;
	r->next = nth < r->nfiles ? r->nfiles - nth : 0;
	r->number = r->files[r->next] - 1;
	*out = r;
	return 0;
}

uint64_t chain_reader_pos(const struct chain_reader *r, unsigned *out_file)
{
	*out_file = r->number;
	return r->pos;
}

int chain_reader_create(const char *dir, uint64_t from_seq, struct chain_reader **out, struct err *e)
{
	struct chain_reader *r = calloc(1, sizeof *r);
	int rc;

	if (!r) {
		err_set(e, ERR_NOMEM, "no memory to read the log");
		return ERR_NOMEM;
	}
	r->fd = -1;
	r->from_seq = from_seq;
	r->dir = strdup(dir);
	r->buf = malloc(2 * WINDOW);
	rc = r->dir && r->buf ? chain_file_list(dir, &r->files, &r->nfiles, e) : ERR_NOMEM;
	if (rc == ERR_NOMEM)
		err_set(e, rc, "no memory to read the log");
	if (!rc && !r->nfiles) {
		err_set(e, ERR_NOT_FOUND, "there is no log in %s/chain", dir);
		rc = ERR_NOT_FOUND;
	}
	if (!rc && from_seq > 1)
		rc = skip_files(r, e);
	if (rc) {
		chain_reader_destroy(r);
		return rc;
	}
	*out = r;
	return 0;
}

int chain_entry_head(const struct chain_reader *r, const struct chain_entry *en, struct chain_head *out)
{
	struct chain_head h;

	if (en->type != CHAIN_HEAD || en->len != CHAIN_HEAD_PAYLOAD || en->seq == 0)
		return ERR_CORRUPT;
	memset(&h, 0, sizeof h);
	h.log_id = *chain_reader_log_id(r);
	h.seq = en->seq - 1;
	memcpy(h.hash, en->prev, CHAIN_HASH);
	h.wall_ns = (int64_t)get_u64(en->payload);
	memcpy(h.kid, en->payload + 8, 16);
	memcpy(h.signature, en->payload + 24, 64);
	*out = h;
	return 0;
}
