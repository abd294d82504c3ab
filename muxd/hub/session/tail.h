/*
 * tail.h - the last bytes of what a program said, in a buffer of its owner's. Values, no state.
 */
#ifndef MUXD_HUB_SESSION_TAIL_H
#define MUXD_HUB_SESSION_TAIL_H

#include "base/buf.h"
#include "base/json.h"

/* p behind `head`; what is older than the last `most` bytes goes. Without memory some of it is left out. */
void tail_add(struct buf *tail, size_t most, const char *head, const void *p, size_t n);
/* Its last `most` bytes, a stranger's, as text. NULL: no memory. */
json_t *tail_json(const struct buf *tail, size_t most);
/* The last line that is not blank. */
void tail_last_line(const struct buf *tail, char *out, size_t size);

#endif
