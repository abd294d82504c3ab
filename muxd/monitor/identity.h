/*
 * identity.h - who this daemon runs as, and who its children become.
 *
 * Mode root: a uid for each. Mode user: one uid for all, and ready.json says so.
 * owner is the person who started the daemon: SUDO_UID when root was reached by
 * sudo, else the caller. The sockets belong to him, so that muxctl works for him.
 */
#ifndef MUXD_MONITOR_IDENTITY_H
#define MUXD_MONITOR_IDENTITY_H

#include "muxd/monitor/file.h"

#include <stdbool.h>
#include <sys/types.h>

struct conf;
struct err;

#define IDENTITY_NET_UID      64801
#define IDENTITY_RECORDER_UID 64802
#define IDENTITY_SCREEN_UID   64803
#define IDENTITY_WITNESS_UID  64804
#define IDENTITY_ISSUER_UID   64805

struct identity {
	bool root;
	struct file_owner owner;
	struct file_owner net, recorder, screen, witness, issuer; /* FILE_OWNER_SELF in mode user */
};

/* sudo_uid, sudo_gid: the environment's values, NULL when not set. ERR_CONFIG names an unknown user. */
int identity_find(const struct conf *c, uid_t euid, const char *sudo_uid, const char *sudo_gid, struct identity *out,
		  struct err *e);
const char *identity_mode(const struct identity *id);    /* "root", "user" */
const char *identity_privsep(const struct identity *id); /* "uids", "none" */
/* Can this child search every directory above path? ERR_PERMISSION names the first that is closed to it. */
int identity_can_reach(const struct file_owner *who, const char *path, const char *what, struct err *e);

#endif
