/*
 * context_answer.h - what an execution said, as its answer: from the lines of JSON on its round's stdout.
 *
 * Pure. The lines are those of muxd/hub/session/contexts (docs/contexts.md), written by programs among the user's own
 * code: a stranger's text. Whatever it holds, an answer comes of it, within bounds; what is no such line is left out.
 * Code that forges lines lies about its own execution and about nothing else: who it is and how its round ended is not
 * in them.
 */
#ifndef MUXD_HUB_BROKER_CONTEXT_ANSWER_H
#define MUXD_HUB_BROKER_CONTEXT_ANSWER_H

#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

#define CONTEXT_RESULTS_MAX   256
#define CONTEXT_SHOWN_MAX     (2 * 1024 * 1024) /* of one result in one media type */
#define CONTEXT_ALL_SHOWN_MAX (6 * 1024 * 1024)
#define CONTEXT_TRACEBACK_MAX (64 * 1024)
#define CONTEXT_FRAMES_MAX    100
#define CONTEXT_LINES_MAX     20000 /* that are read, and so many values in all of them */
#define CONTEXT_VALUES_MAX    JSON_VALUES_MAX

/*
 * {stdout, stderr: {data, encoding, total_bytes, truncated}, results: [{main, data: {media type: value}, capped: {media
 * type: bytes}}], error: {name, value, traceback, frames: [{file, line, function, source}], frames_left_out} or null,
 * execution_count, cause, message}; the last three null where nothing was said. cause: done, error, interrupted,
 * timeout, context_died. A line that has not ended counts not yet. Past CONTEXT_LINES_MAX lines or CONTEXT_VALUES_MAX
 * values lines are not read, but for an error and an end among the last ENDINGS of them: lines_left_out has their
 * number, and that of the results past CONTEXT_RESULTS_MAX. JSON for which no values are left stands as its text.
 * Called in any thread. NULL: no memory.
 */
json_t *context_answer(const uint8_t *p, size_t n);
/* Bytes of memory behind an answer, at the most. */
size_t context_answer_held(const json_t *answer);

#endif
