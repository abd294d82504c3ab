/* The configuration: read at the start, and again at SIGHUP. */
#define LOG_SUBSYS "monitor"
#include "muxd/base/log.h"
#include "muxd/monitor/monitor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONF_MAX (1024 * 1024)

static int read_text(const struct options *o, char **out, size_t *out_len, struct err *e)
{
	int rc;

	if (o->config) {
		rc = file_read(o->config, CONF_MAX, out, out_len, e);
		return rc == ERR_NOT_FOUND ? err_set(e, ERR_CONFIG, "configuration %s does not exist", o->config) : rc;
	}
	*out = strdup("");
	*out_len = 0;
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the configuration");
}

static int setup_log(const struct conf *c, struct err *e)
{
	return log_setup("monitor", c->log_level, strcmp(c->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT,
			 STDERR_FILENO, e);
}

int config_load(struct monitor *m, struct err *e)
{
	struct conf *c = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc = read_text(&m->options, &text, &len, e);

	if (rc == 0)
		rc = conf_parse(text, len, m->options.config ? m->options.config : "defaults", &c, e);
	if (rc == 0)
		rc = conf_environment(c, e);
	if (rc == 0)
		rc = setup_log(c, e);
	if (rc) {
		conf_destroy(c);
		free(text);
		return rc;
	}
	conf_destroy(m->conf);
	free(m->conf_text);
	m->conf = c;
	m->conf_text = text;
	m->conf_len = len;
	return 0;
}

/* What the cluster's credentials are now. A kubeconfig with a mistake is one line, and everything goes on. */
static void reload_cluster(struct monitor *m)
{
	struct err e = {0};
	bool changed = false;

	if (cluster_reload(&m->cluster, m->conf, &m->layout, &m->who, &changed, &e))
		log_error(NULL, "the cluster's credentials stay as they were: %s", e.message);
	else if (changed)
		log_warn(NULL,
			 "the kubeconfig names another server, proxy, plug-in or namespace than at the start: that "
			 "takes effect when muxd is started again");
}

void config_reload(struct monitor *m)
{
	struct err e = {0};
	int rc;

	if (m->state > MONITOR_RUNNING)
		return;
	if (!m->options.config) {
		log_info(NULL, "no --config was given: there is nothing to read again");
		return;
	}
	rc = config_load(m, &e);
	if (rc) {
		log_error(NULL, "the configuration stays as it was: %s", e.message);
	} else {
		log_info(NULL, "configuration %s read again", m->options.config);
		reload_cluster(m);
		tell_reload(m);
	}
	audit_put(m->audit,
		  json_pack("{s:s, s:s, s:s}", "event", "config.reload", "outcome", rc ? err_name(rc) : "ok", "detail",
			    e.message),
		  0, NULL, NULL);
}
