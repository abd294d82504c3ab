/*
 * muxd-archive: a workspace to an archive and back, in a cage of the monitor's (control/local/archive.h).
 *
 *   muxd-archive pack DIR >ARCHIVE     muxd-archive check <ARCHIVE     muxd-archive unpack DIR <ARCHIVE
 *   muxd-archive unpack-old DIR <ARCHIVE: of an earlier version; "unsupported" at a name that only tar gives as it was
 *
 * Its last line, on descriptor 2, is "ok ENTRIES BYTES SKIPPED CHANGED DIGEST", or "failed CODE MESSAGE" with a stable
 * code of err.h.
 */
#include "base/err.h"
#include "control/archive/pack.h"
#include "control/archive/unpack.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int main_run(int argc, char **argv, struct pack_result *out, struct err *e)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct read_result r = {0};
	int rc;

	if (strcmp(verb, "pack") == 0 && argc == 3)
		return pack_tree(argv[2], 1, out, e);
	if (strcmp(verb, "check") == 0 && argc == 2)
		rc = read_check(0, &r, e);
	else if (strcmp(verb, "unpack") == 0 && argc == 3)
		rc = unpack_archive(0, argv[2], false, &r, e);
	else if (strcmp(verb, "unpack-old") == 0 && argc == 3)
		rc = unpack_archive(0, argv[2], true, &r, e);
	else
		return err_set(e, ERR_INVAL, "usage: muxd-archive pack DIR | check | unpack DIR | unpack-old DIR");
	if (rc)
		return rc;
	*out = (struct pack_result){.entries = r.entries, .bytes = r.bytes};
	memcpy(out->digest, r.digest, sizeof(out->digest));
	return 0;
}

int main(int argc, char **argv)
{
	struct pack_result r = {0};
	struct err e = {0};
	int rc;

	/* Archives of earlier versions have their names in UTF-8, and say so. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	umask(0);
	rc = main_run(argc, argv, &r, &e);
	if (rc)
		fprintf(stderr, "failed %s %s\n", err_name(rc), e.message);
	else
		fprintf(stderr, "ok %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %s\n", r.entries, r.bytes,
			r.skipped, r.changed, r.digest);
	return rc ? 1 : 0;
}
