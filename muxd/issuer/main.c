/* muxd-issuer: started by the monitor alone, with descriptor 3. */
#include "muxd/issuer/checker.h"

#define IPC_FD 3

int main(void)
{
	return checker_run(IPC_FD);
}
