/*
 * process.h - the recorder as a process: started by the monitor, told what to do over fd 3.
 *
 * process_run() takes the start packet (docs/conversations.md, "monitor - recorder"),
 * recovers, answers `ready`, and runs until it is told to stop, the packet
 * socket closes or SIGTERM comes; then it drains once more and commits.
 *
 * States: STARTING -> RUNNING -> STOPPING.
 */
#ifndef RECORDER_SERVE_PROCESS_H
#define RECORDER_SERVE_PROCESS_H

/* Returns the process's exit code. */
int process_run(int ipc_fd);

#endif
