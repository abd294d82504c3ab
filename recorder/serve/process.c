#define LOG_SUBSYS "recorder"
#include "recorder/serve/process.h"

#include "base/clock.h"
#include "base/confine.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/sock.h"
#include "recorder/chain/sign.h"
#include "recorder/draw/commander.h"
#include "recorder/draw/drawer.h"
#include "recorder/draw/keyframer.h"
#include "recorder/index/index_rebuild.h"
#include "recorder/output/feeder.h"
#include "recorder/serve/alarms.h"
#include "recorder/serve/auth.h"
#include "recorder/serve/keeper.h"
#include "recorder/serve/lost.h"
#include "recorder/serve/service.h"
#include "recorder/serve/witnesses.h"
#include "recorder/write/follower.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the monitor's start packet, taken apart */

struct start {
	struct conf *conf;
	json_t *loaded; /* who loaded it; NULL: nobody says */
	char *dir;      /* DIR/record */
	int ring_fd, cursor_fd, listen_fd;
	int bell_fd, moved_fd; /* base/ring.h: the hub rings the first, the recorder the second; -1: neither does */
	struct signer *signer;
	struct auth *auth;
	uid_t net_uid;
};

static const struct start start_nothing = {
    .ring_fd = -1, .cursor_fd = -1, .listen_fd = -1, .bell_fd = -1, .moved_fd = -1};

#define CONF_MAX (1024 * 1024)

static int pread_whole(int fd, void *p, size_t n)
{
	size_t got = 0;
	while (got < n) {
		ssize_t k = pread(fd, (char *)p + got, n - got, (off_t)got);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return ERR_EOF;
		got += (size_t)k;
	}
	return 0;
}

/* The configuration in a memfd, which is closed. */
static int start_conf(int fd, struct conf **out, struct err *e)
{
	struct stat st;
	char *text = NULL;
	int rc;

	if (fstat(fd, &st) < 0)
		rc = err_sys(e, errno, "cannot look at the configuration");
	else if (st.st_size > CONF_MAX)
		rc = err_set(e, ERR_TOO_LARGE, "the configuration has more than %d bytes", CONF_MAX);
	else if (!(text = malloc((size_t)st.st_size + 1)))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	else if (pread_whole(fd, text, (size_t)st.st_size))
		rc = err_set(e, ERR_SYS, "cannot read the configuration");
	else
		rc = conf_parse(text, (size_t)st.st_size, "configuration", out, e);
	/* As for net and the monitor: what is told of the configuration is what is in force. */
	if (rc == 0 && (rc = conf_environment(*out, e)) != 0) {
		conf_destroy(*out);
		*out = NULL;
	}
	free(text);
	close(fd);
	return rc;
}

/* The seed of a record key in a file, which is closed. */
static int start_key(int fd, struct signer **out, struct err *e)
{
	uint8_t seed[GRANT_KEY_LEN];
	int rc = pread_whole(fd, seed, sizeof(seed));
	rc = rc ? err_set(e, ERR_CORRUPT, "the record key cannot be read") : signer_create(seed, out, e);
	OPENSSL_cleanse(seed, sizeof(seed));
	close(fd);
	return rc;
}

/* Moves the named descriptor out of the list. */
static int take_fd(const json_t *names, int *fds, size_t n, const char *name, int *out, struct err *e)
{
	for (size_t i = 0; i < n && i < json_array_size(names); i++) {
		const char *s = json_string_value(json_array_get(names, i));
		if (s && strcmp(s, name) == 0 && fds[i] >= 0) {
			*out = fds[i];
			fds[i] = -1;
			return 0;
		}
	}
	return err_set(e, ERR_PROTOCOL, "start: descriptor '%s' is missing", name);
}

static int start_auth(const json_t *msg, struct start *s, struct err *e)
{
	const char *instance = "";
	int64_t floor = 0;
	const json_t *entry;
	size_t i;

	int rc = json_need_str(msg, "instance", &instance, e);
	if (rc == 0)
		rc = json_opt_int(msg, "floor_ns", 0, INT64_MAX, &floor, e);
	if (rc == 0 && auth_create(instance, json_get_text(json_object_get(msg, "edge"), "centre"), floor, &s->auth))
		rc = err_set(e, ERR_NOMEM, "out of memory");
	if (rc == 0 && json_object_get(msg, "edge"))
		rc = auth_set_edge_state(s->auth, json_object_get(msg, "edge"), e);
	if (rc == 0)
		auth_set_edge(s->auth, (int64_t)s->conf->edge_lease_max_ns, (int64_t)s->conf->edge_state_max_ns);
	if (rc == 0)
		rc = auth_set_keys(s->auth, json_object_get(msg, "grant_keys"), e);
	json_array_foreach(json_object_get(msg, "revoked"), i, entry)
	{
		if (rc == 0)
			rc = auth_revoke(s->auth, entry, e);
	}
	return rc;
}

