/* muxctl: the operator's and the auditor's tool. See docs/man/muxctl.1. */
#include "muxd/ctl/ctl.h"

int main(int argc, char **argv)
{
	return ctl_main(argc, argv);
}
