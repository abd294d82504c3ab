/*
 * file.h - whole reads and writes, folders that stay after a power cut.
 *
 * No ownership: descriptors and paths are the caller's. EINTR and partial
 * transfers are dealt with here. Files of the record are opened by file_open_found() alone. Errors name the path given.
 */
#ifndef RECORDER_CHAIN_FILE_H
#define RECORDER_CHAIN_FILE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct iovec;

#define FILE_PATH_MAX 4096

/* ERR_EOF when the file is shorter (quietly: *e is filled, but it is often no error). */
int file_read_at(int fd, void *p, size_t n, uint64_t pos, const char *path, struct err *e);
int file_write_at(int fd, const void *p, size_t n, uint64_t pos, const char *path, struct err *e);
/* The same of n pieces, one after the other in the file; what stands in `pieces` is used up. */
int file_write_pieces_at(int fd, struct iovec *pieces, int n, uint64_t pos, const char *path, struct err *e);
/* SHA-256 of its first `size` bytes; out: 32 bytes. */
int file_digest(int fd, const char *path, uint64_t size, uint8_t out[32]);
int file_size(int fd, const char *path, uint64_t *out, struct err *e); /* ERR_NOT_A_FILE */
/*
 * Opens for reading what a name in a folder of the record leads to. Whoever can write the folder chose what stands
 * there: it is never waited for (FIFO, device) nor followed (symbolic link), and nothing but a regular file is opened.
 * ERR_NOT_FOUND, ERR_NOT_A_FILE.
 */
int file_open_found(const char *path, int *out_fd, uint64_t *out_size, struct err *e);
/* The same in a folder, and for writing: flags O_RDONLY or O_RDWR, O_CREAT. path: for messages. */
int file_open_at(int dir_fd, const char *name, int flags, const char *path, int *out_fd, uint64_t *out_size,
		 struct err *e);
/* fdatasync, and fsync of a folder. */
int file_sync(int fd, const char *path, struct err *e);
int file_sync_folder(const char *path, struct err *e);
/* Renames from to TO.damaged, or to the first of TO.damaged.2, .3, ... that is free: what was kept before stays as it
 * is. */
int file_set_aside(const char *from, const char *to, struct err *e);
/* mkdir 0700; there already is fine. The folder above is synced when it was made. */
int file_make_folder(const char *path, struct err *e);
/* snprintf for paths; ERR_TOO_LARGE when it does not fit FILE_PATH_MAX. */
int file_path(char out[FILE_PATH_MAX], struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
