/*
 * file.h - small files and directories that must be whole, private and durable.
 *
 * A file appears under its name complete and synced, or not at all. What is read
 * is a regular file, and nobody is waited for. Nothing but file_read_given() follows a symbolic link at the last
 * component. Stateless.
 */
#ifndef MUXD_MONITOR_FILE_H
#define MUXD_MONITOR_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* Who owns what is made: (uid_t)-1 leaves the maker's. */
struct file_owner {
	uid_t uid;
	gid_t gid;
};
#define FILE_OWNER_SELF ((struct file_owner){(uid_t)-1, (gid_t)-1})

/* Made beside it (O_EXCL), synced, then renamed. replace false: ERR_CONFLICT when the name is taken. */
int file_publish(const char *path, const void *data, size_t len, mode_t mode, struct file_owner owner, bool replace,
		 struct err *e);
/* Whole file of at most max bytes, NUL-terminated beyond *out_len; caller frees (and wipes). ERR_NOT_FOUND. */
int file_read(const char *path, size_t max, char **out, size_t *out_len, struct err *e);
/* The same of a file that the configuration names, or of the configuration: those may be links, as mounted secrets are.
 */
int file_read_given(const char *path, size_t max, char **out, size_t *out_len, struct err *e);
/* The directory exists with this mode and owner; one that others may write to, or that is no directory, is an error. */
int file_mkdir(const char *path, mode_t mode, struct file_owner owner, struct err *e);
/* Mode and owner of a file that exists. */
int file_own(const char *path, mode_t mode, struct file_owner owner, struct err *e);
/* fsync of the directory that holds path. */
int file_sync_dir(const char *path, struct err *e);
/* dir "/" name into out[size]; ERR_TOO_LARGE. */
int file_join(char *out, size_t size, const char *dir, const char *name, struct err *e);

#endif
