#include "control/local/snapshot.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "control/local/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define META_MAX     4096
#define META_VERSION 1
#define NAME_SIZE    64
#define ID_LEN       (ID_STR_LEN - 1)
#define PIECE        (256 * 1024) /* between looks at whether to stop */

static const char *const suffixes[] = {".img", ".tar.zst"};

static void snapshot_name_of(const struct id *id, const char *suffix, char out[NAME_SIZE])
{
	char text[ID_STR_LEN];

	id_format(id, text);
	text_format(out, NAME_SIZE, "%s%s", text, suffix);
}

int snapshot_dir_open(int dir, bool create, int *out_fd, struct err *e)
{
	int fd;

	if (create && mkdirat(dir, SNAPSHOT_DIR, 0700) == 0)
		(void)fsync(dir);
	else if (create && errno != EEXIST)
		return err_sys(e, errno, "cannot make the directory of snapshots");
	fd = openat(dir, SNAPSHOT_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "there are no snapshots");
	if (fd < 0)
		return err_sys(e, errno, "cannot open the directory of snapshots");
	*out_fd = fd;
	return 0;
}

bool snapshot_dir_drop(int dir)
{
	int snaps, rc = snapshot_dir_open(dir, false, &snaps, NULL);

	if (rc)
		return rc == ERR_NOT_FOUND;
	(void)snapshot_clean(snaps);
	close(snaps);
	return unlinkat(dir, SNAPSHOT_DIR, AT_REMOVEDIR) == 0;
}

static int data_open(int snaps, const struct id *id, enum snapshot_kind *out, int *out_fd)
{
	for (size_t k = 0; k < sizeof(suffixes) / sizeof(suffixes[0]); k++) {
		char name[NAME_SIZE];
		int fd;

		snapshot_name_of(id, suffixes[k], name);
		fd = openat(snaps, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		*out = (enum snapshot_kind)k;
		*out_fd = fd;
		return 0;
	}
	return ERR_NOT_FOUND;
}

/* A description: of what it is, and, where it is not older than that, of what its data must be. */
struct meta {
	struct sandbox_snapshot s;
	struct archive_sum sum;
	char file[ARCHIVE_DIGEST_MAX]; /* SHA-256 of the data; "": an image, or made before this was written */
	int64_t stored;                /* bytes of data; -1: not known */
};

static void meta_proof(const json_t *o, struct meta *m)
{
	const json_t *stored = json_object_get(o, "stored"), *entries = json_object_get(o, "entries"),
		     *bytes = json_object_get(o, "bytes");
	const char *digest = json_string_value(json_object_get(o, "digest"));

	const char *file = json_string_value(json_object_get(o, "sha256"));

	m->stored = json_is_integer(stored) ? json_integer_value(stored) : -1;
	if (file && strlen(file) < sizeof(m->file))
		memcpy(m->file, file, strlen(file) + 1);
	if (!digest || strlen(digest) >= sizeof(m->sum.digest) || !json_is_integer(entries) || !json_is_integer(bytes))
		return;
	memcpy(m->sum.digest, digest, strlen(digest) + 1);
	m->sum.entries = (uint64_t)json_integer_value(entries);
	m->sum.bytes = (uint64_t)json_integer_value(bytes);
}

static int meta_parse(const json_t *o, struct meta *m, struct err *e)
{
	struct sandbox_snapshot *s = &m->s;
	int64_t version, size, created;
	const char *how;
	int rc = json_need_int(o, "version", META_VERSION, META_VERSION, &version, e);

	rc = rc ? rc : json_need_str(o, "how", &how, e);
	rc = rc ? rc : json_need_int(o, "size", 0, INT64_MAX, &size, e);
	rc = rc ? rc : json_need_int(o, "created_wall_ns", INT64_MIN, INT64_MAX, &created, e);
	if (rc)
		return rc;
	text_put(s->how, sizeof(s->how), how);
	s->size = (uint64_t)size;
	s->created_wall_ns = created;
	meta_proof(o, m);
	return 0;
}

static int no_such(const char *agent, const struct id *id, struct err *e)
{
	char text[ID_STR_LEN];

	id_format(id, text);
	return err_set(e, ERR_NOT_FOUND, "agent %s has no snapshot %s", agent, text);
}

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * (int64_t)NS_PER_SEC + st->st_mtim.tv_nsec;
}