static int start_parse(const json_t *msg, int *fds, size_t n, struct start *s, struct err *e)
{
	const json_t *names = json_object_get(msg, "fds");
	const char *op = "", *dir = "";
	int64_t uid = 0;
	int fd = -1;

	int rc = json_need_str(msg, "op", &op, e);
	if (rc == 0 && strcmp(op, "start") != 0)
		rc = err_set(e, ERR_PROTOCOL, "the first packet is '%s', not 'start'", op);
	if (rc == 0)
		rc = json_need_str(msg, "state_dir", &dir, e);
	if (rc == 0)
		rc = json_need_int(msg, "net_uid", 0, UINT32_MAX, &uid, e);
	if (rc == 0 && asprintf(&s->dir, "%s/record", dir) < 0) {
		s->dir = NULL;
		rc = err_set(e, ERR_NOMEM, "out of memory");
	}
	s->net_uid = (uid_t)uid;
	s->loaded = json_incref(json_object_get(msg, "loaded"));
	if (rc == 0 && (rc = take_fd(names, fds, n, "conf", &fd, e)) == 0)
		rc = start_conf(fd, &s->conf, e);
	if (rc == 0 && (rc = take_fd(names, fds, n, "record_key", &fd, e)) == 0)
		rc = start_key(fd, &s->signer, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "ring", &s->ring_fd, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "cursor", &s->cursor_fd, e);
	if (rc == 0 && take_fd(names, fds, n, "bell", &s->bell_fd, NULL) == 0)
		rc = take_fd(names, fds, n, "moved", &s->moved_fd, e);
	if (rc == 0)
		rc = take_fd(names, fds, n, "listen", &s->listen_fd, e);
	return rc ? rc : start_auth(msg, s, e);
}

static void start_finish(struct start *s)
{
	conf_destroy(s->conf);
	json_decref(s->loaded);
	signer_destroy(s->signer);
	auth_destroy(s->auth);
	free(s->dir);
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->cursor_fd >= 0)
		close(s->cursor_fd);
	if (s->listen_fd >= 0)
		close(s->listen_fd);
	if (s->bell_fd >= 0)
		close(s->bell_fd);
	if (s->moved_fd >= 0)
		close(s->moved_fd);
	*s = start_nothing;
}

static int receive_packet(int ipc_fd, json_t **out, int *fds, size_t *n, struct err *e)
{
	size_t room = *n;
	int rc;

	do {
		struct pollfd pfd = {.fd = ipc_fd, .events = POLLIN};
		(void)poll(&pfd, 1, -1);
		*n = room;
		rc = sock_recv_packet(ipc_fd, out, fds, n, e);
	} while (rc == ERR_AGAIN);
	return rc;
}

/* The revocations that the packet had no room for: before anybody may ask, all are known. */
static int start_follow(int ipc_fd, int64_t n, struct start *s, struct err *e)
{
	int rc = 0;

	for (; rc == 0 && n > 0; n--) {
		json_t *msg = NULL;
		size_t none = 0;

		rc = receive_packet(ipc_fd, &msg, NULL, &none, e);
		if (rc == 0)
			rc = auth_revoke(s->auth, msg, e);
		json_decref(msg);
	}
	return rc;
}

/* Waits for the packet. On failure everything received is closed. */
static int start_receive(int ipc_fd, struct start *out, struct err *e)
{
	struct start s = start_nothing;
	int fds[SOCK_FDS_MAX], rc;
	size_t n = SOCK_FDS_MAX;
	json_t *msg = NULL;
	int64_t follow = 0;

	rc = receive_packet(ipc_fd, &msg, fds, &n, e);
	if (rc)
		return rc;
	rc = start_parse(msg, fds, n, &s, e);
	if (rc == 0)
		rc = json_opt_int(msg, "follow", 0, INT64_MAX, &follow, e);
	json_decref(msg);
	if (rc == 0)
		rc = start_follow(ipc_fd, follow, &s, e);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (rc) {
		start_finish(&s);
		return rc;
	}
	*out = s;
	return 0;
}

