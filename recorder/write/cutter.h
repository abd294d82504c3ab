/*
 * cutter.h - cuts the segment log into recordings, off the live path.
 *
 * It follows the durable log: audit events go to index and chain log, sessions to
 * a builder each, which is sealed shortly after EXIT. Two threads take turns at
 * one step function: the first works in the background (base/background.h), the
 * second at normal priority and only while somebody waits for a seal or the debt is too large.
 *
 * What is consumed is stored as one checkpoint (builders, chain and the place in
 * the log, in one durable transaction); segments before it are deleted, but for
 * the last CUTTER_KEEP. After a failure (full disk) it forgets its builders and
 * goes on from the last checkpoint.
 *
 * States: IDLE (nothing to do) <-> BUSY; any -> WAITING (an error; tried again as retry.h says).
 */
#ifndef RECORDER_WRITE_CUTTER_H
#define RECORDER_WRITE_CUTTER_H

#include "base/conf.h"
#include "recorder/chain/chain.h"
#include "recorder/draw/keyframes.h"
#include "recorder/format/trunc.h"
#include "recorder/index/index.h"
#include "recorder/write/drain.h"

struct commander_told;
struct cutter;
struct signer;

#define CUTTER_KEEP     4 /* consumed segments that stay, so that live sessions can be read from their start */
#define CUTTER_DEBT_MAX (UINT64_C(256) << 20)

struct cutter_params {
	const char *dir; /* the state directory's record/ */
	int segments_fd;
	struct index *index; /* the writing connection; becomes the cutter's */
	struct drain *drain;
	struct live *live;
	const struct signer *signer;
	const struct conf *conf; /* copied from */
	const json_t *loaded;    /* who loaded it (config_log.h), copied; NULL: nobody says */
	bool background;         /* its own thread works behind the others */
	unsigned open_max; /* files of open sessions that are open at once; 0: what the limit of descriptors allows */
	/* From its threads, NULL: nobody. Told of each seal of a terminal; that an open recording's file holds more
	 * that was typed. */
	void (*sealed)(void *arg, const struct id *session);
	void (*typed)(void *arg, const struct id *session);
	void *sealed_arg;
	/* The oldest segment that somebody else still reads from; UINT64_MAX: none. NULL: nobody else does. */
	uint64_t (*needs)(void *arg);
	void *needs_arg;
};

struct cutter_status {
	const char *state;
	uint64_t debt;     /* bytes of the log that are durable and not consumed */
	uint64_t consumed; /* lsn of the next record */
	uint64_t sealed;   /* since the start */
	uint64_t open;     /* builders */
	uint64_t refused;  /* records that no recording could take */
	unsigned failures; /* again and again, since it was steady (retry.h) */
	char message[400]; /* why it does, or did last */
};

int cutter_create(const struct cutter_params *p, struct cutter **out, struct err *e);
int cutter_start(struct cutter *c, struct err *e);
/*
 * Before the drain stops: everything journaled is cut, and what that has the cutter tell is queued. Two seconds at most
 * for each; what is left then is the next start's.
 */
void cutter_settle(struct cutter *c);
/* Stores a checkpoint; seals nothing by force. */
void cutter_stop(struct cutter *c);
void cutter_destroy(struct cutter *c);
/* How long recordings are kept follows once the log has told of it, and as retention_policy.h says. */
int cutter_configure(struct cutter *c, const struct conf *conf, const json_t *loaded, struct err *e);
/* The wall clock ran ahead, or nobody looked yet: nothing goes by its age. Any thread; arg: the cutter. */
bool cutter_clock_waits(void *cutter);
/* What holds for keeping, and what will: {"retain","retain_wait","holds",...}, a new reference. NULL: no memory. */
json_t *cutter_retention(struct cutter *c);
/* The rule for a session with this OPEN. */
void cutter_rule(struct cutter *c, const char *open, struct trunc_rule *out);
void cutter_status(struct cutter *c, struct cutter_status *out);
/* chain_foreign() of the log. */
uint64_t cutter_foreign(struct cutter *c, char out_before[17]);
/* The two steps of a rotation (chain.h). s: borrowed until the cutter ends. */
int cutter_name_key(struct cutter *c, const struct grant_public_key *next, struct err *e);
int cutter_use_key(struct cutter *c, const struct signer *s, struct err *e);
/*
 * Waits until audit.db's rows were compared with the record and put right, where somebody else has written to it or
 * suspect says that there are other rows than the recorder's. ERR_TIMEOUT: that goes on.
 */
int cutter_compare(struct cutter *c, bool suspect, uint64_t timeout_ns);
/* SQLite found audit.db damaged: said once, the cutter rests, and the next start makes it again from the record. */
void cutter_index_lost(struct cutter *c);
/* True: this process is to end. */
bool cutter_lost_index(const struct cutter *c);
/* Keyframes were drawn: their digest goes into the log, signed, and their root into the index. */
int cutter_keyframes(struct cutter *c, const struct id *session, const struct keyframes_digest *d, struct err *e);
/* Said by whoever met a file that is not what the log has: into the audit log. */
void cutter_tell(struct cutter *c, const char *event, const struct id *session, const char *detail);
/* The root that the log has for a recording's keyframes, "" when it has none. */
int cutter_keyframes_root(struct cutter *c, const struct id *session, char out[65], struct err *e);
/* What the index has of a session's commands, and another event about them, in order behind all that came before. */
int cutter_commands_told(struct cutter *c, const struct id *session, struct commander_told *out, struct err *e);
int cutter_commands_tell(struct cutter *c, const struct id *session, const json_t *event, struct err *e);
/* Sealed sessions whose commands are not told to the end, of the newest `max`. Returns how many. */
size_t cutter_commands_due(struct cutter *c, struct id *out, size_t max);
/* The log's last signed head; signs a new one when entries came after it. */
int cutter_head(struct cutter *c, struct chain_head *out, struct err *e);
/*
 * SHA-256 of each stream of an open session, once everything up to these totals is consumed. ERR_EOF: the
 * journal lacks a part; ERR_TIMEOUT, also of one that is not open.
 */
int cutter_digests(struct cutter *c, const struct id *session, const uint64_t totals[STREAM_COUNT], uint64_t timeout_ns,
		   uint8_t out[STREAM_COUNT][32], struct err *e);
/* The log; it has a lock of its own. */
struct chain *cutter_chain(struct cutter *c);
/* At the start the log was found shorter than others know it (hole.h). */
bool cutter_hole(const struct cutter *c);
/* Entry of the newest seal of a staff session since the start; 0: none. */
uint64_t cutter_staff_seal(struct cutter *c);
/* Until everything before lsn is consumed, or timeout; hurries nobody. Returns the lsn of the next record. */
uint64_t cutter_wait_consumed(struct cutter *c, uint64_t lsn, uint64_t timeout_ns);
/* Until everything before lsn is consumed and, if given, the session is sealed (when it has ended). ERR_TIMEOUT. */
int cutter_wait(struct cutter *c, uint64_t lsn, const struct id *session, uint64_t timeout_ns, struct err *e);

#endif
