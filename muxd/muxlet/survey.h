/*
 * survey.h - what changed in the workspace since the last look, as muxlet --survey says it (docs/protocol.md).
 *
 * A process of its own, at the lowest priority, executed from /proc/self/exe, with the manifest (manifest.h) as
 * descriptor 3. It walks the workspace once, compares each name's inode, size, times and permissions with the look
 * before, and answers one JSON object:
 *
 *	{"look", "baseline", "files", "created", "changed", "deleted", "entries": [{"how", "path", "type", "size",
 *"mode", "sha256", "target"}], "left_out", "unhashed", "unreadable", "incomplete"}
 *
 * created, changed, deleted count all; entries has the first SURVEY_NAMES of them and SURVEY_BYTES of text, left_out
 * the rest. Content is read for digests up to FS_HASH_MAX bytes and SURVEY_HASH_MS; unhashed counts files without one.
 * The first look (baseline) has nothing to compare with: it tells what was changed since programs could begin, and no
 * deletion. incomplete: the walk was stopped by its time or by MANIFEST_MAX; what lies behind is not told.
 * Directories are told when they come, go or change permissions. File systems that are mounted in it are not entered;
 *of a "workspace" that is "/" nothing is looked at (EOPNOTSUPP).
 */
#ifndef MUXD_MUXLET_SURVEY_H
#define MUXD_MUXLET_SURVEY_H

#include <stdint.h>

#define SURVEY_FD      3
#define SURVEY_NAMES   1000
#define SURVEY_BYTES   (256 * 1024)
#define SURVEY_HASH_MS 2000
#define SURVEY_WALK_MS 10000

/* look: the number of this one, above 0; have: of the one that the hub has, or 0. The exit code: 0 or an errno. */
int survey_run(uint64_t look, uint64_t have);

#endif
