#include "muxd/ctl/record.h"

#include "base/ids.h"
#include "base/text.h"
#include "muxd/ctl/recorded.h"
#include "recorder/chain/sign.h"
#include "recorder/format/event.h"
#include "recorder/format/recording.h"
#include "recorder/verify/verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
	struct ctl *c;
	struct record_facts facts;
	json_t *open;
	char *reason;
	struct recording *file; /* else the peer */
	char path[4400];        /* of the file */
	bool ours;              /* it stands in the state directory's record */
	struct ctl_peer peer;
	struct id id;
	bool at_end;
	uint64_t first_ns;
	int64_t wall_ns; /* at first_ns */
};

const struct record_facts *record_facts(const struct record *r)
{
	return &r->facts;
}

void record_close(struct record *r)
{
	if (!r)
		return;
	recording_close(r->file);
	ctl_peer_close(&r->peer);
	json_decref(r->open);
	free(r->reason);
	free(r);
}

static void take_open(struct record *r, json_t *open)
{
	json_decref(r->open);
	r->open = open;
	r->facts.open = open;
	json_opt_int(open, "wall_ns", 0, INT64_MAX, &r->wall_ns, NULL);
}

/* A path into the state directory's record; copies elsewhere are their owner's. */
static bool record_is_ours(struct record *r, const char *path)
{
	char dir[4096], *whole = realpath(path, NULL), *record = NULL;
	size_t n;
	bool ours;

	if (ctl_path(r->c, "record", dir, sizeof(dir), NULL) == 0)
		record = realpath(dir, NULL);
	n = record ? strlen(record) : 0;
	ours = whole && n && strncmp(whole, record, n) == 0 && whole[n] == '/';
	free(whole);
	free(record);
	return ours;
}

/* The facts that the file, which is open, says. */
static void take_file(struct record *r, const char *path)
{
	json_t *open = NULL;
	const struct recording_info *info = recording_info(r->file);
	text_put(r->path, sizeof(r->path), path);
	r->ours = record_is_ours(r, path);
	r->id = info->session;
	r->facts.sealed = info->sealed;
	r->first_ns = info->first_ns;
	if (info->open_json && json_parse(info->open_json, strlen(info->open_json), RING_RECORD_MAX, &open, NULL) == 0)
		take_open(r, open);
	r->wall_ns = info->wall_ns;
}

/* (Again) from that moment. A token each time: the one before may have run out during a long pause. */
static int ask_events(struct record *r, uint64_t from_ns, struct err *e)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = r->reason};
	json_t *head = NULL, *open, *q = json_pack("{s:s,s:s}", "op", "events", "session", r->facts.session);
	int rc;

	if (q && from_ns)
		json_object_set_new(q, "from_ns", json_integer((json_int_t)from_ns));
	ctl_peer_close(&r->peer);
	rc = ctl_peer_ask(r->c, q, &w, &r->peer, e);
	if (rc == 0)
		rc = ctl_peer_json(r->c, &r->peer, &head, e);
	json_decref(q);
	if (rc == 0 && (open = json_object_get(head, "open")) && json_is_object(open))
		take_open(r, json_incref(open));
	json_decref(head);
	r->at_end = false;
	return rc;
}

static bool is_path(const char *what)
{
	size_t len = strlen(what);

	return strchr(what, '/') || (len > 5 && strcmp(what + len - 5, ".mrec") == 0);
}

/*
 * The recorder hears of it before a file of the daemon's is read, and writes it into the audit log. No daemon: then
 * there is nobody to tell (docs/security.md).
 */
static int record_tell(struct record *r, struct err *e)
{
	struct ctl_wish w = {.kind = "auditor", .agent = "*", .scopes = "replay", .reason = r->reason};
	json_t *answer = NULL, *q = json_pack("{s:s,s:s}", "op", "read", "session", r->facts.session);
	int rc = ctl_ask(r->c, q, &w, NULL, &answer, e);

	json_decref(answer);
	if (rc != ERR_UNAVAILABLE)
		return rc;
	r->c->hint[0] = '\0';
	*e = (struct err){0};
	return 0;
}

static int open_path(struct record *r, const char *path, struct err *e)
{
	int rc = recording_open(path, &r->file, e);

	if (rc)
		return rc;
	take_file(r, path);
	id_format(&r->id, r->facts.session);
	return r->ours ? record_tell(r, e) : 0;
}

static int open_found(struct record *r, const char *dir, struct err *e)
{
	char path[FILE_PATH_MAX];
	int rc = recording_open_found(dir, &r->id, path, &r->file, e);

	if (!rc)
		take_file(r, path);
	return rc;
}

/* Sealed on disk, else the recorder's word, else the unsealed file. */
static int open_session(struct record *r, struct err *e)
{
	char dir[4096];
	int rc = ctl_path(r->c, "record", dir, sizeof(dir), e), found;
	struct err why;

	if (rc < 0)
		return rc;
	found = open_found(r, dir, &why);
	if (found == 0 && r->facts.sealed)
		return record_tell(r, e);
	recording_close(r->file);
	r->file = NULL;
	/* Damage is to be heard of, not walked around. */
	if (found < 0 && found != ERR_PERMISSION && found != ERR_NOT_FOUND)
		return err_set(e, found, "%s", why.message);
	rc = ask_events(r, 0, e);
	if (rc != ERR_UNAVAILABLE || found == ERR_NOT_FOUND)
		return rc;
	r->c->hint[0] = '\0';
	r->facts.partial = true;
	return open_found(r, dir, e);
}