static int data_find(int snaps, const struct id *id, int64_t stored, enum snapshot_kind *out,
		     struct sandbox_snapshot *s, struct err *e)
{
	struct stat st = {0};
	int fd, rc = data_open(snaps, id, out, &fd);

	if (rc)
		return err_set(e, ERR_CORRUPT, "its data is not there");
	if (fstat(fd, &st) != 0)
		rc = err_sys(e, errno, "its data cannot be read");
	else if (stored >= 0 && st.st_size != stored)
		rc = err_set(e, ERR_CORRUPT, "its data has %lld bytes and not the %lld that were written",
			     (long long)st.st_size, (long long)stored);
	s->stored = (uint64_t)st.st_size;
	s->mtime_ns = mtime_ns(&st);
	close(fd);
	return rc;
}

static int meta_load(int snaps, const char *agent, const struct id *id, struct meta *out, struct err *e)
{
	struct meta m = {.s = {.id = *id, .ready = true}, .stored = -1};
	struct err why = {0};
	enum snapshot_kind kind = SNAPSHOT_IMAGE;
	char meta[NAME_SIZE];
	json_t *o = NULL;
	struct buf b;
	int rc;

	snapshot_name_of(id, ".json", meta);
	buf_init(&b, META_MAX);
	rc = dir_read_file(snaps, meta, &b, &why);
	if (rc == ERR_NOT_FOUND) {
		rc = no_such(agent, id, e);
		goto out;
	}
	rc = rc ? rc : json_parse(buf_ptr(&b), buf_len(&b), META_MAX, &o, &why);
	rc = rc ? rc : meta_parse(o, &m, &why);
	rc = rc ? rc : data_find(snaps, id, m.stored, &kind, &m.s, &why);
	if (rc) {
		rc = err_set(e, ERR_CORRUPT, "snapshot %s: %.300s", meta, why.message);
		goto out;
	}
	snapshot_name_of(id, suffixes[kind], m.s.name);
	text_put(m.s.digest, sizeof(m.s.digest), m.file);
	text_put(m.s.agent, sizeof(m.s.agent), agent);
	*out = m;
out:
	json_decref(o);
	buf_finish(&b);
	return rc;
}

int snapshot_load(int snaps, const char *agent, const struct id *id, struct sandbox_snapshot *out, struct err *e)
{
	struct meta m;
	int rc = meta_load(snaps, agent, id, &m, e);

	if (rc == 0)
		*out = m.s;
	return rc;
}

int snapshot_sum(int snaps, const struct id *id, struct archive_sum *out, struct err *e)
{
	struct meta m;
	int rc = meta_load(snaps, "", id, &m, e);

	if (rc == 0)
		*out = m.sum;
	return rc;
}

int snapshot_open(int snaps, const struct id *id, enum snapshot_kind *out, int *out_fd, struct err *e)
{
	if (data_open(snaps, id, out, out_fd) != 0)
		return err_set(e, ERR_NOT_FOUND, "the snapshot's data is not there");
	return 0;
}

int snapshot_begin(int snaps, const struct id *id, int *out_fd, struct err *e)
{
	char name[NAME_SIZE];
	int fd;

	snapshot_name_of(id, ".new", name);
	fd = openat(snaps, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot make a snapshot's file");
	*out_fd = fd;
	return 0;
}

static int meta_write(int snaps, const char *name, const struct meta *m, struct err *e)
{
	const struct sandbox_snapshot *s = &m->s;
	const struct archive_sum *sum = &m->sum;
	char id[ID_STR_LEN];
	json_t *o;
	struct buf b;
	int rc;

	id_format(&s->id, id);
	o = json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:I}", "version", META_VERSION, "id", id, "agent", s->agent,
		      "how", s->how, "size", (json_int_t)s->size, "created_wall_ns", (json_int_t)s->created_wall_ns,
		      "stored", (json_int_t)m->stored);
	if (o && sum->digest[0] &&
	    (json_object_set_new(o, "entries", json_integer((json_int_t)sum->entries)) != 0 ||
	     json_object_set_new(o, "bytes", json_integer((json_int_t)sum->bytes)) != 0 ||
	     json_object_set_new(o, "sha256", json_string(m->file)) != 0 ||
	     json_object_set_new(o, "digest", json_string(sum->digest)) != 0)) {
		json_decref(o);
		o = NULL;
	}
	buf_init(&b, META_MAX);
	rc = o ? json_append(&b, o) : ERR_NOMEM;
	rc = rc ? rc : buf_append_str(&b, "\n");
	rc = rc ? err_set(e, rc, "no memory for a snapshot's description")
		: dir_write_file(snaps, name, buf_ptr(&b), buf_len(&b), e);
	buf_finish(&b);
	json_decref(o);
	return rc;
}

