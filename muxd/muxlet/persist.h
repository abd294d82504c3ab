/*
 * persist.h - directories of the workspace that paths outside it are links to (sandbox.persist): made at muxlet's
 * start.
 *
 * Inside, with the rights of the sandbox: whatever a program put in their place is its own doing, and nothing of it
 * leads out.
 */
#ifndef MUXD_MUXLET_PERSIST_H
#define MUXD_MUXLET_PERSIST_H

/* list: paths with commas between. What cannot be made (a workspace that is read-only) is left. */
void persist_make(const char *list);

#endif
