/*
 * muxd-archive: a workspace to an archive and back, in a cage of the monitor's (control/local/archive.h).
 *
 *   muxd-archive pack DIR >ARCHIVE     muxd-archive check <ARCHIVE     muxd-archive unpack DIR <ARCHIVE
 *   muxd-archive unpack-old DIR <ARCHIVE: of an earlier version; "unsupported" at a name that only tar gives as it was
 *   muxd-archive image DIR SHA256 BYTES [LAYOUT] <ARCHIVE: a root for sandboxes, of an OCI image (oci_unpack.h)
 *
 * Its last line, on descriptor 2, is "ok ENTRIES BYTES SKIPPED CHANGED DIGEST", or "failed CODE MESSAGE" with a stable
 * code of err.h.
 */
#include "base/confine.h"
#include "base/err.h"
#include "control/archive/oci_unpack.h"
#include "control/archive/pack.h"
#include "control/archive/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE_MEMORY (UINT64_C(2) << 30)
#define IMAGE_CPU_S  1800
#define IMAGE_FILES  256

static int limit_set(int what, rlim_t value, struct err *e)
{
	struct rlimit r = {.rlim_cur = value, .rlim_max = value};

	return setrlimit(what, &r) == 0 ? 0 : err_sys(e, errno, "cannot set a limit");
}

/* An archive of strangers gets no other program, no network, and no more than this out of the process. */
static int image_confine(uint64_t max, struct err *e)
{
	int rc = limit_set(RLIMIT_FSIZE, (rlim_t)max, e);

	rc = rc ? rc : limit_set(RLIMIT_NOFILE, IMAGE_FILES, e);
	rc = rc ? rc : limit_set(RLIMIT_CPU, IMAGE_CPU_S, e);
	rc = rc ? rc : limit_set(RLIMIT_CORE, 0, e);
#ifndef __SANITIZE_ADDRESS__
	rc = rc ? rc : limit_set(RLIMIT_AS, IMAGE_MEMORY, e);
#endif
	if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		rc = err_sys(e, errno, "cannot give up rights");
	return rc ? rc : confine_local(e);
}

static int image_unpack(int argc, char **argv, struct pack_result *out, struct err *e)
{
	uint64_t max = strtoull(argv[4], NULL, 10);
	struct oci_result r = {0};
	struct oci_source from;
	int rc, layout = -1;

	if (strlen(argv[3]) != OCI_HEX - 1 || max == 0)
		return err_set(e, ERR_INVAL, "usage: muxd-archive image DIR SHA256 BYTES [LAYOUT]");
	rc = image_confine(max, e);
	if (rc == 0 && argc == 6 && (layout = open(argv[5], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		rc = err_sys(e, errno, "cannot open the image's directory");
	source_begin(&from, layout < 0 ? 0 : -1, layout);
	rc = rc ? rc : oci_unpack(&from, argv[3], max, argv[2], &r, e);
	if (layout >= 0)
		close(layout);
	if (rc)
		return rc;
	*out = (struct pack_result){.entries = r.names, .bytes = r.bytes, .skipped = r.set_ids};
	memcpy(out->digest, r.digest, sizeof(out->digest));
	return 0;
}

static int main_run(int argc, char **argv, struct pack_result *out, struct err *e)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct read_result r = {0};
	int rc;

	if (strcmp(verb, "pack") == 0 && argc == 3)
		return pack_tree(argv[2], 1, out, e);
	if (strcmp(verb, "image") == 0 && (argc == 5 || argc == 6))
		return image_unpack(argc, argv, out, e);
	if (strcmp(verb, "check") == 0 && argc == 2)
		rc = read_check(0, &r, e);
	else if (strcmp(verb, "unpack") == 0 && argc == 3)
		rc = unpack_archive(0, argv[2], false, &r, e);
	else if (strcmp(verb, "unpack-old") == 0 && argc == 3)
		rc = unpack_archive(0, argv[2], true, &r, e);
	else
		return err_set(e, ERR_INVAL,
			       "usage: muxd-archive pack DIR | check | unpack DIR | unpack-old DIR | image DIR SHA256 "
			       "BYTES [LAYOUT]");
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
