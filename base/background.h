/*
 * background.h - a thread that works behind the others of its process: indexing, drawing, hashing.
 *
 * Its weight is a thirtieth of theirs (nice 15), its disk requests are the last of the ordinary ones. Not SCHED_IDLE,
 * nor the idle class of disk requests: on a machine that is busy for minutes such a thread does not get on at all, and
 * whatever lock it holds at that moment (the allocator's, SQLite's, one of ours) is held for minutes from threads that
 * somebody waits for. This way a lock is free again within about a second at thirty runnable threads on two processors.
 */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H

/* The calling thread, for good. Best effort: where it is not allowed the thread runs like the rest. */
void background_enter(void);

#endif