/* The end of the hole that at lies in; at, where there is none or the file system knows none. */
static uint64_t hole_end(int fd, uint64_t at, uint64_t size)
{
	off_t data = lseek(fd, (off_t)at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO && at < size ? size : at;
	return (uint64_t)data;
}

/* An image is mostly holes: their zeros are hashed and not read, which costs a third more. */
static int hash_some(int fd, uint64_t size, EVP_MD_CTX *md, const atomic_bool *stop, uint64_t *out_n, struct err *e)
{
	static const uint8_t zeros[16 * 1024];
	uint8_t *piece = malloc(PIECE);
	uint64_t at = 0, hole = 0;
	ssize_t n = piece ? 1 : -1;

	while (n > 0 && !(stop && atomic_load(stop))) {
		if (at >= hole)
			hole = hole_end(fd, at, size);
		if (at < hole)
			n = hole - at < sizeof(zeros) ? (ssize_t)(hole - at) : (ssize_t)sizeof(zeros);
		else
			n = pread(fd, piece, PIECE, (off_t)at);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0 && EVP_DigestUpdate(md, at < hole ? zeros : piece, (size_t)n) == 1)
			at += (uint64_t)n;
	}
	free(piece);
	if (!piece)
		return err_set(e, ERR_NOMEM, "no memory to read the snapshot");
	*out_n = at;
	return n < 0   ? err_sys(e, errno, "the snapshot's data cannot be read")
	       : n > 0 ? err_set(e, ERR_CANCELLED, "the daemon is ending")
		       : 0;
}

int snapshot_hash(int fd, const atomic_bool *stop, struct sandbox_snapshot *out, struct err *e)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	uint8_t d[EVP_MAX_MD_SIZE];
	struct stat st;
	unsigned n = 0;
	uint64_t stored = 0;
	int rc = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 ? 0 : err_set(e, ERR_NOMEM, "no memory");

	if (rc == 0 && fstat(fd, &st) != 0)
		rc = err_sys(e, errno, "the snapshot's data cannot be read");
	rc = rc ? rc : hash_some(fd, (uint64_t)st.st_size, md, stop, &stored, e);
	if (rc == 0 && EVP_DigestFinal_ex(md, d, &n) != 1)
		rc = err_set(e, ERR_INTERNAL, "the digest cannot be finished");
	EVP_MD_CTX_free(md);
	if (rc)
		return rc;
	for (unsigned i = 0; i < n && 2 * i + 2 < sizeof(out->digest); i++)
		snprintf(out->digest + (size_t)2 * i, 3, "%02x", d[i]);
	out->stored = stored;
	out->mtime_ns = mtime_ns(&st);
	return 0;
}

