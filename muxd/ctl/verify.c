/* muxctl verify: is the record unchanged, and is it all there? Offline; files and public keys are enough. */
#include "recorder/verify/verify.h"
#include "base/ids.h"
#include "base/slurp.h"
#include "muxd/ctl/nouns.h"
#include "muxd/ctl/outside.h"
#include "muxd/ctl/verdict.h"
#include "muxd/ctl/workers.h"
#include "recorder/chain/sign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CA_MAX (256 * 1024)

static const struct ctl_option options[] = {
    {"all", 0, NULL, "Every recording and the log over them (so it is without an id, too)."},
    {"derive", 0, NULL, "Draw keyframes again from their recordings, and compare (takes long)."},
    {"expect-head", 0, "FILE", "A head that muxctl head printed before: the record must still contain it. Repeatable."},
    {"key", 0, "PATH", "Public key of the recorder, or a folder of them (default: keys/record in the state)."},
    {"no-removals", 0, NULL, "Recordings that were removed by rule are a failure (status 68)."},
    {"record", 0, "DIR", "The record's folder (default: record in the state directory)."},
    {"require-witness", 0, NULL, "A verdict without a head from outside is a failure (status 67)."},
    {"snapshots", 0, NULL, "Read the files of snapshots, too, and compare them with the log."},
    {"tsa-ca", 0, "FILE", "Certificates that authorities' timestamps in the log may hang on (PEM)."},
    {"witness", 0, "URL|FILE", "Where heads are kept: another muxd, a file of lines, a syslog. Repeatable."},
    {"witness-ca", 0, "FILE", "Certificates that the witness's own may hang on (PEM; default: the system's)."},
    {"verbose", 'v', NULL, "A line for every recording, not only for those with findings."},
    {NULL, 0, NULL, NULL},
};

static int load_keys(struct verdict *v, const struct ctl_args *a, char path[4096], struct grant_keyset *out,
		     struct err *e)
{
	int rc = 0;

	v->keys_from = args_get(a, "key");
	v->keys_own = !v->keys_from;
	if (v->keys_own)
		rc = ctl_path(v->c, "keys/record", path, 4096, e);
	if (v->keys_own)
		v->keys_from = path;
	if (rc == 0)
		rc = keyset_load(v->keys_from, out, e);
	if (rc == 0 && out->n == 0)
		rc = err_set(e, ERR_NOT_FOUND, "no public key of a recorder in %s", v->keys_from);
	if (rc == ERR_NOT_FOUND)
		snprintf(v->c->hint, sizeof(v->c->hint),
			 "Name the key: --key keys/record/KID.pub of the daemon that recorded.");
	return rc;
}

/*
 * In mode user one uid does all: then whoever ran the daemon could have signed something else. Of a copy of the record
 * the owner says nothing.
 */
static const char *privsep(struct ctl *c, const char *record)
{
	struct stat dir, inside;
	char own[4096];
	struct err e;

	if (ctl_path(c, "record", own, sizeof(own), &e) < 0 || strcmp(own, record) != 0 ||
	    stat(c->state_dir, &dir) < 0 || stat(record, &inside) < 0)
		return "unknown";
	return dir.st_uid == inside.st_uid ? "none" : "uids";
}

static bool is_path(const char *s)
{
	return strchr(s, '/') || strstr(s, ".mrec");
}

/* By the folder in which it really stands: what is in open/ has no footer yet, and that is no damage. */
static bool stands_open(const char *path)
{
	char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;
	bool open = slash && slash - real >= 5 && memcmp(slash - 5, "/open", 5) == 0;

	free(real);
	return open;
}

static int verify_whole(struct verdict *v, const struct verify_ask *ask, struct err *e)
{
	struct verify_summary s;
	int rc = verify_all(ask, &s, e);

	return rc ? rc : verdict_whole(v, &s, ask->outside_n, privsep(v->c, ask->dir));
}

/* A file outside of any record is judged alone. */
static int verify_file(struct verdict *v, const struct verify_ask *ask, const char *path, struct err *e)
{
	struct verify_result r = {0};
	int rc = verify_path(ask, path, &r, e);
	bool alone = rc == ERR_NOT_FOUND;

	if (alone && ask->drawers)
		return err_set(e, ERR_INVAL, "--derive needs the record's log, and %s stands in no record", path);
	if (alone)
		rc = verify_recording(path, ask->keys, !stands_open(path), verdict_finding, v, &r, e);
	if (rc)
		return rc;
	verdict_recording(v, path, &r);
	return verdict_one(v, &r, alone, "unknown");
}

