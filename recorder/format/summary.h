/*
 * summary.h - what a player needs to know of a recording before it plays: when, how long, where something happened.
 *
 * Made from the block headers, so that it costs the same for an hour as for a minute: activity is as exact as blocks
 * are; of blocks in which the size changed, 64 at most are read for the moment. Of short recordings every event counts.
 * Pure but for the reader it is handed, which stands elsewhere afterwards.
 */
#ifndef RECORDER_FORMAT_SUMMARY_H
#define RECORDER_FORMAT_SUMMARY_H

#include "base/json.h"
#include "recorder/format/recording.h"

#define SUMMARY_STEPS 480 /* of the timeline, at most */

/*
 * Sealed recordings. {"first_ns","last_ns" (text: more than 53 bits),"wall_at","events","file_size","exit",
 * "rule","streams":[{"name","total","omitted","missing"}],"timeline":{"step_ns","input":[bytes],"output":[bytes]},
 * "sizes":[{"at_ns","cols","rows"}]}; output: with stderr. ERR_NOMEM.
 */
int summary_make(struct recording *r, json_t **out, struct err *e);

#endif
