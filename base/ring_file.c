/* The ring's file and its cursor as bytes: made, checked, renewed; and the bell by which one side wakes the other. */
#include "base/bytes.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/ring.h"
#include "base/ring_format.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

int ring_pread(int fd, void *p, size_t n, uint64_t at)
{
	uint8_t *to = p;
	while (n) {
		ssize_t got = pread(fd, to, n, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ERR_SYS;
		if (got == 0)
			return ERR_EOF;
		to += got;
		n -= (size_t)got;
		at += (uint64_t)got;
	}
	return 0;
}

static int pwrite_whole(int fd, const void *p, size_t n, uint64_t at)
{
	const uint8_t *from = p;
	while (n) {
		ssize_t put = pwrite(fd, from, n, (off_t)at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return ERR_SYS;
		from += put;
		n -= (size_t)put;
		at += (uint64_t)put;
	}
	return 0;
}

int ring_info_read(int fd, struct ring_info *out, struct err *e)
{
	uint8_t h[RING_AT_END];
	struct stat st;

	int rc = ring_pread(fd, h, sizeof(h), 0);
	if (rc == ERR_SYS || fstat(fd, &st) < 0)
		return err_sys(e, errno, "journal ring: cannot read the header");
	if (rc)
		return err_set(e, ERR_CORRUPT, "journal ring: the file is shorter than its header");
	if (memcmp(h + RING_AT_MAGIC, RING_MAGIC, 8) != 0)
		return err_set(e, ERR_CORRUPT, "journal ring: this is no ring file");
	if (get_u16(h + RING_AT_MAJOR) != RING_MAJOR)
		return err_set(e, ERR_VERSION, "journal ring: version %u.%u, this program reads %u",
			       get_u16(h + RING_AT_MAJOR), get_u16(h + RING_AT_MINOR), RING_MAJOR);
	uint64_t size = get_u64(h + RING_AT_SIZE);
	if (get_u32(h + RING_AT_CRC) != crc32_add(0, h, RING_AT_CRC) || size < RING_SIZE_MIN || size > RING_SIZE_MAX ||
	    (size & (size - 1)) || get_u32(h + RING_AT_HEADER) != RING_HEADER_SIZE)
		return err_set(e, ERR_CORRUPT, "journal ring: the header is damaged");
	if ((uint64_t)st.st_size < RING_HEADER_SIZE + size)
		return err_set(e, ERR_CORRUPT, "journal ring: the file was cut to %lld bytes", (long long)st.st_size);
	out->size = size;
	memcpy(out->id, h + RING_AT_ID, sizeof(out->id));
	return 0;
}

static int ring_format_file(int fd, size_t size, struct err *e)
{
	uint8_t h[RING_HEADER_SIZE] = {0};
	struct id id;

	/* Every page exists from the start: a full tmpfs must not kill the writer later, by SIGBUS. */
	int en = posix_fallocate(fd, 0, (off_t)(RING_HEADER_SIZE + size));
	if (en)
		return err_sys(e, en, "journal ring: cannot allocate %zu bytes", size);
	if (id_new(&id))
		return err_set(e, ERR_SYS, "journal ring: the kernel gives no random bytes");
	memcpy(h + RING_AT_MAGIC, RING_MAGIC, 8);
	put_u16(h + RING_AT_MAJOR, RING_MAJOR);
	put_u16(h + RING_AT_MINOR, RING_MINOR);
	put_u32(h + RING_AT_HEADER, RING_HEADER_SIZE);
	put_u64(h + RING_AT_SIZE, size);
	memcpy(h + RING_AT_ID, id.b, sizeof(id.b));
	put_u32(h + RING_AT_CRC, crc32_add(0, h, RING_AT_CRC));
	put_u64(h + RING_AT_SLOTS + 8, 1); /* at position 0 comes sequence 1 */
	put_u64(h + RING_AT_SLOTS + 16, UINT64_MAX);
	if (pwrite_whole(fd, h, sizeof(h), 0))
		return err_sys(e, errno, "journal ring: cannot write the header");
	return 0;
}

/* Made under another name and moved there whole, so that no start finds half a file. */
static int file_create(const char *path, int (*fill)(int fd, size_t size, struct err *e), size_t size, struct err *e)
{
	char tmp[PATH_MAX];
	if ((size_t)snprintf(tmp, sizeof(tmp), "%s.new", path) >= sizeof(tmp))
		return err_set(e, ERR_INVAL, "path too long: %s", path);
	if (unlink(tmp) < 0 && errno != ENOENT)
		return err_sys(e, errno, "cannot remove %s", tmp);
	int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, errno, "cannot create %s", tmp);
	int rc = fill(fd, size, e);
	if (rc == 0 && rename(tmp, path) < 0)
		rc = err_sys(e, errno, "cannot move %s into place", tmp);
	if (rc)
		unlink(tmp);
	close(fd);
	return rc;
}

int ring_file_prepare(const char *path, size_t size, struct err *e)
{
	struct ring_info info;

	if (size < RING_SIZE_MIN || size > RING_SIZE_MAX || (size & (size - 1)))
		return err_set(e, ERR_INVAL, "journal ring: the size must be a power of two from 1 MiB to 16 GiB");
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return file_create(path, ring_format_file, size, e);
	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", path);
	/* A ring of another size may hold records that nobody has drained: whoever knows may renew it. */
	int rc = ring_info_read(fd, &info, e);
	close(fd);
	return rc;
}

int ring_file_renew(const char *path, size_t size, struct err *e)
{
	return file_create(path, ring_format_file, size, e);
}

int ring_cursor_write(int cursor_fd, const struct ring_cursor *c)
{
	uint8_t b[CURSOR_SIZE] = {0};

	memcpy(b + CURSOR_AT_MAGIC, CURSOR_MAGIC, 8);
	put_u16(b + CURSOR_AT_MAJOR, RING_MAJOR);
	put_u64(b + CURSOR_AT_DURABLE, c->durable);
	put_u64(b + CURSOR_AT_SEQ, c->durable_seq);
	put_u64(b + CURSOR_AT_HEARTBEAT, c->heartbeat_ns);
	put_u32(b + CURSOR_AT_STATE, c->state);
	put_u32(b + CURSOR_AT_PID, c->reader_pid);
	put_u32(b + CURSOR_AT_FLAGS, c->flags);
	put_u32(b + CURSOR_AT_CRC, crc32_add(0, b + 16, CURSOR_SIZE - 16));
	ssize_t n;
	do
		n = pwrite(cursor_fd, b, sizeof(b), 0);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)sizeof(b) ? 0 : ERR_SYS;
}