int snapshot_commit(int snaps, int fd, enum snapshot_kind kind, const char *how, const struct archive_sum *sum,
		    const char *agent, const struct id *id, struct sandbox_snapshot *out, struct err *e)
{
	struct meta m = {.s = {.id = *id, .created_wall_ns = clock_wall_ns(), .ready = true}};
	char fresh[NAME_SIZE], data[NAME_SIZE], meta[NAME_SIZE];
	struct stat st;
	int rc = 0;

	snapshot_name_of(id, ".new", fresh);
	snapshot_name_of(id, suffixes[kind], data);
	snapshot_name_of(id, ".json", meta);
	text_put(m.s.agent, sizeof(m.s.agent), agent);
	snprintf(m.s.name, sizeof(m.s.name), "%s", data);
	text_put(m.s.how, sizeof(m.s.how), how);
	if (sum) {
		m.sum = *sum;
		rc = snapshot_hash(fd, NULL, &m.s, e);
		text_put(m.file, sizeof(m.file), m.s.digest);
	}
	if (rc == 0 && (fdatasync(fd) != 0 || fstat(fd, &st) != 0))
		rc = err_sys(e, errno, "cannot write the snapshot");
	else if (rc == 0 && renameat(snaps, fresh, snaps, data) != 0)
		rc = err_sys(e, errno, "cannot name the snapshot");
	if (rc) {
		snapshot_abort(snaps, id);
		return rc;
	}
	m.s.size = (uint64_t)st.st_blocks * 512;
	m.s.stored = (uint64_t)st.st_size;
	m.s.mtime_ns = mtime_ns(&st);
	m.stored = st.st_size;
	rc = meta_write(snaps, meta, &m, e);
	if (rc == 0 && fsync(snaps) != 0)
		rc = err_sys(e, errno, "cannot write the directory of snapshots");
	if (rc) {
		unlinkat(snaps, meta, 0);
		unlinkat(snaps, data, 0);
		return rc;
	}
	*out = m.s;
	return 0;
}

void snapshot_abort(int snaps, const struct id *id)
{
	char name[NAME_SIZE];

	snapshot_name_of(id, ".new", name);
	unlinkat(snaps, name, 0);
}

/* The description first: a death in between leaves data that nobody takes for a snapshot. */
int snapshot_drop(int snaps, const struct id *id, struct err *e)
{
	static const char *const parts[] = {".json", ".img", ".tar.zst", ".new"};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		char name[NAME_SIZE];

		snapshot_name_of(id, parts[i], name);
		if (unlinkat(snaps, name, 0) != 0 && errno != ENOENT)
			return err_sys(e, errno, "cannot remove snapshot %s", name);
		if (i == 0)
			(void)fsync(snaps);
	}
	return 0;
}

/* The id at the beginning of a name, and what follows it. */
static bool name_parse(const char *name, struct id *out, const char **out_suffix)
{
	char text[ID_STR_LEN];

	if (strlen(name) <= ID_LEN)
		return false;
	memcpy(text, name, ID_LEN);
	text[ID_LEN] = '\0';
	*out_suffix = name + ID_LEN;
	return id_parse(text, out) == 0;
}

static DIR *list_open(int snaps)
{
	int fd = openat(snaps, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static int id_compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct id));
}

int snapshot_ids(int snaps, struct id **out, size_t *out_n, struct err *e)
{
	struct id *list = NULL, id;
	size_t n = 0, room = 0;
	DIR *d = list_open(snaps);

	if (!d)
		return err_sys(e, errno, "cannot read the directory of snapshots");
	for (struct dirent *de; (de = readdir(d));) {
		const char *suffix;

		if (!name_parse(de->d_name, &id, &suffix) || strcmp(suffix, ".json") != 0)
			continue;
		if (n == room) {
			struct id *more = realloc(list, (room = room ? room * 2 : 8) * sizeof(*list));

			if (!more) {
				free(list);
				closedir(d);
				return err_set(e, ERR_NOMEM, "no memory for a list of snapshots");
			}
			list = more;
		}
		list[n++] = id;
	}
	closedir(d);
	if (n)
		qsort(list, n, sizeof(*list), id_compare);
	*out = list;
	*out_n = n;
	return 0;
}

bool snapshot_clean(int snaps)
{
	bool cut = false;
	DIR *d = list_open(snaps);

	for (struct dirent *de; d && (de = readdir(d));) {
		char meta[NAME_SIZE];
		const char *suffix;
		struct id id;

		if (!name_parse(de->d_name, &id, &suffix)) /* nobody's but ours can be in here; "." and ".." */
			continue;
		snapshot_name_of(&id, ".json", meta);
		if (strcmp(suffix, ".json") == 0 || (strcmp(suffix, ".new") != 0 && strcmp(suffix, ".json.new") != 0 &&
						     faccessat(snaps, meta, F_OK, AT_SYMLINK_NOFOLLOW) == 0))
			continue;
		cut |= strcmp(suffix, ".new") == 0;
		unlinkat(snaps, de->d_name, 0);
	}
	if (d)
		closedir(d);
	return cut;
}
