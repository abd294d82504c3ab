/*
 * list.h - arrays that grow, their size doubled when they are full.
 *
 * The array and its count are the caller's, who frees it; how much room there is follows from the count. Entries may be
 * taken away by a lower count. Whoever bounds the list asks before.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>

/*
 * list: address of the pointer to the first entry (NULL: none yet), which may move; n: of the count. The entry is
 * copied, size bytes, to place at <= *n. ERR_NOMEM: all is as it was.
 */
int list_insert(void *list, size_t *n, size_t at, const void *entry, size_t size);
int list_append(void *list, size_t *n, const void *entry, size_t size); /* at its end */

#endif
