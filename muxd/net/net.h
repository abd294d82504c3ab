/*
 * net.h - the net process: doors and hub, started by the monitor.
 *
 * net_main() takes the start packet from ipc_fd (docs/conversations.md), builds
 * the hub, recovers from the recorder, opens the doors and runs the loop until
 * told to stop or ipc_fd closes. Returns the process's exit code.
 */
#ifndef MUXD_NET_NET_H
#define MUXD_NET_NET_H

int net_main(int ipc_fd);

#endif
