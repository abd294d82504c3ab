/* muxctl verify: is the record unchanged, and is it all there? Offline; files and public keys are enough. */
#include "recorder/verify.h"
#include "muxd/base/ids.h"
#include "muxd/ctl/nouns.h"
#include "recorder/sign.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FINDINGS_MAX      10000
#define HEAD_MAX          (64 * 1024)
#define STATUS_CHANGED    74 /* as ERR_CORRUPT */
#define STATUS_INCOMPLETE 65

static const struct ctl_option options[] = {
    {"all", 0, NULL, "Every recording and the log over them (so it is without an id, too)."},
    {"expect-head", 0, "FILE", "A head that muxctl head printed before: the record must still contain it."},
    {"key", 0, "PATH", "Public key of the recorder, or a folder of them (default: keys/record in the state)."},
    {"record", 0, "DIR", "The record's folder (default: record in the state directory)."},
    {"verbose", 'v', NULL, "A line for every recording, not only for those with findings."},
    {NULL, 0, NULL, NULL},
};

struct verifying {
	struct ctl *c;
	bool verbose;
	json_t *findings, *recordings; /* for -o json */
	uint64_t counts[3];            /* by class */
	uint64_t unsigned_recordings;
};

static const char *class_name(enum verify_class k)
{
	return k == VERIFY_INTEGRITY ? "integrity" : k == VERIFY_COMPLETENESS ? "completeness" : "note";
}

static json_t *finding_json(const struct verify_finding *f)
{
	char id[ID_STR_LEN];
	json_t *o = json_pack("{s:s,s:s,s:s,s:s}", "class", class_name(f->class), "code", f->code, "path", f->path,
			      "message", f->message);

	if (o && !id_is_nil(&f->session)) {
		id_format(&f->session, id);
		json_object_set_new(o, "session", json_string(id));
	}
	if (o && f->block >= 0)
		json_object_set_new(o, "block", json_integer(f->block));
	if (o && f->len) {
		json_object_set_new(o, "position", json_integer((json_int_t)f->pos));
		json_object_set_new(o, "length", json_integer((json_int_t)f->len));
	}
	return o;
}

static void on_finding(void *arg, const struct verify_finding *f)
{
	struct verifying *v = arg;
	char *path, *message;

	v->counts[f->class]++;
	if (v->c->json) {
		if (json_array_size(v->findings) < FINDINGS_MAX)
			json_array_append_new(v->findings, finding_json(f));
		return;
	}
	path = ctl_clean(f->path);
	message = ctl_clean(f->message);
	printf("%-12s %-20s %s", class_name(f->class), f->code, message ? message : "");
	if (path && *path)
		printf(" (%s)", path);
	putchar('\n');
	free(path);
	free(message);
}

static json_t *result_json(const char *path, const struct verify_result *r)
{
	char id[ID_STR_LEN];

	id_format(&r->session, id);
	return json_pack("{s:s,s:s,s:b,s:b,s:b,s:b,s:s,s:I,s:I,s:I}", "session", id, "path", path, "sealed",
			 (int)r->sealed, "intact", (int)r->intact, "complete", (int)r->complete, "signature_checked",
			 (int)r->signature_checked, "kid", r->kid, "blocks", (json_int_t)r->blocks, "events",
			 (json_int_t)r->events, "size", (json_int_t)r->size);
}

static void on_recording(void *arg, const char *path, const struct verify_result *r)
{
	struct verifying *v = arg;
	char id[ID_STR_LEN];

	v->unsigned_recordings += r->sealed && !r->signature_checked;
	if (v->c->json) {
		if (v->verbose || !r->intact || !r->complete)
			json_array_append_new(v->recordings, result_json(path, r));
		return;
	}
	if (!v->verbose && r->intact && r->complete)
		return;
	id_format(&r->session, id);
	printf("%s  %s, %s%s, %" PRIu64 " events, %" PRIu64 " bytes\n", id, r->intact ? "intact" : "CHANGED",
	       r->complete ? "complete" : "INCOMPLETE", r->sealed ? "" : ", not sealed", r->events, r->size);
}

