/*
 * file.h - a small file read whole, or refused. No state.
 */
#ifndef CONTROL_KUBE_FILE_H
#define CONTROL_KUBE_FILE_H

#include <stddef.h>

struct err;

/* Up to max bytes of a file, NUL-terminated besides; *out is the caller's to wipe and free. */
int kube_file_read(const char *path, size_t max, char **out, size_t *out_len, struct err *e);
/* explicit_bzero() and free(). NULL-safe. */
void kube_file_free(char *data, size_t len);

#endif
