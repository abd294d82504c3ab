/*
 * reason.h - is this text a reason that somebody can be asked about later?
 *
 * UTF-8, at most GRANT_REASON_MAX bytes, one line, no control characters and no
 * marks that reverse a line's direction; something in it must have ink.
 */
#ifndef POLICY_REASON_H
#define POLICY_REASON_H

struct err;

/* Blank (also Unicode spaces, also line breaks alone): ERR_REASON_REQUIRED. Anything else wrong: ERR_INVAL. */
int reason_check(const char *reason, struct err *e);

#endif