/* ---- the process */

#define TICK_NS     (1 * NS_PER_SEC)
#define BEHIND      4                /* failures of the cutter, some seven seconds */
#define PROGRESS_NS (5 * NS_PER_SEC) /* from one word of a start that takes its time to the next */

enum process_state { PROCESS_STARTING, PROCESS_RUNNING, PROCESS_STOPPING };

struct process {
	enum process_state state;
	int ipc_fd, signal_fd;
	struct start start;
	int segments_fd;
	struct live *live;
	struct drain *drain;
	struct feeder *feeder;
	struct cutter *cutter;
	struct service *service;
	struct drawers *drawers;
	struct keyframer *keyframer;
	struct commander *commander;
	uint64_t before; /* lsn: records below it are an earlier recorder's */
	struct alarms *alarms;
	struct signer **past; /* that were rotated away: who signs may still hold one */
	size_t past_n;
	uint8_t index_key[32];
	struct witnesses *witnesses;
	struct keeper *keeper;
	struct lost lost;
	uint64_t told_ns; /* boot; the last `starting` */
};

static void process_set_state(struct process *p, enum process_state to)
{
	static const char *const names[] = {"starting", "running", "stopping"};
	log_debug(NULL, "state %s -> %s", names[p->state], names[to]);
	p->state = to;
}

static int make_folders(struct process *p, struct err *e)
{
	static const char *const names[] = {"segments", "open", "sealed", "chain"};
	int fd = open(p->start.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "cannot open %s", p->start.dir);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(names) / sizeof(names[0]); i++) {
		if (mkdirat(fd, names[i], 0700) < 0 && errno != EEXIST)
			rc = err_sys(e, errno, "cannot make %s/%s", p->start.dir, names[i]);
	}
	if (rc == 0 && fsync(fd) < 0)
		rc = err_sys(e, errno, "cannot sync %s", p->start.dir);
	p->segments_fd = rc ? -1 : openat(fd, "segments", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rc == 0 && p->segments_fd < 0)
		rc = err_sys(e, errno, "cannot open %s/segments", p->start.dir);
	close(fd);
	return rc;
}

/* A start is given up where nothing is heard of it for two minutes, and a large record takes more than that. */
static int process_on_progress(void *arg, uint64_t done, struct err *e)
{
	struct process *p = arg;
	uint64_t now = clock_boot_ns();

	if (p->told_ns && now - p->told_ns < PROGRESS_NS)
		return 0;
	p->told_ns = now;
	log_info(NULL, "reads the record: %llu entries so far", (unsigned long long)done);
	json_t *msg = json_pack("{s:s, s:I}", "op", "starting", "done", (json_int_t)done);
	int rc = msg ? sock_send_packet(p->ipc_fd, msg, NULL, 0, e) : err_set(e, ERR_NOMEM, "out of memory");
	json_decref(msg);
	return rc;
}

/* An ended session as well: where the segments lack its EXIT, its other records must not open it again. */
static int restore_live(void *arg, const struct index_unsealed *u)
{
	const char *said = u->exit ? u->exit : "{}";
	struct ring_record exit = {
	    .type = RING_EXIT, .session = u->id, .payload = (const uint8_t *)said, .len = (uint32_t)strlen(said)};
	int rc = live_restore(arg, &u->id, u->open, u->offsets);

	return rc || !u->ended ? rc : live_apply(arg, &exit, u->end_lsn);
}

/* What the index had as open, then what the segments say behind it. */
static int rebuild_live(struct process *p, struct index *ix, struct err *e)
{
	struct index_cursor cursor;
	struct segment_tail durable;
	struct segment_record sr;
	struct follower *f;
	uint64_t done = 0;

	int rc = index_unsealed(ix, restore_live, p->live, e);
	if (rc == 0)
		rc = index_cursor(ix, &cursor, e);
	if (rc == 0)
		rc = follower_create(p->segments_fd, &cursor, &f, e);
	if (rc)
		return rc;
	drain_durable(p->drain, &durable);
	if (!p->told_ns) /* this is short, most often */
		p->told_ns = clock_boot_ns();
	while ((rc = follower_read(f, &durable, &sr, e)) == 1 || rc == ERR_CORRUPT) {
		if (rc == ERR_CORRUPT) /* the cutter audits it when it comes there */
			follower_skip(f, &durable);
		else if ((rc = live_apply(p->live, &sr.rec, sr.lsn)) != 0 ||
			 (rc = process_on_progress(p, ++done, e)) != 0)
			break;
	}
	follower_destroy(f);
	return rc;
}

