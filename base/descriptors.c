#include "base/descriptors.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define OWN_NET     80 /* listeners, ring, databases, libraries, some screens */
#define OWN_SANDBOX 32 /* muxlet's own */
#define PER_SESSION 3  /* of muxlet for a program: three pipes */
#define KEPT        24 /* of muxlet's channels: staff and lifecycle (muxd/hub/record/share.h) */

int descriptors_raise(uint64_t *out, struct err *e)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) != 0)
		return err_sys(e, errno, "the limit of open files");
	if (r.rlim_max < DESCRIPTORS_LEAST)
		return err_limit(e, ERR_LIMIT,
				 &(struct err_share){"fixed.open_files", "daemon", (uint64_t)r.rlim_max, 0, 1},
				 "the hard limit of open files is %" PRIu64
				 ", at least %d are needed: raise it (ulimit -Hn, LimitNOFILE=)",
				 (uint64_t)r.rlim_max, DESCRIPTORS_LEAST);
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
	*out = r.rlim_max;
	return 0;
}

static void cut(struct conf *c, const char *key, uint32_t *value, uint64_t most)
{
	size_t n = strlen(c->descriptors);

	if (*value <= most)
		return;
	snprintf(c->descriptors + n, sizeof(c->descriptors) - n, "%s%s is %" PRIu64 " instead of %u", n ? ", " : "",
		 key, most ? most : 1, *value);
	*value = most ? (uint32_t)most : 1;
}

void descriptors_fit(struct conf *c, uint64_t have)
{
	uint64_t kept = OWN_NET + have / 8; /* an eighth: links into sandboxes */
	uint64_t doors = have > kept ? have - kept : 0,
		 both = (uint64_t)c->api_max_connections + c->ssh_max_connections;
	uint64_t box = have < DESCRIPTORS_SANDBOX ? have : DESCRIPTORS_SANDBOX;
	uint64_t programs = box > OWN_SANDBOX ? (box - OWN_SANDBOX) / PER_SESSION : 0;
	char text[sizeof(c->descriptors)];

	c->descriptors[0] = '\0';
	if (both > doors) {
		uint64_t api = doors * c->api_max_connections / both;

		cut(c, "api.max_connections", &c->api_max_connections, api);
		cut(c, "ssh.max_connections", &c->ssh_max_connections, doors - api);
	}
	if (have < DESCRIPTORS_SANDBOX) /* else muxlet's own number of channels is the bound, as ever */
		cut(c, "sessions.max_per_agent", &c->sessions_max_per_agent, programs > KEPT ? programs - KEPT : 1);
	if (!c->descriptors[0])
		return;
	memcpy(text, c->descriptors, sizeof(text));
	(void)text_format(c->descriptors, sizeof(c->descriptors), "the limit of open files is %" PRIu64 ": %s", have,
			  text);
}
