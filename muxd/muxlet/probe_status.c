/* The first line of what a service answers: a stranger's bytes. */
#include "muxd/muxlet/probe.h"

#include <string.h>

int probe_status(const char *p, size_t n)
{
	static const char version[] = "HTTP/1.";
	size_t at = sizeof(version) - 1;
	int status = 0;

	if (n < at + 5 || memcmp(p, version, at) != 0 || (p[at] != '0' && p[at] != '1') || p[at + 1] != ' ')
		return 0;
	for (size_t i = at + 2; i < at + 5; i++) {
		if (p[i] < '0' || p[i] > '9')
			return 0;
		status = status * 10 + (p[i] - '0');
	}
	if (n > at + 5 && p[at + 5] != ' ' && p[at + 5] != '\r' && p[at + 5] != '\n')
		return 0;
	return status >= 100 && status < 600 ? status : 0;
}