static int start_drain(struct process *p, struct index *ix, struct err *e)
{
	struct drain_params d = {.ring_fd = p->start.ring_fd,
				 .cursor_fd = p->start.cursor_fd,
				 .bell_fd = p->start.bell_fd,
				 .moved_fd = p->start.moved_fd,
				 .dir_fd = p->segments_fd,
				 .segment_size = p->start.conf->record_segment_size,
				 .min_free = p->start.conf->record_min_free,
				 .low_free = p->start.conf->share_record_low,
				 .io = &segment_io_system};
	struct index_cursor cursor = {0};
	int rc = index_last_lsn(ix, &d.min_lsn, e);
	if (rc == 0)
		rc = index_cursor(ix, &cursor, e);
	d.min_segment = cursor.segment;
	if (rc == 0)
		rc = drain_create(&d, p->live, &p->drain, e);
	if (rc == 0)
		rc = rebuild_live(p, ix, e);
	return rc ? rc : drain_start(p->drain, e);
}

/* The recorder starts no program: the monitor does, and answers with a descriptor. */
static int ask_worker(void *arg, struct err *e)
{
	const struct process *p = arg;
	json_t *msg = json_pack("{s:s}", "op", "screen.start");
	int rc = msg ? sock_send_packet(p->ipc_fd, msg, NULL, 0, e) : err_set(e, ERR_NOMEM, "out of memory");

	json_decref(msg);
	return rc;
}

static int keyframes_known(void *arg, const struct id *session, char out_root[65], struct err *e)
{
	const struct process *p = arg;

	return cutter_keyframes_root(p->cutter, session, out_root, e);
}

static int keyframes_made(void *arg, const struct id *session, const struct keyframes_digest *d, struct err *e)
{
	const struct process *p = arg;

	return cutter_keyframes(p->cutter, session, d, e);
}

static int start_keyframer(struct process *p, struct err *e)
{
	struct keyframer_params k = {
	    .dir = p->start.dir, .drawers = p->drawers, .known = keyframes_known, .made = keyframes_made, .arg = p};

	return keyframer_create(&k, &p->keyframer, e);
}

static int commands_ready(void *arg)
{
	const struct process *p = arg;

	return cutter_wait_consumed(p->cutter, p->before, 0) >= p->before ? 0 : ERR_AGAIN;
}

static int commands_told(void *arg, const struct id *session, struct commander_told *out, struct err *e)
{
	const struct process *p = arg;

	return cutter_commands_told(p->cutter, session, out, e);
}

static int commands_tell(void *arg, const struct id *session, const json_t *event, struct err *e)
{
	const struct process *p = arg;

	return cutter_commands_tell(p->cutter, session, event, e);
}

static size_t commands_due(void *arg, struct id *out, size_t max)
{
	const struct process *p = arg;

	return cutter_commands_due(p->cutter, out, max);
}

static int start_commander(struct process *p, struct err *e)
{
	struct commander_params c = {.dir = p->start.dir,
				     .drawers = p->drawers,
				     .ready = commands_ready,
				     .told = commands_told,
				     .tell = commands_tell,
				     .due = commands_due,
				     .arg = p};

	return commander_create(&c, &p->commander, e);
}

static int start_drawers(struct process *p, struct err *e)
{
	struct drawers_params d = {.ask = ask_worker, .arg = p};
	int rc = drawers_create(&d, &p->drawers, e);

	return rc ? rc : start_keyframer(p, e);
}

static void process_on_sealed(void *arg, const struct id *session)
{
	const struct process *p = arg;

	keyframer_want(p->keyframer, session);
	commander_want(p->commander, session, true);
}

static void process_on_typed(void *arg, const struct id *session)
{
	const struct process *p = arg;

	commander_want(p->commander, session, false);
}

