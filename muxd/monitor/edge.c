#define LOG_SUBSYS "edge"
#include "muxd/monitor/edge.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "muxd/monitor/issue.h"
#include "muxd/monitor/monitor.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EDGE_FILE     "edge.json"
#define EDGE_FILE_MAX (4 * 1024 * 1024)
#define KEYS_FILE_MAX (64 * 1024)
#define CA_MAX        (1024 * 1024)
#define SECOND        ((int64_t)NS_PER_SEC)
#define FORGET_NS     (2 * 24 * 3600 * SECOND) /* no lease that was there when it was taken back is left by then */

/* ---- what goes together */

static int edge_needs(const struct conf *c, struct err *e)
{
	const struct {
		const char *key, *value;
	} needs[] = {
	    {"edge.centre", c->edge_centre}, {"edge.centre_keys", c->edge_centre_keys}, {"edge.ca", c->edge_ca}};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		if (!*needs[i].value)
			return err_set(e, ERR_CONFIG, "--edge needs %s in the configuration", needs[i].key);
	return 0;
}

int edge_check(const struct monitor *m, struct err *e)
{
	const struct conf *c = m->conf;

	if (!m->options.edge)
		return 0;
	if (strcmp(c->sandbox_backend, "kubernetes") == 0 || *c->kubernetes_kubeconfig)
		return err_set(e, ERR_CONFIG,
			       "--edge serves sandboxes of its own machine: sandbox.backend kubernetes and "
			       "kubernetes.kubeconfig are not for it");
	if (m->options.ssh || *c->listen_ssh)
		return err_set(e, ERR_CONFIG, "--edge has no SSH door: leave out --ssh and listen.ssh");
	if (c->nedges)
		return err_set(e, ERR_CONFIG, "--edge is the centre of nobody: leave out edge.known");
	return edge_needs(c, e);
}

/* ---- keys */

static int edge_take_key(const json_t *v, struct grant_public_key *out, struct err *e)
{
	const char *text = json_string_value(v);
	uint8_t *raw = NULL;
	size_t n = 0;
	int rc = 0;

	if (!text || base64_decode(text, strlen(text), true, &raw, &n) || n != GRANT_KEY_LEN)
		rc = err_set(e, ERR_CONFIG, "keys holds something that is no public key");
	else
		memcpy(out->key, raw, n);
	free(raw);
	return rc ? rc : grant_key_id(out->key, out->kid);
}

/* {"centre": its id, "keys": [...]}, as `muxctl edge show -o json` prints there. */
static int take_keys(struct monitor *m, const json_t *o, struct err *e)
{
	const json_t *list = json_object_get(o, "keys");
	const char *centre = json_get_text(o, "centre");
	size_t n = json_array_size(list);
	struct grant_public_key *keys;
	struct id id;
	int rc = 0;

	if (id_parse(centre, &id) || !n || n > 64)
		return err_set(e, ERR_CONFIG, "it does not hold \"centre\", an id, and \"keys\", at least one");
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return err_set(e, ERR_NOMEM, "no memory for keys");
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = edge_take_key(json_array_get(list, i), &keys[i], e);
	if (rc) {
		free(keys);
		return rc;
	}
	text_put(m->edge.centre, sizeof(m->edge.centre), centre);
	free(m->keys.set.keys);
	m->keys.set = (struct grant_keyset){keys, n};
	return 0;
}

/* given: by the operator, whose files are often links. */
static int read_object(const char *path, bool given, size_t max, json_t **out, struct err *e)
{
	char *text = NULL;
	json_t *o = NULL;
	size_t len = 0;
	int rc = given ? file_read_given(path, max, &text, &len, e) : file_read(path, max, &text, &len, e);

	if (rc == 0)
		rc = json_parse(text, len, max, &o, e);
	free(text);
	if (rc == 0 && !json_is_object(o))
		rc = err_set(e, ERR_CORRUPT, "it is no JSON object");
	if (rc == 0)
		*out = o;
	else
		json_decref(o);
	return rc;
}

