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
/*
 * A regular file alone, opened without waiting for anyone: a FIFO put in its place would hold its reader up for as long
 * as it likes. flags: of open(); O_CLOEXEC, O_NOCTTY and O_NONBLOCK come by themselves, and no O_NOFOLLOW: files of a
 * configuration are often links. ERR_NOT_A_FILE says what it is instead.
 */
int slurp_open(const char *path, int flags, int *out_fd, struct err *e);
/* The whole of such a file. flags: besides O_RDONLY. */
int slurp_file(const char *path, int flags, size_t max, char **out, size_t *out_len, struct err *e);
/* For a command line alone, whose user may well mean a pipe: whatever it is, and waited for. */
int slurp_operand(const char *path, size_t max, char **out, size_t *out_len, struct err *e);
/* "a FIFO": of st_mode, for messages. */
const char *slurp_kind(unsigned mode);
/* explicit_bzero() and free(). NULL-safe. */
void slurp_free(char *data, size_t len);
void slurp_free_text(char *s); /* the same of a text */
/* All of them, to where fd stands. -1 and errno. */
int spill_fd(int fd, const void *p, size_t n);

#endif
