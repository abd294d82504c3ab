#define LOG_SUBSYS "monitor"
#include "muxd/monitor/floor.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "muxd/monitor/layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_FILE "clock"

/* Nanoseconds since 1970 as one decimal line. */
static int floor_parse(const char *text, int64_t *out)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || end == text || *end != '\n' || v < 0)
		return ERR_CORRUPT;
	*out = v;
	return 0;
}

int floor_open(struct time_floor *f, const struct layout *l, int64_t *out_back_ns, struct err *e)
{
	char path[PATH_MAX], *text = NULL;
	int64_t persisted = 0, wall = clock_wall_ns();
	struct err why = {0};
	size_t len = 0;
	int rc = layout_path(l, CLOCK_FILE, path, e);

	if (rc)
		return rc;
	rc = file_read(path, 64, &text, &len, e);
	if (rc == 0 && floor_parse(text, &persisted))
		rc = err_set(e, ERR_CORRUPT, "%s holds no time", path);
	free(text);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	time_floor_init(f, persisted, wall, clock_boot_ns());
	*out_back_ns = persisted > wall ? persisted - wall : 0;
	rc = floor_save(f, l, &why);
	if (rc ==
	    ERR_DISK_FULL) /* what is on disk holds; this run's time is saved within a minute of there being room */
		log_warn(NULL, "the time floor is not saved: %s", why.message);
	return rc && rc != ERR_DISK_FULL ? err_set(e, rc, "%s", why.message) : 0;
}

int64_t floor_now(struct time_floor *f)
{
	return time_floor_now(f, clock_wall_ns(), clock_boot_ns());
}

int floor_save(struct time_floor *f, const struct layout *l, struct err *e)
{
	char path[PATH_MAX], text[32];
	int rc = layout_path(l, CLOCK_FILE, path, e);

	if (rc)
		return rc;
	snprintf(text, sizeof text, "%lld\n", (long long)floor_now(f));
	return file_publish(path, text, strlen(text), 0644, FILE_OWNER_SELF, true, e);
}