static int make_feeder(struct process *p, struct err *e)
{
	struct feeder_params f = {.dir = p->start.dir,
				  .segments_fd = p->segments_fd,
				  .drain = p->drain,
				  .live = p->live,
				  .index_key = p->index_key,
				  .conf = p->start.conf};

	return feeder_create(&f, &p->feeder, e);
}

/* index becomes the cutter's, also on failure. */
static int start_cutter(struct process *p, struct index *ix, struct err *e)
{
	struct cutter_params c = {.dir = p->start.dir,
				  .segments_fd = p->segments_fd,
				  .index = ix,
				  .drain = p->drain,
				  .live = p->live,
				  .signer = p->start.signer,
				  .conf = p->start.conf,
				  .loaded = p->start.loaded,
				  .background = true,
				  .sealed = process_on_sealed,
				  .typed = process_on_typed,
				  .sealed_arg = p,
				  .needs = feeder_needs,
				  .needs_arg = p->feeder};
	struct segment_tail durable;
	int rc = cutter_create(&c, &p->cutter, e);

	drain_durable(p->drain, &durable);
	p->before = durable.lsn;
	if (rc == 0)
		rc = start_commander(p, e);
	if (rc == 0)
		feeder_guard(p->feeder, cutter_clock_waits, p->cutter);
	return rc ? rc : cutter_start(p->cutter, e);
}

static int start_witnesses(struct process *p, struct err *e)
{
	struct witnesses_params w = {.dir = p->start.dir,
				     .cutter = p->cutter,
				     .drain = p->drain,
				     .signer = p->start.signer,
				     .alarms = p->alarms,
				     .conf = p->start.conf};
	int rc = witnesses_create(&w, &p->witnesses, e);

	return rc ? rc
		  : keeper_create(p->start.dir, p->start.signer, cutter_chain(p->cutter), p->start.conf, &p->keeper, e);
}

static int start_service(struct process *p, struct err *e)
{
	struct service_params s = {.listen_fd = p->start.listen_fd,
				   .dir = p->start.dir,
				   .segments_fd = p->segments_fd,
				   .drain = p->drain,
				   .live = p->live,
				   .cutter = p->cutter,
				   .feeder = p->feeder,
				   .auth = p->start.auth,
				   .keyframer = p->keyframer,
				   .index_key = p->index_key,
				   .witnesses = p->witnesses,
				   .keeper = p->keeper,
				   .net_uid = p->start.net_uid};
	p->start.listen_fd = -1;
	int rc = service_create(&s, &p->service, e);
	return rc ? rc : service_start(p->service, e);
}

/* taken: it took over in this start. */
static void look_at_keys(struct process *p, bool *out_taken)
{
	char before[17];
	uint64_t entry = cutter_foreign(p->cutter, before);

	*out_taken = entry && strcmp(before, signer_public(p->start.signer)->kid) != 0;
	if (!entry)
		alarms_clear(p->alarms, "record_key_foreign");
	else
		alarms_set(
		    p->alarms, "record_key_foreign",
		    "Put keys/record back from a backup, in place of what is there, and start again. Where the old key "
		    "is lost, keep a copy of record/ and run muxctl key rotate --record.",
		    "the key that signs the record since entry %llu of its log was not named by the key before it: it "
		    "vouches for nothing before that entry",
		    (unsigned long long)entry);
}

/* A cutter that stands still keeps nobody from working, and segments until the disk is full: somebody has to look. */
static void look_at_cutter(struct process *p)
{
	struct cutter_status s;

	cutter_status(p->cutter, &s);
	if (s.failures < BEHIND)
		alarms_clear(p->alarms, "record_behind");
	else
		alarms_set(
		    p->alarms, "record_behind",
		    "Mend what the message names: a folder or file of record/ that is not the recorder's, a disk that "
		    "is full. The record itself is written; recordings, audit.db and the signed log wait, and nothing "
		    "of the segments is removed until they go on.",
		    "sessions are not sealed, and lists lack what is newest: %s", s.message);
}

/* Recordings have what their rule keeps; the whole output of rounds is kept by nobody else. */
static void look_at_feeder(struct process *p)
{
	char why[200];

	if (!feeder_rests(p->feeder, why, sizeof(why)))
		alarms_clear(p->alarms, "output_not_kept");
	else
		alarms_set(p->alarms, "output_not_kept",
			   "Mend what the message names in record/output, or move that folder away, and start again. "
			   "The record itself is written; output of rounds is answered from their recordings.",
			   "the whole output of rounds is not kept until the next start: %s", why);
}

