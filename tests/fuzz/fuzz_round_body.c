// tier: check
/*
 * The first byte chooses small or large limits; the rest is a request's body, or START's. What
 * is accepted must hold what the hub relies on; what is refused must be named.
 */
#include "base/clock.h"
#include "base/err.h"
#include "muxd/doors/https/body.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct round_body *b, const struct round_limits *l)
{
	size_t bytes = b->spec.command ? strlen(b->spec.command) : 0;

	if (b->wait_ns > l->wait_max_ns || b->spec.timeout_ns > l->timeout_max_ns)
		abort();
	if (b->spec.kind == SESSION_ROUND ? !b->spec.argv == !b->spec.command : b->spec.argv && b->spec.command)
		abort();
	if (b->spec.kind == SESSION_FILE && (!b->spec.file || !b->spec.file->path || b->spec.argv || b->spec.pty))
		abort();
	if (b->spec.pty && (!b->spec.cols || !b->spec.rows || b->spec.cols > 4096 || b->spec.rows > 4096))
		abort();
	if (b->spec.argv && !b->spec.argv[0][0])
		abort();
	for (size_t i = 0; b->spec.argv && b->spec.argv[i]; i++)
		bytes += strlen(b->spec.argv[i]);
	for (size_t i = 0; b->spec.env && b->spec.env[i]; i++) {
		if (!strchr(b->spec.env[i], '='))
			abort();
		bytes += strlen(b->spec.env[i]);
	}
	if (bytes > l->argv_max)
		abort();
	/* every byte of it can be read */
	for (size_t i = 0; i < b->spec.stdin_len; i++)
		bytes += ((const uint8_t *)b->spec.stdin_data)[i];
	if (bytes == SIZE_MAX)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct round_limits l = {.body_max = 1 << 20,
				 .argv_max = 1 << 17,
				 .timeout_max_ns = 3600 * NS_PER_SEC,
				 .wait_default_ns = 10 * NS_PER_SEC,
				 .wait_max_ns = 60 * NS_PER_SEC};
	struct round_body b;
	struct err e = {0};
	int rc;

	if (size == 0)
		return 0;
	if (data[0] & 1) {
		l.body_max = 256;
		l.argv_max = 16;
	}
	for (int start = 0; start < 2; start++) {
		e = (struct err){0};
		rc = (start ? start_body_parse : round_body_parse)(data + 1, size - 1, &l, &b, &e);
		if (rc == 0) {
			check(&b, &l);
			round_body_finish(&b);
		} else if (e.code != rc || !e.message[0]) {
			abort();
		}
	}
	return 0;
}
