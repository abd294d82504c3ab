/*
 * hogs.h - a sandbox that takes much of the processors goes behind the others of this daemon, for as long as it does.
 *
 * Weights of groups (shares.weights) are of time and not of turns: whoever runs finishes its slice, and each of the
 * five or six turns of a round waits that long beside a program that computes. Behind (cpu.idle, Linux 5.15, cgroups of
 * either version) a sandbox has all that the others leave; one of them that wakes has the processor at once.
 *
 * States of a sandbox:
 *
 *   BESIDE   its weight holds
 *   BEHIND   it used half a processor or more while all of them together used three quarters of what the machine has;
 *            until it uses less than a quarter, or all of them less than half of the machine
 *
 * Nobody goes where the others do nothing: the kernel takes a processor with nothing but such programs for an idle one,
 * and wakes muxd itself there. A sandbox behind shares what is left evenly with the others there: so nobody goes, or
 * stays, where those who would have different weights. Nobody waits for good: what is held off uses less, and comes
 * back at the next look.
 *
 * Owned by struct local. The loop's thread looks; nothing is written down: what is behind is found again by the next
 * daemon, from the group itself.
 */
#ifndef CONTROL_LOCAL_HOGS_H
#define CONTROL_LOCAL_HOGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_layout;
struct hogs;

#define HOGS_BUSY_MS 250  /* from one look to the next */
#define HOGS_REST_MS 1000 /* where the sandboxes use less than half of a processor, and none is behind */

enum hog_state { HOG_BESIDE, HOG_BEHIND };

/* Of one sandbox since the last look. */
struct hog_use {
	enum hog_state state;
	uint32_t weight; /* of 100 */
	uint64_t used_ns;
};

/* All are borrowed and outlive it. NULL: no memory. */
struct hogs *hogs_new(const struct cgroup_layout *layout, const char *instance, const char *weights);
void hogs_free(struct hogs *h); /* all are beside one another again */
/* In how many ms the next look is due. */
unsigned hogs_look(struct hogs *h, uint64_t now_ns);
/* The states that follow, into v. processors: of all sandboxes together; passed_ns > 0. */
void hogs_decide(struct hog_use *v, size_t n, uint64_t passed_ns, unsigned processors);

#endif
