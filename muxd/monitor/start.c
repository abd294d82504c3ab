/* What a child is told when it starts, and what both are told later. */
#define LOG_SUBSYS "monitor"
#include "base/log.h"
#include "base/slurp.h"
#include "muxd/monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REVOKED_IN_START 1000 /* about 75 KiB: a packet is to stay below 128 */

int memory_descriptor(const char *name, const char *data, size_t len, int *out_fd, struct err *e)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return err_sys(e, errno, "make a memory file for the %s", name);
	if (spill_fd(fd, data, len) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
		int rc = err_sys(e, errno, "write the memory file of the %s", name);
		close(fd);
		return rc;
	}
	*out_fd = fd;
	return 0;
}

int conf_descriptor(const struct monitor *m, int *out_fd, struct err *e)
{
	return memory_descriptor("configuration", m->conf_text, m->conf_len, out_fd, e);
}

int conf_started_descriptor(const struct monitor *m, int *out_fd, struct err *e)
{
	return m->started_text ? memory_descriptor("configuration", m->started_text, m->started_len, out_fd, e)
			       : conf_descriptor(m, out_fd, e);
}

static json_t *grant_keys(const struct monitor *m)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < m->keys.set.n; i++) {
		const struct grant_public_key *k = &m->keys.set.keys[i];
		char *text = base64_encode(k->key, sizeof k->key, true);

		if (!text || json_array_append_new(list, json_pack("{s:s, s:s}", "kid", k->kid, "key", text))) {
			json_decref(list);
			list = NULL;
		}
		free(text);
	}
	return list;
}

static int add_revoked(void *arg, const struct id *id, int64_t expires_ns)
{
	json_t *list = arg;
	char text[ID_STR_LEN];

	if (json_array_size(list) >= REVOKED_IN_START)
		return 0;
	id_format(id, text);
	return json_array_append_new(list, json_pack("{s:s, s:I}", "id", text, "expires_ns", (json_int_t)expires_ns))
		   ? ERR_NOMEM
		   : 0;
}

static int count_revoked(void *arg, const struct id *id, int64_t expires_ns)
{
	(void)id;
	(void)expires_ns;
	(*(size_t *)arg)++;
	return 0;
}

static int count_renewed(void *arg, const struct grant *g)
{
	(void)g;
	(*(size_t *)arg)++;
	return 0;
}

static int each_revoked(const struct monitor *m, grants_revoked_fn *fn, void *arg)
{
	int rc = grants_each_revoked(m->grants, fn, arg);

	return rc ? rc : edge_each_revoked(&m->edge, fn, arg);
}

/* How many packets follow the start: without them a child would take a grant for what it no longer is. */
static size_t followers(const struct monitor *m, bool renewals)
{
	size_t revoked = 0, renewed = 0;

	(void)each_revoked(m, count_revoked, &revoked);
	if (renewals)
		(void)grants_each_renewed(m->grants, count_renewed, &renewed);
	return renewed + (revoked > REVOKED_IN_START ? revoked - REVOKED_IN_START : 0);
}

json_t *start_packet(struct monitor *m, const char *const *fd_names, size_t n, bool renewals)
{
	json_t *names = json_array(), *revoked = json_array(), *keys = grant_keys(m), *o = NULL;
	json_t *alarms;
	int rc = names && revoked && keys ? 0 : ERR_NOMEM;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = json_array_append_new(names, json_string(fd_names[i])) ? ERR_NOMEM : 0;
	if (rc == 0)
		rc = each_revoked(m, add_revoked, revoked);
	if (rc == 0)
		o = json_pack("{s:s, s:s, s:s, s:s, s:O, s:O, s:O, s:I, s:I}", "op", "start", "mode",
			      identity_mode(&m->who), "instance", m->layout.instance, "state_dir", m->layout.dir, "fds",
			      names, "grant_keys", keys, "revoked", revoked, "follow",
			      (json_int_t)followers(m, renewals), "floor_ns", (json_int_t)floor_now(&m->floor));
	if (o && m->edge.on && json_object_set_new(o, "edge", edge_for_start(&m->edge))) {
		json_decref(o);
		o = NULL;
	}
	if (o && (alarms = alarms_all(m)))
		json_object_set_new(o, "alarms", alarms);
	if (o && m->loaded)
		json_object_set(o, "loaded", m->loaded);
	json_decref(names);
	json_decref(revoked);
	json_decref(keys);
	return o;
}

struct rest {
	struct channel *channel;
	size_t skip;
};

