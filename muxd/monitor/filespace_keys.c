#define LOG_SUBSYS "monitor"
#include "muxd/monitor/filespace_keys.h"

#include "base/conf.h"
#include "base/err.h"
#include "base/log.h"
#include "base/slurp.h"
#include "muxd/monitor/file.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define SOURCE_MAX (1024 * 1024)

/* from "": there is none any more. */
static int filespace_copy(const char *folder, const char *name, const char *from, const char *key,
			  const struct identity *who, struct err *e)
{
	char path[PATH_MAX], *data = NULL, *old = NULL;
	size_t n = 0, old_n = 0;
	int rc = file_join(path, sizeof(path), folder, name, e);
	bool same;

	if (rc)
		return rc;
	if (!*from)
		return unlink(path) && errno != ENOENT ? err_sys(e, errno, "remove %s", path) : 0;
	rc = file_read_given(from, SOURCE_MAX, &data, &n, e);
	if (!rc && !n)
		rc = err_set(e, ERR_CONFIG, "%s: %s is empty", key, from);
	same = !rc && !file_read(path, SOURCE_MAX, &old, &old_n, NULL) && old_n == n && memcmp(old, data, n) == 0;
	if (!rc && !same)
		rc = file_publish(path, data, n, 0600, who->net, true, e);
	slurp_free(data, n);
	slurp_free(old, old_n);
	return rc;
}

int filespace_keys_open(const struct conf *conf, const struct layout *l, const struct identity *who, struct err *e)
{
	char folder[PATH_MAX];
	int rc = layout_path(l, "keys/filespace", folder, e);

	if (!rc && !*conf->filespace_url && access(folder, F_OK))
		return 0;
	if (!rc)
		rc = file_mkdir(folder, 0700, who->net, e);
	if (!rc)
		rc = filespace_copy(folder, "ca.crt", conf->filespace_ca_file, "filespace.ca_file", who, e);
	if (!rc)
		rc = filespace_copy(folder, "token", conf->filespace_token_file, "filespace.token_file", who, e);
	return rc;
}

void filespace_keys_refresh(const struct conf *conf, const struct layout *l, const struct identity *who)
{
	struct err e = {0};

	if (filespace_keys_open(conf, l, who, &e))
		log_error(NULL, "the file store's credentials stay as they were: %s", e.message);
}
