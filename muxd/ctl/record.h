/*
 * record.h - the events of one session for a reader here: off the disk, or off recorder.sock.
 *
 * A sealed recording that may be read is read directly; what is not sealed, or is
 * not ours to open, is asked of the recorder. Without a daemon an unsealed file is
 * read as far as it goes. Owned by the command that opened it.
 */
#ifndef MUXD_CTL_RECORD_H
#define MUXD_CTL_RECORD_H

#include "base/ring.h"
#include "muxd/ctl/ctl.h"

struct record;

struct record_facts {
	char session[ID_STR_LEN];
	const json_t *open; /* the OPEN record */
	bool sealed;
	bool partial; /* an unsealed file, read without the daemon */
};

/* what: a session id, "last", or the path of a recording. reason: for the grant, when one is needed. */
int record_open(struct ctl *c, const char *what, const char *reason, struct record **out, struct err *e);
/*
 * Is the file what was written? Hashes, chain and signature, with the keys of the state directory; nothing to do where
 * the recorder tells the events. ERR_CORRUPT names what was changed; unverified: then that is a warning on the standard
 * error.
 */
int record_check(struct record *r, bool unverified, struct err *e);
void record_close(struct record *r); /* NULL-safe */
const struct record_facts *record_facts(const struct record *r);
/* Next event: 1, 0 at the end. The payload is valid until the next call. Fits struct export_source. */
int record_next(void *record, struct ring_record *out, struct err *e);
/* Next is the first event at or after this moment; 0: the very first. */
int record_seek(struct record *r, uint64_t boot_ns, struct err *e);
/* Wall clock of a moment; 0 when it is not known. */
int64_t record_wall_ns(const struct record *r, uint64_t boot_ns);

#endif
