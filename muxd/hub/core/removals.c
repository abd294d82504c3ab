#define LOG_SUBSYS "removals"
#include "muxd/hub/core/removals.h"

#include "base/clock_guard.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT_SIZE 256                 /* of the file, blanks behind its text */
#define SEEN_NS   (3600 * NS_PER_SEC) /* the newest time is written so often */

struct removals {
	struct clock_guard guard;
	int fd; /* -1: nothing is kept */
	void (*told)(void *arg);
	void *arg;
	bool owed;         /* the start found a wait that nobody heard of yet */
	bool failed;       /* the last write; said */
	uint64_t write_ns; /* uptime at which the newest time is written again */
};

struct kept {
	int64_t seen_ns;
	uint64_t until_ns, left_ns; /* left_ns 0: an older daemon did not say */
	bool same_boot;
};

/* A file that was not written whole says nothing. */
static void kept_read(int fd, struct kept *out)
{
	char text[KEPT_SIZE + 1] = "";
	json_t *o = NULL;
	ssize_t n = fd >= 0 ? pread(fd, text, KEPT_SIZE, 0) : 0;

	*out = (struct kept){0};
	if (n <= 0 || json_parse(text, (size_t)n, KEPT_SIZE, &o, NULL))
		return;
	out->seen_ns = json_integer_value(json_object_get(o, "seen_ns"));
	out->until_ns = (uint64_t)json_integer_value(json_object_get(o, "until_ns"));
	out->left_ns = (uint64_t)json_integer_value(json_object_get(o, "left_ns"));
	out->same_boot = strcmp(json_get_text(o, "boot_id"), clock_boot_id()) == 0;
	json_decref(o);
}

static void kept_write(struct removals *r, bool sync)
{
	char text[KEPT_SIZE + 1];
	bool bad;
	int n;

	r->write_ns = r->guard.boot_ns + SEEN_NS;
	if (r->fd < 0)
		return;
	memset(text, ' ', sizeof(text));
	n = snprintf(text, sizeof(text), "{\"seen_ns\":%lld,\"until_ns\":%llu,\"left_ns\":%llu,\"boot_id\":\"%s\"}",
		     (long long)r->guard.wall_ns, (unsigned long long)r->guard.until_ns,
		     (unsigned long long)clock_guard_left(&r->guard), clock_boot_id());
	text[n] = ' ';
	text[KEPT_SIZE - 1] = '\n';
	bad = pwrite(r->fd, text, KEPT_SIZE, 0) != KEPT_SIZE || (sync && fdatasync(r->fd) < 0);
	if (bad && !r->failed)
		log_warn(NULL, "whether the wall clock is believed is not kept over a restart: %s", strerror(errno));
	r->failed = bad;
}

static void removals_tell(struct removals *r)
{
	log_warn(NULL, "the wall clock ran ahead: no artifact, snapshot, lease or run goes by its age for 24 h of "
		       "uptime. Set the clock right within that time, unless the machine was off for so long");
	r->owed = false;
	r->told(r->arg);
}

int removals_create(const char *path, void (*told)(void *arg), void *arg, struct removals **out)
{
	struct removals *r = calloc(1, sizeof(*r));
	struct kept k;

	if (!r)
		return ERR_NOMEM;
	r->told = told;
	r->arg = arg;
	r->fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	if (path && r->fd < 0)
		log_warn(NULL, "%s: %s: whether the wall clock is believed is not kept over a restart", path,
			 strerror(errno));
	kept_read(r->fd, &k);
	r->owed = clock_guard_start(&r->guard, k.seen_ns, k.until_ns, k.same_boot, k.left_ns) == CLOCK_GUARD_JUMPED;
	kept_write(r, r->owed);
	*out = r;
	return 0;
}

void removals_begin(struct removals *r)
{
	if (r && r->owed)
		removals_tell(r);
}

void removals_destroy(struct removals *r)
{
	if (!r)
		return;
	kept_write(r, false);
	if (r->fd >= 0)
		close(r->fd);
	free(r);
}

bool removals_wait(struct removals *r)
{
	if (!r)
		return false;
	switch (clock_guard_check(&r->guard)) {
	case CLOCK_GUARD_JUMPED:
		kept_write(r, true);
		removals_tell(r);
		break;
	case CLOCK_GUARD_OVER:
		kept_write(r, true);
		log_info(NULL, "24 h of uptime later the wall clock is believed: what is too old by it goes");
		break;
	case CLOCK_GUARD_KEEP:
		kept_write(r, false);
		break;
	case CLOCK_GUARD_AS_BEFORE:
		if (r->guard.boot_ns >= r->write_ns)
			kept_write(r, false);
	}
	return clock_guard_waits(&r->guard);
}