static int tell_alarms(struct process *p, struct err *e)
{
	json_t *list = alarms_changed(p->alarms);
	json_t *msg = list ? json_pack("{s:s, s:O}", "op", "alarms", "alarms", list) : NULL;
	int rc = !list ? 0
		 : msg ? sock_send_packet(p->ipc_fd, msg, NULL, 0, e)
		       : err_set(e, ERR_NOMEM, "out of memory");

	json_decref(msg);
	json_decref(list);
	return rc;
}

static int tell_ready(struct process *p, struct err *e)
{
	bool taken = false;
	char before[17];

	look_at_keys(p, &taken);
	uint64_t foreign = cutter_foreign(p->cutter, before);
	int told = tell_alarms(p, e);
	if (told)
		return told;

	const struct grant_public_key *k = signer_public(p->start.signer);
	char *key = base64_encode(k->key, sizeof(k->key), true), log_id[ID_STR_LEN];
	struct id id;
	chain_log_id(cutter_chain(p->cutter), &id);
	id_format(&id, log_id);
	json_t *msg =
	    key ? json_pack("{s:s, s:s, s:s, s:s}", "op", "ready", "public_key", key, "kid", k->kid, "log_id", log_id)
		: NULL;
	if (msg && taken)
		json_object_set_new(msg, "took_over",
				    json_pack("{s:s, s:I}", "before", before, "entry", (json_int_t)foreign));
	int rc = msg ? sock_send_packet(p->ipc_fd, msg, NULL, 0, e) : err_set(e, ERR_NOMEM, "out of memory");
	json_decref(msg);
	free(key);
	return rc;
}

/* From here on it talks to the monitor and over the socket it was given, and starts nothing. */
static int process_confine(struct err *e)
{
	struct err why = {0};
	int rc = confine_local(&why);
	if (rc == ERR_UNSUPPORTED) {
		log_warn(NULL, "runs without a seccomp filter: %s", why.message);
		return 0;
	}
	return rc ? err_set(e, rc, "%s", why.message) : 0;
}

