/*
 * outside.h - heads that were kept outside of the record, for a verdict that does not rest on the host alone.
 *
 * Each is added with where it came from; verification is given the list. Owned by the command.
 */
#ifndef MUXD_CTL_OUTSIDE_H
#define MUXD_CTL_OUTSIDE_H

#include "muxd/ctl/args.h"
#include "recorder/verify/verify.h"

struct outside {
	struct verify_outside *heads;
	size_t n;
};

/* Every file that --expect-head names: as muxctl head printed it. ERR_TOO_LARGE: too many heads. */
int outside_expected(struct outside *o, const struct ctl_args *a, struct err *e);
/* Every witness that --witness names: a file of JSON lines, or the URL of another muxd. record: its folder. */
int outside_witnesses(struct outside *o, const struct ctl_args *a, const char *record, struct err *e);
void outside_finish(struct outside *o);

#endif
