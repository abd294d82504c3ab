#include "muxd/witness/kind.h"

#include <string.h>

kind_send *kind_find(const char *name)
{
	static const struct {
		const char *name;
		kind_send *send;
	} kinds[] = {
	    {"file", kind_file_send},     {"https", kind_https_send},         {"muxd", kind_muxd_send},
	    {"syslog", kind_syslog_send}, {"timestamp", kind_timestamp_send}, {"s3", kind_s3_send},
	};

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].send;
	return NULL;
}