static int open_centre_keys(struct monitor *m, struct err *e)
{
	const char *path = m->conf->edge_centre_keys;
	struct err why = {0};
	json_t *o = NULL;
	int rc = read_object(path, true, KEYS_FILE_MAX, &o, &why);

	if (rc == 0) {
		rc = take_keys(m, o, &why);
		json_decref(o);
	}
	return rc ? err_set(e, rc == ERR_NOMEM ? rc : ERR_CONFIG, "edge.centre_keys %s: %s", path, why.message) : 0;
}

/* The key of its calls: it says who this edge is, and opens nothing. */
static int open_call_key(struct monitor *m, struct err *e)
{
	struct edge *x = &m->edge;
	uint8_t seed[GRANT_KEY_LEN];
	char *raw = NULL;
	size_t len = 0;
	int rc = layout_path(&m->layout, "keys/edge.seed", x->seed, e);

	if (rc == 0)
		rc = file_read(x->seed, GRANT_KEY_LEN, &raw, &len, e);
	if (rc == 0 && len != GRANT_KEY_LEN)
		rc = err_set(e, ERR_CORRUPT, "%s is not a key of %d bytes", x->seed, GRANT_KEY_LEN);
	if (rc == 0) {
		rc = grant_key_public((const uint8_t *)raw, &x->key);
	} else if (rc == ERR_NOT_FOUND) {
		rc = grant_key_create(seed, &x->key);
		rc = rc ? err_set(e, rc, "the key of an edge could not be made")
			: file_publish(x->seed, seed, sizeof(seed), 0600, m->who.net, false, e);
		OPENSSL_cleanse(seed, sizeof(seed));
	}
	if (raw)
		OPENSSL_cleanse(raw, len);
	free(raw);
	return rc ? rc : file_own(x->seed, 0600, m->who.net, e);
}

/* ---- the file */

