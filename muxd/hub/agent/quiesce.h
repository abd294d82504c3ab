/*
 * quiesce.h - lifecycle waits for a sandbox's disk to be written, or holds its programs frozen. What programs changed
 * is looked at before that (survey.h), for 3 s at most.
 */
#ifndef MUXD_HUB_AGENT_QUIESCE_H
#define MUXD_HUB_AGENT_QUIESCE_H

#include "control/life/life.h"
#include "muxd/link/link.h"

struct agent;

/* done is called once, unless this fails (ERR_UNSUPPORTED); with LIFE_FROZEN when programs are frozen. */
int quiesce_begin(struct agent *a, uint64_t timeout_ns, uint64_t hold_ns, life_host_done *done, void *arg);
/* Its programs are frozen, or are just being: their times do not run out meanwhile. */
bool quiesce_stills(const struct agent *a);
bool quiesce_holds(const struct agent *a); /* its programs are frozen */
bool quiesce_end(struct agent *a);         /* they go on; false: nothing was asked for */
/* True: the channel was one of its own. */
bool quiesce_exited(struct agent *a, uint32_t channel, const struct link_exit *x);
bool quiesce_said(struct agent *a, uint32_t channel, const uint8_t *p, size_t n);
void quiesce_link_up(struct agent *a);
void quiesce_link_down(struct agent *a); /* or none came */
void quiesce_tick(struct agent *a, uint64_t now);

#endif