static int load_keys(struct ctl *c, const struct ctl_args *a, struct grant_keyset *out, struct err *e)
{
	char path[4096];
	const char *from = args_get(a, "key");
	int rc = from ? 0 : ctl_path(c, "keys/record", path, sizeof(path), e);

	if (rc == 0)
		rc = keyset_load(from ? from : path, out, e);
	if (rc == 0 && out->n == 0)
		rc = err_set(e, ERR_NOT_FOUND, "no public key of a recorder in %s", from ? from : path);
	if (rc == ERR_NOT_FOUND)
		snprintf(c->hint, sizeof(c->hint),
			 "Name the key: --key keys/record/KID.pub of the daemon that recorded.");
	return rc;
}

static int load_head(const char *path, struct chain_head *out, struct err *e)
{
	char text[HEAD_MAX];
	FILE *f = fopen(path, "re");

	if (!f)
		return err_sys(e, errno, "open %s", path);
	size_t n = fread(text, 1, sizeof(text), f);
	bool bad = ferror(f) || n == sizeof(text);
	fclose(f);
	if (bad)
		return err_set(e, ERR_INVAL, "%s is not an exported head", path);
	return chain_head_import(text, n, out, e);
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

static void say_privsep(const char *state)
{
	if (strcmp(state, "none") == 0)
		printf("privsep:      none: who ran the daemon could also sign\n");
}

static int status_of(bool intact, bool complete)
{
	return !intact ? STATUS_CHANGED : complete ? 0 : STATUS_INCOMPLETE;
}

static void say_verdict(const struct verifying *v, bool intact, bool complete)
{
	printf("integrity:    %s", intact ? "intact" : "CHANGED");
	printf(v->counts[VERIFY_INTEGRITY] ? " (%" PRIu64 " findings)\n" : "\n", v->counts[VERIFY_INTEGRITY]);
	printf("completeness: %s", complete ? "complete" : "INCOMPLETE");
	printf(v->counts[VERIFY_COMPLETENESS] ? " (%" PRIu64 " findings)\n" : "\n", v->counts[VERIFY_COMPLETENESS]);
	if (v->unsigned_recordings)
		printf("not checked:  %" PRIu64 " signatures, their keys are not among those given\n",
		       v->unsigned_recordings);
}

static json_t *verdict_json(struct verifying *v, bool intact, bool complete, const char *split)
{
	return json_pack("{s:s,s:s,s:s,s:O,s:O,s:b}", "integrity", intact ? "intact" : "changed", "completeness",
			 complete ? "complete" : "incomplete", "privsep", split, "findings", v->findings, "recordings",
			 v->recordings, "findings_cut",
			 (int)(v->counts[0] + v->counts[1] + v->counts[2] > FINDINGS_MAX));
}

static int finish(struct verifying *v, json_t *o, int status)
{
	int printed = 0;

	if (v->c->json)
		printed = ctl_print_json(v->c, o);
	json_decref(o);
	return status ? status : printed;
}

static int verify_everything(struct verifying *v, const char *record, const struct grant_keyset *keys,
			     const struct chain_head *expect, struct err *e)
{
	struct verify_summary s = {0};
	int rc = verify_all(record, keys, expect, on_finding, on_recording, v, &s, e);
	const char *split = privsep(v->c, record);
	json_t *o = NULL;

	if (rc < 0)
		return rc;
	bool complete = s.complete && (!expect || s.expected_found);
	if (v->c->json) {
		o = verdict_json(v, s.intact, complete, split);
		json_object_set_new(o, "summary",
				    json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "recordings",
					      (json_int_t)s.recordings, "open", (json_int_t)s.open, "tombstones",
					      (json_int_t)s.tombstones, "missing", (json_int_t)s.missing, "unknown",
					      (json_int_t)s.unknown, "entries", (json_int_t)s.entries, "heads",
					      (json_int_t)s.heads, "unsigned_entries", (json_int_t)s.unsigned_entries));
		if (expect)
			json_object_set_new(o, "expected_head_found", json_boolean(s.expected_found));
		return finish(v, o, status_of(s.intact, complete));
	}
	say_verdict(v, s.intact, complete);
	printf("recordings:   %" PRIu64 ", %" PRIu64 " open, %" PRIu64 " removed by retention, %" PRIu64
	       " missing, %" PRIu64 " not in the log\n",
	       s.recordings, s.open, s.tombstones, s.missing, s.unknown);
	printf("log:          %" PRIu64 " entries, %" PRIu64 " signed heads, %" PRIu64 " entries behind the last one\n",
	       s.entries, s.heads, s.unsigned_entries);
	if (expect)
		printf("expected:     the head is %s the log\n", s.expected_found ? "in" : "NOT in");
	say_privsep(split);
	return finish(v, NULL, status_of(s.intact, complete));
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

static int verify_one(struct verifying *v, const char *what, const char *record, const struct grant_keyset *keys,
		      struct err *e)
{
	struct verify_result r = {0};
	struct id id;
	bool path = is_path(what);
	int rc;

	if (!path && id_parse(what, &id) < 0)
		return err_set(e, ERR_INVAL, "\"%.60s\" is neither a session id nor a recording's path", what);
	rc = path ? verify_recording(what, keys, !stands_open(what), on_finding, v, &r, e)
		  : verify_session(record, &id, keys, on_finding, v, &r, e);
	if (rc < 0)
		return rc;
	v->verbose = true;
	on_recording(v, path ? what : "", &r);
	const char *split = path ? "unknown" : privsep(v->c, record);
	if (v->c->json)
		return finish(v, verdict_json(v, r.intact, r.complete, split), status_of(r.intact, r.complete));
	say_verdict(v, r.intact, r.complete);
	say_privsep(split);
	return finish(v, NULL, status_of(r.intact, r.complete));
}

static int run(struct ctl *c, const struct ctl_args *a)
{
	struct verifying v = {
	    .c = c, .verbose = args_has(a, "verbose"), .findings = json_array(), .recordings = json_array()};
	struct grant_keyset keys = {0};
	struct chain_head head;
	struct err e = {0};
	char record[4096];
	const char *expect = args_get(a, "expect-head"), *dir = args_get(a, "record");
	bool one = a->noperands == 1;
	int rc = dir ? 0 : ctl_path(c, "record", record, sizeof(record), &e);

	if (rc == 0 && one && (args_has(a, "all") || expect))
		rc = err_set(&e, ERR_INVAL, "--all and --expect-head go with the whole record, not with one id");
	if (rc == 0)
		rc = load_keys(c, a, &keys, &e);
	if (rc == 0 && expect)
		rc = load_head(expect, &head, &e);
	if (rc == 0 && expect && chain_head_verify(&head, &keys) < 0)
		rc = err_set(&e, ERR_CORRUPT, "the head in %s is not signed by a key given here", expect);
	if (rc == 0)
		rc = one ? verify_one(&v, a->operands[0], dir ? dir : record, &keys, &e)
			 : verify_everything(&v, dir ? dir : record, &keys, expect ? &head : NULL, &e);
	free(keys.keys);
	json_decref(v.findings);
	json_decref(v.recordings);
	return rc < 0 ? ctl_fail(c, &e) : rc;
}

const struct ctl_command verify_command = {
    .name = "verify",
    .operands = "[ID]",
    .any_bytes = true,
    .max = 1,
    .help = "Check that the record is unchanged, and that it is all there.",
    .more = "Needs no daemon. Exit status: 0 whole, 74 something was changed, 65 nothing was changed\n"
	    "but something is missing.\n",
    .options = options,
    .run = run,
};
