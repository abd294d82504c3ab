/*
 * edge.h - net of an edge asks the centre which leases it has taken back (docs/edge.md).
 *
 * One question at a time, over HTTPS, every edge.poll; the answer is a text that the centre's monitor signed, and goes
 * to this machine's monitor, which looks at it, keeps it, and says what is in force (muxd/monitor/edge.h). What net
 * itself thinks of it counts nowhere. A centre that is gone costs one line of the log, and one when it is back.
 *
 * States: waiting -> looking the name up -> asking -> waiting. Owned by net_main(); on its loop.
 */
#ifndef MUXD_NET_EDGE_H
#define MUXD_NET_EDGE_H

struct edge_client;
struct err;
struct hub;
struct ipc;
struct uv_loop_s;

/* fd: what muxd/monitor/edge.h hands over, the caller's; empty: this daemon is no edge, and *out is NULL. */
int edge_client_create(struct uv_loop_s *loop, struct hub *h, struct ipc *ipc, int fd, struct edge_client **out,
		       struct err *e);
void edge_client_destroy(struct edge_client *c); /* NULL-safe; before ipc and hub. Run the loop afterwards */

#endif