static int verify_one(struct verdict *v, const struct verify_ask *ask, const char *what, struct err *e)
{
	struct verify_result r = {0};
	struct id id;
	int rc;

	v->verbose = true;
	if (is_path(what))
		return verify_file(v, ask, what, e);
	if (id_parse(what, &id) < 0)
		return err_set(e, ERR_INVAL, "\"%.60s\" is neither a session id nor a recording's path", what);
	rc = verify_session(ask, &id, &r, e);
	if (rc)
		return rc;
	verdict_recording(v, "", &r);
	return verdict_one(v, &r, false, privsep(v->c, ask->dir));
}

/* One recording is no proof of what else there was. */
static int check_options(const struct ctl_args *a, struct err *e)
{
	static const char *const whole[] = {"all",         "expect-head", "witness", "require-witness",
					    "no-removals", "snapshots",   "tsa-ca"};

	for (size_t i = 0; a->noperands && i < sizeof whole / sizeof *whole; i++)
		if (args_has(a, whole[i]))
			return err_set(e, ERR_INVAL, "--%s goes with the whole record, not with one id", whole[i]);
	return 0;
}

/* Beside the record, as in the state directory. */
static int snapshots_at(struct ctl *c, const char *record, char out[4096], struct err *e)
{
	if (!record)
		return ctl_path(c, "sandboxes", out, 4096, e);
	if (snprintf(out, 4096, "%s/../sandboxes", record) >= 4096)
		return err_set(e, ERR_INVAL, "the path of the record is too long");
	return 0;
}

static int verify_run(struct ctl *c, const struct ctl_args *a)
{
	struct verdict v;
	struct outside outside = {NULL, 0};
	struct workers workers = {.drawers = NULL};
	struct grant_keyset keys = {0};
	struct err e = {0};
	char record[4096], folder[4096], sandboxes[4096], *tsa_ca = NULL;
	size_t tsa_ca_n = 0;
	const char *dir = args_get(a, "record");
	int rc = verdict_begin(&v, c) ? err_set(&e, ERR_NOMEM, "out of memory") : check_options(a, &e);

	v.verbose = args_has(a, "verbose");
	v.need_witness = args_has(a, "require-witness");
	v.need_all = args_has(a, "no-removals");
	v.derived = args_has(a, "derive");
	if (rc == 0 && !dir)
		rc = ctl_path(c, "record", record, sizeof(record), &e);
	if (rc == 0 && args_has(a, "snapshots"))
		rc = snapshots_at(c, dir, sandboxes, &e);
	if (rc == 0)
		rc = load_keys(&v, a, folder, &keys, &e);
	if (rc == 0)
		rc = outside_expected(&outside, a, &e);
	if (rc == 0)
		rc = outside_witnesses(&outside, a, dir ? dir : record, &e);
	if (rc == 0 && v.derived)
		rc = workers_begin(&workers, &e);
	v.tsa_ca = args_get(a, "tsa-ca");
	if (rc == 0 && v.tsa_ca)
		rc = slurp_operand(v.tsa_ca, CA_MAX, &tsa_ca, &tsa_ca_n, &e);
	if (rc == 0) {
		struct verify_ask ask = {.dir = dir ? dir : record,
					 .keys = &keys,
					 .outside = outside.heads,
					 .outside_n = outside.n,
					 .sandboxes = args_has(a, "snapshots") ? sandboxes : NULL,
					 .drawers = workers.drawers,
					 .tsa_ca = tsa_ca,
					 .sink = verdict_finding,
					 .each = verdict_recording,
					 .key = verdict_key,
					 .arg = &v};
		rc = a->noperands ? verify_one(&v, &ask, a->operands[0], &e) : verify_whole(&v, &ask, &e);
	}
	workers_finish(&workers);
	slurp_free(tsa_ca, tsa_ca_n);
	free(keys.keys);
	outside_finish(&outside);
	verdict_finish(&v);
	return rc < 0 ? ctl_fail(c, &e) : rc;
}

const struct ctl_command verify_commands[] = {
    {"verify", "[ID]", 0, 1, "Check that the record is unchanged and complete.", options, .run = verify_run,
     .more = "Needs no daemon. Exit status: 0 unchanged and complete as far as is known, 74 changed, 65 unchanged but\n"
	     "incomplete, 69 the recording named is still open, 67 with --require-witness when the log has no head\n"
	     "of an outside witness, 68 with --no-removals when recordings were removed.\n",
     .any_bytes = true},
    {0},
};
