/* DIR/ready.json: where the daemon is, for people and tools. It holds no secret. */
#include "base/clock.h"
#include "base/json.h"
#include "muxd/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void https_url(const char *address, char *out, size_t size)
{
	char host[ADDRESS_MAX];
	unsigned port;

	*out = '\0';
	if (!*address)
		return;
	address_for_client(address, host, &port);
	snprintf(out, size, strchr(host, ':') ? "https://[%s]:%u/" : "https://%s:%u/", host, port);
}

json_t *ready_describe(const struct monitor *m)
{
	char url[ADDRESS_MAX + 32], started[32];

	https_url(m->listeners.https_address, url, sizeof url);
	clock_format_utc(m->started_ns, started, sizeof started);
	return json_pack("{s:s, s:s, s:s, s:i, s:{s:i, s:i, s:i}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "version",
			 MUXD_VERSION, "mode", identity_mode(&m->who), "privsep", identity_privsep(&m->who), "pid",
			 (int)getpid(), "pids", "monitor", (int)getpid(), "net", (int)m->net.pid, "recorder",
			 (int)m->recorder.pid, "https", m->listeners.https_address, "ssh", m->listeners.ssh_address,
			 "https_url", url, "tls_fingerprint_sha256", m->cert.fingerprint_sha256,
			 "ssh_host_key_fingerprint", m->keys.ssh_fingerprint, "instance", m->layout.instance,
			 "state_dir", m->layout.dir, "started", started);
}

int ready_write(const struct monitor *m, struct err *e)
{
	char path[PATH_MAX];
	json_t *o = ready_describe(m);
	char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	int rc;

	json_decref(o);
	if (!text)
		return err_set(e, ERR_NOMEM, "no memory for ready.json");
	rc = layout_path(&m->layout, "ready.json", path, e);
	if (rc == 0)
		rc = file_publish(path, text, strlen(text), 0644, FILE_OWNER_SELF, true, e);
	free(text);
	return rc;
}

void ready_remove(const struct monitor *m)
{
	char path[PATH_MAX];

	if (layout_path(&m->layout, "ready.json", path, NULL) == 0)
		unlink(path);
}
