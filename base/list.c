#include "base/list.h"

#include "base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int list_insert(void *list, size_t *n, size_t at, const void *entry, size_t size)
{
	char *first;

	memcpy(&first, list, sizeof(first));
	/* Powers of two are where the room ends. */
	if ((*n & (*n - 1)) == 0) {
		first = *n > SIZE_MAX / 2 / size ? NULL : realloc(first, (*n ? *n * 2 : 1) * size);
		if (!first)
			return ERR_NOMEM;
		memcpy(list, &first, sizeof(first));
	}
	memmove(first + (at + 1) * size, first + at * size, (*n - at) * size);
	memcpy(first + at * size, entry, size);
	(*n)++;
	return 0;
}

int list_append(void *list, size_t *n, const void *entry, size_t size)
{
	return list_insert(list, n, *n, entry, size);
}
