/* muxd-witness: started by the monitor alone, with descriptor 3. */
#include "muxd/witness/carrier.h"

#define IPC_FD 3

int main(void)
{
	return carrier_run(IPC_FD);
}
