/* The configuration: read at the start, and again at SIGHUP or when somebody asks on admin.sock. */
#define LOG_SUBSYS "monitor"
#include "base/conf_start.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/exchange.h"
#include "muxd/monitor/filespace_keys.h"
#include "muxd/monitor/loader.h"
#include "muxd/monitor/monitor.h"
#include "policy/profile.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONF_MAX    (1024 * 1024)
#define WAITING_MAX 1024 /* of the names of keys that wait */

static int read_text(const struct options *o, char **out, size_t *out_len, struct err *e)
{
	int rc;

	if (o->config) {
		rc = file_read_given(o->config, CONF_MAX, out, out_len, e);
		return rc == ERR_NOT_FOUND ? err_set(e, ERR_CONFIG, "configuration %s does not exist", o->config) : rc;
	}
	*out = strdup("");
	*out_len = 0;
	return *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the configuration");
}

/* A policy as the file has it now: its text, and what it is of. What does not parse changes nothing. */
struct policy_read {
	char *text;
	size_t len;
	char version[POLICY_VERSION_LEN];
};

static int read_policy(const struct conf *c, struct policy_read *out, struct err *e)
{
	struct policy_read r = {0};
	struct policy *p = NULL;
	int rc;

	if (!*c->policy_file) {
		*out = r;
		return 0;
	}
	rc = file_read_given(c->policy_file, POLICY_TEXT_MAX, &r.text, &r.len, e);
	if (rc == ERR_NOT_FOUND)
		rc = err_set(e, ERR_CONFIG, "the policy %s does not exist", c->policy_file);
	if (rc == 0)
		rc = policy_parse(r.text, r.len, c->policy_file, &p, e);
	if (rc == 0)
		rc = policy_check_conf(p, c, e);
	if (rc) {
		policy_destroy(p);
		free(r.text);
		return rc;
	}
	memcpy(r.version, p->version, sizeof(r.version));
	policy_destroy(p);
	*out = r;
	return 0;
}

static void take_policy(struct monitor *m, const struct policy_read *r)
{
	free(m->policy_text);
	m->policy_text = r->text;
	m->policy_len = r->len;
	memcpy(m->policy_version, r->version, sizeof(m->policy_version));
}

static int setup_log(const struct conf *c, struct err *e)
{
	return log_setup("monitor", c->log_level, strcmp(c->log_format, "json") == 0 ? LOG_JSON : LOG_TEXT,
			 STDERR_FILENO, e);
}

/* Changes that wait for the next start are named now, and looked at, so that their mistakes do not wait as well. */
static int keep_started(const struct monitor *m, struct conf *c, struct err *e)
{
	char waiting[WAITING_MAX];
	struct err why = {0};

	conf_waiting(c, m->conf, waiting, sizeof(waiting));
	if (*waiting)
		log_warn(NULL, "keys that changed, and take effect when muxd is started again: %s", waiting);
	if (*waiting && cluster_check(c, &why))
		log_error(NULL, "as it is now, muxd would not start again: %s", why.message);
	return conf_keep_started(c, m->conf, e);
}

/* The first text is the one of the daemon's start, and stays. */
static void take_text(struct monitor *m, char *text, size_t len)
{
	if (m->conf_text && !m->started_text) {
		m->started_text = m->conf_text;
		m->started_len = m->conf_len;
	} else {
		free(m->conf_text);
	}
	m->conf_text = text;
	m->conf_len = len;
}