static int send_revoked(void *arg, const struct id *id, int64_t expires_ns)
{
	struct rest *r = arg;
	char text[ID_STR_LEN];
	json_t *msg;
	int rc;

	if (r->skip > 0) {
		r->skip--;
		return 0;
	}
	id_format(id, text);
	msg = json_pack("{s:s, s:s, s:I}", "op", "grant.revoked", "id", text, "expires_ns", (json_int_t)expires_ns);
	rc = msg ? channel_send(r->channel, msg, NULL, 0) : ERR_NOMEM;
	json_decref(msg);
	return rc;
}

int start_send(struct monitor *m, struct channel *c, const json_t *start, const int *fds, size_t n, struct err *e)
{
	struct rest rest = {c, REVOKED_IN_START};
	int rc = start ? channel_send(c, start, fds, n) : ERR_NOMEM;

	if (rc == 0)
		rc = each_revoked(m, send_revoked, &rest);
	return rc ? err_set(e, rc, "the start packet could not be sent: %s", err_name(rc)) : 0;
}

static int send_renewed(void *arg, const struct grant *g)
{
	json_t *msg = renewed_message(g);
	int rc = msg ? channel_send(arg, msg, NULL, 0) : ERR_NOMEM;

	json_decref(msg);
	return rc;
}

int start_send_renewed(struct monitor *m, struct channel *c, struct err *e)
{
	int rc = grants_each_renewed(m->grants, send_renewed, c);

	return rc ? err_set(e, rc, "the renewals could not be sent: %s", err_name(rc)) : 0;
}

/* A child that cannot be told is started again, with the news in its start packet. */
static void start_tell(struct proc *p, const json_t *msg, const int *fds, size_t n)
{
	if (p->state != PROC_READY && p->state != PROC_STARTING)
		return;
	if (!msg || proc_send(p, msg, fds, n)) {
		log_error(NULL, "%s could not be told of a change and is started again", p->ops->name);
		proc_kill(p);
	}
}

json_t *alarms_all(const struct monitor *m)
{
	json_t *list = m->alarms || m->journal_alarm ? json_array() : NULL;

	if (list && m->alarms)
		json_array_extend(list, m->alarms);
	if (list && m->journal_alarm)
		json_array_append(list, m->journal_alarm);
	return list;
}

void tell_alarms(struct monitor *m)
{
	json_t *list = alarms_all(m), *msg = list ? json_pack("{s:s, s:o}", "op", "alarms", "alarms", list) : NULL;

	if (list)
		start_tell(&m->net, msg, NULL, 0);
	json_decref(msg);
}

void tell_grant_keys(struct monitor *m)
{
	json_t *keys = grant_keys(m);
	json_t *msg = keys ? json_pack("{s:s, s:o}", "op", "grant_keys", "grant_keys", keys) : NULL;

	start_tell(&m->net, msg, NULL, 0);
	start_tell(&m->recorder, msg, NULL, 0);
	json_decref(msg);
}

int policy_descriptor(const struct monitor *m, int *out_fd, struct err *e)
{
	return memory_descriptor("policy", m->policy_text ? m->policy_text : "", m->policy_len, out_fd, e);
}

int edge_descriptor(const struct monitor *m, int *out_fd, struct err *e)
{
	char *text = NULL;
	int rc = m->edge.on ? edge_text(m, &text, e) : 0;

	if (rc == 0)
		rc = memory_descriptor("edge", text ? text : "", text ? strlen(text) : 0, out_fd, e);
	grant_token_free(text);
	return rc;
}

/* Net alone judges by the policy. */
static void tell_reload_one(struct monitor *m, struct proc *p, bool policy)
{
	json_t *msg =
	    policy ? json_pack("{s:s, s:[s, s], s:O?}", "op", "reload", "fds", "conf", "policy", "loaded", m->loaded)
		   : json_pack("{s:s, s:[s], s:O?}", "op", "reload", "fds", "conf", "loaded", m->loaded);
	struct err e = {0};
	int fds[2] = {-1, -1};
	size_t n = policy ? 2 : 1;

	/* Each its own: a descriptor that is shared shares its position. */
	if (conf_descriptor(m, &fds[0], &e) || (policy && policy_descriptor(m, &fds[1], &e)))
		log_error(NULL, "%s is not told of the new configuration: %s", p->ops->name, e.message);
	else
		start_tell(p, msg, fds, n);
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	json_decref(msg);
}

void tell_reload(struct monitor *m)
{
	tell_reload_one(m, &m->net, true);
	tell_reload_one(m, &m->recorder, false);
}