static json_t *own_json(const struct edge *x)
{
	json_t *list = json_array();
	char id[ID_STR_LEN];

	for (size_t i = 0; list && i < x->nown; i++) {
		id_format(&x->own[i].id, id);
		if (json_array_append_new(list, json_pack("[s,I]", id, (json_int_t)(x->own[i].until_ns / SECOND)))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int edge_save(struct monitor *m, struct err *e)
{
	struct edge *x = &m->edge;
	json_t *o = json_pack("{s:s,s:s?,s:o}", "centre", x->centre, "state", x->state_text, "revoked", own_json(x));
	char *text = o ? json_text(o) : NULL, path[PATH_MAX];
	int rc = text ? layout_path(&m->layout, EDGE_FILE, path, e) : err_set(e, ERR_NOMEM, "no memory for " EDGE_FILE);

	json_decref(o);
	if (rc == 0)
		rc = file_publish(path, text, strlen(text), 0600, FILE_OWNER_SELF, true, e);
	if (rc == 0) {
		x->kept_ns = x->state.at_ns;
		x->own_unkept = false;
	}
	free(text);
	return rc;
}

static int take_own(struct edge *x, const json_t *list)
{
	size_t n = json_array_size(list);

	if (!json_is_array(list) || n > EDGE_REVOKED_MAX)
		return ERR_CORRUPT;
	x->own = calloc(n + 1, sizeof(*x->own));
	for (size_t i = 0; x->own && i < n; i++) {
		const json_t *one = json_array_get(list, i);
		const char *id = json_string_value(json_array_get(one, 0));
		json_int_t until = json_integer_value(json_array_get(one, 1));

		if (!id || id_parse(id, &x->own[i].id) || until < 0 || until > INT64_MAX / SECOND)
			return ERR_CORRUPT;
		x->own[i].until_ns = until * SECOND;
		x->nown++;
	}
	return x->own ? 0 : ERR_NOMEM;
}

/* A state that the centre's keys do not verify any more is none: leases wait until there is another. */
static void take_kept_state(struct monitor *m, const char *text)
{
	struct edge *x = &m->edge;
	struct err why = {0};

	if (!text)
		return;
	if (edge_state_verify(text, strlen(text), &m->keys.set, x->centre, m->layout.instance, &x->state, &why)) {
		log_warn(NULL, "what was known of revocations does not count any more: %s", why.message);
		return;
	}
	x->state_text = strdup(text);
	x->kept_ns = x->state.at_ns;
	time_floor_raise(&m->floor, x->state.at_ns, clock_boot_ns());
}

static int edge_load(struct monitor *m, struct err *e)
{
	char path[PATH_MAX];
	struct err why = {0};
	json_t *o = NULL;
	int rc = layout_path(&m->layout, EDGE_FILE, path, e);

	if (rc)
		return rc;
	rc = read_object(path, false, EDGE_FILE_MAX, &o, &why);
	if (rc == ERR_NOT_FOUND)
		return 0;
	if (rc == 0 && (rc = take_own(&m->edge, json_object_get(o, "revoked"))))
		err_set(&why, rc, "its revocations are not readable");
	if (rc == 0)
		take_kept_state(m, json_string_value(json_object_get(o, "state")));
	json_decref(o);
	/* A revocation might be in what cannot be read. */
	return rc ? err_set(e, rc == ERR_NOMEM ? rc : ERR_CORRUPT, "%s: %s", path, why.message) : 0;
}

int edge_open(struct monitor *m, struct err *e)
{
	int rc = 0;

	if (!m->options.edge)
		return 0;
	if ((rc = open_centre_keys(m, e)) || (rc = open_call_key(m, e)) || (rc = edge_load(m, e)))
		return rc;
	m->edge.on = true;
	return 0;
}

void edge_finish(struct edge *x)
{
	if (!x)
		return;
	edge_state_finish(&x->state);
	free(x->state_text);
	free(x->own);
	*x = (struct edge){0};
}

/* ---- states */

static bool state_has(const struct edge_state *s, const struct id *id)
{
	for (size_t i = 0; i < s->n; i++)
		if (id_equal(&s->revoked[i].id, id))
			return true;
	return false;
}

static void tell_age(struct monitor *m)
{
	json_t *o = edge_for_start(&m->edge);

	if (o && json_object_set_new(o, "op", json_string("edge.state"))) {
		json_decref(o);
		o = NULL;
	}
	issue_tell(m, o);
	json_decref(o);
}

void edge_audit_revoked(struct monitor *m, const struct id *lease, const char *by)
{
	char id[ID_STR_LEN];

	id_format(lease, id);
	log_info(NULL, "lease %s is revoked, by %s", id, by);
	if (audit_put(m->audit,
		      json_pack("{s:s, s:s, s:s, s:s, s:s}", "event", "edge.revoke", "grant_id", id, "edge",
				m->layout.instance, "by", by, "outcome", "ok"),
		      0, NULL, NULL))
		log_error(NULL, "the audit queue is full: the revocation of lease %s is not in it", id);
}

/* Net and recorder hear of what is new in it, and only then of its age. */
static void tell_news(struct monitor *m, const struct edge_state *before)
{
	const struct edge_state *s = &m->edge.state;

	for (size_t i = 0; i < s->n; i++) {
		struct grants_revoked what = {.id = s->revoked[i].id, .until_ns = s->revoked[i].until_ns};

		if (state_has(before, &what.id))
			continue;
		what.grant.id = what.id;
		edge_audit_revoked(m, &what.id, "centre");
		issue_enforce(m, &what, NULL, NULL);
	}
	tell_age(m);
}

static bool brings_news(const struct edge_state *s, const struct edge_state *before)
{
	for (size_t i = 0; i < s->n; i++)
		if (!state_has(before, &s->revoked[i].id))
			return true;
	return false;
}

int edge_take_state(struct monitor *m, const char *token, struct err *e)
{
	struct edge *x = &m->edge;
	struct edge_state s = {0}, before = x->state;
	struct err why = {0};
	char *text;
	int rc;

	if (!x->on)
		return err_set(e, ERR_UNSUPPORTED, "this daemon is no edge");
	rc = edge_state_verify(token, strlen(token), &m->keys.set, x->centre, m->layout.instance, &s, e);
	if (rc)
		return rc;
	if (s.at_ns <= before.at_ns) {
		edge_state_finish(&s);
		return err_set(e, ERR_CONFLICT, "the centre's word is no newer than what is known here");
	}
	/* The centre's word raises the floor for good: by a minute at most, as the clocks may differ for calls. */
	if (s.at_ns - EDGE_CALL_NS > floor_now(&m->floor)) {
		edge_state_finish(&s);
		return err_set(e, ERR_TOKEN_NOT_YET, "the centre's word is of a time to come: compare the clocks");
	}
	text = strdup(token);
	if (!text) {
		edge_state_finish(&s);
		return err_set(e, ERR_NOMEM, "no memory for a state");
	}
	free(x->state_text);
	x->state = s;
	x->state_text = text;
	time_floor_raise(&m->floor, s.at_ns, clock_boot_ns());
	if ((brings_news(&s, &before) || x->own_unkept || s.at_ns - x->kept_ns >= EDGE_KEEP_NS) && edge_save(m, &why))
		log_error(NULL, "what the centre says of revocations is in force and not kept: %s", why.message);
	tell_news(m, &before);
	edge_state_finish(&before);
	return 0;
}

/* ---- at the edge itself */

static void forget_own(struct edge *x, int64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < x->nown; i++)
		if (x->own[i].until_ns > now)
			x->own[kept++] = x->own[i];
	x->nown = kept;
}

static bool has_own(const struct edge *x, const struct id *id)
{
	for (size_t i = 0; i < x->nown; i++)
		if (id_equal(&x->own[i].id, id))
			return true;
	return false;
}

bool edge_has_revoked(const struct edge *x, const struct id *lease)
{
	return has_own(x, lease) || state_has(&x->state, lease);
}

int edge_revoke(struct monitor *m, const struct id *lease, struct grants_revoked *out, struct err *e)
{
	struct edge *x = &m->edge;
	int64_t now = floor_now(&m->floor), until = (now + FORGET_NS) / SECOND * SECOND;
	struct edge_revoked *own;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	forget_own(x, now);
	if (!has_own(x, lease)) {
		if (x->nown >= EDGE_REVOKED_MAX)
			return err_limit(
			    e, ERR_LIMIT,
			    &(struct err_share){"fixed.edge_revoked", "edge", EDGE_REVOKED_MAX, x->nown, 3600},
			    "%d leases were revoked here in two days", EDGE_REVOKED_MAX);
		own = reallocarray(x->own, x->nown + 1, sizeof(*own));
		if (!own)
			return err_set(e, ERR_NOMEM, "no memory for a revocation");
		x->own = own;
		x->own[x->nown++] = (struct edge_revoked){*lease, until};
		x->own_unkept = true;
	}
	if (x->own_unkept)
		rc = edge_save(m, e);
	*out = (struct grants_revoked){.grant.id = *lease, .id = *lease, .until_ns = until};
	return rc;
}

int edge_each_revoked(const struct edge *x, grants_revoked_fn *fn, void *arg)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < x->nown; i++)
		rc = fn(arg, &x->own[i].id, x->own[i].until_ns);
	for (size_t i = 0; rc == 0 && i < x->state.n; i++)
		rc = fn(arg, &x->state.revoked[i].id, x->state.revoked[i].until_ns);
	return rc;
}

