/*
 * slurp.h - a small file read whole, or refused; and bytes written whole. No state.
 */
#ifndef BASE_SLURP_H
#define BASE_SLURP_H

#include <stddef.h>

struct err;

/*
 * From where fd stands to its end, max bytes at most (ERR_TOO_LARGE), NUL-terminated besides. path is for messages.
 * Memory is taken for what is there, not for max.
 * *out is the caller's, for slurp_free(); on failure what was read has been wiped.
 */
int slurp_fd(int fd, const char *path, size_t max, char **out, size_t *out_len, struct err *e);
/* The same of a file. flags: of open(), besides O_RDONLY and O_CLOEXEC. */
int slurp_file(const char *path, int flags, size_t max, char **out, size_t *out_len, struct err *e);
/* explicit_bzero() and free(). NULL-safe. */
void slurp_free(char *data, size_t len);
void slurp_free_text(char *s); /* the same of a text */
/* All of them, to where fd stands. -1 and errno. */
int spill_fd(int fd, const void *p, size_t n);

#endif
