/*
 * reason.h - is this text a reason that somebody can be asked about later?
 *
 * UTF-8, at most GRANT_REASON_MAX bytes, one line, something in it with ink, and nothing that cannot be seen by the
 * rule of base/visible.h: no control, no mark that turns a line's direction, no zero-width or unassigned
 * character. The joiners and variation selectors that languages are written with pass, and are shown as escapes.
 */
#ifndef POLICY_REASON_H
#define POLICY_REASON_H

struct err;

/* At the door. Blank (also Unicode spaces, also line breaks alone): ERR_REASON_REQUIRED. Anything else wrong:
 * ERR_INVAL. */
int reason_check(const char *reason, struct err *e);
/*
 * Of a grant or token that exists: it passed the rule of its day, which knew controls and reversals alone. What cannot
 * be seen of it is shown as escapes.
 */
int reason_check_stored(const char *reason, struct err *e);

#endif