/* ---- told */

json_t *edge_for_start(const struct edge *x)
{
	return json_pack("{s:s,s:I}", "centre", x->centre, "at_ns", (json_int_t)x->state.at_ns);
}

int edge_text(const struct monitor *m, char **out, struct err *e)
{
	char *seed = NULL, *ca = NULL, *key = NULL;
	size_t nseed = 0, nca = 0;
	json_t *o = NULL;
	int rc = file_read(m->edge.seed, GRANT_KEY_LEN, &seed, &nseed, e);

	if (rc == 0)
		rc = file_read_given(m->conf->edge_ca, CA_MAX, &ca, &nca, e);
	if (rc == 0) {
		key = base64_encode(seed, nseed, true);
		o = key ? json_pack("{s:s,s:s,s:s,s:s,s:s}", "edge", m->layout.instance, "centre", m->edge.centre,
				    "url", m->conf->edge_centre, "seed", key, "ca", ca)
			: NULL;
		*out = o ? json_text(o) : NULL;
		rc = *out ? 0 : err_set(e, ERR_NOMEM, "no memory for the edge's key");
	}
	if (seed)
		OPENSSL_cleanse(seed, nseed);
	grant_token_free(key);
	free(seed);
	free(ca);
	json_decref(o);
	return rc;
}

