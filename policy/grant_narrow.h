/*
 * grant_narrow.h - may this grant be made from that one: a child is never wider than its parent, nor longer.
 *
 * The monitor asks before it signs; net, which talks to strangers, may be taken over and still gets nothing wider than
 * a token that it has seen. Pure.
 */
#ifndef POLICY_GRANT_NARROW_H
#define POLICY_GRANT_NARROW_H

#include "policy/grant.h"

struct err;

/*
 * parent: verified and in force; ends_ns: its end, renewals counted (grant_line_ends()). child: grant_check()ed.
 * ERR_NOT_NARROWER names what would be wider, and what is the most; ERR_FORBIDDEN: the parent lacks scope grant.
 *
 * A child has its parent's principal, or one below it (parent "ci": "ci/worker-3"; no part is empty or dots alone):
 * what is somebody's own goes by the principal, so that a child named after somebody else would reach that one's
 * rounds.
 */
int grant_narrow(const struct grant *parent, int64_t ends_ns, const struct grant *child, struct err *e);
/*
 * Are these two principals one for what all share? A grant makes others, "ci/1", "ci/2" and so on of its "ci", without
 * end: so each name counts by what stands before its first slash.
 */
bool grant_same_root(const char *a, const char *b);
/* The part before the slash, as the key of what they share. Cut where it has no room. */
void grant_root(const char *principal, char out[GRANT_NAME_MAX + 1]);
/*
 * The paths that both allow, as patterns of either that are plainly within the other's; nothing is in it that one of
 * them does not allow. size_max: the smaller.
 */
void grant_files_meet(const struct grant_files *a, const struct grant_files *b, struct grant_files *out);
/* The line of a grant that `parent` makes. ERR_NOT_NARROWER at GRANT_DEPTH_MAX. */
int grant_narrow_kin(const struct grant *parent, struct grant_kin *out, struct err *e);

#endif
