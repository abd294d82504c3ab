/*
 * framed.h - input in pieces with their lengths, for streams whose end cannot be told from their loss.
 *
 * "LENGTH\n", then so many bytes, again and again; a LENGTH of 0 is the end of input. A thread takes the pieces apart
 * and feeds what is in them to a new stdin. A stream that goes was let go of: the thread ends the process (SIGTERM), be
 * it before that end or behind it. A thread, since a child's remains would be left to the target's first process.
 */
#ifndef MUXD_MUXLET_FRAMED_H
#define MUXD_MUXLET_FRAMED_H

/* From now on stdin is what the pieces hold. 0 or errno. */
int framed_begin(void);

#endif