int ring_cursor_read(int cursor_fd, struct ring_cursor *out)
{
	uint8_t b[CURSOR_SIZE];

	int rc = ring_pread(cursor_fd, b, sizeof(b), 0);
	if (rc)
		return rc == ERR_EOF ? ERR_CORRUPT : rc;
	if (memcmp(b + CURSOR_AT_MAGIC, CURSOR_MAGIC, 8) != 0 || get_u16(b + CURSOR_AT_MAJOR) != RING_MAJOR ||
	    get_u32(b + CURSOR_AT_CRC) != crc32_add(0, b + 16, CURSOR_SIZE - 16))
		return ERR_CORRUPT;
	out->durable = get_u64(b + CURSOR_AT_DURABLE);
	out->durable_seq = get_u64(b + CURSOR_AT_SEQ);
	out->heartbeat_ns = get_u64(b + CURSOR_AT_HEARTBEAT);
	out->state = get_u32(b + CURSOR_AT_STATE);
	out->reader_pid = get_u32(b + CURSOR_AT_PID);
	out->flags = get_u32(b + CURSOR_AT_FLAGS);
	return 0;
}

static int cursor_format_file(int fd, size_t size, struct err *e)
{
	(void)size;
	struct ring_cursor c = {.state = RING_READER_STARTING};
	if (ring_cursor_write(fd, &c))
		return err_sys(e, errno, "cursor: cannot write");
	if (fchmod(fd, 0644) < 0)
		return err_sys(e, errno, "cursor: cannot set its mode");
	return 0;
}

int ring_cursor_prepare(const char *path, struct err *e)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return file_create(path, cursor_format_file, 0, e);
	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", path);
	/* A torn cursor is no reason to stop: the recorder knows the truth from its segments and writes it anew. */
	close(fd);
	return 0;
}

int bell_create(int *out_fd, struct err *e)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return err_sys(e, errno, "cannot create an eventfd");
	*out_fd = fd;
	return 0;
}

void bell_ring(int fd)
{
	(void)!write(fd, &(uint64_t){1}, sizeof(uint64_t)); /* EAGAIN: it has not stopped ringing */
}

void bell_answer(int fd)
{
	uint64_t rung;

	(void)!read(fd, &rung, sizeof(rung));
}