struct check {
	bool changed, unknown; /* unknown: its key is none of those here */
	char first[ERR_MESSAGE_MAX];
};

static void record_on_finding(void *arg, const struct verify_finding *f)
{
	struct check *k = arg;

	if (f->class != VERIFY_INTEGRITY)
		return;
	if (strcmp(f->code, "key_unknown") == 0) {
		k->unknown = true;
		return;
	}
	if (!k->changed)
		text_put(k->first, sizeof(k->first), f->message);
	k->changed = true;
}

static int changed(struct record *r, const char *what, bool unverified, struct err *e)
{
	if (unverified) {
		char *text = ctl_clean(what);

		fprintf(stderr, "muxctl: warning: this is not what was recorded: %s\n", text ? text : "");
		free(text);
		return 0;
	}
	text_format(r->c->hint, sizeof(r->c->hint), "muxctl verify %s tells more; --unverified shows it as it is.",
		    r->facts.session);
	return err_set(e, ERR_CORRUPT, "this is not what was recorded: %s", what);
}

/* The file is asked by its path: one that was sealed since it was opened stands elsewhere now. */
static int check_file(struct record *r, const struct grant_keyset *keys, struct check *k, struct verify_result *out,
		      struct err *e)
{
	char dir[4096];
	int rc = verify_recording(r->path, keys, r->facts.sealed, record_on_finding, k, out, e);

	if (rc != ERR_NOT_FOUND || !r->ours || ctl_path(r->c, "record", dir, sizeof(dir), NULL) ||
	    recording_find(dir, &r->id, r->path, sizeof(r->path), NULL))
		return rc;
	return verify_recording(r->path, keys, r->facts.sealed, record_on_finding, k, out, e);
}

int record_check(struct record *r, bool unverified, struct err *e)
{
	struct grant_keyset keys = {NULL, 0};
	struct verify_result v;
	struct check k = {.first = ""};
	char folder[4096];
	int rc;

	if (!r->file)
		return 0;
	if (ctl_path(r->c, "keys/record", folder, sizeof(folder), NULL) == 0)
		(void)keyset_load(folder, &keys, NULL); /* none: then nothing can be said of the signature */
	rc = check_file(r, &keys, &k, &v, e);
	free(keys.keys);
	if (rc)
		return rc;
	if (k.changed)
		return changed(r, k.first, unverified, e);
	if (k.unknown && r->ours)
		return changed(r, "it is signed by a key that is none of this record's", unverified, e);
	if (k.unknown)
		fprintf(stderr, "muxctl: its signature was not checked: key %s is not here; see muxctl verify --key\n",
			v.kid);
	return 0;
}

int record_open(struct ctl *c, const char *what, const char *reason, struct record **out, struct err *e)
{
	struct record *r;
	char newest[ID_STR_LEN];
	int rc = 0;

	if (strcmp(what, "last") == 0) {
		rc = recorded_newest(c, newest, e);
		if (rc)
			return rc;
		what = newest;
	}
	r = calloc(1, sizeof(*r));
	if (!r || !(r->reason = strdup(reason))) {
		free(r);
		return err_set(e, ERR_NOMEM, "no memory for the recording");
	}
	r->c = c;
	r->peer.fd = -1;
	if (is_path(what)) {
		rc = open_path(r, what, e);
	} else if (id_parse(what, &r->id) < 0) {
		rc = err_set(e, ERR_INVAL, "\"%.60s\" is neither a session id, nor last, nor a recording's path", what);
	} else {
		id_format(&r->id, r->facts.session);
		rc = open_session(r, e);
	}
	if (rc < 0) {
		record_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

/* An event off the socket, or its end. */
static int peer_next(struct record *r, struct ring_record *out, struct err *e)
{
	struct event_context alone = {0};
	struct msg m;
	json_t *o = NULL;
	int rc;

	if (r->at_end)
		return 0;
	if ((rc = ctl_peer_next(&r->peer, &m, e)) < 0)
		return rc;
	if (m.kind == 'B') {
		rc = event_decode(&alone, m.payload + 1, m.len - 1, out);
		out->session = r->id;
		return rc < 0 ? err_set(e, ERR_PROTOCOL, "the recorder sent an event that cannot be read") : 1;
	}
	rc = json_parse(m.payload, m.len, MSG_MAX, &o, e);
	if (rc == 0 && json_is_object(json_object_get(o, "error")))
		rc = ctl_remote_error(r->c, json_object_get(o, "error"), e);
	json_decref(o);
	r->at_end = true;
	return rc;
}

int record_next(void *record, struct ring_record *out, struct err *e)
{
	struct record *r = record;
	int rc = r->file ? recording_next(r->file, out, e) : peer_next(r, out, e);

	if (rc == 1 && !r->first_ns)
		r->first_ns = out->boot_ns;
	return rc;
}

int record_seek(struct record *r, uint64_t boot_ns, struct err *e)
{
	if (!r->file)
		return ask_events(r, boot_ns, e);
	return boot_ns ? recording_seek_time(r->file, boot_ns, e) : recording_rewind(r->file, e);
}

int64_t record_wall_ns(const struct record *r, uint64_t boot_ns)
{
	if (r->file)
		return recording_wall_ns(r->file, boot_ns);
	return r->wall_ns && r->first_ns ? r->wall_ns + (int64_t)(boot_ns - r->first_ns) : 0;
}