/* loaded is stolen. */
static int reload_load(struct monitor *m, json_t *loaded, struct err *e)
{
	struct policy_read policy = {0};
	struct conf *c = NULL;
	char *text = NULL;
	size_t len = 0;
	int rc =
	    loaded ? read_text(&m->options, &text, &len, e) : err_set(e, ERR_NOMEM, "no memory for the configuration");

	if (rc == 0)
		rc = conf_parse(text, len, m->options.config ? m->options.config : "defaults", &c, e);
	if (rc == 0)
		rc = conf_environment(c, e);
	if (rc == 0 && m->conf)
		rc = keep_started(m, c, e);
	m->policy_error[0] = '\0';
	if (rc == 0 && (rc = read_policy(c, &policy, e)))
		text_put(m->policy_error, sizeof(m->policy_error), e->message);
	if (rc == 0)
		rc = setup_log(c, e);
	if (rc) {
		conf_destroy(c);
		free(policy.text);
		free(text);
		json_decref(loaded);
		return rc;
	}
	conf_destroy(m->conf);
	json_decref(m->loaded);
	m->loaded = loaded;
	m->conf = c;
	take_text(m, text, len);
	take_policy(m, &policy);
	return 0;
}

int config_load(struct monitor *m, struct err *e)
{
	return reload_load(m, loader_describe("start", "start", getuid(), getpid()), e);
}

/* What the cluster's credentials are now. A kubeconfig with a mistake is one line, and everything goes on. */
static void reload_cluster(struct monitor *m)
{
	struct err e = {0};
	bool changed = false;

	filespace_keys_refresh(m->conf, &m->layout, &m->who);
	if (cluster_reload(&m->cluster, m->conf, &m->layout, &m->who, &changed, &e))
		log_error(NULL, "the cluster's credentials stay as they were: %s", e.message);
	else if (changed)
		log_warn(NULL,
			 "the kubeconfig names another server, proxy, plug-in or namespace than at the start: that "
			 "takes effect when muxd is started again");
}

/* The recorder tells of what is in force, in config.loaded; this is the attempt, and why it failed. */
static void audit_reload(struct monitor *m, const json_t *by, int rc, const struct err *e)
{
	json_t *o =
	    json_pack("{s:s, s:s, s:s, s:O?, s:O?, s:O?}", "event", "config.reload", "outcome",
		      rc ? err_name(rc) : "ok", "detail", e->message, "principal", json_object_get(by, "principal"),
		      "uid", json_object_get(by, "uid"), "door", json_object_get(by, "door"));

	if (audit_put(m->audit, o, 0, NULL, NULL))
		log_error(NULL, "the audit queue is full: a reload of the configuration is not in it");
}

/* A policy that was refused: what is in force stays. */
static void audit_policy(struct monitor *m, const json_t *by)
{
	json_t *o =
	    json_pack("{s:s, s:s, s:{s:s, s:s}, s:O?, s:O?, s:O?}", "event", "policy.refused", "outcome",
		      err_name(ERR_CONFIG), "detail", "message", m->policy_error, "in_force",
		      m->policy_version[0] ? m->policy_version : NULL, "principal", json_object_get(by, "principal"),
		      "uid", json_object_get(by, "uid"), "door", json_object_get(by, "door"));

	log_error(NULL, "the policy stays as it was: %s", m->policy_error);
	if (audit_put(m->audit, o, 0, NULL, NULL))
		log_error(NULL, "the audit queue is full: a policy that was refused is not in it");
}

int config_reload(struct monitor *m, const char *door, uid_t uid, pid_t pid, struct err *e)
{
	json_t *by;
	int rc;

	if (m->state > MONITOR_RUNNING)
		return err_set(e, ERR_UNAVAILABLE, "the daemon is ending");
	if (!m->options.config) {
		log_info(NULL, "no --config was given: there is nothing to read again");
		return err_set(e, ERR_BAD_STATE,
			       "the daemon was started without --config: there is nothing to read again");
	}
	by = loader_describe("reload", door, uid, pid);
	rc = reload_load(m, json_incref(by), e);
	if (rc) {
		log_error(NULL, "the configuration stays as it was: %s", e->message);
	} else {
		log_info(NULL, "configuration %s read again", m->options.config);
		reload_cluster(m);
		tell_reload(m);
		witnessipc_begin(m);
		issueripc_begin(m);
		exchange_shut_out(m);
	}
	if (m->policy_error[0])
		audit_policy(m, by);
	audit_reload(m, by, rc, e);
	json_decref(by);
	return rc;
}
