/* muxd-recorder: started by the monitor with a packet socket as descriptor 3; see process.h. */
#include "recorder/serve/process.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define IPC_FD 3

int main(int argc, char **argv)
{
	int type = 0;
	socklen_t len = sizeof(type);

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("muxd-recorder " MUXD_VERSION);
		return 0;
	}
	if (argc > 1 || getsockopt(IPC_FD, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		fputs("muxd-recorder is started by \"muxd serve\", not by hand; see muxd-recorder(8).\n", stderr);
		return 64;
	}
	return process_run(IPC_FD);
}