static json_t *key_text(const uint8_t key[GRANT_KEY_LEN])
{
	char *text = base64_encode(key, GRANT_KEY_LEN, true);
	json_t *o = text ? json_string(text) : NULL;

	free(text);
	return o;
}

static json_t *record_key(const struct monitor *m)
{
	char path[PATH_MAX], *text = NULL;
	size_t n = strlen(m->keys.record_seed), len = 0;
	json_t *list = json_array();

	if (n < 5 || n >= sizeof(path))
		return list;
	memcpy(path, m->keys.record_seed, n - 4); /* its public half stands beside it */
	memcpy(path + n - 4, "pub", 4);
	if (file_read(path, 256, &text, &len, NULL) == 0)
		json_array_append_new(list, json_stringn(text, strcspn(text, "\n")));
	free(text);
	return list;
}

static json_t *describe_edge(struct monitor *m)
{
	const struct edge *x = &m->edge;
	int64_t now = floor_now(&m->floor), at = x->state.at_ns;
	char heard[32] = "";

	if (at)
		clock_format_utc(at, heard, sizeof(heard));
	return json_pack("{s:s,s:o,s:s,s:o,s:s,s:s,s:s?,s:o,s:b,s:i,s:i}", "id", m->layout.instance, "key",
			 key_text(x->key.key), "log_id", x->log_id, "record_keys", record_key(m), "centre", x->centre,
			 "url", m->conf->edge_centre, "heard_at", at ? heard : NULL, "age_seconds",
			 at ? json_integer((now - at) / SECOND) : json_null(), "in_force",
			 (int)(at && now - at < (int64_t)m->conf->edge_state_max_ns), "revoked_by_centre",
			 (int)x->state.n, "revoked_here", (int)x->nown);
}

json_t *edge_describe(struct monitor *m)
{
	json_t *list = m->edge.on ? NULL : json_array();

	if (m->edge.on)
		return describe_edge(m);
	for (size_t i = 0; list && i < m->keys.set.n; i++)
		json_array_append_new(list, key_text(m->keys.set.keys[i].key));
	return json_pack("{s:s,s:o,s:o}", "centre", m->layout.instance, "keys", list, "record_keys", record_key(m));
}

/* ---- at a centre */

int edge_find(const struct conf *c, const char *name, const char **out_id, struct err *e)
{
	for (size_t i = 0; i < c->nedges; i++)
		if (strcmp(c->edges[i].name, name) == 0 || strcmp(c->edges[i].id, name) == 0) {
			*out_id = c->edges[i].id;
			return 0;
		}
	return err_set(e, ERR_NOT_FOUND, "edge.known has no edge \"%.64s\"", name);
}

struct listing {
	struct edge_state state;
	struct edge_revoked list[EDGE_LEASES_MAX];
};

static int list_one(void *arg, const struct grant *g)
{
	struct listing *l = arg;

	if (strcmp(g->edge, l->state.edge) != 0)
		return 0;
	if (l->state.n == EDGE_LEASES_MAX)
		return ERR_LIMIT;
	l->list[l->state.n++] = (struct edge_revoked){g->id, g->expires_ns};
	return 0;
}

int edge_sign_state(struct monitor *m, const char *id, char **out_token, struct err *e)
{
	struct listing *l = calloc(1, sizeof(*l));
	int rc = l ? 0 : ERR_NOMEM;

	if (rc == 0) {
		l->state.at_ns = floor_now(&m->floor);
		l->state.revoked = l->list;
		text_put(l->state.centre, sizeof(l->state.centre), m->layout.instance);
		text_put(l->state.edge, sizeof(l->state.edge), id);
		rc = grants_each_gone(m->grants, list_one, l);
	}
	rc = rc ? err_set(e, rc, "the revoked leases of an edge could not be listed")
		: edge_state_sign(&l->state, m->keys.kid, m->keys.seed, out_token, e);
	free(l);
	return rc;
}
