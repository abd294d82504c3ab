#include "control/sandbox.h"

const char *sandbox_state_name(enum sandbox_state s)
{
	switch (s) {
	case SANDBOX_ABSENT:
		return "absent";
	case SANDBOX_RUNNING:
		return "running";
	case SANDBOX_STOPPED:
		return "stopped";
	case SANDBOX_ERROR:
		return "error";
	}
	return "error";
}

const char *sandbox_backend_name(enum sandbox_backend b)
{
	static const char *const names[] = {"local", "link", "plain"};

	return names[b];
}