static int process_start(struct process *p, struct err *e)
{
	struct index_progress progress = {.fn = process_on_progress, .arg = p};
	struct index *ix = NULL;
	int rc = start_receive(p->ipc_fd, &p->start, e);
	if (rc)
		return rc;
	enum log_format format = strcmp(p->start.conf->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT;
	if ((rc = log_setup("recorder", p->start.conf->log_level, format, 2, e)) != 0 || (rc = process_confine(e)) != 0)
		return rc;
	index_set_pages();
	if ((rc = signer_derive(p->start.signer, "muxd index 1", p->index_key, e)) != 0 ||
	    (rc = make_folders(p, e)) != 0 ||
	    (rc = index_open_or_rebuild(p->start.dir, p->index_key, &progress, &ix, e)) != 0)
		return rc;
	rc = live_create(&p->live) || alarms_create(&p->alarms) ? err_set(e, ERR_NOMEM, "out of memory")
								: start_drain(p, ix, e);
	if (rc) {
		if (index_damaged(ix))
			(void)index_condemn(p->start.dir, NULL);
		index_close(ix);
		return rc;
	}
	if ((rc = start_drawers(p, e)) != 0 || (rc = make_feeder(p, e)) != 0) {
		index_close(ix);
		return rc;
	}
	if ((rc = start_cutter(p, ix, e)) != 0 || (rc = feeder_start(p->feeder, e)) != 0 ||
	    (rc = start_witnesses(p, e)) != 0 || (rc = start_service(p, e)) != 0)
		return rc;
	lost_init(&p->lost, p->drain, p->live, p->service);
	return tell_ready(p, e);
}

static int take_conf(struct process *p, int fd, const json_t *loaded, struct err *e)
{
	struct conf *conf;
	int rc = start_conf(fd, &conf, e);
	if (rc)
		return rc;
	enum log_format format = strcmp(conf->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT;
	if ((rc = log_setup("recorder", conf->log_level, format, 2, e)) == 0)
		rc = cutter_configure(p->cutter, conf, loaded, e);
	if (rc == 0)
		rc = witnesses_configure(p->witnesses, conf, e);
	if (rc == 0)
		rc = keeper_configure(p->keeper, conf, e);
	if (rc == 0) {
		feeder_configure(p->feeder, conf);
		drain_configure(p->drain, conf->record_min_free, conf->share_record_low);
		auth_set_edge(p->start.auth, (int64_t)conf->edge_lease_max_ns, (int64_t)conf->edge_state_max_ns);
		log_info(NULL, "took the new configuration");
	}
	conf_destroy(conf);
	return rc;
}

/* The monitor waits for this before it says that a grant is gone. */
static int take_revocation(struct process *p, const json_t *msg, struct err *e)
{
	int rc = auth_revoke(p->start.auth, msg, e);
	json_t *answer = json_pack("{s:s, s:O?}", "op", "revoked", "id", json_object_get(msg, "id"));
	if (rc == 0)
		rc = answer ? sock_send_packet(p->ipc_fd, answer, NULL, 0, e) : err_set(e, ERR_NOMEM, "out of memory");
	json_decref(answer);
	return rc;
}

/* Both steps of a rotation are answered: the monitor changes the keys on the disk between them. */
static int answer_key(struct process *p, const char *op, int result, const struct err *why, struct err *e)
{
	json_t *msg = result ? json_pack("{s:s, s:i, s:s}", "op", op, "rc", result, "message", why->message)
			     : json_pack("{s:s, s:i}", "op", op, "rc", 0);
	int rc = msg ? sock_send_packet(p->ipc_fd, msg, NULL, 0, e) : err_set(e, ERR_NOMEM, "out of memory");

	json_decref(msg);
	return rc;
}

static int name_key(struct process *p, const json_t *msg, struct err *e)
{
	struct grant_public_key next;
	const char *text = "";
	struct err why = {0};
	uint8_t *raw = NULL;
	size_t n = 0;
	int rc = json_need_str(msg, "public_key", &text, &why);

	if (!rc &&
	    (base64_decode(text, strlen(text), true, &raw, &n) || n != GRANT_KEY_LEN || grant_key_id(raw, next.kid)))
		rc = err_set(&why, ERR_INVAL, "public_key is no public key");
	if (!rc) {
		memcpy(next.key, raw, GRANT_KEY_LEN);
		rc = cutter_name_key(p->cutter, &next, &why);
	}
	free(raw);
	return answer_key(p, "key.named", rc, &why, e);
}

static int use_key(struct process *p, int fd, struct err *e)
{
	struct signer *s = NULL;
	struct err why = {0};
	bool taken;
	int rc = start_key(fd, &s, &why);

	if (!rc && list_append(&p->past, &p->past_n, &p->start.signer, sizeof(s)))
		rc = err_set(&why, ERR_NOMEM, "out of memory");
	if (!rc) {
		/* In use from here on, also where its first head could not be written: the next one will be. */
		p->start.signer = s;
		rc = cutter_use_key(p->cutter, s, &why);
		witnesses_use_key(p->witnesses, s);
		keeper_use_key(p->keeper, s);
		log_info(NULL, "the record is signed by key %s from now on", signer_public(s)->kid);
	} else {
		signer_destroy(s);
	}
	look_at_keys(p, &taken);
	return answer_key(p, "key.used", rc, &why, e);
}

static void process_packet(struct process *p, const json_t *msg, int *fds, size_t n)
{
	const char *op = "";
	struct err e = {0};
	int rc = 0;

	(void)json_opt_str(msg, "op", &op, NULL);
	if (strcmp(op, "stop") == 0) {
		process_set_state(p, PROCESS_STOPPING);
	} else if (strcmp(op, "grant.revoked") == 0) {
		rc = take_revocation(p, msg, &e);
	} else if (strcmp(op, "screen") == 0) {
		drawers_answer(p->drawers, n == 1 ? fds[0] : -1);
		fds[0] = -1;
	} else if (strcmp(op, "edge.state") == 0) {
		rc = auth_set_edge_state(p->start.auth, msg, &e);
	} else if (strcmp(op, "grant_keys") == 0) {
		rc = auth_set_keys(p->start.auth, json_object_get(msg, "grant_keys"), &e);
	} else if (strcmp(op, "key.name") == 0) {
		rc = name_key(p, msg, &e);
	} else if (strcmp(op, "key.use") == 0 && n == 1) {
		rc = use_key(p, fds[0], &e);
		fds[0] = -1;
	} else if (strcmp(op, "reload") == 0 && n == 1) {
		rc = take_conf(p, fds[0], json_object_get(msg, "loaded"), &e);
		fds[0] = -1;
	} else {
		rc = err_set(&e, ERR_PROTOCOL, "a packet '%s' is not expected", op);
	}
	if (rc)
		log_error(NULL, "from the monitor: %s", e.message);
}

static void process_ipc(struct process *p)
{
	int fds[SOCK_FDS_MAX];
	size_t n = SOCK_FDS_MAX;
	json_t *msg = NULL;
	struct err e = {0};

	int rc = sock_recv_packet(p->ipc_fd, &msg, fds, &n, &e);
	if (rc == ERR_AGAIN)
		return;
	if (rc) {
		log_info(NULL, "the monitor has gone: %s", e.message);
		process_set_state(p, PROCESS_STOPPING);
		return;
	}
	process_packet(p, msg, fds, n);
	for (size_t i = 0; i < n; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
	}
	json_decref(msg);
}

static void process_loop(struct process *p)
{
	struct pollfd pfd[2] = {{.fd = p->ipc_fd, .events = POLLIN}, {.fd = p->signal_fd, .events = POLLIN}};
	while (p->state == PROCESS_RUNNING) {
		struct err e = {0};
		int n = poll(pfd, 2, (int)(clock_to_tick_ns(TICK_NS) / NS_PER_MS) + 1);
		if (n > 0 && pfd[1].revents)
			process_set_state(p, PROCESS_STOPPING);
		if (n > 0 && pfd[0].revents)
			process_ipc(p);
		lost_check(&p->lost);
		if (cutter_lost_index(p->cutter))
			process_set_state(p, PROCESS_STOPPING);
		look_at_cutter(p);
		look_at_feeder(p);
		if (tell_alarms(p, &e))
			log_error(NULL, "the monitor cannot be told what is wrong: %s", e.message);
		witnesses_tick(p->witnesses);
		service_tick(p->service);
	}
}

/* Doors first, then the ring's rest into the log, then a checkpoint of what was cut. */
static void process_finish(struct process *p)
{
	service_destroy(p->service);
	if (p->cutter)
		cutter_settle(p->cutter);
	if (p->drain)
		drain_stop(p->drain);
	witnesses_destroy(p->witnesses);
	keeper_destroy(p->keeper);
	/* What draws keyframes asks the cutter and is answered by it: the cutter stops first. */
	if (p->cutter)
		cutter_stop(p->cutter);
	if (p->feeder)
		feeder_stop(p->feeder);
	if (p->drawers)
		drawers_stop(p->drawers);
	commander_destroy(p->commander);
	keyframer_destroy(p->keyframer);
	drawers_destroy(p->drawers);
	cutter_destroy(p->cutter);
	feeder_destroy(p->feeder);
	drain_destroy(p->drain);
	live_destroy(p->live);
	alarms_destroy(p->alarms);
	for (size_t i = 0; i < p->past_n; i++)
		signer_destroy(p->past[i]);
	free(p->past);
	start_finish(&p->start);
	if (p->segments_fd >= 0)
		close(p->segments_fd);
	if (p->signal_fd >= 0)
		close(p->signal_fd);
}

static int process_guard(struct process *p)
{
	sigset_t set;
	/* The key is in this process's memory. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return ERR_SYS;
	umask(077);
	signal(SIGPIPE, SIG_IGN);
	/* Ctrl-C reaches the whole group; the monitor decides in which order things end. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return ERR_SYS;
	p->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return p->signal_fd < 0 ? ERR_SYS : 0;
}

int process_run(int ipc_fd)
{
	struct process p = {.ipc_fd = ipc_fd, .segments_fd = -1, .signal_fd = -1};
	struct err e = {0};

	p.start = start_nothing;
	(void)log_setup("recorder", "info", LOG_TEXT, 2, NULL);
	int rc = process_guard(&p);
	if (rc)
		err_sys(&e, errno, "cannot prepare the process");
	else
		rc = process_start(&p, &e);
	if (rc) {
		log_error(NULL, "cannot start: %s", e.message);
	} else {
		process_set_state(&p, PROCESS_RUNNING);
		process_loop(&p);
		rc = cutter_lost_index(p.cutter) ? ERR_CORRUPT : 0;
	}
	process_finish(&p);
	return rc ? err_exit_code(rc) : 0;
}
