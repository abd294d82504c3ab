/*
 * freeze.h - `muxlet --freeze PATH`: what muxlet began stands still while a snapshot is taken.
 *
 * It runs as a channel of its own, and holds the freeze for as long as it lives: SIGSTOP to every descendant of
 * its parent (muxlet), parents before their children, until two looks at /proc find all of them stopped.
 * So a shell never sees a stopped job, and a parent inside vfork() has got out of it first. Going on is
 * the other way round: children first. Who was stopped before stays stopped.
 *
 * Output, one line: "frozen" when everything stands still and PATH's file system is synced, or "synced" when that could
 * not be had within FREEZE_MOST_MS (somebody forks on, or hangs in the kernel): then all go on at once.
 *
 * States: freezing -> frozen -> (TERM, HUP, INT, or its parent's end) -> going on. A KILL of it is muxlet's to mend
 * (channel_end.c). Nobody inside can send one while it is frozen.
 */
#ifndef MUXD_MUXLET_FREEZE_H
#define MUXD_MUXLET_FREEZE_H

#define FREEZE_MOST_MS 3000

/* The program. Exit code: 0, or the errno of what failed. */
int freeze_run(const char *path);

#endif
