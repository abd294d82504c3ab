#include "muxd/monitor/loader.h"

#include "base/ids.h"
#include "base/text.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY_LOGGED_IN 4294967295UL

static void loader_name_of(uid_t uid, char *out, size_t size)
{
	char room[4096];
	struct passwd entry, *found = NULL;

	if (getpwuid_r(uid, &entry, room, sizeof room, &found) == 0 && found)
		text_put(out, size, found->pw_name);
	else
		snprintf(out, size, "uid %u", (unsigned)uid);
}

/* false: it has gone, or nobody logged in to start it. */
static bool login_of(pid_t pid, unsigned long *out)
{
	char path[64], text[32] = "", *end;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/loginuid", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	bool read = fgets(text, sizeof text, f) != NULL;
	fclose(f);
	*out = strtoul(text, &end, 10);
	return read && end != text && *out < NOBODY_LOGGED_IN;
}

json_t *loader_describe(const char *how, const char *door, uid_t uid, pid_t pid)
{
	char load[ID_STR_LEN], name[128];
	unsigned long login;
	struct id id;

	if (id_new(&id))
		return NULL;
	id_format(&id, load);
	loader_name_of(uid, name, sizeof name);
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s}", "load", load, "how", how, "door", door, "uid",
			      (json_int_t)uid, "principal", name);
	if (!o || pid <= 0)
		return o;
	json_object_set_new(o, "pid", json_integer(pid));
	if (login_of(pid, &login))
		json_object_set_new(o, "login_uid", json_integer((json_int_t)login));
	return o;
}
