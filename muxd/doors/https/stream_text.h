/*
 * stream_text.h - a stream of a round's answer as one text, for callers who take no head, tail and encoding apart: the
 * runtime's dialect and tools of MCP. Pure.
 */
#ifndef MUXD_DOORS_HTTPS_STREAM_TEXT_H
#define MUXD_DOORS_HTTPS_STREAM_TEXT_H

#include "base/json.h"

#include <stddef.h>

/*
 * stream: {data, encoding, truncated, tail, tail_encoding} (docs/api.md). gap stands where its middle was left out,
 * more at the end. What is no UTF-8 is replaced (json_stringn()). At most max bytes. NULL: no memory.
 */
json_t *stream_text(const json_t *stream, size_t max, const char *gap, const char *more);

#endif
