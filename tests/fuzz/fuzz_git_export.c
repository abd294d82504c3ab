// tier: check
/*
 * The end of an export, and of a clone, as programs of a sandbox tell it: the first byte is the exit code, the first
 * line is the revision that was asked for, the rest is the standard error. A commit that is found is hexadecimal; every
 * other end has a code.
 */
#include "base/err.h"
#include "base/utf8.h"
#include "muxd/hub/broker/git_clone.h"
#include "muxd/hub/broker/git_export.h"
#include "muxd/hub/session/session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_result r = {.cause = EXIT_EXITED};
	char revision[300], base[80] = "", *said;
	const uint8_t *nl = size ? memchr(data + 1, '\n', size - 1) : NULL;
	size_t head = nl ? (size_t)(nl - data - 1) : 0, n = nl ? size - head - 2 : 0;
	struct err e = {0};

	if (!nl || head >= sizeof(revision) || memchr(data + 1, 0, head))
		return 0;
	memcpy(revision, data + 1, head);
	revision[head] = '\0';
	if (git_revision_check(revision, &e) || !(said = malloc(n ? n : 1)))
		return 0;
	memcpy(said, nl + 1, n); /* of its exact length */
	r.code = data[0] == '0' ? 0 : data[0];
	memset(&e, 0, sizeof(e));
	int rc = git_export_result(&r, said, n, revision, base, sizeof(base), &e);
	if (rc == 0 && (r.code || !*base || strspn(base, "0123456789abcdef") != strlen(base)))
		abort();
	if (rc && (rc != e.code || *base || !utf8_valid((const uint8_t *)e.message, strlen(e.message))))
		abort();
	memset(&e, 0, sizeof(e));
	rc = git_clone_result(&r, said, n, revision, &e);
	if (!rc != !r.code || rc != e.code || !utf8_valid((const uint8_t *)e.message, strlen(e.message)))
		abort();
	free(said);
	return 0;
}
