#include "muxd/monitor/identity.h"

#include "base/conf.h"
#include "base/err.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool parse_number(const char *s, unsigned long *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoul(s, &end, 10);
	return !errno && *end == '\0' && *out < UINT_MAX;
}

/* A name of passwd, a number, or "" for the built-in number; the group is the user's own. */
static int find_user(const char *key, const char *spec, unsigned builtin, struct file_owner *out, struct err *e)
{
	unsigned long number = builtin;
	const struct passwd *pw = NULL;

	if (*spec && !parse_number(spec, &number)) {
		errno = 0;
		pw = getpwnam(spec);
		if (!pw)
			return err_set(e, ERR_CONFIG, "%s: there is no user %s", key, spec);
		number = pw->pw_uid;
	}
	if (number == 0)
		return err_set(e, ERR_CONFIG, "%s: root is not allowed here", key);
	out->uid = (uid_t)number;
	out->gid = pw ? pw->pw_gid : (gid_t)number;
	return 0;
}

int identity_find(const struct conf *c, uid_t euid, const char *sudo_uid, const char *sudo_gid, struct identity *out,
		  struct err *e)
{
	struct identity id = {.root = euid == 0, .owner = {euid, getegid()}};
	unsigned long uid, gid;
	int rc = 0;

	if (!id.root) {
		id.net = id.recorder = id.screen = id.witness = id.issuer = FILE_OWNER_SELF;
		*out = id;
		return 0;
	}
	if (sudo_uid && parse_number(sudo_uid, &uid)) {
		id.owner.uid = (uid_t)uid;
		id.owner.gid = sudo_gid && parse_number(sudo_gid, &gid) ? (gid_t)gid : (gid_t)uid;
	}
	rc = find_user("privsep.net_user", c->net_user, IDENTITY_NET_UID, &id.net, e);
	if (rc == 0)
		rc = find_user("privsep.recorder_user", c->recorder_user, IDENTITY_RECORDER_UID, &id.recorder, e);
	id.screen = (struct file_owner){IDENTITY_SCREEN_UID, IDENTITY_SCREEN_UID};
	id.witness = (struct file_owner){IDENTITY_WITNESS_UID, IDENTITY_WITNESS_UID};
	id.issuer = (struct file_owner){IDENTITY_ISSUER_UID, IDENTITY_ISSUER_UID};
	if (rc == 0 && (id.net.uid == id.screen.uid || id.recorder.uid == id.screen.uid))
		rc = err_set(e, ERR_CONFIG, "privsep: uid %d is that of screen workers", IDENTITY_SCREEN_UID);
	if (rc == 0 && (id.net.uid == id.witness.uid || id.recorder.uid == id.witness.uid))
		rc = err_set(e, ERR_CONFIG, "privsep: uid %d is that of the carrier of heads", IDENTITY_WITNESS_UID);
	if (rc == 0 && (id.net.uid == id.issuer.uid || id.recorder.uid == id.issuer.uid))
		rc = err_set(e, ERR_CONFIG, "privsep: uid %d is that of the checker of issuers' tokens",
			     IDENTITY_ISSUER_UID);
	if (rc == 0 && id.net.uid == id.recorder.uid)
		rc = err_set(e, ERR_CONFIG, "privsep.net_user and privsep.recorder_user must differ");
	if (rc == 0)
		*out = id;
	return rc;
}

const char *identity_mode(const struct identity *id)
{
	return id->root ? "root" : "user";
}

const char *identity_privsep(const struct identity *id)
{
	return id->root ? "uids" : "none";
}

static bool may_search(const struct file_owner *who, const struct stat *st)
{
	if (st->st_uid == who->uid)
		return st->st_mode & S_IXUSR;
	if (st->st_gid == who->gid)
		return st->st_mode & S_IXGRP;
	return st->st_mode & S_IXOTH;
}

int identity_can_reach(const struct file_owner *who, const char *path, const char *what, struct err *e)
{
	char dir[PATH_MAX];
	struct stat st;

	if (who->uid == (uid_t)-1)
		return 0;
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		/* bytes: a path, and none of it is cut */
		snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
		if (stat(dir, &st) < 0)
			return err_sys(e, errno, "stat %s", dir);
		if (!may_search(who, &st))
			return err_set(e, ERR_PERMISSION,
				       "%s is closed (mode %04o) to %s (uid %u), which must reach %s: choose a state "
				       "directory elsewhere, as /var/lib/muxd",
				       dir, (unsigned)st.st_mode & 07777, what, (unsigned)who->uid, path);
	}
	return 0;
}
